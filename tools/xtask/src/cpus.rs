// SPDX-License-Identifier: GPL-2.0

//! docs/results/cpus.md: what each CPU has that the in-tree driver knows by family and model.

use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use suites::Machine;

use crate::ktap::Results;

pub const FILE: &str = "docs/results/cpus.md";

const HEAD: &str = "\
<!-- SPDX-License-Identifier: GPL-2.0 -->
<!-- Made by `make generations` from the reports of `make test ALL=1`. -->
# The CPUs that rust_pmu knows

A row is an emulated CPU (`tests/suites/src/table/cpus.rs`): one that the in-tree driver of kernel
7.3 knows by family and model. A hybrid CPU has a row for each type of core. Its guest has the
PMU that QEMU gives that CPU. There both drivers agree on the following, apart from
[the known differences](../differences.md):

- the counters for each of the 65,536 codes of event select and unit mask, unmodified and
  with modifiers (edge, inversion, counter mask and what else the CPU has);
- the files in `format/`, `events/` and `caps/`;
- perf's cache events and hardware events, and what is programmed for them;
- random groups of 2 to 8 events: which of them fit, and what they count.

| column | meaning |
|---|---|
| name | `caps/pmu_name` of both drivers, which AMD's and Zhaoxin's CPUs do not have |
| counters | general counters without Hyper-Threading, and fixed ones |
| bits | of a general counter |
| bound codes | unmodified codes that only some of the general counters, or a fixed counter alone, can count |
| further registers | fields of `config1` in `format/` |
| cache events | perf's generic cache events, of 42 |
| events | named events in `events/` |

";

/// What the tests say, column by column, behind the CPU and its signature.
const COLUMNS: &[&str] = &[
    "name",
    "generation",
    "counters",
    "bits",
    "bound codes",
    "further registers",
    "cache events",
    "events",
];

/// The file, from what the tests say of each machine.
pub fn markdown(cpus: &[(&Machine, Results)]) -> Result<String> {
    let mut text = HEAD.to_owned();
    let _ = writeln!(text, "| CPU | family, model | {} |", COLUMNS.join(" | "));
    let _ = writeln!(text, "|---|---|{}", "---|".repeat(COLUMNS.len()));
    for (machine, results) in cpus {
        let signature = machine.signature.context("a CPU without a signature")?;
        for cores in cores(results) {
            let name = match cores {
                "" => machine.name.to_owned(),
                cores => format!("{}, {cores}", machine.name),
            };
            let cells = COLUMNS.iter().map(|column| {
                let mut about = results.about.iter();
                let (_, text) = about
                    .find(|(what, _)| parts(what) == (cores, column))
                    .with_context(|| format!("nothing about {column} of {name}"))?;
                Ok(match text.as_str() {
                    "" => "·",
                    text => text,
                })
            });
            let cells = cells.collect::<Result<Vec<_>>>()?;
            let _ = writeln!(
                text,
                "| {name} | {:02X}H, {:02X}H | {} |",
                signature.family,
                signature.model,
                cells.join(" | ")
            );
        }
    }
    Ok(text)
}

/// The type of core that something is said about, which is empty if all are alike, and what it is
/// that is said.
fn parts(what: &str) -> (&str, &str) {
    what.split_once('/').unwrap_or(("", what))
}

/// The types of core that anything is said about, in that order.
fn cores(results: &Results) -> Vec<&str> {
    let mut all = Vec::new();
    for (what, _) in &results.about {
        let (cores, _) = parts(what);
        if !all.contains(&cores) {
            all.push(cores);
        }
    }
    if all.is_empty() {
        all.push("");
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use suites::CPUS;

    #[test]
    fn a_row() {
        let about = |(i, column): (usize, &&str)| format!("# about {column}: {i}\n");
        let report: String = COLUMNS.iter().enumerate().map(about).collect();
        let results = Results::parse(&report.replace(": 5", ": "));
        let text = markdown(&[(&CPUS[0].machine, results)]).unwrap();
        let row = text.lines().last().unwrap();
        assert_eq!(row, "| Yonah | 06H, 0EH | 0 | 1 | 2 | 3 | 4 | · | 6 | 7 |");

        let about = |(i, column): (usize, &&str)| {
            let line = |cores, more| format!("# about {cores} cores/{column}: {}\n", i + more);
            line("big", 0) + &line("small", 10)
        };
        let report: String = COLUMNS.iter().enumerate().map(about).collect();
        let text = markdown(&[(&CPUS[0].machine, Results::parse(&report))]).unwrap();
        let rows: Vec<_> = text.lines().rev().take(2).collect();
        assert_eq!(
            rows,
            [
                "| Yonah, small cores | 06H, 0EH | 10 | 11 | 12 | 13 | 14 | 15 | 16 | 17 |",
                "| Yonah, big cores | 06H, 0EH | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |"
            ]
        );

        let error = markdown(&[(&CPUS[0].machine, Results::default())]).unwrap_err();
        assert_eq!(error.to_string(), "nothing about name of Yonah");
    }
}
