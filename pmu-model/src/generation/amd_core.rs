// SPDX-License-Identifier: GPL-2.0

//! PerfCtrExtCore (Family 15h): six counters, at numbers of their own. The first
//! four are at those of the legacy counters, too.
//!
//! APM vol. 2, "Performance Monitoring Counters", core performance counter
//! extensions.

use core::ops::RangeInclusive;

use super::{amd_legacy::AmdLegacy, index, Generation};
use crate::{config::Shape, msr::*};

pub(super) struct AmdCore;

impl Generation for AmdCore {
    fn base(&self) -> Option<&'static dyn Generation> {
        Some(&AmdLegacy)
    }

    fn usual_shape(&self) -> Shape {
        Shape {
            general: 6,
            ..AmdLegacy.usual_shape()
        }
    }

    fn general_counters(&self) -> RangeInclusive<u8> {
        6..=6
    }

    fn register(&self, shape: &Shape, msr: u32) -> Option<Register> {
        match index(msr, PERF_CTL0, 2 * usize::from(shape.general)) {
            // PERF_CTL and PERF_CTR take turns.
            Some(i) if i % 2 == 0 => Some(Register::EventSel(i / 2)),
            Some(i) => Some(Register::FullPmc(i / 2)),
            None => AmdLegacy.register(shape, msr),
        }
    }

    /// APM vol. 3, CPUID, leaf 80000001H, ECX bit 23.
    fn perfctr_core(&self) -> bool {
        true
    }
}
