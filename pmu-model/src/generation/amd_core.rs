// SPDX-License-Identifier: GPL-2.0

//! PerfCtrExtCore (Family 15h) has six counters at new addresses. The legacy addresses of
//! the first four remain valid.
//!
//! APM vol. 2, "Performance Monitoring Counters", core performance counter extensions.

use core::ops::RangeInclusive;

use super::{amd_legacy::AmdLegacy, index, Generation};
use crate::{msr::*, shape::Shape};

pub(super) struct AmdCore;

impl Generation for AmdCore {
    fn base(&self) -> Option<&'static dyn Generation> {
        Some(&AmdLegacy)
    }

    fn default_shape(&self) -> Shape {
        Shape {
            general: 6,
            ..AmdLegacy.default_shape()
        }
    }

    fn general_counters(&self) -> RangeInclusive<u8> {
        6..=6
    }

    fn register(&self, shape: &Shape, msr: u32) -> Option<Register> {
        match index(msr, PERF_CTL0, 2 * usize::from(shape.general)) {
            // PERF_CTLs and PERF_CTRs alternate.
            Some(i) if i % 2 == 0 => Some(Register::EventSel(i / 2)),
            Some(i) => Some(Register::PmcFullWidth(i / 2)),
            None => AmdLegacy.register(shape, msr),
        }
    }

    /// APM vol. 3, CPUID, leaf 80000001H, ECX bit 23.
    fn perfctr_core(&self) -> bool {
        true
    }
}
