// SPDX-License-Identifier: GPL-2.0

//! Version 2 (Core 2) adds fixed-function counters, and registers that control all
//! counters at once, report their overflows and clear them. A PMI can freeze the counters.
//!
//! SDM vol. 3B, "Architectural Performance Monitoring Version 2".

use super::{index, intel_v1::IntelV1, FreezeOnPmi, Generation, Leaf0Ah};
use crate::{
    event::Event,
    fields::FixedCtrCtrl,
    msr::*,
    shape::{Counter, Shape},
};

pub(super) struct IntelV2;

impl Generation for IntelV2 {
    fn base(&self) -> Option<&'static dyn Generation> {
        Some(&IntelV1)
    }

    fn default_shape(&self) -> Shape {
        Shape {
            general: 2,
            fixed: 3,
            width: 40,
            missing: 0,
            full_width: true,
        }
    }

    fn max_fixed(&self) -> u8 {
        3
    }

    fn register(&self, shape: &Shape, msr: u32) -> Option<Register> {
        if let Some(i) = index(msr, IA32_FIXED_CTR0, shape.fixed.into()) {
            return Some(Register::FixedCtr(i));
        }
        match msr {
            IA32_FIXED_CTR_CTRL => Some(Register::FixedCtrCtrl),
            IA32_PERF_GLOBAL_STATUS => Some(Register::GlobalStatus),
            IA32_PERF_GLOBAL_CTRL => Some(Register::GlobalCtrl),
            IA32_PERF_GLOBAL_STATUS_RESET => Some(Register::GlobalStatusReset),
            // Core 2 and Nehalem have it, although not the aliases for full-width writes.
            IA32_PERF_CAPABILITIES => Some(Register::PerfCapabilities),
            // The freeze bits come with PERF_CAPABILITIES (SDM vol. 4).
            IA32_DEBUGCTL => Some(Register::DebugCtl),
            _ => IntelV1.register(shape, msr),
        }
    }

    fn writable_bits(&self, shape: &Shape, register: Register) -> Option<u64> {
        match register {
            // "Bits beyond the width of the fixed-function counter are reserved and must be
            // written as zeros."
            Register::FixedCtr(_) => Some(shape.counter_mask()),
            Register::FixedCtrCtrl => {
                let bits = fixed_ctrl::OS | fixed_ctrl::USR | fixed_ctrl::PMI;
                Some(FixedCtrCtrl::of_all(shape.fixed, bits).0)
            }
            Register::GlobalCtrl => Some(shape.counters()),
            Register::GlobalStatusReset => {
                Some(shape.counters() | global_status::OVF_BUF | global_status::COND_CHGD)
            }
            Register::DebugCtl => Some(
                debugctl::LBR
                    | debugctl::TRACE
                    | debugctl::FREEZE_LBRS_ON_PMI
                    | debugctl::FREEZE_PERFMON_ON_PMI,
            ),
            _ => IntelV1.writable_bits(shape, register),
        }
    }

    /// SDM vol. 3A, table "IA-32 and Intel 64 Processor States Following Power-up, Reset, or
    /// INIT": bits n-1:0 are set. The general-purpose counters are enabled for software
    /// that was written for version 1.
    fn reset_global_ctrl(&self, shape: &Shape) -> u64 {
        shape.general_counters()
    }

    /// SDM vol. 3B, table "Association of Fixed-Function Performance Counters with
    /// Architectural Performance Events".
    fn fixed_event(&self, index: usize) -> Option<Event> {
        match index {
            0 => Some(Event::Instructions),
            1 => Some(Event::Cycles),
            2 => Some(Event::RefCycles),
            _ => None,
        }
    }

    fn rdpmc(&self, ecx: u32) -> Option<Counter> {
        /// The type of the fixed-function counters.
        const FIXED: u32 = 0x4000;
        match ecx >> 16 {
            FIXED => Some(Counter::Fixed((ecx & 0xffff) as usize)),
            _ => IntelV1.rdpmc(ecx),
        }
    }

    /// SDM vol. 3B, "Freezing LBR and Performance Counters on PMI", legacy
    /// Freeze_PerfMon_On_PMI.
    fn freeze_on_pmi(&self) -> FreezeOnPmi {
        FreezeOnPmi::Legacy
    }

    fn leaf_0ah(&self, shape: &Shape) -> Option<Leaf0Ah> {
        Some(Leaf0Ah {
            version: 2,
            fixed: shape.fixed,
            fixed_width: shape.width,
            ..IntelV1.leaf_0ah(shape)?
        })
    }
}
