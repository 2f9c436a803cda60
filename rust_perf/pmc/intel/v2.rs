// SPDX-License-Identifier: GPL-2.0

//! Versions 2 to 5: fixed counters, and global control and status of all counters
//! (SDM vol. 3, "Architectural Performance Monitoring Version 2").
//!
//! Versions 3 to 5 keep these registers. Version 3 adds AnyThread, which version
//! 5 deprecates. Version 4 renames GLOBAL_OVF_CTRL to GLOBAL_STATUS_RESET; the
//! driver needs neither GLOBAL_STATUS_SET nor GLOBAL_INUSE. Version 5 enumerates
//! fixed counters by a bitmap in CPUID.
//!
//! The driver does not use the freezing of counters on a PMI (DEBUGCTL). It
//! would stop the counters only for a PMI, not in the other places where perf
//! stops them, and it would be one more register to share.

use super::{
    super::{
        generation::{
            FixedRegisters,
            Generation,
            GlobalRegisters, //
        },
        msr::MsrRange, //
    },
    msr, //
};

/// CPUs that can write bits 31:0 of a GP counter.
pub(in super::super) static V2: Generation = generation(msr::PMC);

/// CPUs that can write a GP counter at its full width.
pub(super) static V2_FULL_WIDTH: Generation = generation(msr::A_PMC);

/// The global control and status.
pub(in super::super) static GLOBAL: GlobalRegisters = GlobalRegisters {
    ctrl: msr::GLOBAL_CTRL,
    status: msr::GLOBAL_STATUS,
    clear: msr::GLOBAL_OVF_CTRL,
    clears_while_on: false,
};

const fn generation(counter: MsrRange) -> Generation {
    Generation {
        name: "architectural perfmon v2 to v5",
        eventsel: msr::PERFEVTSEL,
        counter,
        fixed: Some(FixedRegisters {
            ctrl: msr::FIXED_CTR_CTRL,
            counter: msr::FIXED_CTR,
            metrics: msr::PERF_METRICS,
        }),
        global: Some(&GLOBAL),
        masks_lvtpc: true,
    }
}
