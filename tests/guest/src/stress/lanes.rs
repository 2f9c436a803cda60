// SPDX-License-Identifier: GPL-2.0
//! Memory that the workers share with the process that watches them.

use std::num::NonZeroUsize;
use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicU8};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::mman::{mmap_anonymous, munmap, MapFlags, ProtFlags};

use super::op::Kind;

/// The kinds of operations, at most.
const KINDS: usize = 32;
/// The most bytes of a message.
const MESSAGE: usize = 2048;

const _: () = assert!(Kind::ALL.len() <= KINDS);

/// What a worker tells. Zeroes are a valid value.
#[derive(Default)]
#[repr(C)]
pub struct Lane {
    /// Its process.
    pub pid: AtomicI32,
    /// The operation that it is in, by its number in the round.
    pub at: AtomicU32,
    /// Grows with each step.
    pub steps: AtomicU64,
    /// Counts that were compared with a known number.
    pub exact: AtomicU64,
    /// Events that were opened.
    pub opened: AtomicU64,
    /// Records that were read.
    pub records: AtomicU64,
    /// That of the first lane is of all workers.
    plug: Plug,
    done: [AtomicU32; KINDS],
    refused: [AtomicU32; KINDS],
    microseconds: [AtomicU64; KINDS],
    failed: AtomicBool,
    message: Message,
}

/// The operations of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// How many there were.
    pub done: u64,
    /// How many of them the kernel refused, or made no sense.
    pub refused: u64,
    /// How long all of them took.
    pub microseconds: u64,
}

#[repr(C)]
struct Message([AtomicU8; MESSAGE]);

impl Default for Message {
    fn default() -> Self {
        Self([const { AtomicU8::new(0) }; MESSAGE])
    }
}

impl Lane {
    /// Counts an operation, how long it took, and whether the kernel refused it.
    pub fn count(&self, kind: Kind, took: Duration, refused: bool) {
        self.microseconds[kind as usize].fetch_add(took.as_micros() as u64, SeqCst);
        self.done[kind as usize].fetch_add(1, SeqCst);
        self.refused[kind as usize].fetch_add(refused.into(), SeqCst);
        self.steps.fetch_add(1, SeqCst);
    }

    /// The operations of a kind.
    pub fn counted(&self, kind: Kind) -> Counted {
        let kind = kind as usize;
        Counted {
            done: self.done[kind].load(SeqCst).into(),
            refused: self.refused[kind].load(SeqCst).into(),
            microseconds: self.microseconds[kind].load(SeqCst),
        }
    }

    /// Tells why the worker ends. The first message stays.
    pub fn fail(&self, text: &str) {
        if self.failed.swap(true, SeqCst) {
            return;
        }
        for (cell, byte) in self.message.0.iter().zip(text.bytes()) {
            cell.store(byte, SeqCst);
        }
    }

    /// What [`Self::fail`] told.
    pub fn message(&self) -> Option<String> {
        if !self.failed.load(SeqCst) {
            return None;
        }
        let bytes: Vec<u8> = self
            .message
            .0
            .iter()
            .map(|cell| cell.load(SeqCst))
            .collect();
        let text = String::from_utf8_lossy(&bytes);
        Some(text.trim_end_matches('\0').to_owned())
    }
}

/// A lock against CPUs that go offline, in the memory that the workers share.
#[derive(Default)]
#[repr(C)]
pub struct Plug {
    /// The number of workers that need the CPUs as they are, or -1 while one takes a CPU offline or
    /// online.
    holders: AtomicI32,
    pulls: AtomicU64,
}

impl Plug {
    /// Waits until no CPU goes offline or online.
    pub fn keep(&self) -> Kept<'_> {
        self.wait(|holders| (holders >= 0).then(|| holders + 1));
        Kept(self)
    }

    /// Waits until no worker needs the CPUs as they are.
    pub fn pull(&self) -> Pulled<'_> {
        self.wait(|holders| (holders == 0).then_some(-1));
        Pulled(self)
    }

    /// How often a CPU has gone offline or online. It grows when that is over: what is opened meanwhile
    /// may be affected, and must not look younger.
    pub fn pulls(&self) -> u64 {
        self.pulls.load(SeqCst)
    }

    fn wait(&self, next: impl Fn(i32) -> Option<i32>) {
        while self.holders.fetch_update(SeqCst, SeqCst, &next).is_err() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// While it lives, there is no [`Pulled`].
pub struct Kept<'a>(&'a Plug);

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.0.holders.fetch_sub(1, SeqCst);
    }
}

/// While it lives, there is no [`Kept`] and no other.
pub struct Pulled<'a>(&'a Plug);

impl Drop for Pulled<'_> {
    fn drop(&mut self) {
        self.0.pulls.fetch_add(1, SeqCst);
        self.0.holders.store(0, SeqCst);
    }
}

/// The lanes of all workers.
pub struct Lanes {
    start: NonNull<Lane>,
    number: usize,
}

impl Lanes {
    /// Maps them.
    pub fn new(number: usize) -> Result<Self> {
        let length = NonZeroUsize::new(number * size_of::<Lane>()).context("no workers")?;
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel chooses the address, so that no existing mapping is replaced.
        let start = unsafe { mmap_anonymous(None, length, prot, MapFlags::MAP_SHARED) };
        Ok(Self {
            start: start.context("mmap")?.cast(),
            number,
        })
    }

    /// What keeps CPUs from going offline.
    pub fn plug(&self) -> &Plug {
        &self[0].plug
    }
}

impl Deref for Lanes {
    type Target = [Lane];

    fn deref(&self) -> &[Lane] {
        // SAFETY: the mapping has room for `number` lanes, is page-aligned, and lives as long as
        // `self`. It began as zeroes, which are a valid `Lane`. All fields are atomic, so that
        // other processes may write them.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.number) }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        // SAFETY: `new` mapped this, and borrows of the lanes have ended.
        let _ = unsafe { munmap(self.start.cast(), self.number * size_of::<Lane>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_message_stays() {
        let lanes = Lanes::new(2).unwrap();
        assert_eq!(lanes[1].message(), None);
        lanes[1].fail("first");
        lanes[1].fail("second");
        assert_eq!(lanes[1].message().as_deref(), Some("first"));
        assert_eq!(lanes[0].message(), None);
        lanes[0].fail(&"x".repeat(2 * MESSAGE));
        assert_eq!(lanes[0].message().map(|text| text.len()), Some(MESSAGE));
    }

    #[test]
    fn one_pulls_the_plug_alone() {
        let (plug, busy) = (Plug::default(), AtomicI32::new(0));
        thread::scope(|scope| {
            for worker in 0..4 {
                let (plug, busy) = (&plug, &busy);
                scope.spawn(move || {
                    for _ in 0..20 {
                        if worker == 0 {
                            let _pulled = plug.pull();
                            assert_eq!(busy.swap(-1, SeqCst), 0);
                            busy.store(0, SeqCst);
                        } else {
                            let _kept = plug.keep();
                            assert!(busy.fetch_add(1, SeqCst) >= 0);
                            busy.fetch_sub(1, SeqCst);
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn what_is_opened_during_a_pull_is_older() {
        let plug = Plug::default();
        let pulled = plug.pull();
        let opened = plug.pulls();
        drop(pulled);
        assert_ne!(plug.pulls(), opened);
        drop(plug.keep());
        assert_eq!(plug.pulls(), opened + 1);
    }

    #[test]
    fn operations_are_counted() {
        let lanes = Lanes::new(1).unwrap();
        lanes[0].count(Kind::Suspend, Duration::from_millis(2), true);
        lanes[0].count(Kind::Suspend, Duration::from_millis(1), false);
        let want = Counted {
            done: 2,
            refused: 1,
            microseconds: 3_000,
        };
        assert_eq!(lanes[0].counted(Kind::Suspend), want);
        assert_eq!(lanes[0].counted(Kind::Open), Counted::default());
        assert_eq!(lanes[0].steps.load(SeqCst), 2);
    }
}
