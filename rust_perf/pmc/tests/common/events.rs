// SPDX-License-Identifier: GPL-2.0

//! CPUs by family and model, and what they can count.

use super::Cpuid;
use pmc::{
    event::{EventSel, Modes},
    Capabilities, EventName,
};

/// The named events.
pub fn names(caps: &Capabilities) -> Vec<EventName> {
    caps.events().map(|event| event.name).collect()
}

/// The encoding of a named event.
pub fn config_of(caps: &Capabilities, name: EventName) -> Option<u64> {
    let found = caps.events().find(|event| event.name == name)?;
    Some(found.config)
}

/// The counters for `attr.config` as bits, `None` if a reserved bit is set.
pub fn counters(caps: &Capabilities, config: u64) -> Option<u64> {
    let event = EventSel::from_config(config, caps.config_mask(), Modes::ALL)?;
    Some(caps.counters_for(event).bits())
}

/// The fields of `attr.config`: name and bits.
pub fn fields(caps: &Capabilities) -> Vec<(&str, &str)> {
    caps.format()
        .map(|field| (field.name.to_str().unwrap(), field.bits))
        .collect()
}

/// An event of 12 bits, and its unit mask.
pub fn amd_event(event: u64, umask: u64) -> u64 {
    ((event & 0xf00) << 24) | (umask << 8) | (event & 0xff)
}

/// The CPUID leaf with PerfCtrExtCore.
pub const CORE: (u32, u32, [u32; 4]) = (0x8000_0001, 0, [0, 0, 1 << 23, 0]);

/// A CPU of AMD with PerfCtrExtCore.
pub fn amd_cpu(family: u8, model: u8) -> Cpuid {
    let (leaf, subleaf, registers) = CORE;
    Cpuid::new(b"AuthenticAMD", family, model, 0).with(leaf, subleaf, registers)
}

/// Leaf 0AH: version 2, 4 GP and 3 fixed counters of 48 bits, all 7 events.
pub const LEAF_0A: [u32; 4] = [0x0730_0402, 0, 0, 0x603];

/// A CPU of Zhaoxin.
pub fn zhaoxin_cpu(family: u8, model: u8, stepping: u8) -> Cpuid {
    Cpuid::new(b"  Shanghai  ", family, model, stepping).with(0xa, 0, LEAF_0A)
}
