// SPDX-License-Identifier: GPL-2.0
//! A register that raises #GP when the NMI handler accesses it, with
//! `pmu-fault=gp:ADDRESS:AFTER`. The address is that of GLOBAL_STATUS or of the register
//! that clears it: without them samples are lost, but counts stay exact.
//!
//! The handler must go on as the kernel's own MSR accessors do: the kernel warns once and
//! takes a read for 0.

use anyhow::{ensure, Result};

use super::sampling::{record, sampler};
use super::{expect, expect_count, expect_exact, interrupts, repeat};
use crate::ctx::{Ctx, Test};
use crate::kmsg::{self, Kmsg, Record};
use crate::pmu::{Event, Pmu};
use crate::setting::Affinity;
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Module, EmulatedPmu];
    nmi_handler_survives,
];

/// The first words of the kernel's warning.
const WARNING: &str = "unchecked MSR access error";

/// Takes about a hundred PMIs, and checks the count. The number of samples is not known.
fn take_pmis(pmu: &Pmu) -> Result<()> {
    let workload = workload::tight_loop(500_000);
    let mut sampler = sampler(pmu, Event::Instructions, 10_007)?;
    let (_, count) = record(&mut sampler, &workload)?;
    expect_count(&workload, count)
}

/// How the lines of a stack trace begin, those of the registers of user mode included.
const TRACE: [&str; 10] = [
    " ",
    "Call Trace:",
    "RIP:",
    "Code:",
    "RSP:",
    "RAX:",
    "RDX:",
    "RBP:",
    "R10:",
    "R13:",
];

/// The warning in a log, with its stack trace.
fn warning(log: &[Record]) -> Option<&[Record]> {
    let first = log.iter().position(|it| it.text.contains(WARNING))?;
    let length = log[first + 1..]
        .iter()
        .take_while(|it| TRACE.iter().any(|begin| it.text.starts_with(begin)))
        .count();
    Some(&log[first..=first + length])
}

/// A register that raises #GP in the NMI handler makes the kernel warn once, and nothing else goes
/// wrong.
fn nmi_handler_survives(ctx: &Ctx) -> Result<()> {
    const ROUNDS: u32 = 100;
    // Each CPU has a PMU with a register of its own.
    let _affinity = Affinity::pinned_to(0)?;
    let pmu = ctx.pmu()?;
    let mut kmsg = Kmsg::from_now()?;
    let mut log = Vec::new();
    for _ in 0..ROUNDS {
        take_pmis(&pmu)?;
        log.extend(kmsg.records()?);
        if warning(&log).is_some() {
            break;
        }
    }
    // The register raises #GP each time from here on.
    for _ in 0..3 {
        take_pmis(&pmu)?;
    }
    log.extend(kmsg.records()?);

    let Some(warning) = warning(&log) else {
        anyhow::bail!("no register raised #GP: is this the guest for this test?");
    };
    kmsg::set_judged(warning);
    let text: Vec<_> = warning.iter().map(|it| it.text.as_str()).collect();
    let text = text.join("\n");
    ensure!(text.contains("[rust_perf]"), "not in the module: {text}");
    ensure!(text.contains("exc_nmi"), "not in an NMI: {text}");
    let warnings = log.iter().filter(|it| it.text.contains(WARNING));
    expect("in the kernel log", "warnings", warnings.count() as u64, 1)?;

    // The system goes on.
    let ticks = interrupts("LOC")?;
    repeat("a timer interrupt", || {
        expect_exact(&pmu, &workload::tight_loop(20_000_000))?;
        Ok(interrupts("LOC")? > ticks)
    })?;
    Ok(())
}
