// SPDX-License-Identifier: GPL-2.0

//! docs/results/performance.md.

use anyhow::Result;
use std::fmt::Write as _;

use super::figures::{Cost, Figure, Figures, Generation, Row};
use super::plot;

const HEAD: &str = "\
<!-- SPDX-License-Identifier: GPL-2.0 -->
<!-- Made by `make bench`. -->
# What events cost

In a virtual machine an access to a register of the PMU is as a rule an exit to the hypervisor. So the
driver is measured in accesses (RDMSR, WRMSR and RDPMC), which the emulated PMU counts, and in instructions,
which the TSC counts under QEMU's `-icount`. The same operation without events is subtracted. Each is measured
in twelve windows, of which the cheapest counts, until two measurements agree. A figure with a `~`
did not settle: it depends on when ticks come, or on what the kernel does besides.

Two runs have the same accesses. Their instructions, where they settled, differed by 0.1 % at most, such as
10 for each other CPU that a CPU interrupts, in whole boots. What RCU frees after an event was closed is not part
of the figures.

A switch is one of two tasks that yield to each other. The limit is what the hardware needs: with
GLOBAL_CTRL a read of each counter and two writes, otherwise a read and two writes for each counter. For a PMI it
is status, clear, a read and a write of the counter, and two writes of GLOBAL_CTRL; without that, a
read and a write. `PMI` rows are for an event in user mode. Perf rotates events in the row that says so; in
others, those that fit first stay on the counters. The instructions of the rows about several CPUs
are those of all CPUs. While a CPU goes offline, others wait in loops, so that their number means nothing.

[performance-by-function.md](performance-by-function.md) says in which functions the instructions are, and
what remains where a goal is not met.
";

/// What the column of another driver is.
const BEFORE: &str = "
`before` is the driver as it was when it loaded each event's counter at each switch.
";

/// What the hardware needs for an operation, in accesses.
pub fn limit(operation: &str, has_global_control: bool) -> Option<f64> {
    let switch = |n: f64| if has_global_control { n + 2.0 } else { 3.0 * n };
    let number = || operation.rsplit(' ').next()?.parse::<f64>().ok();
    match operation {
        "switch, only one of the two has 4 events" => Some(switch(4.0) / 2.0),
        "switch, the same 4 events inherited" => Some(0.0),
        "disable and enable a group of 4" => Some(switch(4.0)),
        "open and close an event" => Some(switch(1.0)),
        "read a group of 4" => Some(4.0),
        "read an event by RDPMC" => Some(1.0),
        "PMI with a sample of IP" | "PMI with a call chain" => {
            Some(if has_global_control { 6.0 } else { 2.0 })
        }
        _ if operation.starts_with(plot::CPUS) => number().map(|n| n * switch(4.0)),
        // More events may not all fit on the counters.
        _ if operation.starts_with(plot::EVENTS) => number().filter(|n| *n <= 4.0).map(switch),
        _ if operation.starts_with(plot::GROUPS) => {
            number().filter(|n| *n <= 2.0).map(|n| switch(2.0 * n))
        }
        _ => None,
    }
}

/// A figure, or a dash.
fn cell(figure: Option<Figure>) -> String {
    figure.map_or_else(
        || "–".to_owned(),
        |Figure { value, is_settled }| {
            let mark = if is_settled { "" } else { "~" };
            let digits = usize::from(value.fract() != 0.0 && value < 100.0);
            format!("{mark}{value:.digits$}")
        },
    )
}

fn ratio(ours: Option<Figure>, theirs: Option<Figure>) -> String {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if theirs.value > 0.0 => {
            format!("{:.2}", ours.value / theirs.value)
        }
        _ => "–".to_owned(),
    }
}

fn line(row: &Row, of: &Generation, before: Option<&Row>) -> String {
    let accesses = |cost: Option<Cost>| cell(cost.map(|it| it.accesses));
    let instructions = |cost: Option<Cost>| cost.and_then(|it| it.instructions);
    let before = before.and_then(|row| row.ours);
    let limit = limit(&row.operation, of.has_global_control);
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        row.operation,
        accesses(row.in_tree),
        accesses(before),
        accesses(row.ours),
        limit.map_or_else(String::new, |limit| limit.to_string()),
        cell(instructions(row.in_tree)),
        cell(instructions(before)),
        cell(instructions(row.ours)),
        ratio(instructions(row.ours), instructions(row.in_tree)),
    )
}

/// The page. `before` are the figures of another driver.
pub fn page(figures: &Figures, before: Option<&Figures>) -> Result<String> {
    let before = before.map(Figures::generations).transpose()?;
    let mut page = HEAD.to_owned();
    if before.is_some() {
        page.push_str(BEFORE);
    }
    let before = before.unwrap_or_default();
    for plot::Plot { file, about, .. } in plot::PLOTS {
        write!(page, "\n![{about}](performance/{file})\n")?;
    }
    for generation in figures.generations()? {
        let was = before.iter().find(|it| it.name == generation.name);
        write!(page, "\n## {}\n\n", generation.name)?;
        page.push_str(
            "| operation | accesses: in-tree | before | rust_pmu | limit | instructions: in-tree | before | rust_pmu | ratio |\n\
             |---|---|---|---|---|---|---|---|---|\n",
        );
        for row in &generation.rows {
            let was = was.and_then(|it| it.row(&row.operation));
            writeln!(page, "{}", line(row, &generation, was))?;
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_of_the_hardware() {
        let switch = "switch between two tasks, events each: 4";
        assert_eq!(limit(switch, true), Some(6.0));
        assert_eq!(limit(switch, false), Some(12.0));
        assert_eq!(
            limit("switch between two tasks, events each: 64", true),
            None
        );
        assert_eq!(
            limit("switch, only one of the two has 4 events", true),
            Some(3.0)
        );
        let groups = "switch between two tasks, groups of 2 events each: 2";
        assert_eq!(limit(groups, false), Some(12.0));
        let cpus = "disable and enable a group of 4 on each CPU, CPUs: 8";
        assert_eq!(limit(cpus, true), Some(48.0));
        assert_eq!(limit("exit of a task with 8 events", true), None);
    }

    #[test]
    fn cells_say_what_did_not_settle() {
        let figure = |value, is_settled| Some(Figure { value, is_settled });
        assert_eq!(cell(figure(5775.5, true)), "5776");
        assert_eq!(cell(figure(0.5, false)), "~0.5");
        assert_eq!(cell(None), "–");
        assert_eq!(ratio(figure(65.0, true), figure(100.0, true)), "0.65");
    }
}
