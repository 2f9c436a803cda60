// SPDX-License-Identifier: GPL-2.0

//! Event logging: a record says what counters have counted since the record before.
//!
//! Each counter has a field of two bits, in which 3 stands for all higher counts (SDM vol. 3B, "Last Branch
//! Records", IA32_LBR_x_INFO). On real processors a counter logs precise events; here it logs whatever it
//! counts. Nothing is logged while nothing is recorded.

use serde::{Deserialize, Serialize};

/// How many counters can be logged, from the first general-purpose one on.
pub(super) const LOGGED_COUNTERS: usize = 4;
/// The bits of a field.
pub(super) const COUNT_BITS: u32 = 2;
/// The highest count that is logged.
pub(super) const MAX_COUNT: u8 = (1 << COUNT_BITS) - 1;

/// What each counter has gained.
pub(crate) type Gains = [u64; LOGGED_COUNTERS];

/// What each counter has counted since the last record, as far as it has been reported. A record may be told
/// of before what has retired until then is reported: then it is less than 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    counted: [i64; LOGGED_COUNTERS],
}

impl Log {
    /// So much has been reported.
    pub(super) fn report(&mut self, gains: Gains) {
        for (counted, gain) in self.counted.iter_mut().zip(gains) {
            *counted = counted.saturating_add_unsigned(gain).min(MAX_COUNT.into());
        }
    }

    /// A branch is recorded, and so much has been counted since the last report. Returns the fields of its
    /// record.
    pub(super) fn record(&mut self, gains: Gains) -> u8 {
        let mut fields = 0;
        for (i, (counted, gain)) in (0..).zip(self.counted.iter_mut().zip(gains)) {
            let count = counted
                .saturating_add_unsigned(gain)
                .clamp(0, MAX_COUNT.into());
            fields |= (count as u8) << (COUNT_BITS * i);
            *counted = 0_i64.saturating_sub_unsigned(gain);
        }
        fields
    }

    /// Whether there can be such counts.
    pub(super) fn is_possible(&self) -> bool {
        self.counted.iter().all(|&it| it <= MAX_COUNT.into())
    }
}
