// SPDX-License-Identifier: GPL-2.0

//! Intel's architectural performance monitoring from version 2 on: fixed
//! counters, and global control of, and status for, all of them (SDM vol. 3,
//! "Architectural Performance Monitoring Version 2"). What later versions add
//! leaves these registers as they are.

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
use crate::pmc::event::{
    EventSel,
    INTEL_FIXED, //
};

/// For CPUs whose general counters take 32 bits.
pub(super) static INTEL_V2: Generation = generation(intel::PMC);

/// For CPUs whose general counters can be written at their full width.
pub(super) static INTEL_V2_FULL_WIDTH: Generation = generation(intel::A_PMC);

pub(super) static GLOBAL: GlobalRegisters = GlobalRegisters {
    ctrl: intel::GLOBAL_CTRL,
    status: intel::GLOBAL_STATUS,
    clear: intel::GLOBAL_OVF_CTRL,
};

const fn generation(counter: Row) -> Generation {
    Generation {
        name: "architectural perfmon v2 and later",
        eventsel: intel::PERFEVTSEL,
        counter,
        fixed: Some(FixedRegisters {
            ctrl: intel::FIXED_CTR_CTRL,
            counter: intel::FIXED_CTR,
        }),
        global: Some(&GLOBAL),
        masks_lvtpc: true,
        config_mask: EventSel::INTEL,
        fixed_events: &INTEL_FIXED,
    }
}
