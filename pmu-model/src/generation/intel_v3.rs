// SPDX-License-Identifier: GPL-2.0

//! Version 3 (Nehalem) adds AnyThread, and a status bit for uncore counters.
//!
//! SDM vol. 3B, "Architectural Performance Monitoring Version 3".

use super::{intel_v2::IntelV2, Generation, Leaf0Ah};
use crate::{fields::FixedCtrCtrl, msr::*, shape::Shape};

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
            Register::FixedCtrCtrl => FixedCtrCtrl::of_all(shape.fixed, fixed_ctrl::ANY).0,
            Register::GlobalStatusReset => global_status::OVF_UNCORE,
            _ => 0,
        };
        Some(IntelV2.writable_bits(shape, register)? | added)
    }

    fn leaf_0ah(&self, shape: &Shape) -> Option<Leaf0Ah> {
        Some(Leaf0Ah {
            version: 3,
            ..IntelV2.leaf_0ah(shape)?
        })
    }
}
