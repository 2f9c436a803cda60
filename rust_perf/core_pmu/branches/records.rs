// SPDX-License-Identifier: GPL-2.0

//! Records that have been read.

use crate::{
    pmc::lbr::{
        Branch,
        BranchRecords,
        MAX_DEPTH, //
    },
    system::local::LocalWord,
    x86::ThisCpu, //
};

/// The words that [`Records`] need.
pub(super) type Words = [LocalWord; 1 + 3 * MAX_DEPTH];

/// No records.
pub(super) const fn none() -> Words {
    [const { LocalWord::new(0) }; 1 + 3 * MAX_DEPTH]
}

/// Records that have been read, the newest one first: their number, and three words for each.
#[derive(Clone, Copy)]
pub(super) struct Records<'a>(pub(super) &'a Words);

impl<'a> Records<'a> {
    /// Reads the records of this CPU.
    pub(super) fn read(self, records: BranchRecords<'_, ThisCpu>) {
        let [len, words @ ..] = self.0;
        let mut count = 0u64;
        let mut entries = words.chunks_exact(3);
        records.for_each(|branch| {
            if let Some(entry) = entries.next() {
                for (word, value) in entry.iter().zip([branch.from, branch.to, branch.info]) {
                    word.set(value);
                }
                count = count.wrapping_add(1);
            }
        });
        len.set(count);
    }

    /// Removes the records.
    pub(super) fn clear(self) {
        let [len, ..] = self.0;
        len.set(0);
    }

    /// The records.
    pub(super) fn iter(self) -> impl ExactSizeIterator<Item = Branch> + 'a {
        let [len, words @ ..] = self.0;
        let entries = words.chunks_exact(3).take(len.get() as usize);
        entries.map(|entry| {
            let word = |i| entry.get(i).map_or(0, LocalWord::get);
            Branch {
                from: word(0),
                to: word(1),
                info: word(2),
            }
        })
    }
}
