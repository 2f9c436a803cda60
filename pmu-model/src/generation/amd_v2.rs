// SPDX-License-Identifier: GPL-2.0

//! PerfMonV2 (Zen 4) adds registers that control all counters at once, report their
//! overflows and clear them. CPUID reports the number of counters.
//!
//! APM vol. 2, "Performance Monitoring Counters", performance monitoring version 2.
//!
//! Two extensions have CPUID bits of their own (leaf 80000022H, EAX bits 1 and 2): the LBR stack, and the LBR
//! stack and counters that freeze on a PMI. They are in `crate::lbr`.

use core::ops::RangeInclusive;

use super::{amd_core::AmdCore, Generation};
use crate::{
    event::Event,
    msr::*,
    shape::{Shape, MAX_GENERAL},
};

pub(super) struct AmdV2;

impl Generation for AmdV2 {
    fn base(&self) -> Option<&'static dyn Generation> {
        Some(&AmdCore)
    }

    fn default_shape(&self) -> Shape {
        AmdCore.default_shape()
    }

    fn general_counters(&self) -> RangeInclusive<u8> {
        1..=MAX_GENERAL as u8
    }

    fn register(&self, shape: &Shape, msr: u32) -> Option<Register> {
        match msr {
            PERF_CNTR_GLOBAL_STATUS => Some(Register::GlobalStatus),
            PERF_CNTR_GLOBAL_CTL => Some(Register::GlobalCtrl),
            PERF_CNTR_GLOBAL_STATUS_CLR => Some(Register::GlobalStatusReset),
            PERF_CNTR_GLOBAL_STATUS_SET => Some(Register::GlobalStatusSet),
            _ => AmdCore.register(shape, msr),
        }
    }

    fn writable_bits(&self, shape: &Shape, register: Register) -> Option<u64> {
        match register {
            // Read-only: a write is ignored.
            Register::GlobalStatus => Some(0),
            Register::GlobalCtrl | Register::GlobalStatusReset | Register::GlobalStatusSet => {
                Some(shape.general_counters())
            }
            _ => AmdCore.writable_bits(shape, register),
        }
    }

    /// All counters are enabled, for software that does not know the register. This is the
    /// same on Intel (Linux, arch/x86/kvm/pmu.c, says so of both vendors).
    fn reset_global_ctrl(&self, shape: &Shape) -> u64 {
        shape.general_counters()
    }

    /// PPR, "Performance Monitor Counters": Zen 4 adds cycles of a fixed-rate clock.
    fn event(&self, eventsel: EventSel) -> Option<Event> {
        match (eventsel.amd_event(), eventsel.umask()) {
            (0x120, 0x01) => Some(Event::RefCycles),
            _ => AmdCore.event(eventsel),
        }
    }

    /// APM vol. 3, CPUID, leaf 80000022H: `EAX[0]` is PerfMonV2, `EBX[3:0]` the number of
    /// core counters.
    fn other_leaf(&self, shape: &Shape, leaf: u32, _: u32) -> Option<[u32; 4]> {
        (leaf == 0x8000_0022).then_some([1, shape.general.into(), 0, 0])
    }
}
