// SPDX-License-Identifier: GPL-2.0

//! Zhaoxin's and Centaur's: version 2 of Intel's, but that a write to IA32_PMCx
//! reaches all bits of the counter, and that events have codes of their own.
//!
//! No manual of it is published: all of it is what Linux's driver knows
//! (arch/x86/events/zhaoxin/core.c).

use super::{index, intel_v2::IntelV2, Generation};
use crate::{
    config::Shape,
    event::Event,
    msr::{EventSel, Register, IA32_PMC0},
};

pub(super) struct Zhaoxin;

impl Generation for Zhaoxin {
    fn base(&self) -> Option<&'static dyn Generation> {
        Some(&IntelV2)
    }

    /// Without aliases for writes in full, which IA32_PMCx does not need.
    fn usual_shape(&self) -> Shape {
        Shape {
            width: 48,
            full_width: false,
            ..IntelV2.usual_shape()
        }
    }

    fn register(&self, shape: &Shape, msr: u32) -> Option<Register> {
        match index(msr, IA32_PMC0, shape.general.into()) {
            Some(i) => Some(Register::FullPmc(i)),
            None => IntelV2.register(shape, msr),
        }
    }

    /// Those of the ZXC, the ZXD and the ZXE, which do not clash: which of them a
    /// processor has depends on its model, and that is not the PMU's to know. Bus
    /// cycles are those of a clock of fixed rate.
    fn event(&self, eventsel: EventSel) -> Option<Event> {
        match (eventsel.event(), eventsel.umask()) {
            (0x82, 0x00) => Some(Event::Cycles),
            (0xc0, 0x00) => Some(Event::Instructions),
            (0x83, 0x00) => Some(Event::RefCycles),
            (0x15, 0x05) => Some(Event::LlcReferences),
            (0x1a, 0x05) => Some(Event::LlcMisses),
            (0x00, 0x07) | (0x28, 0x00) => Some(Event::Branches),
            (0x09, 0x07) | (0x29, 0x00) => Some(Event::BranchMisses),
            _ => None,
        }
    }
}
