// SPDX-License-Identifier: GPL-2.0

//! From the cause of software events to their counts and samples.
//!
//! `perf_tp_event()` counts for the events of a list, ends their periods, and writes
//! their samples. It wants a record, which samples with `PERF_SAMPLE_RAW` contain, and
//! registers. There is a buffer for both in each CPU and context, because an interrupt
//! or an NMI may cause events while a task or another interrupt does.
//!
//! Nothing here that takes a [`PreemptDisabled`] allocates, locks, sleeps, prints or
//! panics, nor does anything of a [`Recording`].

use super::list::{
    EventsHere,
    Head, //
};
use crate::{
    bindings,
    system::{
        irq::{
            PreemptDisabled,
            Regs, //
        },
        percpu::CpuData, //
    }, //
};
use core::{
    cell::UnsafeCell,
    mem::{
        offset_of,
        ManuallyDrop, //
    },
    ptr, //
};
use kernel::{
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*, //
};

/// Tasks, softirqs, interrupts and NMIs: perf's recursion contexts.
const CONTEXTS: usize = 4;

/// The largest number of words in a record.
pub const MAX_WORDS: usize = 16;

/// A record. All fields are in the byte order of the CPU.
///
/// perf fills in the first eight bytes. It is those that all records of the kernel's own
/// trace events begin with.
#[repr(C)]
struct Record {
    /// 0.
    type_: u16,
    /// The interrupt state, `TRACE_FLAG_*`.
    flags: u8,
    preempt_count: u8,
    pid: i32,
    /// Which cause it is.
    number: u32,
    /// How many words follow.
    len: u32,
    /// The words, and then 0 for four bytes.
    words: [u64; MAX_WORDS + 1],
}

impl Record {
    /// The bytes of a record. Together with the four bytes that perf puts before it, it fills
    /// words.
    fn size(&self) -> usize {
        offset_of!(Record, words) + 8 * self.len as usize + 4
    }
}

/// A record, and the registers of the code that has caused it.
struct Buffer {
    record: Record,
    regs: bindings::pt_regs,
}

/// A [`Buffer`] for each context.
struct Buffers([UnsafeCell<Buffer>; CONTEXTS]);

// SAFETY: Only the CPU that they belong to accesses them, each in its own context.
unsafe impl Sync for Buffers {}

/// The buffers of all CPUs.
pub struct RecordBuffers(CpuData<Buffers>);

impl RecordBuffers {
    /// Allocates them. Task context, may sleep.
    pub fn new() -> Result<Self> {
        let buffer = || {
            UnsafeCell::new(Buffer {
                record: Record {
                    type_: 0,
                    flags: 0,
                    preempt_count: 0,
                    pid: 0,
                    number: 0,
                    len: 0,
                    words: [0; MAX_WORDS + 1],
                },
                regs: bindings::pt_regs::default(),
            })
        };
        let buffers = || Buffers([buffer(), buffer(), buffer(), buffer()]);
        Ok(RecordBuffers(CpuData::new(buffers)?))
    }

    /// Begins to record something. `None` if this context of this task records something
    /// already: then this is something that recording itself has caused. Any context.
    pub fn enter<'a>(&'a self, preempt: PreemptDisabled<'a>) -> Option<Recording<'a>> {
        let buffers = self.0.this(preempt);
        // SAFETY: Preemption is disabled, so that the task stays on this CPU.
        let context = unsafe { bindings::perf_swevent_get_recursion_context() };
        let buffer = usize::try_from(context)
            .ok()
            .and_then(|context| buffers.0.get(context))?;
        Some(Recording {
            context,
            // SAFETY: Nobody else in this context of this CPU has the buffer: the task has entered
            // the context just now, and no other task can run before it leaves it. What interrupts
            // this is in another context.
            buffer: unsafe { &mut *buffer.get() },
        })
    }
}

/// Something that is being recorded. If it is dropped, it is not counted.
///
/// # Invariants
///
/// The task is in perf's recursion context `context`.
pub struct Recording<'a> {
    context: c_int,
    buffer: &'a mut Buffer,
}

impl Recording<'_> {
    /// Sets the record, to at most [`MAX_WORDS`] words.
    pub fn set(&mut self, number: u32, words: impl Iterator<Item = u64>) {
        let record = &mut self.buffer.record;
        record.number = number;
        let mut len = 0;
        for (to, word) in record.words.iter_mut().take(MAX_WORDS).zip(words) {
            *to = word;
            len += 1;
        }
        record.len = len;
        if let Some(end) = record.words.get_mut(len as usize) {
            *end = 0;
        }
    }

    /// Counts it `count` times for `events`. The sampled registers are
    /// those of a caller of this function: its instruction and stack pointers.
    pub fn deliver(self, events: EventsHere<'_>, count: u64, (ip, sp): (usize, usize)) {
        let mut this = ManuallyDrop::new(self);
        let regs = &raw mut this.buffer.regs;
        // SAFETY: `regs` is valid. What the function does not set was 0 from the beginning.
        unsafe { bindings::rust_perf_caller_regs(regs, ip, sp) };
        // SAFETY: `this` is not used any more, and `regs` is initialised.
        unsafe { this.submit(events.0, count, regs) };
    }

    /// As [`Self::deliver`], with the registers of code that has been interrupted.
    pub fn deliver_at(self, events: EventsHere<'_>, count: u64, regs: Regs<'_>) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used any more, and `regs` is initialised.
        unsafe { this.submit(events.0, count, regs.as_ptr()) };
    }

    /// Counts for the events of a list, and leaves the context.
    ///
    /// # Safety
    ///
    /// `self` must not be used after this, and `regs` must be initialised.
    unsafe fn submit(&mut self, head: &Head, count: u64, regs: *mut bindings::pt_regs) {
        let record = &mut self.buffer.record;
        let size = record.size() as c_int;
        // SAFETY: Preemption is disabled. The record has that size, and `regs` is initialised. The
        // nodes on the list are those of events, which are freed after an RCU grace period. By the
        // type invariant the task is in the context, which the function leaves.
        unsafe {
            bindings::perf_tp_event(
                0,
                count,
                (&raw mut *record).cast::<c_void>(),
                size,
                regs,
                head.as_raw(),
                self.context,
                ptr::null_mut(),
            )
        };
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        let regs = &raw mut self.buffer.regs;
        // SAFETY: This is the end of `self`. The registers were 0 from the beginning.
        unsafe { self.submit(&Head::new(), 0, regs) };
    }
}
