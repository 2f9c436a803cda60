// SPDX-License-Identifier: GPL-2.0

//! Which functions run in an operation, with each driver.
//!
//! QEMU logs each instruction, and a system call of `guest-tests bench` begins and ends each window. Of
//! the windows of a driver the one with the fewest instructions counts, less the same of windows without
//! events.

mod symbols;
mod trace;
mod tracer;

use anyhow::{ensure, Result};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use suites::Suite;

use super::figures::Built;
use crate::context::Context;
use crate::kernel;
use crate::step::Step;
use symbols::{Function, Owner};
use trace::{Counts, Trace};

/// Prints the functions of an operation on each of these machines that has one CPU.
pub fn show(
    ctx: &Context,
    kernel: &kernel::Options,
    suites: &[&'static Suite],
    operation: &str,
) -> Result<()> {
    // Its windows are too long, and begin when a timer says.
    ensure!(!operation.starts_with("rotation"), "no rotation is traced");
    // With several CPUs the log does not show where the window of one of them ends.
    let suites: Vec<_> = suites.iter().filter(|suite| suite.cpus == 1).collect();
    ensure!(!suites.is_empty(), "only guests with one CPU are traced");
    let built = Built::prepare(ctx, kernel)?;
    for suite in suites {
        let step = Step::start(ctx, suite.name, &format!("trace of {}", suite.machine.name))?;
        let trace = Trace::of(ctx, &built, suite, operation)?;
        step.done();
        let table = table(&trace)?;
        println!("\n## {}: {operation}\n\n{table}", suite.machine.name);
    }
    Ok(())
}

/// How many instructions of each function an operation takes, by owner, with both drivers.
fn table(trace: &Trace) -> Result<String> {
    let [ours, theirs, without] = trace.cheapest()?;
    let of = |counts: &Counts, function: &Function| {
        let n = |it: &Counts| it.get(function).copied().unwrap_or_default() as f64;
        (n(counts) - n(without)) / trace.times as f64
    };
    let functions = ours.keys().chain(theirs.keys()).chain(without.keys());
    let functions: BTreeSet<_> = functions.collect();
    let mut rows: Vec<_> = functions
        .into_iter()
        .map(|it| (it, [of(theirs, it), of(ours, it)]))
        .collect();
    rows.sort_by_key(|(_, [theirs, ours])| Reverse(theirs.max(*ours).round() as i64));

    let mut table = "| function | in-tree | rust_pmu |\n|---|---|---|\n".to_owned();
    let mut line = |name: String, [theirs, ours]: [f64; 2]| {
        let (theirs, ours) = (theirs.round() as i64, ours.round() as i64);
        writeln!(table, "| {name} | {theirs} | {ours} |")
    };
    let sum = |sum: [f64; 2], more: &[f64; 2]| [sum[0] + more[0], sum[1] + more[1]];
    for owner in Owner::ALL {
        let of_owner = rows.iter().filter(|((it, _), _)| *it == owner);
        let all = of_owner.clone().map(|(_, both)| both).fold([0.0; 2], sum);
        line(format!("**{}**", owner.name()), all)?;
        for ((_, name), both) in of_owner {
            if both.iter().any(|n| n.abs() >= 0.5) {
                line(format!("`{name}`"), *both)?;
            }
        }
    }
    line(
        "**all**".to_owned(),
        rows.iter().map(|(_, both)| both).fold([0.0; 2], sum),
    )?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::trace::{self, total};
    use super::tracer::Files;
    use super::*;
    use std::fs;

    const SYMBOLS: &str = "\
ffffffff81000000 T __x64_sys_getppid
ffffffff81000010 t perf_read
ffffffff81000020 d some_data
ffffffff81000030 t x86_pmu_read
ffffffffc0000000 t _RNvNtCs1234_9rust_perf8core_pmu4read\t[rust_perf]
";

    /// A window with so many instructions of user mode, perf_read, x86_pmu_read and our driver.
    fn window(counts: [usize; 4]) -> String {
        let lines = |(pc, n)| format!("Trace 0: 0x7f00 [00000000/{pc:016x}/b0/ff] \n").repeat(n);
        let mark = (0xffff_ffff_8100_0000, 1);
        let pcs = [
            0x40_1000,
            0xffff_ffff_8100_0028,
            0xffff_ffff_8100_0030_u64,
            0xffff_ffff_c000_0004,
        ];
        let blocks = pcs.into_iter().zip(counts);
        let window: String = [mark]
            .into_iter()
            .chain(blocks)
            .chain([mark])
            .map(lines)
            .collect();
        // The last instruction of the system call is not part of the window.
        window + &lines((mark.0 + 4, 1))
    }

    fn trace(windows: &[[usize; 4]]) -> Trace {
        let dir = tempfile::tempdir().unwrap();
        let files = Files(dir.path().to_owned());
        fs::write(files.symbols(), SYMBOLS).unwrap();
        let log: String = windows.iter().copied().map(window).collect();
        let log = format!("qemu: something else\n{log}");
        Trace {
            times: 2,
            windows: trace::windows(log.as_bytes(), &files).unwrap(),
            kinds: vec![2, 2, 2],
        }
    }

    #[test]
    fn cheapest_windows_are_compared_with_those_without_events() {
        let trace = trace(&[
            [8, 14, 0, 16],
            [8, 14, 0, 6],
            [8, 14, 12, 0],
            [8, 14, 32, 0],
            [10, 4, 0, 0],
            [18, 4, 0, 0],
        ]);
        let expected = "\
| function | in-tree | rust_pmu |
|---|---|---|
| **rust_perf** | 0 | 3 |
| `rust_perf::core_pmu::read` | 0 | 3 |
| **in-tree driver** | 6 | 0 |
| `x86_pmu_read` | 6 | 0 |
| **perf core** | 5 | 5 |
| `perf_read` | 5 | 5 |
| **rest of the kernel** | 0 | 0 |
| **user mode** | -1 | -1 |
| `(all)` | -1 | -1 |
| **all** | 10 | 7 |
";
        assert_eq!(table(&trace).unwrap(), expected);
    }

    #[test]
    fn a_trace_with_a_window_less_is_refused() {
        let trace = trace(&[[1, 1, 0, 1]; 5]);
        let error = table(&trace).unwrap_err().to_string();
        assert!(error.contains("5 of 6 windows"), "{error}");
    }

    #[test]
    fn an_instruction_that_is_stopped_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files(dir.path().to_owned());
        fs::write(files.symbols(), SYMBOLS).unwrap();
        let again = "Stopped execution of TB chain before 0x7f00 [0000000000401000] \n\
                     Trace 0: 0x7f00 [00000000/0000000000401000/b0/ff] \n";
        let mark = "Trace 0: 0x7f00 [00000000/ffffffff81000000/b0/ff] \n";
        let log = window([1, 0, 0, 0]).replacen(mark, "", 1);
        let (instruction, end) = log.split_at(log.find(mark).unwrap());
        let log = format!("{mark}{instruction}{again}{end}");
        let windows = trace::windows(log.as_bytes(), &files).unwrap();
        assert_eq!(windows.iter().map(total).collect::<Vec<_>>(), [1]);
    }
}
