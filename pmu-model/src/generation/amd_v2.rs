// SPDX-License-Identifier: GPL-2.0

//! PerfMonV2 (Zen 4): as many counters as CPUID says, and global control, status
//! and acknowledgement of all of them at once.
//!
//! APM vol. 2, "Performance Monitoring Counters", performance monitoring version 2.
//!
//! The extensions that have CPUID bits of their own, the LBR stack and the freezing
//! of counters by a PMI (leaf 80000022H, EAX bits 1 and 2), are not there.

use core::ops::RangeInclusive;

use super::{amd_core::AmdCore, Generation};
use crate::{
    config::{Shape, MAX_GENERAL},
    event::Event,
    msr::*,
};

pub(super) struct AmdV2;

impl Generation for AmdV2 {
    fn base(&self) -> Option<&'static dyn Generation> {
        Some(&AmdCore)
    }

    fn usual_shape(&self) -> Shape {
        AmdCore.usual_shape()
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

    fn writable(&self, shape: &Shape, register: Register) -> Option<u64> {
        match register {
            // It is read-only, and writes to it are ignored.
            Register::GlobalStatus => Some(0),
            Register::GlobalCtrl | Register::GlobalStatusReset | Register::GlobalStatusSet => {
                Some(shape.general_counters())
            }
            _ => AmdCore.writable(shape, register),
        }
    }

    /// As on Intel, software that knows nothing of the register finds its counters
    /// enabled (Linux, arch/x86/kvm/pmu.c, says so of both vendors).
    fn reset_global_ctrl(&self, shape: &Shape) -> u64 {
        shape.general_counters()
    }

    /// PPR, "Performance Monitor Counters": Zen 4 has a clock of fixed rate to count.
    fn event(&self, eventsel: EventSel) -> Option<Event> {
        let elsewhere = eventsel.0 & (EventSel::GUEST_ONLY | EventSel::HOST_ONLY) != 0;
        match (eventsel.event12(), eventsel.umask()) {
            (0x120, 0x01) if !elsewhere => Some(Event::RefCycles),
            _ => AmdCore.event(eventsel),
        }
    }

    /// APM vol. 3, CPUID, leaf 80000022H: EAX[0] PerfMonV2, EBX[3:0] the number of
    /// core counters.
    fn cpuid(&self, shape: &Shape, leaf: u32, _: u32) -> Option<[u32; 4]> {
        (leaf == 0x8000_0022).then_some([1, shape.general.into(), 0, 0])
    }
}
