// SPDX-License-Identifier: GPL-2.0

//! Records that have been read.

use crate::{
    pmc::lbr::{
        BranchRecords,
        Record,
        MAX_DEPTH, //
    },
    system::local::LocalWord,
    x86::ThisCpu, //
};

/// The words that [`Records`] need.
pub(super) const WORDS: usize = 2 + 3 * MAX_DEPTH;

/// The words of [`Records`].
pub(super) type Words = [LocalWord; WORDS];

/// No records.
pub(super) const fn none() -> Words {
    [const { LocalWord::new(0) }; WORDS]
}

/// Records that have been read, the newest one first: their number, the index of the newest one in the
/// hardware, and three words for each.
#[derive(Clone, Copy)]
pub(super) struct Records<'a>(pub(super) &'a Words);

impl<'a> Records<'a> {
    /// Reads the records of this CPU, which records as `control` says.
    pub(super) fn read(self, records: BranchRecords<'_, ThisCpu>, control: u64) {
        let [len, newest, words @ ..] = self.0;
        let mut count = 0u64;
        let mut entries = words.chunks_exact(3);
        let index = records.for_each(control, |record| {
            if let Some(entry) = entries.next() {
                for (word, value) in entry.iter().zip([record.from, record.to, record.info]) {
                    word.set(value);
                }
                count = count.wrapping_add(1);
            }
        });
        len.set(count);
        newest.set(index);
    }

    /// Removes the records.
    pub(super) fn clear(self) {
        let [len, newest, ..] = self.0;
        len.set(0);
        newest.set(0);
    }

    /// The index of the newest record in the hardware.
    pub(super) fn newest(self) -> u64 {
        let [_, newest, ..] = self.0;
        newest.get()
    }

    /// The records.
    pub(super) fn iter(self) -> impl ExactSizeIterator<Item = Record> + 'a {
        let [len, _, words @ ..] = self.0;
        let used = words.get(..(len.get() as usize).wrapping_mul(3));
        used.unwrap_or_default().chunks_exact(3).map(|entry| {
            let word = |i| entry.get(i).map_or(0, LocalWord::get);
            Record {
                from: word(0),
                to: word(1),
                info: word(2),
            }
        })
    }
}
