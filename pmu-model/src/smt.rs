// SPDX-License-Identifier: GPL-2.0

//! What the threads of a core share.
//!
//! On some processors that is the registers that hold a part of an event, see [`crate::event`].
//! On others the counters disturb each other.
//!
//! While a thread of a Sandy Bridge, Ivy Bridge or Haswell core counts an event with the event
//! select D0H to D3H, the general-purpose counter of the same number of the other thread may
//! count wrongly (errata BJ122, BV98 and HSD29 in Intel's specification updates: "Performance
//! Monitor Counters May Produce Incorrect Results"). Here it always does: a counter that has run
//! at the same time, however short, has an error of 2 to the power of its width minus 8 in its
//! value.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use serde::{Deserialize, Serialize};

use crate::processor::MAX_MODEL_MSRS;

/// What the threads of a core share, and know of each other's counters. Their PMUs may be used
/// by several threads of the host at once.
#[derive(Debug)]
pub struct SmtCore {
    threads: Vec<Thread>,
    /// The registers, by their indices in the table of processors.
    msrs: [AtomicU64; MAX_MODEL_MSRS],
}

/// Bitmaps of general-purpose counters.
#[derive(Debug, Default)]
struct Thread {
    counting: AtomicU64,
    /// Those of them with events that disturb the other threads.
    disturbing: AtomicU64,
    /// Those that another thread has disturbed since [`SmtCore::take_disturbed`].
    disturbed: AtomicU64,
}

/// The counters of a thread that count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counting {
    pub(crate) all: u64,
    pub(crate) disturbing: u64,
}

/// What a thread remembers of the others, and what the core does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedThread {
    threads: usize,
    disturbed: u64,
    msrs: [u64; MAX_MODEL_MSRS],
}

impl SavedThread {
    /// The number of threads of the core.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// The counters that another thread has disturbed, which the thread has not seen yet.
    pub(crate) fn disturbed(&self) -> u64 {
        self.disturbed
    }

    /// The registers that the threads share.
    pub(crate) fn msrs(&self) -> &[u64; MAX_MODEL_MSRS] {
        &self.msrs
    }
}

impl SmtCore {
    /// A core with so many threads.
    pub fn new(threads: usize) -> SmtCore {
        SmtCore {
            threads: (0..threads).map(|_| Thread::default()).collect(),
            msrs: Default::default(),
        }
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// From now on these counters of a thread count.
    ///
    /// Of two threads that begin at the same time one sees the other, because both write before
    /// they read.
    pub(crate) fn set_counting(&self, thread: usize, counting: Counting) {
        let own = &self.threads[thread];
        own.counting.store(counting.all, SeqCst);
        own.disturbing.store(counting.disturbing, SeqCst);
        let others = self.threads.iter().enumerate();
        for (_, other) in others.filter(|(i, _)| *i != thread) {
            let theirs = counting.disturbing & other.counting.load(SeqCst);
            other.disturbed.fetch_or(theirs, SeqCst);
            let ours = counting.all & other.disturbing.load(SeqCst);
            own.disturbed.fetch_or(ours, SeqCst);
        }
    }

    /// Returns what [`SmtCore::restore`] restores of a thread.
    pub(crate) fn save(&self, thread: usize) -> SavedThread {
        // Every field is named, as in Pmu::save().
        let SmtCore { threads, msrs } = self;
        let Thread {
            counting: _,
            disturbing: _,
            disturbed,
        } = &threads[thread];
        SavedThread {
            threads: threads.len(),
            disturbed: disturbed.load(SeqCst),
            msrs: msrs.each_ref().map(|msr| msr.load(SeqCst)),
        }
    }

    /// Restores a thread of a core of which all threads are restored: its counters disturb no
    /// others, because the others' states say whether they did.
    pub(crate) fn restore(&self, thread: usize, counting: Counting, saved: &SavedThread) {
        let own = &self.threads[thread];
        own.counting.store(counting.all, SeqCst);
        own.disturbing.store(counting.disturbing, SeqCst);
        own.disturbed.store(saved.disturbed, SeqCst);
        let msrs = saved.msrs.iter().enumerate();
        msrs.for_each(|(i, value)| self.set_msr(i, *value));
    }

    /// A thread has no counters any more.
    pub(crate) fn leave(&self, thread: usize) {
        self.set_counting(thread, Counting::default());
        self.take_disturbed(thread);
    }

    /// A register that the threads share.
    pub(crate) fn msr(&self, index: usize) -> u64 {
        self.msrs[index].load(SeqCst)
    }

    /// Sets a register that the threads share.
    pub(crate) fn set_msr(&self, index: usize, value: u64) {
        self.msrs[index].store(value, SeqCst);
    }

    /// Takes the counters of a thread that have been disturbed.
    pub(crate) fn take_disturbed(&self, thread: usize) -> u64 {
        self.threads[thread].disturbed.swap(0, SeqCst)
    }
}
