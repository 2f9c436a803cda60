// SPDX-License-Identifier: GPL-2.0

//! PERF_METRICS: how the slots that fixed-function counter 3 counts were used.
//!
//! SDM vol. 3B, "Performance Metrics". The formulas are in [`event`](crate::event).

use serde::{Deserialize, Serialize};

use crate::event::Totals;

/// The fields of PERF_METRICS. Those of level 1 are the first [`LEVEL_1`].
const FIELD_COUNT: usize = 8;
/// The number of fields of level 1: retiring, bad speculation, front-end bound, back-end
/// bound.
pub(crate) const LEVEL_1: u8 = 4;
/// The number of fields of levels 1 and 2. Level 2 has a part of each of these: heavy
/// operations, branch mispredictions, fetch latency, memory bound.
pub(crate) const LEVEL_2: u8 = 8;
/// The value of a field that all slots belong to.
const ALL_SLOTS: u128 = 0xff;

/// The state behind PERF_METRICS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metrics {
    /// What was written last.
    written: u64,
    /// Whether slots have been counted since.
    counted: bool,
    /// The slots: the value of fixed-function counter 3 when PERF_METRICS was written, and
    /// what was counted since. It does not wrap with the counter.
    slots: u128,
    /// The slots of each field.
    parts: [u128; FIELD_COUNT],
}

impl Metrics {
    /// The bits of the fields if there are `fields` of them.
    pub(crate) const fn mask(fields: u8) -> u64 {
        match fields {
            0 => 0,
            n => u64::MAX >> (64 - 8 * n as u32),
        }
    }

    /// Whether there can be such a state of PERF_METRICS. If so, it can be read, and there is room
    /// for more slots.
    pub(crate) fn is_possible(&self) -> bool {
        const MAX: u128 = 1 << 110;
        let has_room = self.parts.iter().chain([&self.slots]).all(|&it| it < MAX);
        has_room && (self.slots != 0 || !self.counted)
    }

    /// WRMSR, while fixed-function counter 3 has the value `slots`.
    pub(crate) fn write(&mut self, value: u64, slots: u64) {
        let slots = u128::from(slots);
        let part = |field: u8| (u128::from(field) * slots + ALL_SLOTS / 2) / ALL_SLOTS;
        *self = Metrics {
            written: value,
            counted: false,
            slots,
            parts: value.to_le_bytes().map(part),
        };
    }

    /// Slots are counted in one mode, from one of its totals to another.
    pub(crate) fn count(&mut self, before: Totals, after: Totals) {
        let (slots, before, after) = (
            after.slots() - before.slots(),
            before.slot_uses(),
            after.slot_uses(),
        );
        self.slots += slots;
        self.counted |= slots != 0;
        for (part, (before, after)) in self.parts.iter_mut().zip(before.into_iter().zip(after)) {
            *part += after - before;
        }
    }

    /// Whether the internal counters, which have one bit more than fixed-function counter 3,
    /// have overflowed. They start again if they have.
    pub(crate) fn overflow(&mut self, width: u8) -> bool {
        let overflowed = self.slots >> (u32::from(width) + 1) != 0;
        if overflowed {
            *self = Metrics::default();
        }
        overflowed
    }

    /// RDMSR and RDPMC.
    pub(crate) fn read(&self) -> u64 {
        if !self.counted {
            return self.written;
        }
        // A field is the difference of rounded sums, so that those of level 1 add up to FFH.
        let scaled = |part: u128| (part * ALL_SLOTS + self.slots / 2) / self.slots;
        let mut fields = [0; FIELD_COUNT];
        let (level_1, level_2) = fields.split_at_mut(LEVEL_1.into());
        let (parts, parts_2) = self.parts.split_at(LEVEL_1.into());
        let (mut sum, mut below) = (0, 0);
        for (field, part) in level_1.iter_mut().zip(parts) {
            sum += part;
            let up_to = scaled(sum).min(ALL_SLOTS);
            *field = (up_to - below) as u8;
            below = up_to;
        }
        for ((field, part), whole) in level_2.iter_mut().zip(parts_2).zip(level_1) {
            *field = scaled(*part).min((*whole).into()) as u8;
        }
        u64::from_le_bytes(fields)
    }
}
