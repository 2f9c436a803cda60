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
//! | `count.rs` | counting and periods: start, stop, read |
//! | `pmi.rs` | the NMI handler |
//! | `nmi_window.rs` | PMIs that arrive late |
//! | `topdown.rs` | metrics, and slots with metrics |
//! | `group_read.rs` | reads of these |
//! | `ownership.rs` | who has the counters: reservation, hotplug, sleep, shutdown |
//! | `foreign.rs` | who else writes the registers |
//! | `user_read.rs` | RDPMC in user mode |
//!
//! # NMIs
//!
//! While perf changes a CPU's events the counters are stopped, but a PMI that is
//! already on its way may still arrive. So the NMI handler works at any time: it
//! handles the counters in [`Cpu::active`]. Starting an event puts its counter
//! there last, and stopping it removes the counter first.
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
    x86::{
        Hardware,
        ThisCpu, //
    }, //
};
use core::sync::atomic::{
    AtomicBool,
    AtomicU64,
    AtomicU8,
    AtomicUsize,
    Ordering::Relaxed, //
};
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
/// These are words that only this CPU and its NMIs access, hence `Relaxed`. An NMI
/// handler leaves `enabled` as it was. Of the others it may change those whose
/// comments say so.
#[derive(Default)]
pub(crate) struct Cpu {
    /// NMIs change it, see [`Counters`].
    shadow: Shadow,
    /// Who has the counters: an [`Ownership`].
    ownership: AtomicU8,
    /// Whether the driver has been told that the CPU is online, and not since that it goes offline.
    /// While the CPU comes online, perf may put events on it before that.
    online: AtomicBool,
    /// The [`CounterSet`] of counters that have an event.
    placed: AtomicU64,
    /// The [`CounterSet`] of counters whose events are started. NMIs remove counters:
    /// perf stops events that it throttles or that have reached their limit.
    active: AtomicU64,
    /// Whether the active counters may run.
    enabled: AtomicBool,
    /// The [`CounterSet`] of dirty counters: events have left them, and they are to be
    /// cleared. NMIs remove the counters that they program.
    dirty: AtomicU64,
    /// The number of NMIs that may have run the counters. NMIs increase it.
    nmis: AtomicU64,
    /// Whether fixed counter 3 counts slots for metrics, from the start of that event until it
    /// leaves the CPU. NMIs leave it as it is.
    leads_metrics: AtomicBool,
    /// Whether metrics are being settled. NMIs leave it as it is.
    settling: AtomicBool,
    /// NMIs leave it as it is.
    group_read: GroupRead,
    /// NMIs take expected PMIs out of it.
    window: NmiWindow,
    /// The time in jiffies from which on the driver may look for writes of others.
    look_at: AtomicUsize,
    /// Whether SVM was enabled when the first event was put on the CPU.
    svm: AtomicBool,
    /// The index of the CPU's [`Core`], plus 1. 0 if it has not been looked up.
    core: AtomicUsize,
    /// On a hybrid CPU, whether this CPU is of the type of core that the PMU is for.
    of_type: AtomicBool,
}

impl Cpu {
    fn active(&self) -> CounterSet {
        CounterSet::from_bits(self.active.load(Relaxed))
    }

    fn activate(&self, counter: Counter) {
        self.active
            .fetch_or(CounterSet::of(counter).bits(), Relaxed);
    }

    fn deactivate(&self, counter: Counter) {
        self.active
            .fetch_and(!CounterSet::of(counter).bits(), Relaxed);
    }

    fn placed(&self) -> CounterSet {
        CounterSet::from_bits(self.placed.load(Relaxed))
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
    /// Whether the system is shutting down: no counter may be started any more.
    shut_down: AtomicBool,
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
            hardware,
            named: sysfs::named(&hardware.capabilities, naming)?,
            part,
            sampling,
            owner <- new_mutex!(Owner::default()),
            shut_down: AtomicBool::new(false),
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

    fn enable(&self, on: &OnCpu<'_, Self>, _: &mut Schedule) {
        let cpu = on.state();
        self.clear_dirty(cpu);
        self.clear_selection(on);
        cpu.enabled.store(true, Relaxed);
        self.run_active(cpu);
    }

    fn disable(&self, on: &OnCpu<'_, Self>, _: &mut Schedule) {
        let cpu = on.state();
        self.look_for_foreign_writes(cpu);
        cpu.enabled.store(false, Relaxed);
        self.counters(cpu).run(CounterSet::EMPTY);
    }

    fn add(
        &self,
        on: &OnCpu<'_, Self>,
        schedule: &mut Schedule,
        event: &AddedEvent<'_, Self>,
        start: bool,
    ) -> Result {
        self.place(on, schedule, event)?;
        if start {
            self.start_event(on, **event);
        }
        Ok(())
    }

    fn del(&self, on: &OnCpu<'_, Self>, schedule: &mut Schedule, event: CpuEvent<'_, Self>) {
        self.displace(on, schedule, event);
    }

    fn start(&self, on: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>) {
        self.start_event(on, event);
    }

    fn stop(&self, on: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>, update: bool) {
        self.stop_event(on, event, update);
    }

    fn read(&self, on: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>) {
        self.read_event(on, event);
    }

    fn begin_group_read(&self, on: &OnCpu<'_, Self>) {
        on.state().group_read.begin();
    }

    fn end_group_read(&self, on: &OnCpu<'_, Self>) {
        on.state().group_read.end();
    }

    fn user_index(&self, event: &Event<Self>) -> Option<u32> {
        self.rdpmc_index(event)
    }

    fn event_mapped(&self, event: &Event<Self>, mm: &Mm) {
        self.allow_rdpmc(event, mm);
    }

    fn event_unmapped(&self, _: &Event<Self>, mm: &Mm) {
        self.disallow_rdpmc(mm);
    }
}
