// SPDX-License-Identifier: GPL-2.0

//! Version 3 (Nehalem) adds AnyThread, and a status bit for uncore counters.
//!
//! SDM vol. 3B, "Architectural Performance Monitoring Version 3".

use super::{
    intel_v2::{fixed_ctr_ctrl, IntelV2},
    Generation,
};
use crate::{config::Shape, msr::*};

pub(super) struct IntelV3;

impl Generation for IntelV3 {
    fn base(&self) -> Option<&'static dyn Generation> {
        Some(&IntelV2)
    }

    fn default_shape(&self) -> Shape {
        Shape {
            general: 4,
            fixed: 3,
            width: 48,
            missing: 0,
            full_width: true,
        }
    }

    fn writable_bits(&self, shape: &Shape, register: Register) -> Option<u64> {
        let added = match register {
            Register::EventSel(_) => EventSel::ANY,
            Register::FixedCtrCtrl => fixed_ctr_ctrl(shape, fixed_ctrl::ANY),
            Register::GlobalStatusReset => global_status::OVF_UNCORE,
            _ => 0,
        };
        Some(IntelV2.writable_bits(shape, register)? | added)
    }

    fn cpuid(&self, shape: &Shape, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        let [eax, ebx, ecx, edx] = IntelV2.cpuid(shape, leaf, subleaf)?;
        Some([(eax & !0xff) | 3, ebx, ecx, edx])
    }
}
