// SPDX-License-Identifier: GPL-2.0

//! Zhaoxin's and Centaur's counters: version 2 of Intel's.

use super::{
    events::{
        zhaoxin,
        Events, //
    },
    generation::{
        Generation,
        GlobalRegisters, //
    },
    intel_v2, //
};

/// The ZXC clears status bits only while the global control lets counters count
/// (`zxc_pmu_ack_status()` in `arch/x86/events/zhaoxin/core.c`).
static ZXC: Generation = Generation {
    global: Some(&GlobalRegisters {
        clears_while_on: true,
        ..intel_v2::GLOBAL
    }),
    ..intel_v2::INTEL_V2
};

/// The counters and events of the models that are known, by CPUID.01H:EAX.
pub(super) fn model(
    family: u8,
    model: u8,
    stepping: u8,
) -> Option<(&'static Generation, &'static Events)> {
    match (family, model, stepping) {
        // The steppings before are the Nano.
        (6, 0x0f, 0x0e..) | (6, 0x19, _) => Some((&ZXC, &zhaoxin::ZXC)),
        (7, 0x1b, _) => Some((&intel_v2::INTEL_V2, &zhaoxin::ZXD)),
        (7, 0x3b, _) => Some((&intel_v2::INTEL_V2, &zhaoxin::ZXE)),
        _ => None,
    }
}
