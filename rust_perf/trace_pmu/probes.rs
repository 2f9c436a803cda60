// SPDX-License-Identifier: GPL-2.0

//! Events of probes. A probe is made with its event, and is gone with it and those that
//! are inherited from it.

use super::{
    kprobe,
    names::Traits,
    sources::{
        Attachment,
        Entry, //
    },
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
    },
    x86::REGISTER_ARGUMENTS, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What hits a probe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// The execution of the place. Records have the first `args` arguments of a function,
    /// if one begins there.
    Place { args: usize },
    /// The return from the function that begins at the place.
    Return,
}

impl At {
    /// Decodes the fields `ret` and `args`. Fails with `EINVAL` if they do not go together.
    pub(super) fn new(returns: bool, args: usize) -> Result<Self> {
        match (returns, args) {
            (false, 0..=REGISTER_ARGUMENTS) => Ok(At::Place { args }),
            (true, 0) => Ok(At::Return),
            _ => Err(EINVAL),
        }
    }

    /// Whether this is [`Self::Return`].
    pub(super) fn is_return(self) -> bool {
        self == At::Return
    }

    /// How many arguments records have.
    pub(super) fn args(self) -> usize {
        match self {
            At::Place { args } => args,
            At::Return => 0,
        }
    }

    /// The number in records of probes of the kernel (1) and of programs (2).
    fn number(self, kind: u32) -> u32 {
        const RETURN: u32 = 4;
        match self {
            At::Place { .. } => kind,
            At::Return => kind | RETURN,
        }
    }
}

impl TracePmu {
    /// Opens an event of a place in the kernel's code. Task context, may sleep.
    pub(super) fn open_kprobe(&self, event: &NewEvent<'_, Self>, at: At) -> Result<Arc<Source>> {
        let attr = event.attr();
        let [_, _, rest @ ..] = attr.extended_config();
        if rest != [0, 0] {
            return Err(EINVAL);
        }
        let place = kprobe::place(attr)?;
        if attr.wants_raw() {
            perf::allow_tracepoint()?;
        }
        self.add_probe(at.number(1), event, |source| {
            let probe = kprobe::attach(self.symbols, place, at, source)?;
            Ok(Attachment::Kernel(probe))
        })
    }

    /// Opens an event of a place in a program. Task context, may sleep.
    pub(super) fn open_uprobe(
        &self,
        event: &NewEvent<'_, Self>,
        at: At,
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
        self.add_probe(at.number(2), event, |source| {
            let probe = uprobe::attach(place, at, task, at_once, source)?;
            Ok(Attachment::Program(probe))
        })
    }

    /// Makes the source of an event's own probe.
    ///
    /// `attach` takes the locks of address spaces. perf may hold one of these where it
    /// destroys an event, which takes the lock of the sources. So that is not held here.
    fn add_probe(
        &self,
        number: u32,
        event: &NewEvent<'_, Self>,
        attach: impl FnOnce(Arc<Source>) -> Result<Attachment>,
    ) -> Result<Arc<Source>> {
        let buffers = self.sources.lock().buffers()?;
        // If adding it fails, this is dropped after the lock is released.
        let entry = Entry::new(number, Traits::PROBE, event, buffers, attach)?;
        let mut sources = self.sources.lock();
        sources.reserve()?;
        sources.insert(entry)
    }
}

impl Source {
    /// A probe at `address` was hit. Its record has `args` arguments. Any context; see
    /// `hit.rs`.
    pub(super) fn count_place(
        &self,
        preempt: PreemptDisabled<'_>,
        regs: Regs<'_>,
        address: u64,
        args: usize,
    ) {
        self.record(
            &self.list,
            preempt,
            || {
                let [a, b, c, d, e, f] = regs.arguments();
                [address, a, b, c, d, e, f]
                    .into_iter()
                    .take(args.saturating_add(1))
            },
            |recording, events| recording.deliver_at(events, 1, regs),
        );
    }

    /// The function with a probe at `address` has returned to `to`. Any context; see
    /// `hit.rs`.
    pub(super) fn count_return(
        &self,
        preempt: PreemptDisabled<'_>,
        regs: Regs<'_>,
        address: u64,
        to: u64,
    ) {
        self.record(
            &self.list,
            preempt,
            || [address, to, regs.return_value()].into_iter(),
            |recording, events| recording.deliver_at(events, 1, regs),
        );
    }
}
