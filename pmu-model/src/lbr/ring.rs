// SPDX-License-Identifier: GPL-2.0

//! The records: a ring, in which a new one overwrites the oldest one.

use serde::{Deserialize, Serialize};

use crate::msr::LbrField;

/// The highest number of records.
pub(super) const MAX_DEPTH: u8 = 32;

/// One record, as its registers have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) info: u64,
}

impl Record {
    /// One of its registers.
    pub(super) fn field(&self, field: LbrField) -> u64 {
        match field {
            LbrField::From => self.from,
            LbrField::To => self.to,
            LbrField::Info => self.info,
        }
    }

    /// Writes one of its registers.
    pub(super) fn set_field(&mut self, field: LbrField, value: u64) {
        match field {
            LbrField::From => self.from = value,
            LbrField::To => self.to = value,
            LbrField::Info => self.info = value,
        }
    }
}

/// The records.
///
/// # Invariants
///
/// - `newest` is less than `depth`, or both are 0.
/// - Records from `depth` on are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ring {
    depth: u8,
    newest: u8,
    records: [Record; MAX_DEPTH as usize],
}

impl Ring {
    /// `depth` records, all of which are 0.
    pub(super) fn new(depth: u8) -> Self {
        Self {
            depth: depth.min(MAX_DEPTH),
            ..Self::default()
        }
    }

    /// How many records there are.
    pub(super) fn depth(&self) -> u8 {
        self.depth
    }

    /// The place of the youngest record.
    pub(super) fn newest(&self) -> u8 {
        self.newest
    }

    /// Moves the youngest record, but not what is recorded, to a place less than the depth.
    pub(super) fn set_newest(&mut self, place: u8) {
        if place < self.depth {
            self.newest = place;
        }
    }

    /// The place of the record that `age` others have followed, less than the depth.
    pub(super) fn place_of_age(&self, age: usize) -> usize {
        let newest = usize::from(self.newest);
        match newest.checked_sub(age) {
            Some(place) => place,
            None => newest + usize::from(self.depth) - age,
        }
    }

    /// The record at a place.
    pub(super) fn record(&self, place: usize) -> Record {
        self.records.get(place).copied().unwrap_or_default()
    }

    /// The record at a place, to write it.
    pub(super) fn record_mut(&mut self, place: usize) -> Option<&mut Record> {
        self.records[..self.depth.into()].get_mut(place)
    }

    /// A new record is the youngest one.
    pub(super) fn push(&mut self, record: Record) {
        self.skip(1);
        if let Some(oldest) = self.record_mut(self.newest.into()) {
            *oldest = record;
        }
    }

    /// The place of the youngest record moves on as if so many had been recorded, or back if it is below 0.
    pub(super) fn skip(&mut self, records: i64) {
        if let Some(moved) = records.checked_rem_euclid(self.depth.into()) {
            // Both are less than the depth.
            self.newest = (self.newest + moved as u8) % self.depth;
        }
    }

    /// The youngest record becomes 0, and the one before it is the youngest one.
    pub(super) fn pop(&mut self) {
        if let Some(youngest) = self.record_mut(self.newest.into()) {
            *youngest = Record::default();
        }
        self.newest = match self.newest {
            0 => self.depth.saturating_sub(1),
            newest => newest - 1,
        };
    }

    /// The oldest records become 0, and the youngest are popped.
    pub(super) fn drop_records(&mut self, oldest: usize, youngest: usize) {
        let depth = usize::from(self.depth);
        for age in depth - oldest.min(depth)..depth {
            let place = self.place_of_age(age);
            if let Some(record) = self.record_mut(place) {
                *record = Record::default();
            }
        }
        for _ in 0..youngest.min(depth) {
            self.pop();
        }
    }

    /// Whether the invariants hold, and each record can be such.
    pub(super) fn is_possible(&self, can_be: impl Fn(&Record) -> bool) -> bool {
        let is_in_ring = self.newest < self.depth && self.depth <= MAX_DEPTH;
        let (used, unused) = self.records.split_at(self.depth.min(MAX_DEPTH).into());
        is_in_ring && used.iter().all(can_be) && unused.iter().all(|it| *it == Record::default())
    }
}
