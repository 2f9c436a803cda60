// SPDX-License-Identifier: GPL-2.0

//! Version 1: GP counters, each with its own control (SDM vol. 3, "Architectural
//! Performance Monitoring Version 1").

use super::{
    super::{
        generation::Generation,
        msr::MsrRange, //
    },
    msr, //
};

/// CPUs that can write bits 31:0 of a GP counter.
pub(super) static V1: Generation = generation(msr::PMC);

/// CPUs that can write a GP counter at its full width.
pub(super) static V1_FULL_WIDTH: Generation = generation(msr::A_PMC);

const fn generation(counter: MsrRange) -> Generation {
    Generation {
        name: "architectural perfmon v1",
        eventsel: msr::PERFEVTSEL,
        counter,
        fixed: None,
        global: None,
        masks_lvtpc: true,
    }
}
