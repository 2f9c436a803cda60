// SPDX-License-Identifier: GPL-2.0

//! `rust_pmu`: the performance counters of each core. On a hybrid CPU there is a PMU for each
//! type of core instead.
//!
//! | file | concern |
//! |---|---|
//! | `attr.rs` | what an event asks for |
//! | `event.rs` | what an open event holds |
//! | `place.rs` | names and types: beside the in-tree driver, or in its place |
//! | `registration.rs` | what is registered, and when nothing is |
//! | `hybrid.rs` | the PMUs of a hybrid CPU, one for each type of core |
//! | `sysfs.rs` | the folders in sysfs |
//! | `cpu_pmu.rs` | the driver on one CPU |
//! | `schedule.rs` | which counter an event is on: add, del |
//! | `extra.rs` | which register an event has besides |
//! | `threads.rs` | what the threads of a core share |
//! | `placed.rs` | an event on its counter: start, stop, read |
//! | `program.rs` | programming the counter, and the periods of samples |
//! | `run_state.rs` | which counters have an event, are active, and run |
//! | `enable.rs` | running and stopping them: enable, disable |
//! | `restart.rs` | changing registers of counters whose events go on |
//! | `pmi.rs` | the NMI handler |
//! | `nmi_window.rs` | PMIs that arrive late |
//! | `branches/` | the branches before a sample |
//! | `topdown/` | metrics, and slots with metrics |
//! | `tenure.rs` | who has the counters of a CPU |
//! | `ownership.rs` | taking and giving back: reservation, hotplug, sleep, shutdown |
//! | `foreign.rs` | who else writes the registers |
//! | `dirty.rs` | what events have left in counters |
//! | `user_read.rs` | RDPMC in user mode |
//! | `hooks.rs` | when the kernel allows RDPMC, or has a guest use the counters |
//!
//! # The life of a counter
//!
//! | a counter is | when | what an NMI may change |
//! |---|---|---|
//! | free | no event is on it | nothing |
//! | placed | [`CpuPmu::put_on_counter`](cpu_pmu::CpuPmu::put_on_counter) has given it to an event, which is stopped | nothing |
//! | programmed | [`PlacedEvent::program`](placed::PlacedEvent::program) has written what the event counts, and from where | nothing: the NMI handler looks at active counters only |
//! | active | the event is started ([`RunState::activate`]) | the NMI handler updates the event and begins its next period; if perf then stops the event, the counter is programmed again |
//! | running | it is active, perf has enabled the PMU ([`CpuPmu::enable`](cpu_pmu::CpuPmu::enable)), and the register says so | the NMI handler stops and runs the counters meanwhile; what it interrupts notices by [`RunState::nmis`] |
//!
//! [`PlacedEvent::stop`](placed::PlacedEvent::stop) takes a counter from running or active to
//! placed: it may still be programmed, and its event may run on from what it holds.
//! [`PlacedEvent::take_off_counter`](placed::PlacedEvent::take_off_counter) makes it free, and
//! [dirty](dirty).
//!
//! # NMIs
//!
//! While perf changes a CPU's events the counters are stopped from the first change on, or before, if
//! an event takes samples. But a PMI that is already on its way may still arrive. So the NMI handler
//! works at any time: it handles the active counters. Starting an event makes its counter active
//! last, and stopping it makes it inactive before the event is updated.
//!
//! # Virtual machines
//!
//! While KVM's mediated vPMU has given a CPU's counters to a guest, perf keeps the
//! events off that CPU.
//!
//! Otherwise, on AMD's CPUs with SVM, EVENTSEL selects the host or guests. HOST_ONLY
//! counts nothing while SVM is disabled, so the driver looks at EFER when perf puts
//! the first event on a CPU. When KVM enables or disables SVM later, a [hook](hooks) selects anew
//! for the events that are on the CPU. On Intel, KVM switches the counters of the in-tree driver
//! only. There events with `exclude_guest` count guests as well, and events with
//! `exclude_host` count nothing.

mod attr;
mod branches;
mod cpu_pmu;
mod dirty;
mod enable;
mod event;
mod extra;
mod foreign;
mod hooks;
mod hybrid;
mod nmi_window;
mod ownership;
mod place;
mod placed;
mod pmi;
mod program;
mod registration;
mod restart;
mod run_state;
mod schedule;
mod sysfs;
mod tenure;
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
    branches::{
        BranchState,
        BranchSupport, //
    },
    cpu_pmu::CpuPmu,
    dirty::DirtyCounters,
    event::CoreEvent,
    foreign::NextLook,
    hybrid::Part,
    nmi_window::NmiWindow,
    ownership::Owner,
    place::Naming,
    run_state::RunState,
    schedule::Schedule,
    tenure::Tenure,
    threads::{
        Core,
        CoreIndex, //
    },
    topdown::TopDown, //
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
        SwitchedTask,
        TaskContext,
        Word, //
    },
    pmc::{
        counter::MAX_COUNTERS,
        Selectable, //
    },
    system::{
        ftrace::Alive,
        irq::IrqsDisabled,
        local::LocalFlag, //
    },
    x86::Hardware, //
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

/// The driver's state for a CPU. Each part says what an NMI may change of it.
#[derive(Default)]
pub(crate) struct Cpu {
    run: RunState,
    dirty: DirtyCounters,
    tenure: Tenure,
    topdown: TopDown,
    branches: BranchState,
    window: NmiWindow,
    next_look: NextLook,
    core: CoreIndex,
    /// Whether SVM was enabled when the first event was put on the CPU, or when a hook last told. NMIs
    /// leave it as it is.
    svm: LocalFlag,
    /// On a hybrid CPU, whether this CPU is of the type of core that the PMU is for. NMIs leave it as
    /// it is.
    of_type: LocalFlag,
}

/// The driver.
#[pin_data]
pub(crate) struct CorePmu {
    hardware: Hardware,
    sampling: Sampling,
    /// What branch records need of the kernel, if it has it.
    branch_support: Option<BranchSupport>,
    /// On a hybrid CPU, the part of it that the PMU is for.
    part: Option<Part>,
    /// The cores, if their threads share anything.
    cores: KVec<Pin<KBox<Core>>>,
    #[pin]
    owner: Mutex<Owner>,
    /// The events that bits of `config2` select by name.
    named: KVec<Selectable>,
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
        branch_support: Option<BranchSupport>,
        part: Option<Part>,
        naming: Naming,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            cores: Core::all(&hardware.capabilities)?,
            max_period: hardware.capabilities.max_period(),
            hardware,
            named: sysfs::named(&hardware.capabilities, naming)?,
            branch_support,
            part,
            sampling,
            owner <- new_mutex!(Owner::default()),
            shut_down: AtomicBool::new(false),
            hooks_alive: Alive::never(),
            foreign_writes: AtomicBool::new(false),
        })
    }
}

/// The driver as a handler of NMIs, hotplug, sleep and shutdown.
#[derive(Clone)]
pub(crate) struct Handler(Arc<Instance<CorePmu>>);

impl Handler {
    fn driver(&self) -> &CorePmu {
        self.0.driver()
    }

    /// The driver on the CPU that the code runs on.
    #[inline(always)]
    fn this_cpu<'a>(&'a self, irqs: IrqsDisabled<'a>) -> CpuPmu<'a> {
        self.driver().on(self.0.cpus().this(irqs))
    }
}

#[vtable]
impl Pmu for CorePmu {
    const TASK_CONTEXT: TaskContext = TaskContext::HARDWARE;
    const CAPABILITIES: Capabilities = Capabilities::MEDIATED_VPMU;

    /// The event's EVENTSEL, without EN. INT is set, so it is not 0.
    type EventData = Word;
    type Events = EventTable<Self, MAX_COUNTERS>;
    type Cpu = Cpu;
    type Schedule = Schedule;

    fn event_init(&self, event: &NewEvent<'_, Self>) -> Result<Word> {
        let eventsel = self.check(event)?;
        self.acquire()?;
        self.attach_branches(event);
        Ok(eventsel)
    }

    fn check_period(&self, event: &Event<Self>, period: u64) -> Result {
        self.check_period_of(event.eventsel(), period)
    }

    fn event_destroy(&self, _: &Word, cpus: &PerCpu<Self>) {
        self.release(cpus);
    }

    #[inline(always)]
    fn enable(&self, on: &OnCpu<'_, Self>, _: &mut Schedule) {
        self.on(*on).enable();
    }

    #[inline(always)]
    fn disable(&self, on: &OnCpu<'_, Self>, _: &mut Schedule) {
        self.on(*on).disable();
    }

    #[inline(always)]
    fn add(
        &self,
        on: &OnCpu<'_, Self>,
        schedule: &mut Schedule,
        event: &AddedEvent<'_, Self>,
        start: bool,
    ) -> Result {
        let added = self.on(*on).put_on_counter(schedule, *event);
        let event = added.ok_or(EAGAIN)?;
        if start {
            event.start_added();
        }
        Ok(())
    }

    #[inline(always)]
    fn del(&self, on: &OnCpu<'_, Self>, schedule: &mut Schedule, event: CpuEvent<'_, Self>) {
        if let Some(event) = self.on(*on).placed(event) {
            event.take_off_counter(schedule);
        }
    }

    fn task_comes(&self, on: &OnCpu<'_, Self>, task: &SwitchedTask<'_>) {
        self.on(*on).task_comes(task);
    }

    fn task_leaves(&self, on: &OnCpu<'_, Self>, task: &SwitchedTask<'_>) {
        self.on(*on).task_leaves(task);
    }

    fn start(&self, on: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>) {
        if let Some(event) = self.on(*on).placed(event) {
            event.start();
        }
    }

    fn stop(&self, on: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>, update: bool) {
        if let Some(event) = self.on(*on).placed(event) {
            event.stop(update);
        }
    }

    #[inline(always)]
    fn read(&self, on: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>) {
        if let Some(event) = self.on(*on).placed(event) {
            event.read();
        }
    }

    fn begin_group_read(&self, on: &OnCpu<'_, Self>) {
        on.state().topdown.begin_group_read();
    }

    fn end_group_read(&self, on: &OnCpu<'_, Self>) {
        on.state().topdown.end_group_read();
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
