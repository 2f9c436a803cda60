// SPDX-License-Identifier: GPL-2.0
//! Event select 0 of Intel: perf uses it, with unit masks, for what only a fixed counter
//! counts. A general counter counts nothing by such a code.

use anyhow::{ensure, Result};

use crate::ctx::{Ctx, Test};
use crate::tests;

pub const TESTS: &[Test] = tests![no_counter_counts_it: [Counters, Module, Intel]];

/// Codes that no fixed counter counts: fixed counters 0 and 1 have codes of their own,
/// and those from 0x8000 on are topdown metrics, which need PERF_METRICS, and slots as their
/// leader.
const CODES: [u64; 10] = [
    0x0100, 0x0200, 0x8000, 0x8100, 0x8200, 0x8300, 0x8400, 0x8500, 0x8600, 0x8700,
];

/// Such an event is EINVAL, as it would read 0.
fn no_counter_counts_it(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let mut wrong = Vec::new();
    for config in CODES {
        for period in [0, 100_003] {
            let mut builder = pmu.raw(config);
            if period != 0 {
                builder.sample_period(period);
            }
            let outcome = match builder.build() {
                Ok(_) => "opens".to_string(),
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => continue,
                Err(error) => error.to_string(),
            };
            wrong.push(format!("config {config:#06x}, period {period}: {outcome}"));
        }
    }
    ensure!(
        wrong.is_empty(),
        "{} of {} are not EINVAL\n{}",
        wrong.len(),
        2 * CODES.len(),
        wrong.join("\n")
    );
    Ok(())
}
