// SPDX-License-Identifier: GPL-2.0

//! `rust_pmu`: the performance counters of each core. On a hybrid CPU there is a PMU for each
//! type of core instead.
//!
//! | file | concern |
//! |---|---|
//! | `attr.rs` | what an event asks for: [`CorePmu::event_init`] |
//! | `place.rs` | names and types: beside the in-tree driver, or in its place |
//! | `registration.rs` | what is registered, and when nothing is |
//! | `hybrid.rs` | the PMUs of a hybrid CPU, one for each type of core |
//! | `sysfs.rs` | the folders in sysfs |
//! | `schedule.rs` | which counter an event is on: add, del |
//! | `extra.rs` | which register an event has besides |
//! | `threads.rs` | what the threads of a core share |
//! | `count.rs` | counting and periods: start, stop, read, enable, disable |
//! | `pmi.rs` | the NMI handler |
//! | `nmi_window.rs` | PMIs that arrive late |
//! | `topdown.rs` | metrics, and slots with metrics |
//! | `group_read.rs` | reads of these |
//! | `ownership.rs` | who has the counters: reservation, hotplug, sleep, shutdown |
//! | `foreign.rs` | who else writes the registers |
//! | `user_read.rs` | RDPMC in user mode |
//! | `hooks.rs` | when the kernel allows RDPMC, or has a guest use the counters |
//!
//! # NMIs
//!
//! While perf changes a CPU's events the counters are stopped from the first change on, or before, if
//! an event takes samples. But a PMI that is already on its way may still arrive. So the NMI handler
//! works at any time: it handles the counters in [`Cpu::active`]. Starting an event puts its counter
//! there last, and stopping it removes the counter before the event is updated.
//!
//! # Virtual machines
//!
//! While KVM's mediated vPMU has given a CPU's counters to a guest, perf keeps the
//! events off that CPU.
//!
//! Otherwise, on AMD's CPUs with SVM, EVENTSEL selects the host or guests. HOST_ONLY
//! counts nothing while SVM is disabled, so the driver looks at EFER when perf puts
//! the first event on a CPU. If SVM is disabled later, an event with `exclude_guest`
//! counts nothing until all events have left that CPU; if SVM is enabled later, it
//! counts guests until then. On Intel, KVM switches the counters of the in-tree driver
//! only. There events with `exclude_guest` count guests as well, and events with
//! `exclude_host` count nothing.

mod attr;
mod count;
mod extra;
mod foreign;
mod group_read;
mod hooks;
mod hybrid;
mod nmi_window;
mod ownership;
mod place;
mod pmi;
mod registration;
mod schedule;
mod sysfs;
mod threads;
mod topdown;
mod user_read;

pub(crate) use self::{
    place::Place,
    registration::{
        register,
        Registrations, //
    }, //
};

use self::{
    group_read::GroupRead,
    hybrid::Part,
    nmi_window::NmiWindow,
    ownership::{
        Owner,
        Ownership, //
    },
    place::Naming,
    schedule::Schedule,
    threads::Core, //
};
use crate::{
    perf::{
        AddedEvent,
        Capabilities,
        CpuEvent,
        Event,
        EventTable,
        Instance,
        NewEvent,
        OnCpu,
        PerCpu,
        Pmu,
        Sampling,
        TaskContext,
        Word, //
    },
    pmc::{
        counter::{
            Counter,
            CounterSet,
            MAX_COUNTERS, //
        },
        Counters,
        Shadow, //
    },
    system::{
        ftrace::Alive,
        local::{
            LocalFlag,
            LocalWord, //
        }, //
    },
    x86::{
        Hardware,
        ThisCpu, //
    }, //
};
use core::sync::atomic::AtomicBool;
use kernel::{
    mm::Mm,
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// The driver's state for a CPU.
///
/// An NMI handler leaves `enabled` as it was. Of the others it may change those whose comments
/// say so.
#[derive(Default)]
pub(crate) struct Cpu {
    /// NMIs change it, see [`Counters`].
    shadow: Shadow,
    /// Who has the counters: an [`Ownership`].
    ownership: LocalWord,
    /// Whether the driver has been told that the CPU is online, and not since that it goes offline.
    /// While the CPU comes online, perf may put events on it before that.
    online: LocalFlag,
    /// The [`CounterSet`] of counters that have an event.
    placed: LocalWord,
    /// The [`CounterSet`] of counters whose events are started. NMIs remove counters:
    /// perf stops events that it throttles or that have reached their limit.
    active: LocalWord,
    /// The [`CounterSet`] of counters whose events take samples. NMIs leave it as it is.
    sampling: LocalWord,
    /// Whether the active counters may run.
    enabled: LocalFlag,
    /// The [`CounterSet`] of dirty counters, which hold what events have counted that have left them.
    /// An event that runs on from there may be on one. While the kernel allows RDPMC in user mode,
    /// there are none when it returns there. NMIs remove the counters whose events they start.
    dirty: LocalWord,
    /// The time in jiffies at which the last event left the CPU.
    empty_since: LocalWord,
    /// Whether a guest may have used the counters since the last event left the CPU. NMIs leave it as
    /// it is.
    lent: LocalFlag,
    /// The number of NMIs that may have run the counters. NMIs increase it.
    nmis: LocalWord,
    /// Whether fixed counter 3 counts slots for metrics, from the start of that event until it
    /// leaves the CPU. NMIs leave it as it is.
    leads_metrics: LocalFlag,
    /// Whether metrics are being settled. NMIs leave it as it is.
    settling: LocalFlag,
    /// NMIs leave it as it is.
    group_read: GroupRead,
    /// NMIs take expected PMIs out of it.
    window: NmiWindow,
    /// The time in jiffies from which on the driver may look for writes of others.
    look_at: LocalWord,
    /// Whether SVM was enabled when the first event was put on the CPU.
    svm: LocalFlag,
    /// The index of the CPU's [`Core`], plus 1. 0 if it has not been looked up.
    core: LocalWord,
    /// On a hybrid CPU, whether this CPU is of the type of core that the PMU is for.
    of_type: LocalFlag,
}

impl Cpu {
    fn active(&self) -> CounterSet {
        CounterSet::from_bits(self.active.get())
    }

    fn activate(&self, counter: Counter) {
        self.active.or(CounterSet::of(counter).bits());
    }

    fn deactivate(&self, counter: Counter) {
        self.active.and(!CounterSet::of(counter).bits());
    }

    fn placed(&self) -> CounterSet {
        CounterSet::from_bits(self.placed.get())
    }

    fn sampling(&self) -> CounterSet {
        CounterSet::from_bits(self.sampling.get())
    }

    /// Whether any active event takes samples.
    fn takes_samples(&self) -> bool {
        !(self.active() & self.sampling()).is_empty()
    }

    /// The counters that are to run.
    fn to_run(&self) -> CounterSet {
        if self.enabled.get() {
            self.active()
        } else {
            CounterSet::EMPTY
        }
    }

    fn dirty(&self) -> CounterSet {
        CounterSet::from_bits(self.dirty.get())
    }

    fn is_dirty(&self, counter: Counter) -> bool {
        self.dirty.get() & CounterSet::of(counter).bits() != 0
    }

    /// An event has left `counter`. It has counted in `registers`.
    fn leave(&self, counter: Counter, registers: CounterSet) {
        self.dirty.or(registers.bits());
        self.sampling.and(!CounterSet::of(counter).bits());
    }
}

/// The driver.
#[pin_data]
pub(crate) struct CorePmu {
    hardware: Hardware,
    sampling: Sampling,
    /// On a hybrid CPU, the part of it that the PMU is for.
    part: Option<Part>,
    /// The cores, if their threads share anything.
    cores: KVec<Pin<KBox<Core>>>,
    #[pin]
    owner: Mutex<Owner>,
    /// The encodings of the events that bits of `config3` select by name.
    named: KVec<u64>,
    /// The largest number of events before the wrap at which a counter is started.
    max_period: u64,
    /// Whether the system is shutting down: no counters may be taken over any more.
    shut_down: AtomicBool,
    /// Whether [`Hooks`](hooks::Hooks) tell the driver what the kernel does with the counters.
    hooks_alive: Alive,
    /// Whether someone else has written the registers of counters that counted.
    foreign_writes: AtomicBool,
}

impl CorePmu {
    /// A driver for this hardware.
    fn new(
        hardware: Hardware,
        sampling: Sampling,
        part: Option<Part>,
        naming: Naming,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            cores: Core::all(&hardware.capabilities)?,
            max_period: hardware.capabilities.max_period(),
            hardware,
            named: sysfs::named(&hardware.capabilities, naming)?,
            part,
            sampling,
            owner <- new_mutex!(Owner::default()),
            shut_down: AtomicBool::new(false),
            hooks_alive: Alive::never(),
            foreign_writes: AtomicBool::new(false),
        })
    }

    /// The counters of this CPU.
    fn counters<'a>(&'a self, cpu: &'a Cpu) -> Counters<'a, ThisCpu> {
        self.hardware.counters(&cpu.shadow)
    }
}

/// The driver as a handler of NMIs, hotplug, sleep and shutdown.
#[derive(Clone)]
pub(crate) struct Handler(Arc<Instance<CorePmu>>);

impl Handler {
    fn driver(&self) -> &CorePmu {
        self.0.driver()
    }
}

#[vtable]
impl Pmu for CorePmu {
    const TASK_CONTEXT: TaskContext = TaskContext::HARDWARE;
    const CAPABILITIES: Capabilities =
        Capabilities::EXTENDED_HW_TYPE.and(Capabilities::MEDIATED_VPMU);

    /// The event's EVENTSEL, without EN. INT is set, so it is not 0.
    type EventData = Word;
    type Events = EventTable<Self, MAX_COUNTERS>;
    type Cpu = Cpu;
    type Schedule = Schedule;

    fn event_init(&self, event: &NewEvent<'_, Self>) -> Result<Word> {
        let eventsel = self.check(event)?;
        self.acquire()?;
        Ok(eventsel)
    }

    fn check_period(&self, event: &Event<Self>, period: u64) -> Result {
        self.check_period_of(Self::eventsel_of(event), period)
    }

    fn event_destroy(&self, _: &Word, cpus: &PerCpu<Self>) {
        self.release(cpus);
    }

    #[inline(always)]
    fn enable(&self, on: &OnCpu<'_, Self>, _: &mut Schedule) {
        self.enable_counters(*on);
    }

    #[inline(always)]
    fn disable(&self, on: &OnCpu<'_, Self>, _: &mut Schedule) {
        self.disable_counters(on.state());
    }

    #[inline(always)]
    fn add(
        &self,
        on: &OnCpu<'_, Self>,
        schedule: &mut Schedule,
        event: &AddedEvent<'_, Self>,
        start: bool,
    ) -> Result {
        let counter = self.place(*on, schedule, *event).ok_or(EAGAIN)?;
        if start {
            self.start_placed(*on, counter, **event);
        }
        Ok(())
    }

    #[inline(always)]
    fn del(&self, on: &OnCpu<'_, Self>, schedule: &mut Schedule, event: CpuEvent<'_, Self>) {
        self.displace(*on, schedule, event);
    }

    fn start(&self, on: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>) {
        self.start_event(*on, event);
    }

    fn stop(&self, on: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>, update: bool) {
        self.stop_event(*on, event, update);
    }

    #[inline(always)]
    fn read(&self, on: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>) {
        self.read_event(*on, event);
    }

    fn begin_group_read(&self, on: &OnCpu<'_, Self>) {
        on.state().group_read.begin();
    }

    fn end_group_read(&self, on: &OnCpu<'_, Self>) {
        on.state().group_read.end();
    }

    fn user_index(&self, event: &Event<Self>) -> Option<u32> {
        event.user_index()
    }

    fn event_mapped(&self, event: &Event<Self>, mm: &Mm, cpus: &PerCpu<Self>) {
        self.allow_rdpmc(event, mm, cpus);
    }

    fn event_unmapped(&self, _: &Event<Self>, mm: &Mm) {
        self.disallow_rdpmc(mm);
    }
}
