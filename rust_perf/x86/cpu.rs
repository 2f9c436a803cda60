// SPDX-License-Identifier: GPL-2.0

//! The CPU that the code runs on: CPUID, MSRs and RDPMC.

use super::hal::{
    CpuidLeaf,
    Generation,
    Msr,
    Registers, //
};
use crate::{
    bindings,
    pmc::{
        counter::Counter,
        event::EventSel, //
    }, //
};
use core::arch::{
    asm,
    x86_64::__cpuid_count, //
};

/// The CPU that the code runs on, which must not change on the way.
///
/// # Invariants
///
/// Every CPU has the registers of the [`Generation`](super::hal::Generation)
/// that was detected.
pub(crate) struct ThisCpu(());

impl ThisCpu {
    /// # Safety
    ///
    /// Every CPU must have the registers of the generation that was detected.
    pub(super) unsafe fn new() -> Self {
        // INVARIANT: By the caller.
        ThisCpu(())
    }
}

/// The registers of a leaf of CPUID and its subleaf, which is 0 where there are
/// none; all 0 if the CPU has no such leaf.
pub(super) fn cpuid(leaf: u32, subleaf: u32) -> CpuidLeaf {
    // The first leaf of a range says which is the last.
    // SAFETY: Every 64-bit CPU has CPUID, and leaves 0 and 80000000H.
    let highest = unsafe { __cpuid_count(leaf & 0x8000_0000, 0) }.eax;
    if leaf > highest {
        return CpuidLeaf::default();
    }
    // SAFETY: As above; a leaf that exists has no preconditions.
    let result = unsafe { __cpuid_count(leaf, subleaf) };
    CpuidLeaf {
        eax: result.eax,
        ebx: result.ebx,
        ecx: result.ecx,
        edx: result.edx,
    }
}

/// Reads a register that need not exist.
pub(super) fn rdmsr_safe(msr: Msr) -> Option<u64> {
    let mut value = 0;
    // SAFETY: `value` is valid for writes; a fault is caught.
    let error = unsafe { bindings::rust_perf_rdmsr_safe(msr.address(), &mut value) };
    (error == 0).then_some(value)
}

/// Whether a general counter keeps what is written to it. One that firmware has
/// left counting does not, but is left alone. Task context; the counter must be
/// reserved, where that is possible.
pub(super) fn is_working(generation: &Generation, counter: Counter) -> bool {
    // SAFETY: Preemption is enabled again below; nothing in between sleeps.
    unsafe { bindings::rust_perf_preempt_disable() };
    let eventsel = rdmsr_safe(generation.eventsel(counter));
    let counts = eventsel.is_some_and(|eventsel| eventsel & EventSel::EN != 0);
    let msr = generation.counter(counter);
    let works = counts
        || rdmsr_safe(msr).is_some_and(|before| {
            let other = before ^ 0xffff;
            let kept = wrmsr_safe(msr, other) && rdmsr_safe(msr) == Some(other);
            wrmsr_safe(msr, before) && kept
        });
    // SAFETY: Disabled above.
    unsafe { bindings::rust_perf_preempt_enable() };
    works
}

/// Writes a register that need not exist; returns whether it does.
fn wrmsr_safe(msr: Msr, value: u64) -> bool {
    // SAFETY: A fault is caught; an `Msr` is one of the performance monitoring registers, which
    // affect no memory.
    unsafe { bindings::rust_perf_wrmsr_safe(msr.address(), value) == 0 }
}

impl Registers for ThisCpu {
    fn rdmsr(&self, msr: Msr) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: An `Msr` is one of the performance monitoring registers, reading which has no
        // effect on memory; by the type invariant the CPU has those that are asked for.
        unsafe {
            asm!(
                "rdmsr",
                in("ecx") msr.address(),
                out("eax") low,
                out("edx") high,
                options(nostack, preserves_flags)
            )
        };
        (u64::from(high) << 32) | u64::from(low)
    }

    fn wrmsr(&self, msr: Msr, value: u64) {
        // SAFETY: As for `rdmsr`; the counters' registers affect no memory, only what is counted.
        // Not `nomem`, so that memory accesses stay on their side of it: NMIs depend on that.
        unsafe {
            asm!(
                "wrmsr",
                in("ecx") msr.address(),
                in("eax") value as u32,
                in("edx") (value >> 32) as u32,
                options(nostack, preserves_flags)
            )
        };
    }

    fn rdpmc(&self, index: u32) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: In kernel mode RDPMC is always allowed; by the type invariant the CPU has the
        // counters that are asked for.
        unsafe {
            asm!(
                "rdpmc",
                in("ecx") index,
                out("eax") low,
                out("edx") high,
                options(nostack, preserves_flags)
            )
        };
        (u64::from(high) << 32) | u64::from(low)
    }
}
