// SPDX-License-Identifier: GPL-2.0
//! A local APIC that masks LVTPC when it delivers a PMI, although AMD's does not: older
//! versions of KVM emulate it so. With `pmu-fault=mask-lvtpc`.
//!
//! Unless the driver clears the mask bit, the first PMI of a CPU is the last.

use anyhow::{Context, Result};

use super::sampling::{record, sampler};
use super::{cpus, expect, expect_count, interrupts};
use crate::ctx::{Ctx, Test};
use crate::pmu::Event;
use crate::setting::Affinity;
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Amd, EmulatedPmu];
    every_period_has_a_sample,
];

/// On CPUs that mask LVTPC at a PMI, each period has its sample and its NMI.
fn every_period_has_a_sample(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let affinity = Affinity::save()?;
    let workload = workload::tight_loop(1_000_000);
    for cpu in 0..cpus()? {
        affinity.pin(cpu)?;
        for period in [100_003, 10_007] {
            let mut sampler = sampler(&pmu, Event::Instructions, period)?;
            let before = interrupts("NMI")?;
            let (records, count) = record(&mut sampler, &workload)?;
            let nmis = interrupts("NMI")? - before;
            expect_count(&workload, count)?;
            let what = format!("period {period} on CPU {cpu}");
            records.expect(&what, count / period)?;
            expect(&what, "NMIs", nmis, count / period).context("one per sample")?;
        }
    }
    Ok(())
}
