// SPDX-License-Identifier: GPL-2.0

//! Intel's architectural performance monitoring, version 1: general counters,
//! each with its own control (SDM vol. 3, "Architectural Performance
//! Monitoring Version 1").

use super::{
    generation::Generation,
    msr::{
        intel,
        Row, //
    }, //
};

/// For CPUs whose general counters take 32 bits.
pub(super) static INTEL_V1: Generation = generation(intel::PMC);

/// For CPUs whose general counters can be written at their full width.
pub(super) static INTEL_V1_FULL_WIDTH: Generation = generation(intel::A_PMC);

const fn generation(counter: Row) -> Generation {
    Generation {
        name: "architectural perfmon v1",
        eventsel: intel::PERFEVTSEL,
        counter,
        fixed: None,
        global: None,
        reservable: true,
        masks_lvtpc: true,
    }
}
