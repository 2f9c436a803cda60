// SPDX-License-Identifier: GPL-2.0

//! The counters of the K7 and all since: four, each with its PERF_CTL.
//!
//! APM vol. 2, "Performance Monitoring Counters". Nothing enumerates them; that
//! they are 48 bits wide and that there are four, software knows.

use core::ops::RangeInclusive;

use super::{index, Generation};
use crate::{
    config::{Shape, MAX_GENERAL},
    event::Event,
    msr::*,
    pmu::Counter,
};

pub(super) struct AmdLegacy;

/// The registers of this generation: PERF_CTL0 to 3, PERF_CTR0 to 3.
const COUNTERS: usize = 4;

impl Generation for AmdLegacy {
    fn usual_shape(&self) -> Shape {
        Shape {
            general: 4,
            fixed: 0,
            missing: 0,
            width: 48,
            full_width: false,
        }
    }

    fn general_counters(&self) -> RangeInclusive<u8> {
        4..=4
    }

    fn widths(&self) -> RangeInclusive<u8> {
        48..=48
    }

    fn register(&self, shape: &Shape, msr: u32) -> Option<Register> {
        let n = COUNTERS.min(shape.general.into());
        if let Some(i) = index(msr, K7_PERF_CTL0, n) {
            return Some(Register::EventSel(i));
        }
        index(msr, K7_PERF_CTR0, n).map(Register::FullPmc)
    }

    /// The numbers of all generations: what a generation lacks is a #GP, and not
    /// another's to answer.
    fn owns(&self, msr: u32) -> bool {
        [K7_PERF_CTL0, K7_PERF_CTR0]
            .iter()
            .any(|&first| index(msr, first, COUNTERS).is_some())
            || index(msr, PERF_CTL0, 2 * MAX_GENERAL).is_some()
            || (PERF_CNTR_GLOBAL_STATUS..=PERF_CNTR_GLOBAL_STATUS_SET).contains(&msr)
    }

    fn writable(&self, shape: &Shape, register: Register) -> Option<u64> {
        match register {
            // Bits 19, 21, 39:36 and 63:42 are reserved.
            Register::EventSel(_) => {
                let fields = 0xffff_ffff & !(EventSel::PC | EventSel::ANY);
                Some(fields | EventSel::EVENT_HIGH | EventSel::GUEST_ONLY | EventSel::HOST_ONLY)
            }
            Register::FullPmc(_) => Some(shape.counter_mask()),
            _ => None,
        }
    }

    /// No write raises #GP: the counters' and PERF_CTL's as hardware has been found
    /// to do (Linux commit 9b026073db2f, "KVM: x86/svm: Clear reserved bits written
    /// to PerfEvtSeln MSRs"), and the global registers' likewise. Linux's driver
    /// relies on it, as it writes all bits but those of status to GlobalStatusClr.
    fn drops_reserved(&self) -> bool {
        true
    }

    /// The K7's to Family 16h's encodings, and those of Family 17h and later. Which
    /// of the two a processor has depends on its family, and that is not the PMU's to
    /// know: so it has both, and they do not clash. Those of Family 17h are in PPR,
    /// "Performance Monitor Counters", the earlier ones in BKDG, "Core Performance
    /// Counter Events". The last-level cache of a core is its L2.
    ///
    /// All are those that Linux's driver uses (arch/x86/events/amd/core.c). 7DH and
    /// 7EH count accesses for instructions and data (unit mask 03H) and for page
    /// walks (04H): nothing walks pages here.
    fn event(&self, eventsel: EventSel) -> Option<Event> {
        // SVM is off: the processor is neither in a guest nor in a host.
        if eventsel.0 & (EventSel::GUEST_ONLY | EventSel::HOST_ONLY) != 0 {
            return None;
        }
        match (eventsel.event12(), eventsel.umask()) {
            (0x076, 0x00) => Some(Event::Cycles),
            (0x0c0, 0x00) => Some(Event::Instructions),
            (0x0c2, 0x00) => Some(Event::Branches),
            (0x0c3, 0x00) => Some(Event::BranchMisses),
            (0x07d, 0x03 | 0x07) | (0x060, 0xff) => Some(Event::LlcReferences),
            (0x07e, 0x03 | 0x07) | (0x064, 0x09) => Some(Event::LlcMisses),
            _ => None,
        }
    }

    /// APM vol. 3, RDPMC. From 6 on ECX means the northbridge's and the L3's
    /// counters where CPUID has them (80000001H:ECX.PerfCtrExtNB and
    /// PerfCtrExtLLC): it has not, and a core with more than 6 counters has them
    /// there. So Linux's driver reads them.
    fn rdpmc(&self, ecx: u32) -> Option<Counter> {
        Some(Counter::General(ecx as usize))
    }

    /// "The Mask (M) bit of the LVT PMI entry is not set by the local APIC when a
    /// PMC overflow occurs" (Linux, arch/x86/events/amd/core.c).
    fn pmi_masks_lvtpc(&self) -> bool {
        false
    }
}
