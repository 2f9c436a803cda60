// SPDX-License-Identifier: GPL-2.0

//! Version 6 (Lunar Lake) adds UnitMask2, EQ, and further addresses, at which the registers
//! of one counter are next to each other. CPUID leaf 23H reports the counters and the
//! events as bitmaps.
//!
//! SDM vol. 3B, "Architectural Performance Monitoring Version 6", and vol. 2A, CPUID, leaf
//! 23H. Auto counter reload (subleaf 2) and PEBS (subleaves 4 and 5) are not modelled.

use super::{intel_v5::IntelV5, v6_index, Generation, Leaf0Ah};
use crate::{
    event::{Event, SLOTS_PER_CYCLE},
    msr::*,
    shape::{Shape, MAX_FIXED, MAX_INTEL_GENERAL},
};

pub(super) struct IntelV6;

/// Leaf 23H, EAX: the valid subleaves, which are 0, 1 (counters) and 3 (events).
const SUBLEAVES: u32 = (1 << 0) | (1 << 1) | (1 << 3);
/// Leaf 23H, EBX: event selects have UnitMask2.
const UNIT_MASK2: u32 = 1 << 0;
/// Leaf 23H, EBX: event selects have EQ.
const EQ: u32 = 1 << 1;
/// Leaf 23H, subleaf 3: the events of leaf 0AH, the last of which is slots.
const EVENTS: u32 = 0xff;

/// A subleaf of leaf 23H. `fields` is EBX of subleaf 0: which fields event selects have.
pub(crate) fn leaf_23h(shape: &Shape, subleaf: u32, fields: u32) -> [u32; 4] {
    match subleaf {
        0 => [SUBLEAVES, fields, u32::from(SLOTS_PER_CYCLE), 0],
        1 => [
            shape.general_counters() as u32,
            shape.fixed_counters() as u32,
            0,
            0,
        ],
        3 => [EVENTS, 0, 0, 0],
        _ => [0; 4],
    }
}

impl Generation for IntelV6 {
    fn base(&self) -> Option<&'static dyn Generation> {
        Some(&IntelV5)
    }

    fn default_shape(&self) -> Shape {
        IntelV5.default_shape()
    }

    fn has_leaf_23h(&self) -> bool {
        true
    }

    fn register(&self, shape: &Shape, msr: u32) -> Option<Register> {
        const CTR: u32 = 0;
        const CFG_A: u32 = IA32_PMC_GP0_CFG_A - IA32_PMC_GP0_CTR;
        if let Some((i, offset)) = v6_index(msr, IA32_PMC_GP0_CTR, MAX_INTEL_GENERAL) {
            return match offset {
                _ if !shape.has_general(i) => None,
                CTR => Some(Register::PmcFullWidth(i)),
                CFG_A => Some(Register::EventSel(i)),
                _ => None,
            };
        }
        match v6_index(msr, IA32_PMC_FX0_CTR, MAX_FIXED) {
            Some((i, CTR)) if i < shape.fixed.into() => Some(Register::FixedCtr(i)),
            Some(_) => None,
            None => IntelV5.register(shape, msr),
        }
    }

    fn writable_bits(&self, shape: &Shape, register: Register) -> Option<u64> {
        let added = match register {
            Register::EventSel(_) => EventSel::EQ | EventSel::UMASK2,
            _ => 0,
        };
        Some(IntelV5.writable_bits(shape, register)? | added)
    }

    /// No event here uses UnitMask2.
    fn event(&self, eventsel: EventSel) -> Option<Event> {
        match eventsel.0 & EventSel::UMASK2 {
            0 => IntelV5.event(eventsel),
            _ => None,
        }
    }

    /// Leaf 0AH can report contiguous counters only. It reports those before the first
    /// missing one.
    fn leaf_0ah(&self, shape: &Shape) -> Option<Leaf0Ah> {
        Some(Leaf0Ah {
            version: 6,
            general: shape.general_counters().trailing_ones() as u8,
            ..IntelV5.leaf_0ah(shape)?
        })
    }

    fn other_leaf(&self, shape: &Shape, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        (leaf == 0x23).then(|| leaf_23h(shape, subleaf, UNIT_MASK2 | EQ))
    }
}
