// SPDX-License-Identifier: GPL-2.0

//! Version 5 (Ice Lake) adds a fourth fixed-function counter, which counts slots, and
//! removes AnyThread. CPUID reports the fixed-function counters as a bitmap.
//!
//! SDM vol. 3B, "Architectural Performance Monitoring Version 5".

use super::{intel_v2::fixed_ctr_ctrl, intel_v4::IntelV4, Generation};
use crate::{config::Shape, event::Event, msr::*};

pub(super) struct IntelV5;

impl Generation for IntelV5 {
    fn base(&self) -> Option<&'static dyn Generation> {
        Some(&IntelV4)
    }

    fn default_shape(&self) -> Shape {
        Shape {
            general: 8,
            fixed: 4,
            ..IntelV4.default_shape()
        }
    }

    fn max_fixed(&self) -> u8 {
        4
    }

    fn writable_bits(&self, shape: &Shape, register: Register) -> Option<u64> {
        let removed = match register {
            Register::EventSel(_) => EventSel::ANY,
            Register::FixedCtrCtrl => fixed_ctr_ctrl(shape, fixed_ctrl::ANY),
            _ => 0,
        };
        Some(IntelV4.writable_bits(shape, register)? & !removed)
    }

    fn event(&self, eventsel: EventSel) -> Option<Event> {
        match (eventsel.event(), eventsel.umask()) {
            (0xa4, 0x01) => Some(Event::Slots),
            _ => IntelV4.event(eventsel),
        }
    }

    fn fixed_event(&self, index: usize) -> Option<Event> {
        match index {
            3 => Some(Event::Slots),
            _ => IntelV4.fixed_event(index),
        }
    }

    fn cpuid(&self, shape: &Shape, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        /// The number of valid bits in EBX, which now include slots.
        const EVENTS: u32 = 8;
        /// EDX: AnyThread is removed.
        const ANYTHREAD_DEPRECATED: u32 = 1 << 15;
        let [eax, ebx, _, edx] = IntelV4.cpuid(shape, leaf, subleaf)?;
        Some([
            (eax & 0x00ff_ff00) | (EVENTS << 24) | 5,
            ebx,
            shape.fixed_counters() as u32,
            edx | ANYTHREAD_DEPRECATED,
        ])
    }
}
