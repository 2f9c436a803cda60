// SPDX-License-Identifier: GPL-2.0

//! Events of probes. A probe is made with its event, and is gone with it and those that
//! are inherited from it.

use super::{
    kprobe,
    names::Traits,
    sources::Attachment,
    uprobe,
    Source,
    TracePmu, //
};
use crate::{
    perf::{
        self,
        NewEvent, //
    },
    system::irq::{
        PreemptDisabled,
        Regs, //
    }, //
};
use core::sync::atomic::Ordering::Relaxed;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The number in the record of a probe's hit: `kind`, and this bit for a return.
const RETURN: u32 = 4;

/// The number of a kind of probe.
const fn number(kind: u32, returns: bool) -> u32 {
    kind | if returns { RETURN } else { 0 }
}

impl TracePmu {
    /// Opens an event of a place in the kernel's code. Task context, may sleep.
    pub(super) fn open_kprobe(
        &self,
        event: &NewEvent<'_, Self>,
        returns: bool,
    ) -> Result<Arc<Source>> {
        let attr = event.attr();
        let [_, _, rest @ ..] = attr.extended_config();
        if rest != [0, 0] {
            return Err(EINVAL);
        }
        let place = kprobe::place(attr)?;
        if attr.wants_raw() {
            perf::allow_tracepoint()?;
        }
        let number = number(1, returns);
        let mut sources = self.sources.lock();
        sources.add(number, Traits::PROBE, event, |source| {
            let probe = kprobe::attach(self.symbols, place, returns, source)?;
            Ok(Attachment::Kernel(probe))
        })
    }

    /// Opens an event of a place in a program. Task context, may sleep.
    pub(super) fn open_uprobe(
        &self,
        event: &NewEvent<'_, Self>,
        returns: bool,
        by: uprobe::By,
        ref_ctr_offset: u64,
    ) -> Result<Arc<Source>> {
        let attr = event.attr();
        let [_, _, rest @ ..] = attr.extended_config();
        if rest != [0, 0] {
            return Err(EINVAL);
        }
        let place = uprobe::place(attr, by, ref_ctr_offset)?;
        if attr.wants_raw() && !event.is_of_task() {
            perf::allow_tracepoint()?;
        }
        // perf swaps the events of tasks that have inherited the same ones, so that the tasks that
        // run with them are not those that they were opened for.
        let task = event.task().filter(|_| !attr.is_inherited());
        // A program that its task executes maps its file anew.
        let at_once = !(event.is_of_task() && attr.is_enabled_on_exec());
        let number = number(2, returns);
        let mut sources = self.sources.lock();
        sources.add(number, Traits::PROBE, event, |source| {
            let probe = uprobe::attach(place, returns, task, at_once, source)?;
            Ok(Attachment::Program(probe))
        })
    }
}

impl Source {
    /// Counts a hit of a probe. `words` makes its record. Any context; see `hit.rs`.
    pub(super) fn count_at<const N: usize>(
        &self,
        preempt: PreemptDisabled<'_>,
        regs: Regs<'_>,
        words: impl FnOnce() -> [u64; N],
    ) {
        let Some(events) = self.list.here(preempt) else {
            return;
        };
        let Some(mut recording) = self.buffers.enter(preempt) else {
            return;
        };
        if self.has_records.load(Relaxed) {
            recording.set(self.number, words().into_iter());
        }
        recording.deliver_at(events, 1, regs);
    }
}
