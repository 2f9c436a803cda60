// SPDX-License-Identifier: GPL-2.0

//! The branches that a sample contains.

use crate::{
    bindings,
    system::local::{
        LocalFlag,
        LocalWord, //
    }, //
};
use core::ptr;

/// The largest number of branches in a sample, as far as the drivers here need it.
pub const MAX_BRANCHES: usize = 32;

/// What kind of branch it is (`PERF_BR_*` in `include/uapi/linux/perf_event.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BranchType {
    /// Not known, or one that perf has no name for.
    Unknown = 0,
    /// A conditional branch.
    Conditional = 1,
    /// A direct jump.
    Unconditional = 2,
    /// An indirect jump.
    Indirect = 3,
    /// A direct call.
    Call = 4,
    /// An indirect call.
    IndirectCall = 5,
    /// A return.
    Return = 6,
    /// A system call.
    SystemCall = 7,
    /// A return from a system call.
    SystemReturn = 8,
    /// A return from an interrupt or an exception.
    ExceptionReturn = 11,
    /// An interrupt or an exception.
    Interrupt = 12,
}

/// The privilege level that a branch leads to (`PERF_BR_PRIV_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum BranchPrivilege {
    /// The user has not asked for it.
    #[default]
    Unknown = 0,
    /// User mode.
    User = 1,
    /// The kernel.
    Kernel = 2,
}

/// A branch of a sample (`struct perf_branch_entry`).
pub struct BranchEntry {
    /// Where it was.
    pub from: u64,
    /// Where it led to.
    pub to: u64,
    /// Whether it was mispredicted, `None` if that is not known.
    pub mispredicted: Option<bool>,
    /// Whether it was in a transaction.
    pub in_transaction: bool,
    /// Whether it is the abort of a transaction.
    pub abort: bool,
    /// The cycles since the branch before, 0 if they are not known.
    pub cycles: u16,
    /// What kind of branch it is.
    pub branch_type: BranchType,
    /// What became of it if it was speculative (`PERF_BR_SPEC_*`).
    pub speculation: u8,
    /// The privilege level that it leads to.
    pub privilege: BranchPrivilege,
}

impl BranchEntry {
    /// The words of the C structure. The third one consists of bit fields, from bit 0 on.
    fn into_words(self) -> [u64; 3] {
        let fields = [
            (0, (self.mispredicted == Some(true)).into()),
            (1, (self.mispredicted == Some(false)).into()),
            (2, self.in_transaction.into()),
            (3, self.abort.into()),
            (4, self.cycles.into()),
            (20, self.branch_type as u64),
            (24, (self.speculation & 0b11).into()),
            // In between: further types.
            (30, self.privilege as u64),
        ];
        let fields = fields.map(|(bit, value): (u32, u64)| value.wrapping_shl(bit));
        [
            self.from,
            self.to,
            fields.iter().fold(0, |all, it| all | it),
        ]
    }
}

/// The branches of a sample, the newest first.
///
/// It belongs to one CPU, and to the handler of one interrupt at a time. A handler that interrupts that
/// one may garble it, but no more than that: it consists of words.
#[derive(Default)]
pub struct BranchStack {
    entries: Entries,
    /// What has been counted between the branches, if `has_counts`.
    counts: [LocalWord; MAX_BRANCHES],
    has_counts: LocalFlag,
}

/// The C structure (`struct perf_branch_stack`).
#[derive(Default)]
#[repr(C)]
struct Entries {
    len: LocalWord,
    /// Where the newest entry is in the hardware.
    hw_index: LocalWord,
    entries: [[LocalWord; 3]; MAX_BRANCHES],
}

const _: () = {
    assert!(size_of::<bindings::perf_branch_stack>() == 2 * size_of::<u64>());
    assert!(size_of::<bindings::perf_branch_entry>() == 3 * size_of::<u64>());
};

impl BranchStack {
    /// Removes all branches. `hw_index`: where the newest one to come is in the hardware. `has_counts`:
    /// whether the sample says what has been counted between the branches (`PERF_SAMPLE_BRANCH_COUNTERS`).
    pub fn begin(&self, hw_index: u64, has_counts: bool) {
        self.entries.len.set(0);
        self.entries.hw_index.set(hw_index);
        self.has_counts.set(has_counts);
    }

    /// What has been counted before the branch that is pushed next. What the bits mean is up to the driver,
    /// which says so in `caps/branch_counter_nr` and `caps/branch_counter_width`.
    pub fn set_counts(&self, counts: u64) {
        if let Some(word) = self.counts.get(self.entries.len.get() as usize) {
            word.set(counts);
        }
    }

    /// Adds a branch, which is older than all others. Does nothing if there is no room.
    pub fn push(&self, branch: BranchEntry) {
        let len = self.entries.len.get();
        let Some(entry) = self.entries.entries.get(len as usize) else {
            return;
        };
        for (word, value) in entry.iter().zip(branch.into_words()) {
            word.set(value);
        }
        self.entries.len.set(len.wrapping_add(1));
    }

    /// The C structure, which is valid while `self` is. It may be changed through the pointer.
    pub(super) fn as_ptr(&self) -> *mut bindings::perf_branch_stack {
        // Every field is a word that may be changed through a shared reference.
        (&raw const self.entries).cast_mut().cast()
    }

    /// What has been counted before each of the branches. It is valid while `self` is, and null if the
    /// sample does not say this.
    pub(super) fn counts(&self) -> *mut u64 {
        match self.has_counts.get() {
            true => (&raw const self.counts).cast_mut().cast(),
            false => ptr::null_mut(),
        }
    }
}
