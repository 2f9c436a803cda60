// SPDX-License-Identifier: GPL-2.0

//! Intel's architectural performance monitoring, version 1 (Core Solo and Core Duo):
//! general-purpose counters, an event select for each, and seven architectural events.
//!
//! SDM vol. 3B, "Architectural Performance Monitoring Version 1".

use super::{index, v6_index, Generation, Leaf0Ah};
use crate::{
    event::Event,
    msr::*,
    shape::{Counter, Shape, MAX_FIXED, MAX_INTEL_GENERAL},
};

pub(super) struct IntelV1;

impl Generation for IntelV1 {
    fn default_shape(&self) -> Shape {
        Shape {
            general: 2,
            fixed: 0,
            width: 40,
            missing: 0,
            full_width: false,
        }
    }

    fn register(&self, shape: &Shape, msr: u32) -> Option<Register> {
        let general =
            |first| index(msr, first, MAX_INTEL_GENERAL).filter(|&i| shape.has_general(i));
        if let Some(i) = general(IA32_PMC0) {
            return Some(Register::Pmc(i));
        }
        if let Some(i) = general(IA32_PERFEVTSEL0) {
            return Some(Register::EventSel(i));
        }
        if !shape.full_width {
            return None;
        }
        if msr == IA32_PERF_CAPABILITIES {
            return Some(Register::PerfCapabilities);
        }
        general(IA32_A_PMC0).map(Register::PmcFullWidth)
    }

    /// The addresses of all versions: an access to a register that this version lacks
    /// raises #GP. DEBUGCTL is not among them, because it does not belong to the PMU alone.
    fn is_pmu_address(&self, msr: u32) -> bool {
        [IA32_PMC0, IA32_PERFEVTSEL0, IA32_A_PMC0]
            .iter()
            .any(|&first| index(msr, first, MAX_INTEL_GENERAL).is_some())
            || index(msr, IA32_FIXED_CTR0, MAX_FIXED).is_some()
            || msr == IA32_PERF_CAPABILITIES
            || (IA32_FIXED_CTR_CTRL..=IA32_PERF_GLOBAL_INUSE).contains(&msr)
            || v6_index(msr, IA32_PMC_GP0_CTR, MAX_INTEL_GENERAL).is_some()
            || v6_index(msr, IA32_PMC_FX0_CTR, MAX_FIXED).is_some()
    }

    fn writable_bits(&self, shape: &Shape, register: Register) -> Option<u64> {
        match register {
            // Bits 21 and 63:32 are reserved.
            Register::EventSel(_) => Some(0xffff_ffff & !EventSel::ANY),
            // Bits 63:32 are ignored.
            Register::Pmc(_) => Some(u64::MAX),
            Register::PmcFullWidth(_) => Some(shape.counter_mask()),
            _ => None,
        }
    }

    /// SDM vol. 3B, "Pre-defined Architectural Performance Events", table "UMask and Event
    /// Select Encodings for Pre-Defined Architectural Performance Events".
    fn event(&self, eventsel: EventSel) -> Option<Event> {
        match (eventsel.event(), eventsel.umask()) {
            (0x3c, 0x00) => Some(Event::Cycles),
            (0xc0, 0x00) => Some(Event::Instructions),
            (0x3c, 0x01) => Some(Event::RefCycles),
            (0x2e, 0x4f) => Some(Event::LlcReferences),
            (0x2e, 0x41) => Some(Event::LlcMisses),
            (0xc4, 0x00) => Some(Event::Branches),
            (0xc5, 0x00) => Some(Event::BranchMisses),
            _ => None,
        }
    }

    /// SDM vol. 2B, RDPMC: with architectural performance monitoring, `ECX[31:16]` is the
    /// type of the counter and `ECX[15:0]` its index.
    fn rdpmc(&self, ecx: u32) -> Option<Counter> {
        (ecx >> 16 == 0).then_some(Counter::General(ecx as usize))
    }

    fn leaf_0ah(&self, shape: &Shape) -> Option<Leaf0Ah> {
        Some(Leaf0Ah {
            version: 1,
            general: shape.general,
            width: shape.width,
            events: 7,
            fixed_bitmap: 0,
            fixed: 0,
            fixed_width: 0,
            anythread_deprecated: false,
        })
    }
}
