// SPDX-License-Identifier: GPL-2.0

//! Events.

use super::{
    Attr,
    Pmu, //
};
use crate::{
    bindings,
    system::local::LocalWord, //
};
use core::{
    marker::PhantomData,
    ptr::addr_of_mut, //
};
use kernel::{
    ffi::c_int,
    types::{
        ForeignOwnable,
        Opaque, //
    }, //
};

/// `hw.idx` of an event that is in no table, as in the in-tree drivers.
const NO_INDEX: c_int = -1;

/// An event that perf has opened on the PMU `T`.
///
/// # Invariants
///
/// Wraps an initialised `struct perf_event` whose PMU is a
/// [`Registration<T>`](super::Registration). From the end of its `event_init` on,
/// `pmu_private` is a `T::EventData` that has been made foreign.
#[repr(transparent)]
pub struct Event<T> {
    raw: Opaque<bindings::perf_event>,
    _pmu: PhantomData<T>,
}

// SAFETY: What a shared reference gives access to is either constant while the event is open, or
// accessed as single words, as perf itself does across CPUs. `T::EventData` is `Sync`.
unsafe impl<T: Pmu> Sync for Event<T> {}

impl<T: Pmu> Event<T> {
    /// # Safety
    ///
    /// `ptr` must be an initialised event of a `Registration<T>`, and stay so for
    /// `'a`.
    pub(super) unsafe fn from_raw<'a>(ptr: *mut bindings::perf_event) -> &'a Self {
        // SAFETY: `Event` is a transparent wrapper of the C type, and `ptr` is valid by the safety
        // requirement.
        unsafe { &*ptr.cast() }
    }

    pub(super) fn as_raw(&self) -> *mut bindings::perf_event {
        self.raw.get()
    }

    /// The node by which the event is in a list.
    pub(super) fn list_node(&self) -> *mut bindings::hlist_node {
        // SAFETY: By the type invariant this is within an allocated `perf_event`.
        unsafe { addr_of_mut!((*self.as_raw()).hlist_entry) }
    }

    pub(super) fn hw(&self) -> *mut bindings::hw_perf_event {
        // SAFETY: By the type invariant this is within an allocated `perf_event`.
        unsafe { addr_of_mut!((*self.as_raw()).hw) }
    }

    /// What the user asked for.
    pub fn attr(&self) -> &Attr {
        // SAFETY: `attr` is a part of the event, and is initialised before the event gets to its
        // PMU. `Attr` is a transparent wrapper of it.
        unsafe { &*addr_of_mut!((*self.as_raw()).attr).cast() }
    }

    /// Whether the event takes samples, rather than only being counted.
    pub fn is_sampling(&self) -> bool {
        self.attr().sample_period() != 0
    }

    /// The CPU that the event is bound to.
    pub fn cpu(&self) -> Option<u32> {
        // SAFETY: An aligned word of the event, which perf sets before it opens the event.
        let cpu = unsafe { addr_of_mut!((*self.as_raw()).cpu).read_volatile() };
        u32::try_from(cpu).ok()
    }

    /// The CPU that perf has put the event on, or is putting it on (`perf_event.oncpu`). Another CPU may
    /// see an old value. Any context.
    pub fn on_cpu(&self) -> Option<u32> {
        // SAFETY: An aligned word of the event, which perf changes on the event's CPU.
        let cpu = unsafe { addr_of_mut!((*self.as_raw()).oncpu).read_volatile() };
        u32::try_from(cpu).ok()
    }

    /// Whether the event is bound to a task.
    pub fn is_of_task(&self) -> bool {
        // SAFETY: An aligned word of the event. This bit is set before the event gets to its PMU.
        let state = unsafe { addr_of_mut!((*self.as_raw()).attach_state).read_volatile() };
        state & bindings::PERF_ATTACH_TASK != 0
    }

    /// Whether the event counts the tasks of a cgroup on a CPU. perf says so only after
    /// [`Pmu::event_init`].
    pub fn is_of_cgroup(&self) -> bool {
        // SAFETY: By the type invariant the event is initialised. perf sets the pointer once, before
        // the event joins a context.
        unsafe { bindings::rust_perf_is_of_cgroup(self.as_raw()) }
    }

    /// The driver's data, which [`Pmu::event_init`] returned. Any context.
    pub fn data(&self) -> <T::EventData as ForeignOwnable>::Borrowed<'_> {
        // SAFETY: `event_init` has stored what `into_foreign()` returned, and `destroy` takes it back
        // when no reference to the event is left.
        unsafe { T::EventData::borrow((*self.as_raw()).pmu_private) }
    }

    /// Stores the driver's data.
    ///
    /// # Safety
    ///
    /// Must be called once for each event, while it is being opened.
    pub(super) unsafe fn set_data(&self, data: T::EventData) {
        // SAFETY: While the event is being opened nothing else accesses it.
        unsafe { (*self.as_raw()).pmu_private = data.into_foreign() };
    }

    /// Takes the driver's data back.
    ///
    /// # Safety
    ///
    /// Must be called once, when nothing else refers to the event.
    pub(super) unsafe fn take_data(&self) -> T::EventData {
        // SAFETY: `set_data` stored it, and nobody borrows it any more.
        unsafe { T::EventData::from_foreign((*self.as_raw()).pmu_private) }
    }

    /// Where the event is in its CPU's [`EventTable`]. Another CPU may see an old
    /// value. Any context.
    pub fn index(&self) -> Option<usize> {
        // SAFETY: An aligned word of the event. All variants of the union may be read as integers,
        // and no Rust PMU uses another variant than this one.
        let idx = unsafe {
            addr_of_mut!((*self.hw()).__bindgen_anon_1.__bindgen_anon_1.idx).read_volatile()
        };
        (idx != NO_INDEX).then_some(idx as u32 as usize)
    }

    pub(super) fn set_index(&self, index: Option<usize>) {
        let idx = index.map_or(NO_INDEX, |index| index as i32);
        // SAFETY: See `index()`. It is written by `event_init`, when nothing else accesses the event,
        // and then by the event's CPU only.
        unsafe {
            addr_of_mut!((*self.hw()).__bindgen_anon_1.__bindgen_anon_1.idx).write_volatile(idx)
        }
    }

    /// The number of events counted so far.
    pub fn count(&self) -> &LocalWord {
        // SAFETY: `local64_t` is a word that perf, too, accesses as such: on the event's CPU, but for
        // PERF_EVENT_IOC_RESET, which sets it on any. It is part of the event.
        unsafe { LocalWord::from_ptr(addr_of_mut!((*self.as_raw()).count).cast()) }
    }

    /// The value of the hardware counter that [`Self::count`] accounts for.
    pub fn prev_count(&self) -> &LocalWord {
        // SAFETY: `local64_t` is a word that perf, too, accesses as such. It is part of the event.
        unsafe { LocalWord::from_ptr(addr_of_mut!((*self.hw()).prev_count).cast()) }
    }

    /// The number of events until the next sample, a signed number. A sample is due when it is 0 or
    /// less.
    pub fn period_left(&self) -> &LocalWord {
        // SAFETY: `local64_t` is a word that perf, too, accesses as such. This is the variant of the
        // union that perf uses for all but Intel's top-down events.
        unsafe {
            LocalWord::from_ptr(
                addr_of_mut!((*self.hw()).__bindgen_anon_2.__bindgen_anon_1.period_left).cast(),
            )
        }
    }

    /// The number of events between samples, from the next one on.
    pub fn period(&self) -> u64 {
        // SAFETY: An aligned word of the event. perf changes it on the event's CPU.
        unsafe { addr_of_mut!((*self.hw()).sample_period).read_volatile() }
    }

    /// The period that the next sample will end.
    pub fn last_period(&self) -> u64 {
        // SAFETY: An aligned word of the event. For the variant see `period_left()`.
        unsafe {
            addr_of_mut!((*self.hw()).__bindgen_anon_2.__bindgen_anon_1.last_period).read_volatile()
        }
    }

    /// Sets the period that the next sample will end.
    pub fn set_last_period(&self, period: u64) {
        // SAFETY: An aligned word of the event. For the variant see `period_left()`.
        unsafe {
            addr_of_mut!((*self.hw()).__bindgen_anon_2.__bindgen_anon_1.last_period)
                .write_volatile(period)
        }
    }

    /// Whether user mode may read the event's counter itself.
    pub fn is_user_readable(&self) -> bool {
        self.flags() & bindings::PERF_EVENT_FLAG_USER_READ_CNT != 0
    }

    /// Lets user mode read the event's counter itself from now on.
    ///
    /// perf counts the events with this flag when they join a context and when they leave
    /// it. If the flag is set in between, that number becomes wrong. x86 does not use it.
    /// On an architecture that does, call this in `event_init` only.
    pub fn set_user_readable(&self) {
        let flags = self.flags() | bindings::PERF_EVENT_FLAG_USER_READ_CNT;
        // SAFETY: An aligned word of the event. No other flag means anything for this PMU, so that
        // concurrent calls may write any of them back.
        unsafe {
            addr_of_mut!((*self.hw()).__bindgen_anon_1.__bindgen_anon_1.flags)
                .write_volatile(flags as c_int)
        }
    }

    /// The number by which user mode reads the event's counter, as [`Self::set_user_index`] has set it.
    /// Another CPU may see an old value. Any context.
    pub fn user_index(&self) -> Option<u32> {
        // SAFETY: An aligned word of the event, in the variant of the union that all Rust PMUs use.
        let index = unsafe {
            addr_of_mut!(
                (*self.hw())
                    .__bindgen_anon_1
                    .__bindgen_anon_1
                    .event_base_rdpmc
            )
            .read_volatile()
        };
        u32::try_from(index).ok()
    }

    /// Sets the number by which user mode reads the event's counter while the event is on it. To be
    /// called while the event is being opened or on its CPU.
    pub fn set_user_index(&self, index: Option<u32>) {
        let index = index.map_or(-1, |index| index as c_int);
        // SAFETY: See `user_index()`. Only one CPU at a time writes it.
        unsafe {
            addr_of_mut!(
                (*self.hw())
                    .__bindgen_anon_1
                    .__bindgen_anon_1
                    .event_base_rdpmc
            )
            .write_volatile(index)
        }
    }

    fn flags(&self) -> u32 {
        // SAFETY: An aligned word of the event. All variants of the union may be read as integers.
        unsafe {
            addr_of_mut!((*self.hw()).__bindgen_anon_1.__bindgen_anon_1.flags).read_volatile()
                as u32
        }
    }

    /// Updates the page that the event's user may have mapped. Any context. If calls for
    /// one event nest, its user may read a torn page once.
    pub fn update_userpage(&self) {
        // SAFETY: An aligned word of the event. perf updates the page itself when it has been mapped.
        if unsafe { addr_of_mut!((*self.as_raw()).rb).read_volatile().is_null() } {
            return;
        }
        // SAFETY: The event is initialised. The function may be called in any context. Nested calls
        // confuse the sequence number that user mode checks, and nothing in the kernel.
        unsafe { bindings::perf_event_update_userpage(self.as_raw()) }
    }
}
