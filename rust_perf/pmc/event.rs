// SPDX-License-Identifier: GPL-2.0

//! Events as they are written into EVENTSEL and FIXED_CTR_CTRL.

use super::bitfield::Field;

bitfield! {
    /// IA32_PERFEVTSELx (SDM vol. 3, "Architectural Performance Monitoring
    /// Version 1 Facilities", figure "Layout of IA32_PERFEVTSELx"; for version 6
    /// "Unit Mask 2" and "Equal Flag"), and AMD's PERF_CTLx (APM vol. 2,
    /// "Performance Event-Select Registers").
    ///
    /// perf's `attr.config` has the same layout, as in the in-tree driver. The
    /// driver decides on USR, OS, PC, INT and EN, and on HOST_ONLY and GUEST_ONLY.
    pub struct EventSel(u64) {
        /// Not in the register: [`FixedCtr::METRICS_CLEAR`] of slots.
        63:63 METRICS_CLEAR;
        /// Intel: more unit mask bits, where CPUID leaf 23H has them.
        47:40 UMASK2;
        /// AMD: count in the host only. Counts nothing while EFER.SVME is 0.
        41:41 HOST_ONLY;
        /// AMD: count in guests only. Counts nothing while EFER.SVME is 0.
        40:40 GUEST_ONLY;
        /// Intel: RDPMC in user mode reads 0, where CPUID leaf 23H has the flag.
        37:37 RDPMC_USER_DISABLE;
        /// Intel: count cycles with exactly CMASK occurrences, where CPUID leaf
        /// 23H has the flag.
        36:36 EQ;
        /// Intel: branch records say how often the event has occurred between them, where CPUID leaf 1CH
        /// has the counter (SDM vol. 3B, "Last Branch Records": EN_LBR_LOG).
        35:35 LBR_LOG;
        /// Intel, with TSX: do not count what transactions did that have aborted.
        33:33 IN_TXCP;
        /// Intel, with TSX: count in transactions only.
        32:32 IN_TX;
        /// AMD: the upper bits of the event select.
        35:32 EVENT_HIGH;
        /// Count cycles with at least so many occurrences.
        31:24 CMASK;
        /// Invert the comparison with CMASK.
        23:23 INV;
        /// Enable the counter.
        22:22 EN;
        /// Count for every thread of the core (Intel, versions 3 and 4).
        21:21 ANY;
        /// Raise a PMI on overflow.
        20:20 INT;
        /// Pin control.
        19:19 PC;
        /// Count rising edges.
        18:18 EDGE;
        /// Count at CPL 0.
        17:17 OS;
        /// Count at CPL 1 to 3.
        16:16 USR;
        /// The unit mask.
        15:8 UMASK;
        /// The event select.
        7:0 EVENT;
    }

    /// A fixed counter's field of IA32_FIXED_CTR_CTRL (SDM vol. 3, figure
    /// "Layout of IA32_FIXED_CTR_CTRL MSR").
    pub struct FixedCtr(u64) {
        /// Raise a PMI on overflow.
        3:3 PMI;
        /// Count for every thread of the core (versions 3 and 4).
        2:2 ANY;
        /// RDPMC of PERF_METRICS clears that and this counter, which is fixed counter 3, where
        /// PERF_CAPABILITIES has the bit (SDM vol. 2, RDPMC: METRICS_CLEAR_EN).
        2:2 METRICS_CLEAR;
        /// Count at CPL 1 to 3.
        1:1 USR;
        /// Count at CPL 0.
        0:0 OS;
    }

    /// IA32_FIXED_CTR_CTRL: a [`FixedCtr`] for each of 16 fixed counters. Counters 0 to 7 can have
    /// another bit, from bit 33 on: RDPMC in user mode reads 0.
    pub struct FixedCtrCtrl(u64) {}
}

impl FixedCtrCtrl {
    /// The field of fixed counter `i`, which is less than 16.
    const fn counter(i: u8) -> Field<Self> {
        let lo = (i as u32 & 15).wrapping_mul(4);
        Field::new(lo.wrapping_add(3), lo)
    }

    /// The register with the field of fixed counter `i` set.
    #[must_use]
    pub const fn with_counter(self, i: u8, field: FixedCtr) -> Self {
        self.with(Self::counter(i), field.into_raw())
    }

    /// Whether RDPMC of PERF_METRICS clears it.
    pub(super) const fn clears_metrics(self) -> bool {
        FixedCtr::from_raw(self.get(Self::counter(3))).has(FixedCtr::METRICS_CLEAR)
    }

    /// The register with that further bit of fixed counter `i` as `disable`, if the counter can
    /// have one.
    #[must_use]
    pub const fn with_user_disable(self, i: u8, disable: bool) -> Self {
        if i > 7 {
            return self;
        }
        let bit = (i as u32).wrapping_mul(4).wrapping_add(33);
        self.with(Field::new(bit, bit), disable as u64)
    }

    /// Whether fixed counter `i` counts in any mode.
    pub const fn counts(self, i: u8) -> bool {
        let field = FixedCtr::from_raw(self.get(Self::counter(i)));
        field.has(FixedCtr::OS) || field.has(FixedCtr::USR)
    }
}

/// The privilege levels at which an event is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// CPL 1 to 3.
    pub user: bool,
    /// CPL 0.
    pub kernel: bool,
}

impl Modes {
    /// Every mode.
    pub const ALL: Self = Modes {
        user: true,
        kernel: true,
    };

    /// No mode: the event counts nothing.
    pub const NONE: Self = Modes {
        user: false,
        kernel: false,
    };
}

impl EventSel {
    /// The fields of `attr.config` that the user chooses on every CPU.
    pub const COMMON: u64 = Self::EVENT.mask()
        | Self::UMASK.mask()
        | Self::EDGE.mask()
        | Self::INV.mask()
        | Self::CMASK.mask();
    /// The fields that the user chooses on Intel's CPUs with AnyThread.
    pub const INTEL: u64 = Self::COMMON | Self::ANY.mask();
    /// The fields that the user chooses on AMD's CPUs.
    pub const AMD: u64 = Self::COMMON | Self::EVENT_HIGH.mask();

    /// The fields that the driver decides on. Event codes are often passed around
    /// as whole register values (`0x5300c0`), so these bits are ignored in
    /// `attr.config`, as by the in-tree driver.
    const IGNORED: u64 =
        Self::USR.mask() | Self::OS.mask() | Self::PC.mask() | Self::INT.mask() | Self::EN.mask();

    /// The event that `attr.config` asks for, counted in `modes`. `chosen` is the
    /// mask of the fields that the user chooses on this CPU.
    ///
    /// INT is always set: the driver must see every wrap, also of a counter that
    /// takes no samples. EN is not set.
    ///
    /// Returns `None` if a reserved bit is set.
    pub const fn from_config(config: u64, chosen: u64, modes: Modes) -> Option<Self> {
        if config & !(chosen | Self::IGNORED) != 0 {
            return None;
        }
        let event = Self::from_raw(config & chosen);
        Some(
            event
                .with(Self::USR, modes.user as u64)
                .with(Self::OS, modes.kernel as u64)
                .with(Self::INT, 1),
        )
    }

    /// AMD's event on a CPU on which SVM is disabled. A counter with HOST_ONLY would
    /// count nothing there, so the bit is dropped.
    #[must_use]
    pub const fn without_svm(self) -> Self {
        self.with(Self::HOST_ONLY, 0)
    }

    /// Unit mask and event select: the code by which Intel names an event.
    pub(super) const fn code(self) -> u16 {
        (self.0 & (Self::UMASK.mask() | Self::EVENT.mask())) as u16
    }

    /// The event with another unit mask and event select.
    pub(super) const fn with_code(self, code: u16) -> Self {
        let [event, umask] = code.to_le_bytes();
        self.with(Self::EVENT, event as u64)
            .with(Self::UMASK, umask as u64)
    }

    /// The event select with AMD's upper bits, 12 bits in all.
    pub(super) const fn event12(self) -> u16 {
        let high = self.get(Self::EVENT_HIGH).wrapping_shl(8);
        (high | self.get(Self::EVENT)) as u16
    }

    /// Whether the event is counted unmodified, which is all that a fixed counter
    /// can do.
    pub(super) const fn is_plain(self) -> bool {
        !self.has(Self::EDGE)
            && !self.has(Self::INV)
            && !self.has(Self::CMASK)
            && !self.has(Self::EQ)
            && !self.has(Self::LBR_LOG)
            && !self.has(Self::IN_TX)
            && !self.has(Self::IN_TXCP)
            && !self.has(Self::UMASK2)
    }

    /// The fields of FIXED_CTR_CTRL with the modes and flags of this event.
    pub(super) const fn fixed_ctr(self) -> FixedCtr {
        FixedCtr::from_raw(0)
            .with(FixedCtr::OS, self.get(Self::OS))
            .with(FixedCtr::USR, self.get(Self::USR))
            .with(
                FixedCtr::ANY,
                self.get(Self::ANY) | self.get(Self::METRICS_CLEAR),
            )
            .with(FixedCtr::PMI, self.get(Self::INT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_int_are_the_drivers() {
        let user = Modes {
            user: true,
            kernel: false,
        };
        let event = EventSel::from_config(0xc0, EventSel::INTEL, user).unwrap();
        assert_eq!(event.into_raw(), 0x1100c0);
        assert_eq!(event.fixed_ctr().into_raw(), 0b1010);
        let kernel = Modes {
            user: false,
            kernel: true,
        };
        let event = EventSel::from_config(0x5300c0, EventSel::INTEL, kernel).unwrap();
        assert_eq!(event.into_raw(), 0x1200c0);
        assert_eq!(event.fixed_ctr().into_raw(), 0b1001);
    }

    #[test]
    fn every_reserved_bit_is_refused() {
        let allowed = |config, chosen| EventSel::from_config(config, chosen, Modes::ALL).is_some();
        for bit in 0..64 {
            let config = 0xc0 | (1 << bit);
            assert_eq!(allowed(config, EventSel::INTEL), bit < 32, "bit {bit}");
            // No AnyThread, but an event select of 12 bits.
            let amd = bit < 36 && bit != 21;
            assert_eq!(allowed(config, EventSel::AMD), amd, "bit {bit}");
        }
    }

    #[test]
    fn without_svm_there_is_only_the_host() {
        let event = EventSel::from_raw(0x5300c0);
        assert_eq!(event.without_svm(), event);
        assert_eq!(event.with(EventSel::HOST_ONLY, 1).without_svm(), event);
        // It counts nothing as long as there is no guest.
        let guest = event.with(EventSel::GUEST_ONLY, 1);
        assert_eq!(guest.without_svm(), guest);
    }

    #[test]
    fn each_fixed_counter_has_a_field() {
        let field = FixedCtr::from_raw(0b1011);
        let ctrl = FixedCtrCtrl::default()
            .with_counter(0, field)
            .with_counter(15, field);
        assert_eq!(ctrl.into_raw(), 0xb000_0000_0000_000b);
        assert!(ctrl.counts(0) && ctrl.counts(15) && !ctrl.counts(1));
        let ctrl = ctrl.with_counter(15, FixedCtr::default());
        assert_eq!(ctrl.into_raw(), 0xb);
    }

    #[test]
    fn fixed_counters_0_to_7_have_a_bit_that_hides_them() {
        let ctrl = FixedCtrCtrl::default();
        for (i, bits) in [(0, 1 << 33), (3, 1 << 45), (7, 1 << 61), (8, 0), (15, 0)] {
            let hidden = ctrl.with_user_disable(i, true);
            assert_eq!(hidden.into_raw(), bits);
            assert_eq!(hidden.with_user_disable(i, false), ctrl);
            assert!(!hidden.counts(0));
        }
    }
}
