// SPDX-License-Identifier: GPL-2.0

//! What the emulated PMU costs: the CPU time of QEMU.
//!
//! A round boots three guests, one after another: under pristine QEMU, with a PMU that
//! does not count, and with one that counts. So other load on the machine affects all
//! three alike. The ratios are formed within a round. The result is their median.

use anyhow::{ensure, Result};
use nix::sys::resource::{getrusage, UsageWho};
use nix::sys::time::TimeValLike;
use std::io;

use crate::context::Context;
use crate::guest::{Guest, LimitOf, Options as GuestOptions, Outcome, Parts};
use crate::kernel;
use crate::qemu::Qemu;

/// The workloads: a name and a command.
const WORKLOADS: &[(&str, &str)] = &[
    ("boot", "true"),
    (
        "boot and compress 1 MB",
        "head -c 1000000 /usr/bin/perf | xz -2 >/dev/null",
    ),
];

/// Measures in so many rounds, and prints a table.
pub fn measure(ctx: &Context, kernel: &kernel::Options, rounds: usize) -> Result<()> {
    let pristine = Parts::prepare(ctx, kernel, Qemu::pristine(ctx)?)?;
    let patched = Parts::prepare(ctx, kernel, Qemu::patched(ctx)?)?;
    // The NMI watchdog counts cycles on every CPU from boot on.
    let configurations = [
        (&pristine, ""),
        (&patched, ""),
        (&patched, "nmi_watchdog=1"),
    ];

    println!(
        "{:24} {:>10} {:>10} {:>10} {:>9} {:>9}",
        "CPU seconds, median", "pristine", "PMU idle", "counting", "idle", "counting"
    );
    for (name, command) in WORKLOADS {
        let mut seconds = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            for (times, (parts, append)) in seconds.iter_mut().zip(configurations) {
                times.push(cpu_seconds(ctx, parts, append, command)?);
            }
        }
        let [pristine, idle, counting] = &seconds;
        println!(
            "{name:24} {:10.2} {:10.2} {:10.2} {:8.3}x {:8.3}x",
            median(pristine.clone()),
            median(idle.clone()),
            median(counting.clone()),
            median(ratios(idle, pristine)),
            median(ratios(counting, idle)),
        );
    }
    println!(
        "\nidle: PMU idle / pristine. counting: counting / PMU idle. Medians of {rounds} rounds."
    );
    Ok(())
}

/// The CPU time that QEMU takes for a guest, user and system.
fn cpu_seconds(ctx: &Context, parts: &Parts, append: &str, command: &str) -> Result<f64> {
    let options = GuestOptions {
        append: append.to_owned(),
        no_module: true,
        ..GuestOptions::default()
    };
    let guest = Guest {
        logs: &ctx.guest_logs("bench")?,
        module: None,
        example: None,
        test_module: None,
        kernel_programs: None,
        bolt: None,
        command: Some(command),
        suite: None,
        tests: None,
        limit: LimitOf::Guest,
        may_restore: false,
        options: &options,
    };
    let before = children()?;
    let end = guest.run(ctx, parts, Box::new(io::sink()), Box::new(io::stderr()))?;
    ensure!(
        matches!(end.outcome, Outcome::Exited(0)),
        "a guest failed: {}",
        guest.explain(&end)
    );
    Ok(children()? - before)
}

fn children() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let microseconds = (usage.user_time() + usage.system_time()).num_microseconds();
    Ok(microseconds as f64 / 1e6)
}

fn ratios(these: &[f64], those: &[f64]) -> Vec<f64> {
    these.iter().zip(those).map(|(a, b)| a / b).collect()
}

/// The median; of an even number of values, the upper one.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_ratios_is_of_pairs() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(ratios(&[2.0, 9.0], &[1.0, 3.0]), [2.0, 3.0]);
    }
}
