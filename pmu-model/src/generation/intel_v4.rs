// SPDX-License-Identifier: GPL-2.0

//! Version 4 (Skylake): GLOBAL_STATUS can be set, tells of a freeze and ends it;
//! GLOBAL_INUSE tells which counters are programmed.
//!
//! SDM vol. 3B, "Architectural Performance Monitoring Version 4".

use super::{intel_v3::IntelV3, Freeze, Generation};
use crate::{config::Shape, msr::*};

pub(super) struct IntelV4;

impl Generation for IntelV4 {
    fn base(&self) -> Option<&'static dyn Generation> {
        Some(&IntelV3)
    }

    fn usual_shape(&self) -> Shape {
        IntelV3.usual_shape()
    }

    fn register(&self, shape: &Shape, msr: u32) -> Option<Register> {
        match msr {
            IA32_PERF_GLOBAL_STATUS_SET => Some(Register::GlobalStatusSet),
            IA32_PERF_GLOBAL_INUSE => Some(Register::GlobalInUse),
            _ => IntelV3.register(shape, msr),
        }
    }

    fn writable(&self, shape: &Shape, register: Register) -> Option<u64> {
        let frozen = global_status::LBR_FRZ | global_status::CTR_FRZ;
        match register {
            Register::GlobalStatusReset => Some(IntelV3.writable(shape, register)? | frozen),
            // All that can be cleared can be set, but for CondChgd.
            Register::GlobalStatusSet => {
                let clearable = self.writable(shape, Register::GlobalStatusReset)?;
                Some(clearable & !global_status::COND_CHGD)
            }
            _ => IntelV3.writable(shape, register),
        }
    }

    /// SDM vol. 3B, "Enhancement in IA32_PERF_GLOBAL_STATUS".
    fn freeze(&self) -> Freeze {
        Freeze::GlobalStatus
    }

    fn cpuid(&self, shape: &Shape, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        let [eax, ebx, ecx, edx] = IntelV3.cpuid(shape, leaf, subleaf)?;
        Some([(eax & !0xff) | 4, ebx, ecx, edx])
    }
}
