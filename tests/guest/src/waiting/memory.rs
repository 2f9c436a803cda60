// SPDX-License-Identifier: GPL-2.0
//! The memory that the tests share with the watchdog.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicU8, AtomicUsize, Ordering::SeqCst};

use anyhow::{Context, Result};
use nix::sys::mman::{mmap_anonymous, MapFlags, ProtFlags};

/// The value of a deadline if the tests do not wait.
const NONE: u64 = 0;
/// The value of a deadline that is over.
const EXPIRED: u64 = u64::MAX;

#[derive(Clone, Copy)]
pub struct Shared(&'static Memory);

#[repr(C)]
struct Memory {
    /// In nanoseconds of CLOCK_MONOTONIC, [`NONE`] or [`EXPIRED`]. `what` changes only while this is
    /// `NONE`.
    deadline: AtomicU64,
    what: Text,
    /// The number and the name of the test.
    test: Text,
}

/// A text. What is too long is cut off.
#[repr(C)]
struct Text {
    length: AtomicUsize,
    bytes: [AtomicU8; 400],
}

impl Text {
    fn set(&self, text: &str) {
        for (cell, byte) in self.bytes.iter().zip(text.bytes()) {
            cell.store(byte, SeqCst);
        }
        self.length.store(text.len().min(self.bytes.len()), SeqCst);
    }

    fn get(&self) -> String {
        let bytes = self.bytes.iter().take(self.length.load(SeqCst));
        let bytes: Vec<_> = bytes.map(|cell| cell.load(SeqCst)).collect();
        // It stays on one line.
        String::from_utf8_lossy(&bytes).replace('\n', " ")
    }
}

impl Shared {
    /// Maps it, for good.
    pub fn map() -> Result<Self> {
        let length = NonZeroUsize::new(size_of::<Memory>()).context("no memory")?;
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the mapping is new and replaces no other.
        let start = unsafe { mmap_anonymous(None, length, prot, MapFlags::MAP_SHARED) };
        let start = start.context("mmap")?.cast::<Memory>();
        // SAFETY: the mapping is as long as the structure, aligned to a page, and is never unmapped. All its
        // fields are atomics, of which zeroes are a value.
        Ok(Self(unsafe { start.as_ref() }))
    }

    pub fn set_test(self, line: &str) {
        self.0.test.set(line);
    }

    pub fn test(self) -> String {
        self.0.test.get()
    }

    /// The tests wait for this. [`Self::clear`] comes before.
    pub fn set(self, what: &str, deadline: u64) {
        self.0.what.set(what);
        self.0.deadline.store(deadline, SeqCst);
    }

    /// The tests do not wait. Returns whether they did for too long.
    pub fn clear(self) -> bool {
        self.0.deadline.swap(NONE, SeqCst) == EXPIRED
    }

    /// When the limit of what the tests wait for will be over.
    pub fn deadline(self) -> Option<u64> {
        match self.0.deadline.load(SeqCst) {
            NONE | EXPIRED => None,
            deadline => Some(deadline),
        }
    }

    /// Whether the tests have not noticed yet that they waited too long.
    pub fn is_expired(self) -> bool {
        self.0.deadline.load(SeqCst) == EXPIRED
    }

    /// Has a limit be over. Returns what the tests wait for, or `None` if they no longer do.
    pub fn expire(self, deadline: u64) -> Option<String> {
        // It belongs to this deadline if that is still there afterwards.
        let what = self.0.what.get();
        let exchanged = self
            .0
            .deadline
            .compare_exchange(deadline, EXPIRED, SeqCst, SeqCst);
        exchanged.is_ok().then_some(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_has_ended_does_not_expire() {
        let shared = Shared::map().unwrap();
        assert_eq!(shared.deadline(), None);
        shared.set("one", 7);
        assert_eq!(shared.deadline(), Some(7));
        assert!(!shared.clear());
        assert_eq!(shared.expire(7), None);
        shared.set("two", 8);
        assert_eq!(shared.expire(7), None);
        assert_eq!(shared.expire(8).as_deref(), Some("two"));
        assert!(shared.is_expired() && shared.deadline().is_none());
        assert!(shared.clear() && !shared.is_expired());
    }

    #[test]
    fn a_text_is_one_line_and_cut_off() {
        let shared = Shared::map().unwrap();
        shared.set_test("a\nb");
        assert_eq!(shared.test(), "a b");
        shared.set_test(&"x".repeat(1_000));
        assert_eq!(shared.test(), "x".repeat(400));
    }
}
