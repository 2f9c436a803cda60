// SPDX-License-Identifier: GPL-2.0

//! Detection of a CPU's counters, by vendor.

use super::{
    amd,
    cpuid::Vendor,
    intel,
    zhaoxin,
    Capabilities,
    CpuidLeaf, //
};

/// Finds out what a CPU's counters can do, and of which generation they are.
///
/// `cpuid` returns a leaf and subleaf of CPUID. `perf_capabilities` is the value
/// of IA32_PERF_CAPABILITIES, `None` if the CPU does not have it.
///
/// Returns `None` if the driver does not know these counters. CPUID does not
/// enumerate AMD's legacy counters; the caller must probe them.
pub fn detect(
    cpuid: impl Fn(u32, u32) -> CpuidLeaf,
    perf_capabilities: Option<u64>,
) -> Option<Capabilities> {
    match Vendor::of(&cpuid)? {
        Vendor::Amd => amd::detect(cpuid),
        Vendor::Zhaoxin => zhaoxin::detect(cpuid),
        Vendor::Intel => intel::detect(cpuid, perf_capabilities, u8::MAX),
    }
}

/// As [`detect`], but drives the counters as an older generation: a version of
/// architectural performance monitoring, or on AMD 1 (legacy), 2
/// (PerfCtrExtCore) or 3 (PerfMonV2).
///
/// A newer generation works like an older one, less what it adds. If it adds the
/// global control, that enables all counters while the driver owns them, and EN
/// in each EVENTSEL decides.
///
/// Returns `None` also if there is no such generation, or the CPU does not have
/// it.
pub fn detect_as(
    generation: u8,
    cpuid: impl Fn(u32, u32) -> CpuidLeaf,
    perf_capabilities: Option<u64>,
) -> Option<Capabilities> {
    match Vendor::of(&cpuid)? {
        Vendor::Amd => amd::detect_as(generation, cpuid),
        Vendor::Zhaoxin => zhaoxin::detect_as(generation, cpuid),
        Vendor::Intel => intel::detect_as(generation, cpuid, perf_capabilities),
    }
}
