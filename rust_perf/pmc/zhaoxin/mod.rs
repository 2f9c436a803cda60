// SPDX-License-Identifier: GPL-2.0

//! Zhaoxin's and Centaur's counters: version 2 of Intel's architectural
//! performance monitoring, with events of their own.

mod events;

#[cfg(test)]
pub(super) use self::events::ALL;

use super::{
    cpuid::Signature,
    generation::{
        Generation,
        GlobalRegisters, //
    },
    intel,
    named::Events,
    Capabilities,
    CpuidLeaf, //
};

/// The ZXC clears status bits only while the global control lets counters count
/// (`zxc_pmu_ack_status()` in `arch/x86/events/zhaoxin/core.c`).
static ZXC: Generation = Generation {
    global: Some(&GlobalRegisters {
        clears_while_on: true,
        ..intel::v2::GLOBAL
    }),
    ..intel::v2::V2
};

/// The counters and events of a model that the in-tree driver knows
/// (`zhaoxin_pmu_init()` in `arch/x86/events/zhaoxin/core.c`).
fn model(signature: &Signature) -> Option<(&'static Generation, &'static Events)> {
    match (signature.family, signature.model, signature.stepping) {
        // Earlier steppings are the Nano.
        (6, 0x0f, 0x0e..) | (6, 0x19, _) => Some((&ZXC, &events::ZXC)),
        (7, 0x1b, _) => Some((&intel::v2::V2, &events::ZXD)),
        (7, 0x3b, _) => Some((&intel::v2::V2, &events::ZXE)),
        _ => None,
    }
}

/// Reads CPUID leaf 0AH, which must be of version 2.
///
/// Bits 31:0 of a counter can be written on all models. Later models can write
/// more, but CPUID does not enumerate that.
pub(super) fn detect(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> Option<Capabilities> {
    let (generation, events) = model(&Signature::of(&cpuid))?;
    match intel::version(&cpuid) {
        version @ 2 => intel::architectural(cpuid(0xa, 0), version, generation, events),
        _ => None,
    }
}

/// As [`detect`], restricted to `generation`. Version 2 is the only one.
pub(super) fn detect_as(
    generation: u8,
    cpuid: impl Fn(u32, u32) -> CpuidLeaf,
) -> Option<Capabilities> {
    if generation == 2 {
        detect(cpuid)
    } else {
        None
    }
}
