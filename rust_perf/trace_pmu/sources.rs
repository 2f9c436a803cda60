// SPDX-License-Identifier: GPL-2.0

//! What is traced, while there are events of it.

use super::{
    hit::{
        Migrations,
        PageFaults, //
    },
    kprobe,
    names::{
        Special,
        Traits, //
    },
    uprobe,
    TracePmu, //
};
use crate::{
    perf::{
        self,
        AddedEvent,
        EventList,
        NewEvent,
        RecordBuffers, //
    },
    system::tracepoint::{
        number_of,
        Attached,
        TracePoint, //
    }, //
};
use core::sync::atomic::{
    AtomicBool,
    AtomicUsize,
    Ordering::Relaxed, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What some events trace.
pub(crate) struct Source {
    /// The events that a hit counts for.
    pub(super) list: EventList<TracePmu>,
    /// Events that only some hits count for, see [`Self::insert`].
    pub(super) others: EventList<TracePmu>,
    /// The buffers, which all sources share.
    pub(super) buffers: Arc<RecordBuffers>,
    /// What the record of a hit says that it is of.
    pub(super) number: u32,
    /// What is special about it.
    pub(super) traits: Traits,
    /// Whether an event was bound to a task and a CPU.
    pub(super) has_bound_events: AtomicBool,
    /// Whether the samples of an event contain records.
    pub(super) has_records: AtomicBool,
    /// The number of open events.
    events: AtomicUsize,
}

/// What calls the probes of a [`Source`] until it is dropped.
pub(super) enum Attachment {
    /// A trace point.
    #[expect(dead_code, reason = "dropping them detaches the probes")]
    TracePoint(Attached<Source>),
    /// The trace points of page faults in user mode and in kernel mode.
    #[expect(dead_code, reason = "dropping them detaches the probes")]
    PageFaults([Attached<PageFaults>; 2]),
    /// The trace point of context switches.
    #[expect(dead_code, reason = "dropping them detaches the probes")]
    Migrations(Attached<Migrations>),
    /// A place in the kernel's code.
    #[expect(dead_code, reason = "dropping it unregisters the probe")]
    Kernel(Pin<KBox<kprobe::Probe>>),
    /// A place in a program.
    #[expect(dead_code, reason = "dropping it unregisters the probe")]
    Program(Pin<KBox<uprobe::Probe>>),
}

/// A source that has events.
pub(super) struct Entry {
    /// It is dropped first: no hit uses the source any more after that.
    _attachment: Attachment,
    source: Arc<Source>,
}

/// The sources that have events.
#[derive(Default)]
pub(super) struct Sources {
    entries: KVec<Entry>,
    /// There while there is a source.
    buffers: Option<Arc<RecordBuffers>>,
}

/// Finds a trace point. Fails with `EINVAL` if there is none.
fn find(number: u32) -> Result<TracePoint> {
    TracePoint::find(number).map_err(|error| match error {
        ENOENT => EINVAL,
        error => error,
    })
}

impl Sources {
    /// The source with this number, for one more event, if `allowed` says so. Task context,
    /// may sleep.
    ///
    /// Fails with `EINVAL` if there is no such trace point, with `EEXIST` if there are
    /// several, and with the error of `allowed`.
    pub(super) fn numbered(
        &mut self,
        number: u32,
        event: &NewEvent<'_, TracePmu>,
        allowed: impl FnOnce(&Traits) -> Result,
    ) -> Result<Arc<Source>> {
        let traits = Traits::of(number);
        let mut known = self.entries.iter();
        if let Some(entry) = known.find(|it| it.source.is_numbered(number)) {
            allowed(&traits)?;
            return Ok(entry.source.join());
        }
        match traits.special {
            // Such an event has no number.
            Special::Probe => Err(EINVAL),
            Special::None => {
                let point = find(number)?;
                allowed(&traits)?;
                self.add(number, traits, event, |source| {
                    // Addresses of the kernel are not for every user.
                    let hide_pointers = traits.is_public;
                    Ok(Attachment::TracePoint(Attached::new(
                        point,
                        hide_pointers,
                        source,
                    )?))
                })
            }
            Special::PageFaults => {
                let user = find(number_of(b"page_fault_user"))?;
                let kernel = find(number_of(b"page_fault_kernel"))?;
                allowed(&traits)?;
                self.add(number, traits, event, |source| {
                    let probe = Arc::new(PageFaults(source), GFP_KERNEL)?;
                    let user = Attached::new(user, false, probe.clone())?;
                    let kernel = Attached::new(kernel, false, probe)?;
                    Ok(Attachment::PageFaults([user, kernel]))
                })
            }
            Special::Migrations => {
                let switch = find(number_of(b"sched_switch"))?;
                allowed(&traits)?;
                self.add(number, traits, event, |source| {
                    let probe = Arc::new(Migrations(source), GFP_KERNEL)?;
                    let switch = Attached::new(switch, false, probe)?;
                    Ok(Attachment::Migrations(switch))
                })
            }
        }
    }

    /// Makes a source, for its first event. `attach` attaches its probes.
    fn add(
        &mut self,
        number: u32,
        traits: Traits,
        event: &NewEvent<'_, TracePmu>,
        attach: impl FnOnce(Arc<Source>) -> Result<Attachment>,
    ) -> Result<Arc<Source>> {
        self.reserve()?;
        let entry = Entry::new(number, traits, event, self.buffers()?, attach)?;
        self.insert(entry)
    }

    /// The buffers of all sources, or new ones if there is no source.
    pub(super) fn buffers(&self) -> Result<Arc<RecordBuffers>> {
        match &self.buffers {
            Some(buffers) => Ok(buffers.clone()),
            None => Ok(Arc::new(RecordBuffers::new()?, GFP_KERNEL)?),
        }
    }

    /// Makes room for one more source, so that [`Self::insert`] does not fail.
    pub(super) fn reserve(&mut self) -> Result {
        Ok(self.entries.reserve(1, GFP_KERNEL)?)
    }

    /// Adds a source that has its first event.
    pub(super) fn insert(&mut self, entry: Entry) -> Result<Arc<Source>> {
        let source = entry.source.clone();
        self.entries.push(entry, GFP_KERNEL)?;
        if self.buffers.is_none() {
            self.buffers = Some(source.buffers.clone());
        }
        Ok(source)
    }

    /// Counts one event less. After the last, it returns the source's entry: dropping it
    /// detaches the probes, and waits until no hit of them is left. Task context, may sleep.
    pub(super) fn release_last(&mut self, source: &Arc<Source>) -> Option<Entry> {
        if source.events.fetch_sub(1, Relaxed) > 1 {
            return None;
        }
        let mut entries = self.entries.iter();
        let i = entries.position(|it| Arc::ptr_eq(&it.source, source))?;
        let entry = self.entries.remove(i).ok();
        if self.entries.is_empty() {
            self.buffers = None;
        }
        entry
    }
}

impl Entry {
    /// Makes a source, and attaches its probes with `attach`.
    pub(super) fn new(
        number: u32,
        traits: Traits,
        event: &NewEvent<'_, TracePmu>,
        buffers: Arc<RecordBuffers>,
        attach: impl FnOnce(Arc<Source>) -> Result<Attachment>,
    ) -> Result<Self> {
        let source = Arc::new(
            Source {
                list: EventList::new(event)?,
                others: EventList::new(event)?,
                buffers,
                number,
                traits,
                has_bound_events: AtomicBool::new(false),
                has_records: AtomicBool::new(false),
                events: AtomicUsize::new(1),
            },
            GFP_KERNEL,
        )?;
        Ok(Entry {
            _attachment: attach(source.clone())?,
            source,
        })
    }
}

impl Source {
    /// Counts one more event of a source that has one.
    pub(super) fn join(self: &Arc<Self>) -> Arc<Self> {
        self.events.fetch_add(1, Relaxed);
        self.clone()
    }

    /// Counts one event less, unless it is the last. perf closes inherited events with the
    /// lock of their context held. This spares nearly all of them the lock of the sources.
    pub(super) fn leave(&self) -> bool {
        let one_less = |events: usize| (events > 1).then(|| events - 1);
        self.events.fetch_update(Relaxed, Relaxed, one_less).is_ok()
    }

    fn is_numbered(&self, number: u32) -> bool {
        self.number == number && self.traits.special != Special::Probe
    }

    /// Puts an event on the list that it belongs to.
    pub(super) fn insert(&self, event: &AddedEvent<'_, TracePmu>) -> Result {
        let is_other = match self.traits.special {
            Special::None | Special::Probe => false,
            Special::PageFaults => event.attr().exclude_user(),
            // When the switch is traced, the events of the previous task's cgroup are on this CPU.
            Special::Migrations if event.is_of_cgroup() => return Err(perf::not_supported()),
            Special::Migrations => event.is_of_task(),
        };
        event.insert_into(if is_other { &self.others } else { &self.list })
    }
}
