// SPDX-License-Identifier: GPL-2.0

//! The CPU that the code runs on: CPUID, MSRs and RDPMC.

use crate::{
    bindings,
    pmc::{
        self,
        counter::Counter,
        event::EventSel,
        CpuidLeaf,
        Field,
        Generation,
        Msr,
        Registers, //
    },
    system::irq::IrqsDisabled, //
};
use core::arch::{
    asm,
    x86_64::__cpuid_count, //
};

/// The address of EFER (APM vol. 2, "Extended Feature Enable Register").
const EFER: u32 = 0xc000_0080;

bitfield! {
    /// EFER.
    struct Efer(u64) {
        /// SVM is enabled.
        12:12 SVME;
    }
}

/// The CPU that the code runs on. The caller must stay on it from one access to
/// the next.
///
/// # Invariants
///
/// Every CPU on which it is used has the registers of the [`Generation`] that was detected; on a
/// hybrid CPU these are the cores of one type. It has the extra registers of the
/// `Capabilities` by its model, and under a hypervisor they were found.
#[derive(Clone, Copy)]
pub(crate) struct ThisCpu(());

impl ThisCpu {
    /// # Safety
    ///
    /// Every CPU on which it is used must have the registers of the generation that was
    /// detected.
    pub(super) unsafe fn new() -> Self {
        // INVARIANT: By the safety requirement.
        ThisCpu(())
    }

    /// The number of the core that this CPU is a thread of.
    pub(crate) fn core_number(&self, _: IrqsDisabled<'_>) -> u32 {
        pmc::core_number(cpuid)
    }

    /// Whether no other thread of this CPU's core is online.
    pub(crate) fn is_alone(&self, _: IrqsDisabled<'_>) -> bool {
        // SAFETY: It only reads, and with interrupts disabled the task stays on its CPU.
        unsafe { bindings::rust_perf_threads_online() == 1 }
    }

    /// Whether SVM is enabled on this CPU, so that it may run guests.
    pub(crate) fn has_svm_enabled(&self, _: IrqsDisabled<'_>) -> bool {
        Efer::from_raw(rdmsr(EFER)).has(Efer::SVME)
    }
}

/// A leaf of CPUID and its subleaf, which is 0 if the leaf has none. All registers
/// are 0 if the CPU does not have the leaf.
pub(super) fn cpuid(leaf: u32, subleaf: u32) -> CpuidLeaf {
    // The first leaf of a range gives the number of the last one.
    // SAFETY: Every 64-bit CPU has CPUID, and leaves 0 and 80000000H.
    let highest = unsafe { __cpuid_count(leaf & 0x8000_0000, 0) }.eax;
    if leaf > highest {
        return CpuidLeaf::default();
    }
    // SAFETY: The CPU has CPUID and this leaf.
    let result = unsafe { __cpuid_count(leaf, subleaf) };
    CpuidLeaf {
        eax: result.eax,
        ebx: result.ebx,
        ecx: result.ecx,
        edx: result.edx,
    }
}

/// Reads a register that may not exist. Not in an NMI.
pub(super) fn rdmsr_safe(msr: Msr) -> Option<u64> {
    let mut value = 0;
    // SAFETY: `value` is valid for writes, and the function catches the fault.
    let error = unsafe { bindings::rust_perf_rdmsr_safe(msr.address(), &mut value) };
    (error == 0).then_some(value)
}

/// Writes a register that may not exist, and returns whether it does. Not in an NMI.
fn wrmsr_safe(msr: Msr, value: u64) -> bool {
    // SAFETY: The function catches the fault. An `Msr` is a performance monitoring register, which
    // does not affect memory.
    unsafe { bindings::rust_perf_wrmsr_safe(msr.address(), value) == 0 }
}

/// Whether a GP counter keeps what is written to it.
///
/// A counter that is enabled, perhaps by firmware, does not keep its value. It is
/// left alone and taken for working. Not in an NMI. The counter must be reserved,
/// if the kernel arbitrates it.
pub(super) fn is_working(generation: &Generation, counter: Counter) -> bool {
    IrqsDisabled::with(|_| {
        let eventsel = rdmsr_safe(generation.eventsel(counter)).map(EventSel::from_raw);
        if eventsel.is_some_and(|eventsel| eventsel.has(EventSel::EN)) {
            return true;
        }
        let msr = generation.counter(counter);
        let Some(before) = rdmsr_safe(msr) else {
            return false;
        };
        // On some of Intel's CPUs a write extends bit 31 (`pmc/intel/msr.rs`): leave it 0.
        let other = (before ^ 0xffff) & 0x7fff_ffff;
        let kept = wrmsr_safe(msr, other) && rdmsr_safe(msr) == Some(other);
        wrmsr_safe(msr, before) && kept
    })
}

/// Whether a register that events need besides their counters exists and keeps what is written to it,
/// which not every hypervisor provides. In-tree: `check_msr()`.
///
/// If `shared`, someone else may be using the register: it is only read, and taken for
/// one that keeps what is written. Not in an NMI.
pub(super) fn is_accessible(msr: Msr, shared: bool) -> bool {
    // Bits that each of these registers has.
    const BITS: u64 = 0x11;
    IrqsDisabled::with(|_| {
        let Some(before) = rdmsr_safe(msr) else {
            return false;
        };
        if shared {
            return true;
        }
        let other = before ^ BITS;
        let kept = wrmsr_safe(msr, other) && rdmsr_safe(msr) == Some(other);
        wrmsr_safe(msr, before) && kept
    })
}

/// An instruction with an exception table entry: after a #GP the kernel warns once
/// and continues behind it (`ex_handler_msr()`), with EAX and EDX 0 for
/// `EX_TYPE_RDMSR`.
macro_rules! asm_with_fixup {
    ($instruction:literal, $fixup:path, $($operands:tt)*) => {
        asm!(
            concat!("2: ", $instruction),
            "3:",
            ".pushsection __ex_table, \"aM\", @progbits, 12",
            ".balign 4",
            ".long 2b - .",
            ".long 3b - .",
            ".long {fixup}",
            ".popsection",
            fixup = const $fixup,
            $($operands)*
        )
    };
}

/// Reads an MSR. A #GP reads as 0.
fn rdmsr(address: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: Reading an MSR does not affect memory, and a #GP is caught.
    unsafe {
        asm_with_fixup!(
            "rdmsr",
            bindings::EX_TYPE_RDMSR,
            in("ecx") address,
            out("eax") low,
            out("edx") high,
            options(nostack)
        )
    };
    (u64::from(high) << 32) | u64::from(low)
}

impl Registers for ThisCpu {
    fn rdmsr(self, msr: Msr) -> u64 {
        rdmsr(msr.address())
    }

    /// Writes an MSR. After a #GP nothing is written.
    fn wrmsr(self, msr: Msr, value: u64) {
        // SAFETY: An `Msr` is a performance monitoring register, which does not affect memory, and
        // a #GP is caught. The block is not `nomem`: NMIs depend on the order of memory accesses
        // around the write.
        unsafe {
            asm_with_fixup!(
                "wrmsr",
                bindings::EX_TYPE_WRMSR,
                in("ecx") msr.address(),
                in("eax") value as u32,
                in("edx") (value >> 32) as u32,
                options(nostack)
            )
        };
    }

    /// Reads a counter. A #GP, for an index that does not exist, reads as 0.
    fn rdpmc(self, index: u32) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: RDPMC is allowed at CPL 0 and does not affect memory, and a #GP is caught.
        unsafe {
            asm_with_fixup!(
                "rdpmc",
                bindings::EX_TYPE_RDMSR,
                in("ecx") index,
                out("eax") low,
                out("edx") high,
                options(nostack)
            )
        };
        (u64::from(high) << 32) | u64::from(low)
    }
}
