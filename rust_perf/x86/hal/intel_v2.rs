// SPDX-License-Identifier: GPL-2.0

//! Intel's architectural performance monitoring, versions 2 to 5: fixed
//! counters, and global control of, and status for, all of them (SDM vol. 3,
//! "Architectural Performance Monitoring Version 2").
//!
//! What versions 3 to 5 add leaves these registers as they are. Version 3 has
//! AnyThread, which version 5 gives up. In version 4 GLOBAL_OVF_CTRL is called
//! GLOBAL_STATUS_RESET; GLOBAL_STATUS_SET and GLOBAL_INUSE have no use here.
//! Nor has the freezing of counters by a PMI, of version 2 and, with a bit in
//! GLOBAL_STATUS, of version 4: a CPU's counters would stop only after that one
//! PMI, not in all the other places where perf has them stopped, and one more
//! register, DEBUGCTL, would have to be shared. Version 5 may have fixed
//! counters of any number, by a bitmap in CPUID.

use super::{
    generation::{
        FixedRegisters,
        Generation,
        GlobalRegisters, //
    },
    msr::{
        intel,
        Row, //
    }, //
};

/// For CPUs whose general counters take 32 bits.
pub(super) static INTEL_V2: Generation = generation(intel::PMC);

/// For CPUs whose general counters can be written at their full width.
pub(super) static INTEL_V2_FULL_WIDTH: Generation = generation(intel::A_PMC);

pub(super) static GLOBAL: GlobalRegisters = GlobalRegisters {
    ctrl: intel::GLOBAL_CTRL,
    status: intel::GLOBAL_STATUS,
    clear: intel::GLOBAL_OVF_CTRL,
    clears_while_on: false,
};

const fn generation(counter: Row) -> Generation {
    Generation {
        name: "architectural perfmon v2 to v5",
        eventsel: intel::PERFEVTSEL,
        counter,
        fixed: Some(FixedRegisters {
            ctrl: intel::FIXED_CTR_CTRL,
            counter: intel::FIXED_CTR,
        }),
        global: Some(&GLOBAL),
        reservable: true,
        masks_lvtpc: true,
    }
}
