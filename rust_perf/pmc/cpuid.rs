// SPDX-License-Identifier: GPL-2.0

//! The CPUID leaves that all vendors share.

use super::bitfield::Field;

/// The four registers that CPUID returns for a leaf.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuidLeaf {
    /// EAX.
    pub eax: u32,
    /// EBX.
    pub ebx: u32,
    /// ECX.
    pub ecx: u32,
    /// EDX.
    pub edx: u32,
}

bitfield! {
    /// CPUID.01H:EAX, the signature (SDM vol. 2, CPUID, figure "Version
    /// Information Returned by CPUID in EAX"; APM vol. 3, appendix E).
    struct Leaf01Eax(u32) {
        /// The extended family, added to the family if that is 0FH.
        27:20 EXTENDED_FAMILY;
        /// The upper bits of the model.
        19:16 EXTENDED_MODEL;
        /// The family.
        11:8 FAMILY;
        /// The lower bits of the model.
        7:4 MODEL;
        /// The stepping.
        3:0 STEPPING;
    }

    /// CPUID.01H:ECX, the features that the driver asks for (SDM vol. 2, CPUID).
    pub struct Leaf01Ecx(u32) {
        /// The CPU is a hypervisor's.
        31:31 HYPERVISOR;
        /// IA32_PERF_CAPABILITIES exists.
        15:15 PDCM;
    }

    /// CPUID.(EAX=07H,ECX=0):EDX, the features that the driver asks for (SDM
    /// vol. 2, CPUID).
    pub(super) struct Leaf07Edx(u32) {
        /// The cores are of more than one kind.
        15:15 HYBRID;
    }
}

bitfield! {
    /// CPUID.(EAX=0BH,ECX=0):EAX (SDM vol. 2, CPUID, "Extended Topology Enumeration
    /// Leaf").
    struct Leaf0bEax(u32) {
        /// The number of bits of the x2APIC ID that tell the threads of a core apart.
        4:0 THREAD_BITS;
    }

    /// CPUID.(EAX=0BH,ECX=0):EBX.
    struct Leaf0bEbx(u32) {
        /// The number of threads of a core.
        15:0 THREADS;
    }

    /// CPUID.01H:EBX.
    struct Leaf01Ebx(u32) {
        /// The APIC ID.
        31:24 APIC_ID;
    }
}

/// The number of the core that the CPU is a thread of. No other core of the machine has
/// it. A CPU without leaf 0BH is taken for a core of its own.
pub fn core_number(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> u32 {
    let leaf = cpuid(0xb, 0);
    // The number of threads, 0 if the leaf does not exist.
    if leaf.ebx == 0 {
        return Leaf01Ebx::from_raw(cpuid(1, 0).ebx).get(Leaf01Ebx::APIC_ID);
    }
    let threads = Leaf0bEax::from_raw(leaf.eax).get(Leaf0bEax::THREAD_BITS);
    leaf.edx.wrapping_shr(threads)
}

/// Whether a core has more than one thread.
pub(super) fn has_threads(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> bool {
    Leaf0bEbx::from_raw(cpuid(0xb, 0).ebx).get(Leaf0bEbx::THREADS) > 1
}

/// Who made the CPU.
pub(super) enum Vendor {
    /// AMD, or Hygon, which follows AMD.
    Amd,
    /// Zhaoxin, or Centaur before it.
    Zhaoxin,
    /// Intel.
    Intel,
}

impl Vendor {
    /// Reads leaf 0. `None` if the kernel does not arbitrate the counters of this
    /// vendor (`nmi_perfctr_msr_to_bit()`, `arch/x86/kernel/cpu/perfctr-watchdog.c`).
    pub(super) fn of(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> Option<Self> {
        let leaf = cpuid(0, 0);
        let name = [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes);
        match name.as_flattened() {
            b"AuthenticAMD" | b"HygonGenuine" => Some(Self::Amd),
            b"  Shanghai  " | b"CentaurHauls" => Some(Self::Zhaoxin),
            b"GenuineIntel" => Some(Self::Intel),
            _ => None,
        }
    }
}

/// Which CPU of its vendor it is.
pub(super) struct Signature {
    pub(super) family: u8,
    pub(super) model: u8,
    pub(super) stepping: u8,
}

impl Signature {
    /// Reads leaf 1.
    pub(super) fn of(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> Self {
        let eax = Leaf01Eax::from_raw(cpuid(1, 0).eax);
        let family = eax.get(Leaf01Eax::FAMILY) as u8;
        let extended = match family {
            0xf => eax.get(Leaf01Eax::EXTENDED_FAMILY) as u8,
            _ => 0,
        };
        let upper = eax.get(Leaf01Eax::EXTENDED_MODEL) as u8;
        Signature {
            family: family.saturating_add(extended),
            model: upper.wrapping_mul(16) | eax.get(Leaf01Eax::MODEL) as u8,
            stepping: eax.get(Leaf01Eax::STEPPING) as u8,
        }
    }
}
