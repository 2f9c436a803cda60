// SPDX-License-Identifier: GPL-2.0

//! The PMU of Zhaoxin and Centaur: version 2 of Intel's with two differences. A write to
//! IA32_PMCx is full-width, and the event codes are others.
//!
//! There is no public manual. The source is Linux's driver
//! (arch/x86/events/zhaoxin/core.c).

use super::{index, intel_v2::IntelV2, Generation};
use crate::{
    event::Event,
    msr::{EventSel, Register, IA32_DEBUGCTL, IA32_PERF_CAPABILITIES, IA32_PMC0},
    shape::Shape,
};

pub(super) struct Zhaoxin;

impl Generation for Zhaoxin {
    fn base(&self) -> Option<&'static dyn Generation> {
        Some(&IntelV2)
    }

    /// There are no aliases for full-width writes, because IA32_PMCx does not need them.
    fn default_shape(&self) -> Shape {
        Shape {
            width: 48,
            full_width: false,
            ..IntelV2.default_shape()
        }
    }

    fn can_have_full_width(&self) -> bool {
        false
    }

    fn register(&self, shape: &Shape, msr: u32) -> Option<Register> {
        match index(msr, IA32_PMC0, shape.general.into()) {
            Some(i) => Some(Register::PmcFullWidth(i)),
            None if matches!(msr, IA32_PERF_CAPABILITIES | IA32_DEBUGCTL) => None,
            None => IntelV2.register(shape, msr),
        }
    }

    /// The events of the ZXC, the ZXD and the ZXE. A processor has those of its model,
    /// which the PMU does not know. The model has all of them, because they do not
    /// conflict. Bus cycles are cycles of a fixed-rate clock.
    fn event(&self, eventsel: EventSel) -> Option<Event> {
        match (eventsel.event(), eventsel.umask()) {
            (0x82, 0x00) => Some(Event::Cycles),
            (0xc0, 0x00) => Some(Event::Instructions),
            (0x83, 0x00) => Some(Event::RefCycles),
            (0x15, 0x05) => Some(Event::LlcReferences),
            (0x1a, 0x05) => Some(Event::LlcMisses),
            (0x00, 0x07) | (0x28, 0x00) => Some(Event::Branches),
            (0x09, 0x07) | (0x29, 0x00) => Some(Event::BranchMisses),
            (0x42, 0x00) | (0x68, 0x05) => Some(Event::Loads),
            (0x43, 0x00) | (0x69, 0x06) => Some(Event::Stores),
            (0x38 | 0x4b | 0x2c, 0x05) => Some(Event::LoadMisses),
            (0x62 | 0x30, 0x05) => Some(Event::StoreMisses),
            // Fetches, and misses in the cache and the TLB of instructions.
            (0x00, 0x03) => Some(Event::Instructions),
            (0x01, 0x03) | (0x34, 0x05) => Some(Event::Misses),
            _ => None,
        }
    }
}
