// SPDX-License-Identifier: GPL-2.0

//! Version 4 (Skylake) adds GLOBAL_STATUS_SET, the bits of GLOBAL_STATUS that freeze the
//! counters and the LBRs, and GLOBAL_INUSE, which reports the counters that are programmed.
//!
//! SDM vol. 3B, "Architectural Performance Monitoring Version 4".

use super::{intel_v3::IntelV3, FreezeOnPmi, Generation, Leaf0Ah};
use crate::{msr::*, shape::Shape};

pub(super) struct IntelV4;

impl Generation for IntelV4 {
    fn base(&self) -> Option<&'static dyn Generation> {
        Some(&IntelV3)
    }

    fn default_shape(&self) -> Shape {
        IntelV3.default_shape()
    }

    fn register(&self, shape: &Shape, msr: u32) -> Option<Register> {
        match msr {
            IA32_PERF_GLOBAL_STATUS_SET => Some(Register::GlobalStatusSet),
            IA32_PERF_GLOBAL_INUSE => Some(Register::GlobalInUse),
            _ => IntelV3.register(shape, msr),
        }
    }

    fn writable_bits(&self, shape: &Shape, register: Register) -> Option<u64> {
        let frozen = global_status::LBR_FRZ | global_status::CTR_FRZ;
        match register {
            Register::GlobalStatusReset => Some(IntelV3.writable_bits(shape, register)? | frozen),
            // All bits that can be cleared can also be set, except CondChgd.
            Register::GlobalStatusSet => {
                let clearable = self.writable_bits(shape, Register::GlobalStatusReset)?;
                Some(clearable & !global_status::COND_CHGD)
            }
            _ => IntelV3.writable_bits(shape, register),
        }
    }

    /// SDM vol. 3B, "Enhancement in IA32_PERF_GLOBAL_STATUS".
    fn freeze_on_pmi(&self) -> FreezeOnPmi {
        FreezeOnPmi::Streamlined
    }

    fn leaf_0ah(&self, shape: &Shape) -> Option<Leaf0Ah> {
        Some(Leaf0Ah {
            version: 4,
            ..IntelV3.leaf_0ah(shape)?
        })
    }
}
