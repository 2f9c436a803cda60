// SPDX-License-Identifier: GPL-2.0

//! CPUs as the PMU model has them.

use crate::common::Cpuid;
use pmc::{counter::CounterSet, Capabilities};
use pmu_model::{Config, CoreType, Pmu, Signature, Vendor, MAX_FIXED, MAX_INTEL_GENERAL};

/// What the driver detects on a core of a CPU, `None` if the model does not know the CPU.
/// `smt` says whether the core has two threads.
///
/// The PMU model cannot have as many counters as some CPUs. Such CPUs have those of `more`
/// that the model cannot have.
pub fn detect(
    signature: Signature,
    unit: Option<CoreType>,
    smt: bool,
    more: CounterSet,
) -> Option<Capabilities> {
    let config = match unit {
        Some(unit) => Config::of_hybrid(Vendor::Intel, signature, unit).ok()?,
        None => Config::of_processor(Vendor::Intel, signature, smt)?,
    };
    let pmu = Pmu::new(config).unwrap();
    let Signature {
        family,
        model,
        stepping,
    } = signature;
    let leaf = |leaf, subleaf| pmu.cpuid_count(leaf, subleaf).unwrap_or_default();
    let mut counters = leaf(0x23, 1);
    counters[0] |= more.gp_part().bits() as u32 & (u32::MAX << MAX_INTEL_GENERAL);
    counters[1] |= (more.fixed_part().bits() >> 32) as u32 & (u32::MAX << MAX_FIXED);
    Cpuid::new(b"GenuineIntel", family as u8, model, stepping)
        .with(7, 0, [0, 0, 0, u32::from(pmu.hybrid()) << 15])
        .with(7, 1, [u32::from(pmu.perfmon_ext()) << 8, 0, 0, 0])
        .with(0xa, 0, leaf(0xa, 0))
        .with(0x1a, 0, leaf(0x1a, 0))
        .with(0x23, 0, leaf(0x23, 0))
        .with(0x23, 1, counters)
        .with(0x23, 3, leaf(0x23, 3))
        .detect_with(pmu.perf_capabilities()?)
}
