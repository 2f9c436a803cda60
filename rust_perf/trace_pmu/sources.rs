// SPDX-License-Identifier: GPL-2.0

//! What is traced, while there are events of it.

use super::{
    kprobe,
    names::Traits,
    uprobe,
    TracePmu, //
};
use crate::{
    perf::{
        EventList,
        RecordBuffers, //
    },
    system::tracepoint::{
        self,
        Attached,
        TracePoint, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What some events trace.
pub(crate) struct Source {
    /// The events.
    pub(super) list: EventList<TracePmu>,
    /// The buffers, which all sources share.
    pub(super) buffers: Arc<RecordBuffers>,
    /// What the record of a hit says that it is of.
    pub(super) number: u32,
    /// What is special about it.
    pub(super) traits: Traits,
}

/// What calls the probe of a [`Source`] until it is dropped.
pub(super) enum Attachment {
    /// A trace point.
    TracePoint(#[expect(dead_code, reason = "dropping it detaches the probe")] Attached<Source>),
    /// A place in the kernel's code.
    Kernel(
        #[expect(dead_code, reason = "dropping it unregisters the probe")] Pin<KBox<kprobe::Probe>>,
    ),
    /// A place in a program.
    Program(Pin<KBox<uprobe::Probe>>),
}

/// A source that has events.
pub(super) struct Entry {
    /// It is dropped first: no hit uses the source any more after that.
    attachment: Attachment,
    source: Arc<Source>,
    events: usize,
}

/// The sources that have events.
#[derive(Default)]
pub(super) struct Sources {
    entries: KVec<Entry>,
    /// There while there is a source.
    buffers: Option<Arc<RecordBuffers>>,
}

/// Finds what the module needs of the kernel. Task context, may sleep.
pub(super) fn init() -> Result {
    tracepoint::init().inspect_err(|_| pr_err!("btf_put() cannot be found with kprobes\n"))
}

impl Sources {
    /// The source that is the trace point with this number, for one more event, if
    /// `allowed` says so. Task context, may sleep.
    ///
    /// Fails with `EINVAL` if there is no such trace point, with `EEXIST` if there are
    /// several, and with the error of `allowed`.
    pub(super) fn trace_point(
        &mut self,
        number: u32,
        allowed: impl FnOnce(&Traits) -> Result,
    ) -> Result<Arc<Source>> {
        let traits = Traits::of(number);
        let known = self.entries.iter().find(|it| it.is_point(number));
        if let Some(entry) = known {
            allowed(&traits)?;
            let source = entry.source.clone();
            return Ok(self.join(source));
        }
        let point = TracePoint::find(number).map_err(|error| match error {
            ENOENT => EINVAL,
            error => error,
        })?;
        allowed(&traits)?;
        self.add(number, traits, |source| {
            // Addresses of the kernel are not for every user.
            let hide_pointers = traits.is_public;
            let attached = Attached::new(point, hide_pointers, source)?;
            Ok(Attachment::TracePoint(attached))
        })
    }

    /// Makes a source, for its first event. `attach` attaches its probe.
    pub(super) fn add(
        &mut self,
        number: u32,
        traits: Traits,
        attach: impl FnOnce(Arc<Source>) -> Result<Attachment>,
    ) -> Result<Arc<Source>> {
        self.entries.reserve(1, GFP_KERNEL)?;
        let buffers = match &self.buffers {
            Some(buffers) => buffers.clone(),
            None => Arc::new(RecordBuffers::new()?, GFP_KERNEL)?,
        };
        let source = Arc::new(
            Source {
                list: EventList::new()?,
                buffers: buffers.clone(),
                number,
                traits,
            },
            GFP_KERNEL,
        )?;
        let entry = Entry {
            attachment: attach(source.clone())?,
            source: source.clone(),
            events: 1,
        };
        self.entries.push(entry, GFP_KERNEL)?;
        self.buffers = Some(buffers);
        Ok(source)
    }

    /// Counts one more event of a source.
    pub(super) fn join(&mut self, source: Arc<Source>) -> Arc<Source> {
        if let Some(entry) = self.entry(&source) {
            entry.events += 1;
        }
        source
    }

    /// Counts one event less. After the last, it returns the source's entry: dropping it
    /// detaches the probe, and waits until no hit of it is left.
    pub(super) fn release(&mut self, source: &Arc<Source>) -> Option<Entry> {
        let i = self
            .entries
            .iter()
            .position(|it| Arc::ptr_eq(&it.source, source))?;
        let entry = &mut self.entries[i];
        entry.events -= 1;
        if entry.events > 0 {
            return None;
        }
        let entry = self.entries.remove(i).ok();
        if self.entries.is_empty() {
            self.buffers = None;
        }
        entry
    }

    /// What calls the probe of a source.
    pub(super) fn attachment(&mut self, source: &Arc<Source>) -> Option<&Attachment> {
        self.entry(source).map(|entry| &entry.attachment)
    }

    fn entry(&mut self, source: &Arc<Source>) -> Option<&mut Entry> {
        self.entries
            .iter_mut()
            .find(|it| Arc::ptr_eq(&it.source, source))
    }
}

impl Entry {
    fn is_point(&self, number: u32) -> bool {
        matches!(self.attachment, Attachment::TracePoint(_)) && self.source.number == number
    }
}
