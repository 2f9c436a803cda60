// SPDX-License-Identifier: GPL-2.0

//! Events and what their users asked for.

use crate::bindings;
use core::{
    ptr::addr_of_mut,
    sync::atomic::{
        AtomicI64,
        Ordering::Relaxed, //
    }, //
};
use kernel::{
    ffi::c_int,
    prelude::*,
    types::Opaque, //
};

/// An event that perf has opened on a PMU of ours.
///
/// # Invariants
///
/// Wraps a `struct perf_event` that is initialised and whose PMU is one that
/// [`Registration`](super::Registration) registered.
#[repr(transparent)]
pub(crate) struct Event(Opaque<bindings::perf_event>);

// SAFETY: What is reached through a shared reference is either constant while the event is open
// or accessed as single words, which is what perf itself does across CPUs.
unsafe impl Sync for Event {}

impl Event {
    /// Makes a reference to an event of one that C passed to us.
    ///
    /// # Safety
    ///
    /// `ptr` must be an initialised event of a PMU of ours, and stay so for `'a`.
    pub(super) unsafe fn from_raw<'a>(ptr: *mut bindings::perf_event) -> &'a Self {
        // SAFETY: `Event` is a transparent wrapper of the type, which the caller vouches for.
        unsafe { &*ptr.cast() }
    }

    pub(super) fn as_raw(&self) -> *mut bindings::perf_event {
        self.0.get()
    }

    fn hw(&self) -> *mut bindings::hw_perf_event {
        // SAFETY: By the type invariant this is within an allocated `perf_event`.
        unsafe { addr_of_mut!((*self.as_raw()).hw) }
    }

    /// What the user asked for.
    pub(crate) fn attr(&self) -> &Attr {
        // SAFETY: `attr` is initialised before the event gets to its PMU, and part of it.
        unsafe { &*addr_of_mut!((*self.as_raw()).attr).cast() }
    }

    /// Whether the event takes samples, rather than being only counted.
    pub(crate) fn is_sampling(&self) -> bool {
        self.attr().frequency() != 0
    }

    /// A word of the driver's, set by [`NewEvent::set_config`].
    pub(crate) fn config(&self) -> u64 {
        // SAFETY: The hardware variant of the union is that of every PMU driver; the word is
        // written only while the event is being opened.
        unsafe { (*self.hw()).__bindgen_anon_1.__bindgen_anon_1.config }
    }

    /// Where on its CPU the driver has put the event; meaningful between add and del.
    pub(crate) fn index(&self) -> Option<usize> {
        // SAFETY: As for `config`; a word that the event's CPU writes, and others may read.
        let idx = unsafe {
            addr_of_mut!((*self.hw()).__bindgen_anon_1.__bindgen_anon_1.idx).read_volatile()
        };
        usize::try_from(idx).ok()
    }

    pub(super) fn set_index(&self, index: Option<usize>) {
        let idx = index.map_or(-1, |index| index as i32);
        // SAFETY: As for `index`.
        unsafe {
            addr_of_mut!((*self.hw()).__bindgen_anon_1.__bindgen_anon_1.idx).write_volatile(idx)
        }
    }

    /// Whether the event is stopped (`PERF_HES_STOPPED`).
    pub(crate) fn is_stopped(&self) -> bool {
        self.state() & bindings::PERF_HES_STOPPED != 0
    }

    /// Whether the event's count is that of the hardware (`PERF_HES_UPTODATE`).
    pub(crate) fn is_up_to_date(&self) -> bool {
        self.state() & bindings::PERF_HES_UPTODATE != 0
    }

    /// Marks the event as running.
    pub(crate) fn set_running(&self) {
        self.set_state(0);
    }

    /// Marks the event as stopped.
    pub(crate) fn set_stopped(&self) {
        self.set_state(self.state() | bindings::PERF_HES_STOPPED);
    }

    /// Marks the event's count as that of the hardware.
    pub(crate) fn set_up_to_date(&self) {
        self.set_state(self.state() | bindings::PERF_HES_UPTODATE);
    }

    fn state(&self) -> u32 {
        // SAFETY: A word of the event's CPU; an NMI in between leaves it consistent.
        unsafe { addr_of_mut!((*self.hw()).state).read_volatile() as u32 }
    }

    fn set_state(&self, state: u32) {
        // SAFETY: As for `state`.
        unsafe { addr_of_mut!((*self.hw()).state).write_volatile(state as i32) }
    }

    /// The number of events so far.
    pub(crate) fn count(&self) -> &AtomicI64 {
        // SAFETY: `local64_t` is an `i64` that perf, too, only accesses atomically; atomic towards
        // NMIs on this CPU is all that it has to be.
        unsafe { AtomicI64::from_ptr(addr_of_mut!((*self.as_raw()).count).cast()) }
    }

    /// The hardware counter's value up to which [`Self::count`] has it.
    pub(crate) fn prev_count(&self) -> &AtomicI64 {
        // SAFETY: As for `count`.
        unsafe { AtomicI64::from_ptr(addr_of_mut!((*self.hw()).prev_count).cast()) }
    }

    /// The number of events left until the next sample; a sample is due once
    /// it is 0 or less.
    pub(crate) fn period_left(&self) -> &AtomicI64 {
        // SAFETY: As for `count`; of the union, all but top-down events have this variant.
        unsafe {
            AtomicI64::from_ptr(
                addr_of_mut!((*self.hw()).__bindgen_anon_2.__bindgen_anon_1.period_left).cast(),
            )
        }
    }

    /// The number of events between samples, from the next one on.
    pub(crate) fn period(&self) -> u64 {
        // SAFETY: perf changes the word on the event's CPU, with IRQs disabled or in an NMI.
        unsafe { addr_of_mut!((*self.hw()).sample_period).read_volatile() }
    }

    /// The period that the next sample will end.
    pub(crate) fn last_period(&self) -> u64 {
        // SAFETY: As for `period`; for the variant see `period_left`.
        unsafe {
            addr_of_mut!((*self.hw()).__bindgen_anon_2.__bindgen_anon_1.last_period).read_volatile()
        }
    }

    /// Sets the period that the next sample will end.
    pub(crate) fn set_last_period(&self, period: u64) {
        // SAFETY: As for `last_period`.
        unsafe {
            addr_of_mut!((*self.hw()).__bindgen_anon_2.__bindgen_anon_1.last_period)
                .write_volatile(period)
        }
    }

    /// Whether user mode may read the event's counter by itself.
    pub(crate) fn is_user_readable(&self) -> bool {
        self.flags() & bindings::PERF_EVENT_FLAG_USER_READ_CNT != 0
    }

    /// Lets user mode read the event's counter by itself, from now on.
    ///
    /// perf counts the events of a context that have this when they join it,
    /// which on x86 nothing uses: so it may be set later, when it is known.
    pub(crate) fn set_user_readable(&self) {
        let flags = self.flags() | bindings::PERF_EVENT_FLAG_USER_READ_CNT;
        // SAFETY: As in `flags`; it is the only one that is ever written, hence as good as atomic.
        unsafe {
            addr_of_mut!((*self.hw()).__bindgen_anon_1.__bindgen_anon_1.flags)
                .write_volatile(flags as c_int)
        }
    }

    fn flags(&self) -> u32 {
        // SAFETY: As for `config`; perf reads the word in any context.
        unsafe {
            addr_of_mut!((*self.hw()).__bindgen_anon_1.__bindgen_anon_1.flags).read_volatile()
                as u32
        }
    }

    /// Brings the page that the event's user may have mapped up to date.
    pub(crate) fn update_userpage(&self) {
        // SAFETY: The event is initialised; the function may be called in any context.
        unsafe { bindings::perf_event_update_userpage(self.as_raw()) }
    }
}

/// An event that is being opened. If it is to join a group, perf holds the
/// context mutex of the group's leader.
pub(crate) struct NewEvent<'a>(&'a Event);

impl<'a> NewEvent<'a> {
    /// # Safety
    ///
    /// Must be called for the duration of the PMU's `event_init` only.
    pub(super) unsafe fn new(event: &'a Event) -> Self {
        NewEvent(event)
    }

    /// What the user asks for.
    pub(crate) fn attr(&self) -> &Attr {
        self.0.attr()
    }

    /// Whether the event takes samples.
    pub(crate) fn is_sampling(&self) -> bool {
        self.0.is_sampling()
    }

    /// Sets the driver's word, see [`Event::config`].
    pub(crate) fn set_config(&self, config: u64) {
        // SAFETY: The event is being opened: nothing else accesses it yet.
        unsafe { (*self.0.hw()).__bindgen_anon_1.__bindgen_anon_1.config = config }
    }

    /// Sets the number of events until the first overflow, and between
    /// overflows until perf changes it.
    pub(crate) fn set_period(&self, period: u64) {
        // SAFETY: As for `set_config`.
        unsafe { (*self.0.hw()).sample_period = period }
        self.0.set_last_period(period);
        self.0.period_left().store(period as i64, Relaxed);
    }

    /// Calls `f` for each event of the group that is to be joined which is on
    /// this PMU and could be scheduled: its leader and members that are not
    /// disabled. Stops at the first error.
    pub(crate) fn for_each_in_group(&self, mut f: impl FnMut(&Event) -> Result) -> Result {
        let event = self.0.as_raw();
        // SAFETY: `group_leader` is the event itself or one that perf has a reference to.
        let leader = unsafe { (*event).group_leader };
        if leader == event {
            return Ok(());
        }
        let mut visit = |sibling: *mut bindings::perf_event| -> Result {
            // SAFETY: perf holds the leader's context mutex, so that the group, and the PMU of
            // each of its events, stay as they are.
            if unsafe { (*sibling).pmu != (*event).pmu } {
                return Ok(());
            }
            // SAFETY: Just found to be of the same PMU, which is ours.
            f(unsafe { Event::from_raw(sibling) })
        };
        visit(leader)?;

        // SAFETY: As above, the list is stable; its head is in the leader.
        let head = unsafe { addr_of_mut!((*leader).sibling_list) };
        // SAFETY: As above.
        let mut node = unsafe { (*head).next };
        while node != head {
            // SAFETY: The list links events by `sibling_list`.
            let sibling =
                unsafe { kernel::container_of!(node, bindings::perf_event, sibling_list) };
            // SAFETY: As above; the state is read as perf does, as one word.
            let state = unsafe { addr_of_mut!((*sibling).state).read_volatile() };
            if state > bindings::perf_event_state_PERF_EVENT_STATE_OFF {
                visit(sibling)?;
            }
            // SAFETY: As above.
            node = unsafe { (*node).next };
        }
        Ok(())
    }
}

/// Which event of a PMU.
pub(crate) enum Selector {
    /// One of the PMU's own; what the number means is up to that.
    Config(u64),
    /// A generic one, `PERF_COUNT_HW_*`.
    Hardware(u64),
    /// A generic one of caches: `PERF_COUNT_HW_CACHE_*` for which, what and how
    /// it ended, a byte each.
    HwCache(u64),
}

/// What the user of an event asked for (`struct perf_event_attr`).
///
/// # Invariants
///
/// Initialised. Of the fields that are read here, perf changes but the sample
/// period or frequency while the event is open, as one word.
#[repr(transparent)]
pub(crate) struct Attr(Opaque<bindings::perf_event_attr>);

/// Reads a field of an [`Attr`].
macro_rules! field {
    ($attr:expr, $($field:ident).+) => {
        // SAFETY: By `Attr`'s invariant initialised; a number, at a fixed place in whatever
        // unions it is in.
        unsafe { addr_of_mut!((*$attr.0.get()).$($field).+).read_volatile() }
    };
}

impl Attr {
    /// What kind of event it is: the number of a PMU, or `PERF_TYPE_*`.
    pub(super) fn event_type(&self) -> u32 {
        field!(self, type_)
    }

    /// Which event it is.
    pub(crate) fn selector(&self) -> Selector {
        let config = field!(self, config);
        match self.event_type() {
            bindings::perf_type_id_PERF_TYPE_HARDWARE => Selector::Hardware(config),
            bindings::perf_type_id_PERF_TYPE_HW_CACHE => Selector::HwCache(config),
            _ => Selector::Config(config),
        }
    }

    /// Whether any of the further words that describe an event is set.
    pub(crate) fn has_extended_config(&self) -> bool {
        field!(self, __bindgen_anon_3.config1) != 0
            || field!(self, __bindgen_anon_4.config2) != 0
            || field!(self, config3) != 0
            || field!(self, config4) != 0
    }

    /// The registers, by the bits of `asm/perf_regs.h`, that samples are to have
    /// if the sample type says that they have any.
    pub(crate) fn sampled_registers(&self) -> u64 {
        field!(self, sample_regs_user) | field!(self, sample_regs_intr)
    }

    /// The flags, which are bits of one word.
    fn flags(&self) -> bindings::perf_event_attr {
        bindings::perf_event_attr {
            _bitfield_1: field!(self, _bitfield_1),
            ..Default::default()
        }
    }

    /// Whether user mode is not to be counted.
    pub(crate) fn exclude_user(&self) -> bool {
        self.flags().exclude_user() != 0
    }

    /// Whether kernel mode is not to be counted.
    pub(crate) fn exclude_kernel(&self) -> bool {
        self.flags().exclude_kernel() != 0
    }

    /// Whether only virtual machines that this one runs are to be counted.
    pub(crate) fn exclude_host(&self) -> bool {
        self.flags().exclude_host() != 0
    }

    /// How precise the address of a sample must be: 0 (any skid) to 3.
    pub(crate) fn precise_ip(&self) -> u64 {
        self.flags().precise_ip()
    }

    /// Whether samples are taken so many times a second, not at a period.
    pub(crate) fn is_frequency(&self) -> bool {
        self.flags().freq() != 0
    }

    /// Samples a second, if [`Self::is_frequency`], else the period.
    pub(crate) fn frequency(&self) -> u64 {
        field!(self, __bindgen_anon_1.sample_freq)
    }

    /// Whether samples are to have a branch stack.
    pub(crate) fn wants_branch_stack(&self) -> bool {
        field!(self, branch_sample_type) != 0
    }
}
