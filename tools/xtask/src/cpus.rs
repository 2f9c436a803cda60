// SPDX-License-Identifier: GPL-2.0

//! docs/cpus.md: what each CPU has that the in-tree driver knows by family and model.

use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use suites::Machine;

use crate::ktap::Results;

pub const FILE: &str = "docs/cpus.md";

const HEAD: &str = "\
<!-- SPDX-License-Identifier: GPL-2.0 -->
<!-- Made by `make generations` from the reports of `make test ALL=1`. -->
# The CPUs that rust_pmu knows

A row is an emulated CPU (`tests/suites/src/cpus.rs`): one that the in-tree driver of kernel
7.3 knows by family and model. Its guest has the PMU that QEMU gives that CPU. There both
drivers agree on

- the counters for each of the 65,536 codes of event select and unit mask, unmodified and
  with modifiers (edge, inversion, counter mask and what else the CPU has);
- the files in `format/`, `events/` and `caps/`, apart from the differences that README
  lists;
- perf's cache events and hardware events, and what is programmed for them.

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
        let cells = COLUMNS.iter().map(|column| {
            let mut about = results.about.iter();
            let (_, text) = about
                .find(|(what, _)| what == column)
                .with_context(|| format!("nothing about {column} of {}", machine.name))?;
            Ok(match text.as_str() {
                "" => "·",
                text => text,
            })
        });
        let cells = cells.collect::<Result<Vec<_>>>()?;
        let _ = writeln!(
            text,
            "| {} | {:02X}H, {:02X}H | {} |",
            machine.name,
            signature.family,
            signature.model,
            cells.join(" | ")
        );
    }
    Ok(text)
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

        let error = markdown(&[(&CPUS[0].machine, Results::default())]).unwrap_err();
        assert_eq!(error.to_string(), "nothing about name of Yonah");
    }
}
