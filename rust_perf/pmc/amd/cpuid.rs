// SPDX-License-Identifier: GPL-2.0

//! The CPUID leaves that enumerate the counters (APM vol. 3, appendix E).

use super::super::bitfield::Field;

bitfield! {
    /// CPUID.80000001H:ECX.
    pub(super) struct Leaf80000001Ecx(u32) {
        /// There are six counters at C0010200H.
        23:23 PERF_CTR_EXT_CORE;
        /// The CPU can run guests with SVM.
        2:2 SVM;
    }

    /// CPUID.80000008H:EAX.
    pub(super) struct Leaf80000008Eax(u32) {
        /// The number of bits of a linear address.
        15:8 ADDRESS_BITS;
    }

    /// CPUID.80000008H:ECX.
    pub(super) struct Leaf80000008Ecx(u32) {
        /// The number of cores less one.
        7:0 CORES_LESS_ONE;
    }

    /// CPUID.80000022H:EAX.
    pub(super) struct Leaf80000022Eax(u32) {
        /// A PMI can stop the recording of branches.
        2:2 LBR_AND_PMC_FREEZE;
        /// There is a stack of branch records.
        1:1 LBR_STACK;
        /// There are global control and status registers.
        0:0 PERF_MON_V2;
    }

    /// CPUID.80000022H:EBX.
    pub(super) struct Leaf80000022Ebx(u32) {
        /// The number of branch records.
        9:4 LBR_ENTRIES;
        /// The number of core counters.
        3:0 CORE_COUNTERS;
    }
}
