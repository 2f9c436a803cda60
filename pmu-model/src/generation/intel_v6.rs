// SPDX-License-Identifier: GPL-2.0

//! Version 6 (Lunar Lake): a range of registers in which all of a counter's are side by
//! side; more of a unit mask, and a comparison for equality. CPUID leaf 23H says which
//! counters there are, bit by bit, and which events.
//!
//! SDM vol. 3B, "Architectural Performance Monitoring Version 6", and vol. 2A, CPUID,
//! leaf 23H. Of what the leaf can tell of, counters that reload each other (subleaf 2)
//! and PEBS (subleaves 4 and 5) are not there.

use super::{intel_v5::IntelV5, v6_index, Generation};
use crate::{
    config::{Shape, MAX_FIXED, MAX_INTEL_GENERAL},
    event::{Event, SLOTS_PER_CYCLE},
    msr::*,
};

pub(super) struct IntelV6;

/// Subleaves of leaf 23H: this one, counters, events.
const SUBLEAVES: u32 = (1 << 0) | (1 << 1) | (1 << 3);
/// Leaf 23H, EBX: UnitMask2 and EQ are there.
const UNIT_MASK2: u32 = 1 << 0;
const EQ: u32 = 1 << 1;
/// Leaf 23H, subleaf 3: the events of leaf 0AH, slots the last of them.
const EVENTS: u32 = 0xff;

impl Generation for IntelV6 {
    fn base(&self) -> Option<&'static dyn Generation> {
        Some(&IntelV5)
    }

    fn usual_shape(&self) -> Shape {
        IntelV5.usual_shape()
    }

    fn enumerates_counters(&self) -> bool {
        true
    }

    fn register(&self, shape: &Shape, msr: u32) -> Option<Register> {
        const CTR: u32 = 0;
        const CFG_A: u32 = IA32_PMC_GP0_CFG_A - IA32_PMC_GP0_CTR;
        if let Some((i, place)) = v6_index(msr, IA32_PMC_GP0_CTR, MAX_INTEL_GENERAL) {
            return match place {
                _ if !shape.has_general(i) => None,
                CTR => Some(Register::FullPmc(i)),
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

    fn writable(&self, shape: &Shape, register: Register) -> Option<u64> {
        let added = match register {
            Register::EventSel(_) => EventSel::EQ | EventSel::UMASK2,
            _ => 0,
        };
        Some(IntelV5.writable(shape, register)? | added)
    }

    /// No event here has a unit mask of more than 8 bits.
    fn event(&self, eventsel: EventSel) -> Option<Event> {
        match eventsel.0 & EventSel::UMASK2 {
            0 => IntelV5.event(eventsel),
            _ => None,
        }
    }

    /// Leaf 0AH can only tell of counters from 0 on without a gap: it does of those
    /// before the first that is missing.
    fn cpuid(&self, shape: &Shape, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        let general = shape.general_counters();
        match (leaf, subleaf) {
            (0x23, 0) => Some([SUBLEAVES, UNIT_MASK2 | EQ, u32::from(SLOTS_PER_CYCLE), 0]),
            (0x23, 1) => Some([general as u32, shape.fixed_counters() as u32, 0, 0]),
            (0x23, 3) => Some([EVENTS, 0, 0, 0]),
            (0x23, _) => Some([0; 4]),
            _ => {
                let [eax, ebx, ecx, edx] = IntelV5.cpuid(shape, leaf, subleaf)?;
                let contiguous = general.trailing_ones();
                Some([(eax & 0xffff_0000) | (contiguous << 8) | 6, ebx, ecx, edx])
            }
        }
    }
}
