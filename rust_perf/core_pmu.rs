// SPDX-License-Identifier: GPL-2.0

//! `rust_pmu`: the performance counters of each core.
//!
//! Events are put on counters when perf adds them ([`CorePmu::add`]), and the
//! counters run as one: GLOBAL_CTRL stops them for every change and in NMIs.
//! What a CPU's counters are programmed to, [`Bank`] knows.
//!
//! # NMIs
//!
//! While perf changes a CPU's events the counters are stopped, but a PMI that
//! is already on its way may still arrive. [`CorePmu::handle_pmi`] therefore
//! works at any time: it handles those counters that are in [`Cpu::active`],
//! which a counter enters last of all when it is started, and leaves first
//! when it is stopped.

use crate::{
    perf::{
        self,
        AttributeGroups,
        Event,
        Instance,
        NewEvent,
        OnCpu,
        OverflowHandler,
        PerCpu,
        Pmu,
        Regs, //
    },
    pmc::{
        assign::Assignment,
        counter::{
            Counter,
            CounterSet, //
        },
        event::EventSel,
        period, //
    },
    x86::{
        apic,
        cpu::ThisCpu,
        hal::{
            Bank,
            Capabilities, //
        },
        nmi,
        reservation::Reservation,
        CpuHal, //
    }, //
};
use core::sync::atomic::{
    AtomicBool,
    AtomicU64,
    Ordering::Relaxed, //
};
use kernel::{
    new_mutex,
    pr_warn_once,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// The first period of an event with a frequency, for the rate of samples that
/// it asks for to be found from. With this many a second of the most frequent
/// events the CPU still gets work done.
const EVENTS_PER_SECOND: u64 = 1 << 28;

/// What the PMU keeps of a CPU and what its NMIs see: words that only this CPU
/// accesses, hence with `Relaxed`, and as plain loads and stores.
#[derive(Default)]
pub(crate) struct Cpu {
    bank: Bank,
    /// The counters, as a [`CounterSet`], whose events are started.
    active: AtomicU64,
    /// Whether perf has the PMU enabled on this CPU.
    enabled: AtomicBool,
    /// The tenure of the counters' reservation during which they were taken
    /// over on this CPU.
    tenure: AtomicU64,
    /// The number of PMIs that were handled.
    pmis: AtomicU64,
}

impl Cpu {
    fn active(&self) -> CounterSet {
        CounterSet::from_bits(self.active.load(Relaxed))
    }

    fn activate(&self, counter: Counter) {
        let active = self.active() | CounterSet::of(counter);
        self.active.store(active.bits(), Relaxed);
    }

    fn deactivate(&self, counter: Counter) {
        let active = self.active() & !CounterSet::of(counter);
        self.active.store(active.bits(), Relaxed);
    }
}

/// The counters' reservation, while there are events.
#[derive(Default)]
struct Owner {
    events: usize,
    reservation: Option<Reservation>,
}

/// The driver.
#[pin_data]
pub(crate) struct CorePmu {
    hal: &'static CpuHal,
    capabilities: Capabilities,
    overflow: OverflowHandler,
    #[pin]
    owner: Mutex<Owner>,
    /// Counts the times that the counters were reserved; under `owner`'s lock.
    tenure: AtomicU64,
}

impl CorePmu {
    /// A driver for CPUs like this.
    pub(crate) fn new(
        hal: &'static CpuHal,
        capabilities: Capabilities,
        overflow: OverflowHandler,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            hal,
            capabilities,
            overflow,
            owner <- new_mutex!(Owner::default()),
            tenure: AtomicU64::new(0),
        })
    }

    /// Has the counters reserved for one more event.
    fn acquire(&self) -> Result {
        let mut owner = self.owner.lock();
        if owner.reservation.is_none() {
            let reservation = Reservation::take(self.hal, self.capabilities.counters)
                .inspect_err(|_| {
                    pr_warn_once!(
                        "the counters are in use, by events of the in-tree `cpu` PMU or the NMI watchdog; \
                         close those events, `sysctl kernel.nmi_watchdog=0`\n"
                    )
                })?;
            owner.reservation = Some(reservation);
            let tenure = self.tenure.load(Relaxed).wrapping_add(1);
            self.tenure.store(tenure, Relaxed);
        }
        owner.events += 1;
        Ok(())
    }

    /// Whether all events of the group that `event` joins fit at once, with it.
    fn fits_in_group(&self, event: &NewEvent<'_>, counters: CounterSet) -> Result {
        let mut group = Assignment::default();
        let mut place = |counters| group.place(counters).map(|_| ()).ok_or(EINVAL);
        event.for_each_in_group(|member| place(self.counters_for(member)))?;
        place(counters)
    }

    /// Those counters that can count an event.
    fn counters_for(&self, event: &Event) -> CounterSet {
        EventSel::from_bits(event.config()).counters(self.capabilities.counters)
    }

    /// Takes this CPU's counters over, if that was not done since they were
    /// reserved. IRQs disabled.
    fn take_over(&self, cpu: &Cpu) {
        let tenure = self.tenure.load(Relaxed);
        if cpu.tenure.load(Relaxed) != tenure {
            cpu.bank
                .take_over(self.hal, &ThisCpu, self.capabilities.counters);
            apic::deliver_pmi_as_nmi();
            cpu.tenure.store(tenure, Relaxed);
        }
    }

    /// Adds what `counter` has counted to its event. Any context.
    fn update(&self, cpu: &Cpu, counter: Counter, event: &Event) {
        let mut previous = event.prev_count().load(Relaxed);
        // An NMI in between may have done the same.
        let now = loop {
            let now = cpu.bank.read(&ThisCpu, counter) as i64;
            match event
                .prev_count()
                .compare_exchange(previous, now, Relaxed, Relaxed)
            {
                Ok(_) => break now,
                Err(other) => previous = other,
            }
        };
        let width = self.capabilities.width(counter);
        let delta = period::delta(previous as u64, now as u64, width) as i64;
        event.count().fetch_add(delta, Relaxed);
        event.period_left().fetch_sub(delta, Relaxed);
    }

    /// Programs `counter`, which does not run, for what is left of its event's
    /// period. Returns whether a period has ended. Any context.
    fn program(&self, cpu: &Cpu, counter: Counter, event: &Event) -> bool {
        let period = event.period();
        let rearm = period::rearm(
            event.period_left().load(Relaxed),
            period,
            self.capabilities.max_distance(),
        );
        if rearm.elapsed {
            event.set_last_period(period);
        }
        event.period_left().store(rearm.left, Relaxed);

        let value = period::start_value(rearm.distance, self.capabilities.width(counter));
        event.prev_count().store(value as i64, Relaxed);
        let eventsel = EventSel::from_bits(event.config());
        cpu.bank
            .program(self.hal, &ThisCpu, counter, eventsel, value);
        rearm.elapsed
    }

    /// Moves an event that is on this CPU from one counter to another, free one.
    fn move_event(&self, on: &OnCpu<'_, Self>, from: Counter, to: Counter) -> Result {
        let Some(event) = on.events().get(from.index()) else {
            return Ok(());
        };
        let stopped = event.is_stopped();
        self.stop(on, event, true);
        on.events().remove(event);
        on.events().insert(to.index(), event)?;
        if !stopped {
            self.start(on, event);
        }
        Ok(())
    }

    /// Handles an NMI. NMI context.
    fn handle_pmi(&self, on: &OnCpu<'_, Self>, regs: &Regs<'_>) -> nmi::Return {
        let cpu = on.state();
        if cpu.tenure.load(Relaxed) == 0 {
            return nmi::Return::None;
        }
        cpu.pmis
            .store(cpu.pmis.load(Relaxed).wrapping_add(1), Relaxed);

        cpu.bank.run(self.hal, &ThisCpu, CounterSet::EMPTY);
        let overflowed = cpu.bank.take_overflows(self.hal, &ThisCpu);
        for counter in overflowed & cpu.active() {
            if let Some(event) = on.events().get(counter.index()) {
                self.update(cpu, counter, event);
                let ended = event.last_period();
                if self.program(cpu, counter, event) {
                    event.overflow(self.overflow, regs, ended);
                }
            }
        }
        apic::deliver_pmi_as_nmi();

        if cpu.enabled.load(Relaxed) {
            cpu.bank.run(self.hal, &ThisCpu, cpu.active());
        }
        if overflowed.is_empty() {
            nmi::Return::None
        } else {
            nmi::Return::Handled
        }
    }
}

impl Pmu for CorePmu {
    type Cpu = Cpu;
    type Schedule = Assignment;

    fn event_init(&self, event: &NewEvent<'_>) -> Result {
        let attr = event.attr();
        if attr.precise_ip() != 0 || attr.wants_branch_stack() {
            return Err(perf::not_supported());
        }
        if attr.has_extended_config() {
            return Err(EINVAL);
        }
        // What counts only while a virtual machine runs counts nothing here:
        // the hypervisor would have to switch it.
        let host = !attr.exclude_host();
        let eventsel = EventSel::from_config(
            attr.config(),
            host && !attr.exclude_user(),
            host && !attr.exclude_kernel(),
        )
        .ok_or(EINVAL)?;
        if eventsel.any_thread() {
            if !self.capabilities.any_thread {
                return Err(EINVAL);
            }
            if !perf::perfmon_capable() {
                return Err(EACCES);
            }
        }
        self.fits_in_group(event, eventsel.counters(self.capabilities.counters))?;

        event.set_config(eventsel.bits());
        if !event.is_sampling() {
            event.set_period(self.capabilities.max_distance());
        } else if attr.is_frequency() {
            event.set_period((EVENTS_PER_SECOND / attr.frequency()).max(1));
        }
        self.acquire()
    }

    fn event_destroy(&self, cpus: &PerCpu<Self>) {
        let mut owner = self.owner.lock();
        owner.events -= 1;
        if owner.events == 0 {
            cpus.on_each(|on| {
                let cpu = on.state();
                if cpu.tenure.load(Relaxed) != 0 {
                    cpu.tenure.store(0, Relaxed);
                    cpu.bank
                        .give_back(self.hal, &ThisCpu, self.capabilities.counters);
                }
            });
            owner.reservation = None;
        }
    }

    fn enable(&self, on: &OnCpu<'_, Self>, _: &mut Assignment) {
        let cpu = on.state();
        cpu.enabled.store(true, Relaxed);
        loop {
            let pmis = cpu.pmis.load(Relaxed);
            cpu.bank.run(self.hal, &ThisCpu, cpu.active());
            if cpu.pmis.load(Relaxed) == pmis {
                return;
            }
            // A PMI has run the counters in between; now it is not sure what
            // was written last.
            cpu.bank.forget_running();
        }
    }

    fn disable(&self, on: &OnCpu<'_, Self>, _: &mut Assignment) {
        let cpu = on.state();
        cpu.enabled.store(false, Relaxed);
        cpu.bank.run(self.hal, &ThisCpu, CounterSet::EMPTY);
    }

    fn add(
        &self,
        on: &OnCpu<'_, Self>,
        assignment: &mut Assignment,
        event: &Event,
        start: bool,
    ) -> Result {
        self.take_over(on.state());
        let placement = assignment.place(self.counters_for(event)).ok_or(EAGAIN)?;
        for (from, to) in placement.moves() {
            self.move_event(on, from, to)?;
        }
        on.events().insert(placement.counter.index(), event)?;
        event.set_stopped();
        event.set_up_to_date();
        if start {
            self.start(on, event);
        }
        Ok(())
    }

    fn del(&self, on: &OnCpu<'_, Self>, assignment: &mut Assignment, event: &Event) {
        self.stop(on, event, true);
        if let Some(counter) = event.index().and_then(Counter::from_index) {
            assignment.remove(counter);
        }
        event.update_userpage();
    }

    fn start(&self, on: &OnCpu<'_, Self>, event: &Event) {
        let Some(counter) = event.index().and_then(Counter::from_index) else {
            return;
        };
        if !event.is_up_to_date() {
            self.update(on.state(), counter, event);
        }
        self.program(on.state(), counter, event);
        event.set_running();
        event.update_userpage();
        on.state().activate(counter);
    }

    fn stop(&self, on: &OnCpu<'_, Self>, event: &Event, update: bool) {
        let Some(counter) = event.index().and_then(Counter::from_index) else {
            return;
        };
        on.state().deactivate(counter);
        event.set_stopped();
        if update && !event.is_up_to_date() {
            self.update(on.state(), counter, event);
            event.set_up_to_date();
        }
    }

    fn read(&self, on: &OnCpu<'_, Self>, event: &Event) {
        if event.is_up_to_date() {
            return;
        }
        if let Some(counter) = event.index().and_then(Counter::from_index) {
            self.update(on.state(), counter, event);
        }
    }
}

/// What NMIs are passed to.
pub(crate) struct PmiHandler(pub(crate) Arc<Instance<CorePmu>>);

impl nmi::Handler for PmiHandler {
    fn handle(&self, regs: &Regs<'_>) -> nmi::Return {
        let on = self.0.cpus().this(regs);
        self.0.driver().handle_pmi(&on, regs)
    }
}

/// The folders of the PMU in sysfs: the same as the in-tree driver's `cpu` has,
/// so far as this CPU has the events.
pub(crate) fn attribute_groups(capabilities: &Capabilities) -> Result<AttributeGroups> {
    let mut format = KVec::new();
    for (name, line) in FORMAT {
        format.push((name, line), GFP_KERNEL)?;
    }
    if capabilities.any_thread {
        format.push((c"any", c"config:21"), GFP_KERNEL)?;
    }

    let mut events = KVec::new();
    for (bit, name, line) in EVENTS {
        if capabilities.has_event(bit) {
            events.push((name, line), GFP_KERNEL)?;
        }
    }
    if !(capabilities.counters & REF_CYCLES).is_empty() {
        events.push((c"ref-cycles", c"event=0x00,umask=0x03"), GFP_KERNEL)?;
    }
    AttributeGroups::new(&[(c"format", &format), (c"events", &events)])
}

/// The counter that alone counts `ref-cycles`.
const REF_CYCLES: CounterSet = CounterSet::fixed(1 << 2);

/// Where the bits of `attr.config` are, see [`EventSel`].
const FORMAT: [(&CStr, &CStr); 6] = [
    (c"event", c"config:0-7"),
    (c"umask", c"config:8-15"),
    (c"edge", c"config:18"),
    (c"pc", c"config:19"),
    (c"inv", c"config:23"),
    (c"cmask", c"config:24-31"),
];

/// The architectural events, by their bit in CPUID.0AH:EBX (SDM vol. 3, table
/// "UMask and Event Select Encodings for Pre-Defined Architectural Performance
/// Events").
const EVENTS: [(u8, &CStr, &CStr); 9] = [
    (0, c"cpu-cycles", c"event=0x3c"),
    (0, c"cycles", c"event=0x3c"),
    (1, c"instructions", c"event=0xc0"),
    (2, c"bus-cycles", c"event=0x3c,umask=0x01"),
    (3, c"cache-references", c"event=0x2e,umask=0x4f"),
    (4, c"cache-misses", c"event=0x2e,umask=0x41"),
    (5, c"branch-instructions", c"event=0xc4"),
    (5, c"branches", c"event=0xc4"),
    (6, c"branch-misses", c"event=0xc5"),
];
