// SPDX-License-Identifier: GPL-2.0

//! The legacy counters, which the K7 and all later processors have: four counters, each
//! with its PERF_CTL.
//!
//! APM vol. 2, "Performance Monitoring Counters". CPUID does not report these counters.
//! Software has to know that there are four and that they are 48 bits wide.

use core::ops::RangeInclusive;

use super::{index, Generation};
use crate::{
    event::Event,
    msr::*,
    shape::{Counter, Shape, MAX_GENERAL},
    svm::Svm,
};

pub(super) struct AmdLegacy;

/// The number of counters.
const COUNTERS: usize = 4;

impl Generation for AmdLegacy {
    fn default_shape(&self) -> Shape {
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

    fn can_have_full_width(&self) -> bool {
        false
    }

    fn widths(&self) -> RangeInclusive<u8> {
        48..=48
    }

    fn register(&self, shape: &Shape, msr: u32) -> Option<Register> {
        let n = COUNTERS.min(shape.general.into());
        if let Some(i) = index(msr, K7_PERF_CTL0, n) {
            return Some(Register::EventSel(i));
        }
        index(msr, K7_PERF_CTR0, n).map(Register::PmcFullWidth)
    }

    /// The addresses of all generations of AMD: an access to a register that this
    /// generation lacks raises #GP.
    fn is_pmu_address(&self, msr: u32) -> bool {
        [K7_PERF_CTL0, K7_PERF_CTR0]
            .iter()
            .any(|&first| index(msr, first, COUNTERS).is_some())
            || index(msr, PERF_CTL0, 2 * MAX_GENERAL).is_some()
            || (PERF_CNTR_GLOBAL_STATUS..=PERF_CNTR_GLOBAL_STATUS_SET).contains(&msr)
    }

    fn writable_bits(&self, shape: &Shape, register: Register) -> Option<u64> {
        match register {
            // Bits 19, 21, 39:36 and 63:42 are reserved.
            Register::EventSel(_) => {
                let fields = 0xffff_ffff & !(EventSel::PC | EventSel::ANY);
                Some(fields | EventSel::EVENT_HIGH | EventSel::GUEST_ONLY | EventSel::HOST_ONLY)
            }
            Register::PmcFullWidth(_) => Some(shape.counter_mask()),
            _ => None,
        }
    }

    /// Hardware ignores reserved bits in writes to counters and PERF_CTLs (Linux commit
    /// 9b026073db2f, "KVM: x86/svm: Clear reserved bits written to PerfEvtSeln MSRs"). The
    /// global registers do the same: Linux's driver relies on it when it writes to
    /// PerfCntrGlobalStatusClr with all bits set except those of the status.
    fn ignores_reserved_bits(&self) -> bool {
        true
    }

    /// The events that Linux's driver uses (arch/x86/events/amd/core.c).
    ///
    /// The encodings of the K7 to Family 16h (BKDG, "Core Performance Counter Events")
    /// differ from those of Family 17h and later (PPR, "Performance Monitor Counters"). A
    /// processor has those of its family, which the PMU does not know. The model has both,
    /// because they do not conflict. The last-level cache of a core is its L2.
    ///
    /// 7DH and 7EH count accesses for instructions and data (unit mask 03H) and for page
    /// walks (04H). No page walks occur here.
    fn event(&self, eventsel: EventSel) -> Option<Event> {
        match (eventsel.amd_event(), eventsel.umask()) {
            (0x076, 0x00) => Some(Event::Cycles),
            (0x0c0, 0x00) => Some(Event::Instructions),
            (0x0c2, 0x00) => Some(Event::Branches),
            (0x0c3, 0x00) => Some(Event::BranchMisses),
            (0x07d, 0x03 | 0x07) | (0x060, 0xff) => Some(Event::LlcReferences),
            (0x07e, 0x03 | 0x07) | (0x064, 0x09) => Some(Event::LlcMisses),
            _ => None,
        }
    }

    /// APM vol. 2, "Performance Event-Select Registers", HG_ONLY: if neither bit is set, the
    /// counter counts everywhere. If both are, it counts everywhere while EFER.SVME is set.
    fn counts(&self, eventsel: EventSel, svm: Svm) -> bool {
        let host_only = eventsel.has(EventSel::HOST_ONLY);
        let guest_only = eventsel.has(EventSel::GUEST_ONLY);
        let here = if svm.guest { guest_only } else { host_only };
        !(host_only || guest_only) || svm.enabled && here
    }

    /// APM vol. 3, RDPMC. From 6 on, ECX selects counters of the northbridge and the L3 if
    /// CPUID reports them (80000001H:ECX.PerfCtrExtNB and PerfCtrExtLLC). Here it does
    /// not, and these values select the core counters from 6 on. Linux's driver reads them
    /// in this way.
    fn rdpmc(&self, ecx: u32) -> Option<Counter> {
        Some(Counter::General(ecx as usize))
    }

    /// "The Mask (M) bit of the LVT PMI entry is not set by the local APIC when a PMC
    /// overflow occurs" (Linux, arch/x86/events/amd/core.c).
    fn pmi_masks_lvtpc(&self) -> bool {
        false
    }
}
