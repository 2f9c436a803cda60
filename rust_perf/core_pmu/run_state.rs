// SPDX-License-Identifier: GPL-2.0

//! Which of a CPU's counters have an event, which are active, and which run.
//!
//! Nothing here allocates, locks, sleeps, prints or panics.

use crate::{
    pmc::{
        counter::{
            Counter,
            CounterSet, //
        },
        Counters,
        Shadow, //
    },
    system::local::{
        LocalFlag,
        LocalWord, //
    },
    x86::{
        Hardware,
        ThisCpu, //
    }, //
};

/// What is programmed on a CPU, and what is to run.
///
/// Used on that CPU only, with interrupts disabled or in an NMI. An NMI may remove counters from
/// `active`, because perf stops events that it throttles or that have reached their limit. It changes
/// the shadow as [`Counters`] says, and it adds to `nmis`. It leaves the rest as it was.
#[derive(Default)]
pub(super) struct RunState {
    shadow: Shadow,
    /// The [`CounterSet`] of counters that have an event.
    placed: LocalWord,
    /// The [`CounterSet`] of counters whose events are started.
    active: LocalWord,
    /// The [`CounterSet`] of counters whose events take samples.
    sampling: LocalWord,
    /// Whether the active counters may run.
    enabled: LocalFlag,
    /// The number of NMIs, and of hooked functions, that may have run the counters.
    nmis: LocalWord,
}

/// How often an NMI may have run the counters of a CPU, at some time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct NmiCount(u64);

/// Keeps the counters of a CPU from being run, from [`RunState::hold`] on until it is released.
#[must_use]
pub(super) struct Held<'a> {
    state: &'a RunState,
    enabled: bool,
}

impl Held<'_> {
    /// The counters may run again if they might before. This writes no register.
    pub(super) fn release(self) {
        self.state.enabled.set(self.enabled);
    }
}

impl RunState {
    /// Access to the counters of this CPU.
    #[inline(always)]
    pub(super) fn counters<'a>(&'a self, hardware: &'a Hardware) -> Counters<'a, ThisCpu> {
        hardware.counters(&self.shadow)
    }

    /// The counters that have an event.
    pub(super) fn placed(&self) -> CounterSet {
        CounterSet::from_bits(self.placed.get())
    }

    /// Events have been put on counters, or have left them: these have one now.
    pub(super) fn set_placed(&self, counters: CounterSet) {
        self.placed.set(counters.bits());
    }

    /// The counters whose events are started.
    pub(super) fn active(&self) -> CounterSet {
        CounterSet::from_bits(self.active.get())
    }

    /// The event on `counter` has been started. Everything else about it must be as the NMI handler
    /// needs it.
    pub(super) fn activate(&self, counter: Counter) {
        self.active.or(CounterSet::of(counter).bits());
    }

    /// The event on `counter` is being stopped. The NMI handler no longer looks at it.
    pub(super) fn deactivate(&self, counter: Counter) {
        self.active.and(!CounterSet::of(counter).bits());
    }

    /// The event on `counter` takes samples.
    pub(super) fn begin_sampling(&self, counter: Counter) {
        self.sampling.or(CounterSet::of(counter).bits());
    }

    /// No event on `counter` takes samples.
    pub(super) fn end_sampling(&self, counter: Counter) {
        self.sampling.and(!CounterSet::of(counter).bits());
    }

    /// Whether any active event takes samples.
    pub(super) fn takes_samples(&self) -> bool {
        let sampling = CounterSet::from_bits(self.sampling.get());
        !(self.active() & sampling).is_empty()
    }

    /// Whether the active counters may run.
    pub(super) fn is_enabled(&self) -> bool {
        self.enabled.get()
    }

    /// Says whether the active counters may run. This writes no register.
    pub(super) fn set_enabled(&self, enabled: bool) {
        self.enabled.set(enabled);
    }

    /// Keeps the counters from being run until the result is released. This stops none of them.
    pub(super) fn hold(&self) -> Held<'_> {
        let enabled = self.enabled.get();
        self.enabled.set(false);
        Held {
            state: self,
            enabled,
        }
    }

    /// The counters that are to run.
    pub(super) fn to_run(&self) -> CounterSet {
        if self.enabled.get() {
            self.active()
        } else {
            CounterSet::EMPTY
        }
    }

    /// Whether all counters are known to be stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.shadow.is_stopped()
    }

    /// Whether exactly these counters are known to run: see [`Shadow::runs_just`].
    pub(super) fn runs_just(&self, counters: CounterSet) -> bool {
        self.shadow.runs_just(counters)
    }

    /// An NMI, or a hooked function, may run the counters now. What it interrupts must notice that.
    pub(super) fn note_nmi(&self) {
        self.nmis.add(1);
    }

    /// How often an NMI, or a hooked function, may have run the counters.
    pub(super) fn nmis(&self) -> NmiCount {
        NmiCount(self.nmis.get())
    }

    /// Whether any event takes a pair of counters.
    pub(super) fn has_pairs(&self) -> bool {
        self.shadow.has_merged()
    }

    /// `counter`, and the other one of its pair if its event takes one.
    pub(super) fn with_pair(&self, counter: Counter) -> CounterSet {
        self.shadow.with_merged(CounterSet::of(counter))
    }
}
