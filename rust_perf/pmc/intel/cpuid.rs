// SPDX-License-Identifier: GPL-2.0

//! The CPUID leaves of architectural performance monitoring.

use super::super::bitfield::Field;

bitfield! {
    /// CPUID.0AH:EAX (SDM vol. 2, CPUID, "Architectural Performance Monitoring
    /// Leaf").
    pub(in super::super) struct Leaf0aEax(u32) {
        /// The number of bits of EBX that are valid.
        31:24 EVENTS;
        /// The number of bits of a GP counter.
        23:16 GP_WIDTH;
        /// The number of GP counters.
        15:8 GP_COUNTERS;
        /// The version.
        7:0 VERSION;
    }

    /// CPUID.0AH:EDX.
    pub(in super::super) struct Leaf0aEdx(u32) {
        /// There is no AnyThread any more.
        15:15 ANYTHREAD_DEPRECATED;
        /// The number of bits of a fixed counter.
        12:5 FIXED_WIDTH;
        /// The number of contiguous fixed counters.
        4:0 FIXED_COUNTERS;
    }

    /// CPUID.1AH:EAX (SDM vol. 2, CPUID, "Native Model ID Enumeration Leaf").
    pub(in super::super) struct Leaf1aEax(u32) {
        /// The type of the core.
        31:24 CORE_TYPE;
        /// Which core of this type it is.
        23:0 NATIVE_MODEL;
    }

    /// CPUID.(EAX=07H,ECX=0):EBX (SDM vol. 2, CPUID).
    pub(in super::super) struct Leaf07Ebx(u32) {
        /// There are transactions (TSX).
        11:11 RTM;
        /// Locks can be elided (TSX).
        4:4 HLE;
    }

    /// CPUID.(EAX=07H,ECX=0):EDX (SDM vol. 2, CPUID; `arch/x86/include/asm/cpufeatures.h`).
    pub(in super::super) struct Leaf07Edx(u32) {
        /// There are architectural LBRs.
        19:19 ARCH_LBR;
        /// TSX_FORCE_ABORT exists.
        13:13 TSX_FORCE_ABORT;
        /// Every transaction aborts.
        11:11 RTM_ALWAYS_ABORT;
    }

    /// CPUID.(EAX=07H,ECX=1):EAX (SDM vol. 2, CPUID).
    pub(in super::super) struct Leaf07_1Eax(u32) {
        /// Leaf 23H exists.
        8:8 ARCH_PERF_MON_EXT;
    }

    /// CPUID.(EAX=23H,ECX=0):EAX: which subleaves exist (SDM vol. 2, CPUID,
    /// "Architectural Performance Monitoring Extended Leaf").
    pub(in super::super) struct Leaf23Eax(u32) {
        /// Subleaf 3: the bitmap of the architectural events.
        3:3 EVENTS;
        /// Subleaf 1: the bitmaps of the counters.
        1:1 COUNTERS;
    }

    /// CPUID.(EAX=23H,ECX=0):EBX: which fields EVENTSEL has.
    pub(in super::super) struct Leaf23Ebx(u32) {
        /// RDPMC_USER_DISABLE.
        2:2 RDPMC_USER_DISABLE;
        /// EQ.
        1:1 EQ;
        /// UMASK2.
        0:0 UMASK2;
    }
}
