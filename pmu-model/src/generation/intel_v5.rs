// SPDX-License-Identifier: GPL-2.0

//! Version 5 (Ice Lake) adds a fourth fixed-function counter, which counts slots, and
//! removes AnyThread. CPUID reports the fixed-function counters as a bitmap.
//!
//! SDM vol. 3B, "Architectural Performance Monitoring Version 5".

use super::{intel_v4::IntelV4, Generation, Leaf0Ah};
use crate::{event::Event, fields::FixedCtrCtrl, msr::*, shape::Shape};

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
            Register::FixedCtrCtrl => FixedCtrCtrl::of_all(shape.fixed, fixed_ctrl::ANY).0,
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

    /// The events include slots.
    fn leaf_0ah(&self, shape: &Shape) -> Option<Leaf0Ah> {
        Some(Leaf0Ah {
            version: 5,
            events: 8,
            fixed_bitmap: shape.fixed_counters() as u32,
            anythread_deprecated: true,
            ..IntelV4.leaf_0ah(shape)?
        })
    }
}
