// SPDX-License-Identifier: GPL-2.0

//! `rust_pmu`: the performance counters of each core.
//!
//! Events are put on counters when perf adds them ([`CorePmu::add`]). The
//! counters of started events, [`Cpu::active`], run while perf has the PMU
//! enabled and no PMI is being handled, [`Cpu::enabled`]; what they are
//! programmed to, [`Bank`] knows.
//!
//! # NMIs
//!
//! While perf changes a CPU's events the counters are stopped, but a PMI that
//! is already on its way may still arrive. [`CorePmu::handle_pmi`] therefore
//! works at any time: it handles the counters in [`Cpu::active`], which a
//! counter enters last of all when it is started, and leaves first when it is
//! stopped. A PMI whose counter has left, or that comes twice, is still
//! recognised as one ([`CorePmu::is_late_pmi`]), for the kernel complains of
//! NMIs that nobody knows.
//!
//! # RDPMC in user mode
//!
//! Which task may read counters the kernel knows, but does not tell: whoever
//! has an event of any PMU mapped, their children, or everyone. So a counter
//! that an event has left is cleared before any task runs again
//! ([`CorePmu::enable`]), or it would tell of another.
//!
//! # Virtual machines
//!
//! What a virtual machine that this one runs executes is counted, whatever
//! `exclude_guest` says, and events of `exclude_host` count nothing: both
//! would need the hypervisor to switch the counters. Where KVM gives a machine
//! the counters themselves (mediated vPMU), which it does without reserving
//! them, events here and there spoil each other.

use crate::{
    perf::{
        self,
        AttributeGroups,
        Event,
        File,
        Instance,
        NewEvent,
        OnCpu,
        OverflowHandler,
        PerCpu,
        Pmu,
        Regs,
        Selector,
        MAX_EVENTS, //
    },
    pmc::{
        assign::Assignment,
        counter::{
            Counter,
            CounterSet,
            MAX_COUNTERS, //
        },
        event::EventSel,
        period, //
    },
    x86::{
        hal::{
            Bank,
            CacheEvent,
            Capabilities, //
        },
        nmi,
        Hardware,
        LatePmi,
        Reservation, //
    }, //
};
use core::sync::atomic::{
    AtomicBool,
    AtomicU64,
    Ordering::Relaxed, //
};
use kernel::{
    mm::Mm,
    new_mutex,
    pr_warn_once,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// The rate that is assumed of an event that is sampled at a frequency: from
/// the period that follows from it, perf works out the right one.
const EVENTS_PER_SECOND: u64 = 1 << 28;

/// What the PMU keeps of a CPU and what its NMIs see: words that only this CPU
/// accesses, hence with `Relaxed`, and as plain loads and stores.
#[derive(Default)]
pub(crate) struct Cpu {
    bank: Bank,
    /// The counters, as a [`CounterSet`], whose events are started.
    active: AtomicU64,
    /// Whether the active counters are to run.
    enabled: AtomicBool,
    /// The [tenure](CorePmu::tenure) in which this CPU's counters were taken
    /// over; 0 if they were not.
    tenure: AtomicU64,
    /// The counters, as a [`CounterSet`], that events have left and that are to
    /// be cleared.
    left: AtomicU64,
    /// Counts the NMIs that may have run the counters.
    nmis: AtomicU64,
    /// Whether a counter is being stopped, which may just have overflowed.
    stopping: AtomicBool,
    late: LatePmi,
    /// Whether the counters are to be taken up again when the system wakes up.
    asleep: AtomicBool,
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
    hardware: Hardware,
    overflow: OverflowHandler,
    #[pin]
    owner: Mutex<Owner>,
    /// Which reservation of the counters this is, or will be the next, from 1
    /// on. Written with `owner` locked.
    tenure: AtomicU64,
    /// Whether the system is going down: no counter is to be started any more.
    down: AtomicBool,
}

impl CorePmu {
    /// A driver for this hardware.
    pub(crate) fn new(hardware: Hardware, overflow: OverflowHandler) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            hardware,
            overflow,
            owner <- new_mutex!(Owner::default()),
            tenure: AtomicU64::new(1),
            down: AtomicBool::new(false),
        })
    }

    /// Has the counters reserved for one more event.
    fn acquire(&self) -> Result {
        let mut owner = self.owner.lock();
        if owner.reservation.is_none() {
            let reservation = Reservation::take(&self.hardware.capabilities)
                .inspect_err(|_| {
                    pr_warn_once!(
                        "the counters are in use, by events of the in-tree `cpu` PMU or the NMI watchdog; \
                         close those events, `sysctl kernel.nmi_watchdog=0`\n"
                    )
                })?;
            owner.reservation = Some(reservation);
        }
        owner.events += 1;
        Ok(())
    }

    /// The encoding of an event, as in `attr.config`.
    fn resolve(&self, selector: Selector) -> Result<u64> {
        match selector {
            Selector::Config(config) => Ok(config),
            Selector::Hardware(id) if id < PERF_COUNT_HW_MAX => {
                self.hardware.capabilities.hardware_event(id).ok_or(ENOENT)
            }
            Selector::Hardware(_) => Err(EINVAL),
            Selector::HwCache(id) => match self.hardware.capabilities.cache_event(id) {
                CacheEvent::Config(config) => Ok(config),
                CacheEvent::Missing => Err(ENOENT),
                CacheEvent::Invalid => Err(EINVAL),
            },
        }
    }

    /// Whether all events of the group that `event` joins fit at once, with it.
    fn fits_in_group(&self, event: &NewEvent<'_>, counters: CounterSet) -> Result {
        let mut group = Assignment::default();
        let mut place = |counters| group.place(counters).map(|_| ()).ok_or(EINVAL);
        event.for_each_in_group(|member| place(self.counters_for(member)))?;
        place(counters)
    }

    /// Those counters that can count what `eventsel` says.
    fn counters_of(&self, eventsel: EventSel) -> CounterSet {
        self.hardware.capabilities.counters_for(eventsel)
    }

    /// Those counters that can count an event.
    fn counters_for(&self, event: &Event) -> CounterSet {
        self.counters_of(EventSel::from_bits(event.config()))
    }

    /// Whether a CPU's counters were taken over since they were reserved.
    fn has_taken(&self, cpu: &Cpu) -> bool {
        cpu.tenure.load(Relaxed) == self.tenure.load(Relaxed)
    }

    /// Takes this CPU's counters over, if that was not done since they were
    /// reserved, or they may have lost what they held. IRQs disabled.
    fn take_over(&self, cpu: &Cpu) {
        if !self.has_taken(cpu) {
            let hardware = &self.hardware;
            hardware.user_rdpmc.clear_in_tree();
            cpu.bank.take_over(&hardware.capabilities, &hardware.cpu);
            hardware.apic.deliver_pmi_as_nmi();
            cpu.tenure.store(self.tenure.load(Relaxed), Relaxed);
        }
    }

    /// Gives this CPU's counters back. IRQs disabled.
    fn give_back(&self, cpu: &Cpu) {
        let hardware = &self.hardware;
        cpu.tenure.store(0, Relaxed);
        cpu.bank.give_back(&hardware.capabilities, &hardware.cpu);
    }

    /// Runs just these counters.
    fn run(&self, cpu: &Cpu, counters: CounterSet) {
        cpu.bank
            .run(&self.hardware.capabilities, &self.hardware.cpu, counters);
    }

    /// Runs the active counters, if they are to run. Any context.
    fn run_active(&self, cpu: &Cpu) {
        while cpu.enabled.load(Relaxed) {
            let nmis = cpu.nmis.load(Relaxed);
            self.run(cpu, cpu.active());
            if cpu.nmis.load(Relaxed) == nmis {
                return;
            }
            // An NMI has run the counters in between; now it is not sure what
            // was written last.
            cpu.bank.forget_running();
        }
    }

    /// Adds what `counter` has counted to its event, and returns what the
    /// counter holds. Any context.
    fn update(&self, cpu: &Cpu, counter: Counter, event: &Event) -> u64 {
        let width = self.hardware.capabilities.width(counter);
        let prev_count = event.prev_count();
        let (previous, now) = loop {
            let nmis = cpu.nmis.load(Relaxed);
            let previous = prev_count.load(Relaxed);
            let now = cpu.bank.read(&self.hardware.cpu, counter);
            // An NMI in between may have done the same, and started the counter again. If it
            // came after this and started it at `previous`, nobody can tell; the in-tree driver
            // has that hole, too.
            let done = cpu.nmis.load(Relaxed) == nmis
                && prev_count
                    .compare_exchange(previous, period::sign_extend(now, width), Relaxed, Relaxed)
                    .is_ok();
            if done {
                break (previous, now);
            }
        };
        let delta = period::delta(previous as u64, now, width) as i64;
        event.count().fetch_add(delta, Relaxed);
        event.period_left().fetch_sub(delta, Relaxed);
        now
    }

    /// Programs `counter`, which does not run, for what is left of its event's
    /// period. Returns whether a period has ended. Any context.
    fn program(&self, cpu: &Cpu, counter: Counter, event: &Event) -> bool {
        let period = event.period();
        let rearm = period::rearm(
            event.period_left().load(Relaxed),
            period,
            self.hardware.capabilities.max_distance(),
        );
        if rearm.elapsed {
            event.set_last_period(period);
        }
        event.period_left().store(rearm.left, Relaxed);

        let width = self.hardware.capabilities.width(counter);
        let value = period::start_value(rearm.distance, width);
        // What user mode adds to it has its sign extended.
        event
            .prev_count()
            .store(period::sign_extend(value, width), Relaxed);
        let eventsel = EventSel::from_bits(event.config());
        cpu.left.fetch_and(!CounterSet::of(counter).bits(), Relaxed);
        cpu.bank.program(
            &self.hardware.capabilities,
            &self.hardware.cpu,
            counter,
            eventsel,
            value,
        );
        rearm.elapsed
    }

    /// Moves an event that is on this CPU from one counter to another, free one.
    fn move_event(&self, on: &OnCpu<'_, Self>, from: Counter, to: Counter) {
        let Some(event) = on.events().get(from.index()) else {
            return;
        };
        let stopped = event.is_stopped();
        self.leave(on, from, event);
        // The place is free, and the event has none.
        let moved = on.events().insert(to.index(), event);
        if moved.is_ok() && !stopped {
            self.start(on, event);
        }
    }

    /// Handles an NMI of a CPU whose counters are ours. NMI context.
    fn handle_pmi(&self, on: &OnCpu<'_, Self>, regs: &Regs<'_>) -> nmi::Return {
        let cpu = on.state();
        cpu.nmis.fetch_add(1, Relaxed);
        let enabled = cpu.enabled.swap(false, Relaxed);

        let hardware = &self.hardware;
        self.run(cpu, CounterSet::EMPTY);
        let overflowed =
            cpu.bank
                .take_overflows(&hardware.capabilities, &hardware.cpu, cpu.active());
        for counter in overflowed {
            // A sample may have had the events of other counters stopped.
            if !cpu.active().contains(counter) {
                continue;
            }
            if let Some(event) = on.events().get(counter.index()) {
                self.update(cpu, counter, event);
                let ended = event.last_period();
                let elapsed = self.program(cpu, counter, event);
                event.update_userpage();
                if elapsed {
                    event.overflow(self.overflow, regs, ended);
                }
            }
        }
        let causes = match overflowed.len() {
            0 => u32::from(self.is_late_pmi(cpu)),
            causes => {
                // It might come twice.
                cpu.late.expect_one();
                causes
            }
        };
        if causes != 0 {
            self.unmask_pmi();
        }

        cpu.enabled.store(enabled, Relaxed);
        self.run_active(cpu);
        match causes {
            0 => nmi::Return::None,
            causes => nmi::Return::Handled(causes),
        }
    }

    /// Handles an NMI of a CPU whose counters are not ours, but may have been
    /// when it was on its way. NMI context.
    fn handle_leftover(&self, cpu: &Cpu) -> nmi::Return {
        if !cpu.late.take() {
            return nmi::Return::None;
        }
        // Whoever has the counters now may rely on it.
        self.unmask_pmi();
        nmi::Return::Handled(1)
    }

    /// Has the next PMI delivered, too, where the last one has masked it.
    fn unmask_pmi(&self) {
        if self.hardware.capabilities.generation.masks_lvtpc {
            self.hardware.apic.deliver_pmi_as_nmi();
        }
    }

    /// Whether an NMI for which no counter has overflowed is a PMI all the same.
    /// NMI context.
    fn is_late_pmi(&self, cpu: &Cpu) -> bool {
        if self.hardware.capabilities.generation.masks_lvtpc {
            self.hardware.apic.masks_pmi()
        } else {
            cpu.stopping.swap(false, Relaxed) || cpu.late.take()
        }
    }

    /// Takes the event off its counter. IRQs disabled, PMU disabled.
    fn leave(&self, on: &OnCpu<'_, Self>, counter: Counter, event: &Event) {
        self.stop(on, event, true);
        on.events().remove(event);
        let left = CounterSet::of(counter).bits();
        on.state().left.fetch_or(left, Relaxed);
    }

    /// Clears the counters that events have left, unless they have been
    /// programmed since. IRQs disabled, PMU disabled.
    fn clear_left(&self, cpu: &Cpu) {
        let left = CounterSet::from_bits(cpu.left.load(Relaxed));
        if !left.is_empty() {
            cpu.left.store(0, Relaxed);
            cpu.bank
                .clear(&self.hardware.capabilities, &self.hardware.cpu, left);
        }
    }

    /// Stops the counters, and has the events know what they have counted: the
    /// counters are going to lose it. IRQs disabled.
    fn save_counts(&self, on: &OnCpu<'_, Self>) {
        let cpu = on.state();
        self.run(cpu, CounterSet::EMPTY);
        for counter in self.hardware.capabilities.counters {
            if let Some(event) = on.events().get(counter.index()) {
                if !event.is_up_to_date() {
                    self.update(cpu, counter, event);
                }
                if event.is_stopped() {
                    event.set_up_to_date();
                }
            }
        }
    }
}

/// Every counter has a place among the events of a CPU.
const _: () = assert!(MAX_COUNTERS <= MAX_EVENTS);

impl Pmu for CorePmu {
    type Cpu = Cpu;
    type Schedule = Assignment;

    fn event_init(&self, event: &NewEvent<'_>) -> Result {
        let attr = event.attr();
        // Of two faults the user hears of the same as from the in-tree driver.
        if attr.precise_ip() != 0 {
            return Err(perf::not_supported());
        }
        if attr.sampled_registers() & EXTENDED_REGISTERS != 0 {
            return Err(EINVAL);
        }
        let config = self.resolve(attr.selector())?;
        if attr.wants_branch_stack() {
            return Err(perf::not_supported());
        }
        if attr.has_extended_config() {
            return Err(EINVAL);
        }
        let host = !attr.exclude_host();
        let eventsel = EventSel::from_config(
            config,
            self.hardware.capabilities.config_mask(),
            host && !attr.exclude_user(),
            host && !attr.exclude_kernel(),
        )
        .ok_or(EINVAL)?;
        if eventsel.any_thread() && !perf::perfmon_capable() {
            return Err(EACCES);
        }
        self.fits_in_group(event, self.counters_of(eventsel))?;

        event.set_config(eventsel.bits());
        if !event.is_sampling() {
            event.set_period(self.hardware.capabilities.max_distance());
        } else if attr.is_frequency() {
            let period = EVENTS_PER_SECOND.checked_div(attr.frequency());
            event.set_period(period.map_or(1, |period| period.max(1)));
        }
        self.acquire()
    }

    fn event_destroy(&self, cpus: &PerCpu<Self>) {
        let mut owner = self.owner.lock();
        owner.events -= 1;
        if owner.events == 0 {
            cpus.on_each(|cpu| self.has_taken(cpu), |on| self.give_back(on.state()));
            self.tenure.fetch_add(1, Relaxed);
            owner.reservation = None;
        }
    }

    fn enable(&self, on: &OnCpu<'_, Self>, _: &mut Assignment) {
        self.clear_left(on.state());
        on.state().enabled.store(true, Relaxed);
        self.run_active(on.state());
    }

    fn disable(&self, on: &OnCpu<'_, Self>, _: &mut Assignment) {
        on.state().enabled.store(false, Relaxed);
        self.run(on.state(), CounterSet::EMPTY);
    }

    fn add(
        &self,
        on: &OnCpu<'_, Self>,
        assignment: &mut Assignment,
        event: &Event,
        start: bool,
    ) -> Result {
        if self.down.load(Relaxed) {
            return Err(EAGAIN);
        }
        self.take_over(on.state());
        let placement = assignment.place(self.counters_for(event)).ok_or(EAGAIN)?;
        for (from, to) in placement.moves() {
            self.move_event(on, from, to);
        }
        event.set_stopped();
        event.set_up_to_date();
        on.events()
            .insert(placement.counter.index(), event)
            .inspect_err(|_| assignment.remove(placement.counter))?;
        if start {
            self.start(on, event);
        }
        Ok(())
    }

    fn del(&self, on: &OnCpu<'_, Self>, assignment: &mut Assignment, event: &Event) {
        if let Some(counter) = event.index().and_then(Counter::from_index) {
            self.leave(on, counter, event);
            assignment.remove(counter);
        }
    }

    fn start(&self, on: &OnCpu<'_, Self>, event: &Event) {
        let Some(counter) = event.index().and_then(Counter::from_index) else {
            return;
        };
        if self.down.load(Relaxed) {
            return;
        }
        if !event.is_up_to_date() {
            self.update(on.state(), counter, event);
        }
        self.program(on.state(), counter, event);
        event.set_running();
        event.update_userpage();
        on.state().activate(counter);
        self.run_active(on.state());
    }

    fn stop(&self, on: &OnCpu<'_, Self>, event: &Event, update: bool) {
        let Some(counter) = event.index().and_then(Counter::from_index) else {
            return;
        };
        let cpu = on.state();
        let stopping = cpu.stopping.swap(true, Relaxed);
        cpu.deactivate(counter);
        self.run_active(cpu);
        event.set_stopped();
        // Without looking, who knows.
        let mut wrapped = !update;
        if update && !event.is_up_to_date() {
            let value = self.update(cpu, counter, event);
            event.set_up_to_date();
            wrapped = period::has_wrapped(value, self.hardware.capabilities.width(counter));
        }
        // Unless its PMI has come since.
        if cpu.stopping.swap(stopping, Relaxed) && wrapped {
            cpu.late.expect();
        }
        event.update_userpage();
    }

    fn read(&self, on: &OnCpu<'_, Self>, event: &Event) {
        if event.is_up_to_date() {
            return;
        }
        if let Some(counter) = event.index().and_then(Counter::from_index) {
            self.update(on.state(), counter, event);
        }
    }

    fn user_index(&self, event: &Event) -> Option<u32> {
        let counter = event.index().and_then(Counter::from_index)?;
        event.is_user_readable().then_some(counter.rdpmc())
    }

    fn event_mapped(&self, event: &Event, mm: &Mm) {
        let user_rdpmc = &self.hardware.user_rdpmc;
        user_rdpmc.allow(mm);
        if !event.is_user_readable()
            && user_rdpmc.is_allowed()
            && user_rdpmc.page_width() == self.hardware.capabilities.general_width
        {
            event.set_user_readable();
            event.update_userpage();
        }
    }

    fn event_unmapped(&self, _: &Event, mm: &Mm) {
        self.hardware.user_rdpmc.disallow(mm);
    }

    fn prepare_cpu(&self, cpu: &Cpu) {
        cpu.tenure.store(0, Relaxed);
    }

    fn suspend(&self, on: &OnCpu<'_, Self>) {
        let cpu = on.state();
        if self.has_taken(cpu) {
            // NMIs must leave the counters alone till the end of `resume`; a PMI may be on its way.
            cpu.late.expect_one();
            cpu.tenure.store(0, Relaxed);
            cpu.asleep.store(true, Relaxed);
            self.save_counts(on);
        }
    }

    fn resume(&self, on: &OnCpu<'_, Self>) {
        let (cpu, hardware) = (on.state(), &self.hardware);
        if !cpu.asleep.swap(false, Relaxed) {
            return;
        }
        cpu.bank.reset(&hardware.capabilities, &hardware.cpu);
        for counter in cpu.active() {
            if let Some(event) = on.events().get(counter.index()) {
                self.program(cpu, counter, event);
                event.update_userpage();
            }
        }
        hardware.apic.deliver_pmi_as_nmi();
        cpu.tenure.store(self.tenure.load(Relaxed), Relaxed);
        self.run_active(cpu);
    }

    fn shutdown(&self, cpus: &PerCpu<Self>) {
        self.down.store(true, Relaxed);
        // While it is locked the tenure does not end.
        let _owner = self.owner.lock();
        // On each CPU, for one that is about to take its counters over does not look so yet;
        // after this, it will see that it must not.
        cpus.on_each(
            |_| true,
            |on| {
                if !self.has_taken(on.state()) {
                    return;
                }
                for counter in on.state().active() {
                    if let Some(event) = on.events().get(counter.index()) {
                        self.stop(on, event, true);
                    }
                }
                self.save_counts(on);
                self.give_back(on.state());
            },
        );
    }
}

/// What NMIs are passed to.
pub(crate) struct PmiHandler(pub(crate) Arc<Instance<CorePmu>>);

impl nmi::Handler for PmiHandler {
    fn handle(&self, regs: &Regs<'_>) -> nmi::Return {
        let on = self.0.cpus().this(regs);
        let driver = self.0.driver();
        if !driver.has_taken(on.state()) {
            return driver.handle_leftover(on.state());
        }
        driver.overflow.timed(regs, || driver.handle_pmi(&on, regs))
    }
}

/// The registers that only precise samples of some CPUs have, from XMM0 on
/// (`arch/x86/include/uapi/asm/perf_regs.h`).
const EXTENDED_REGISTERS: u64 = !0 << 32;

/// One more than the highest number of a generic hardware event.
const PERF_COUNT_HW_MAX: u64 = 10;

/// The folders of the PMU in sysfs: the same as the in-tree driver's `cpu` has,
/// so far as this CPU has the events.
pub(crate) fn attribute_groups(capabilities: &Capabilities) -> Result<AttributeGroups> {
    let mut format = KVec::new();
    for field in capabilities.format() {
        format.push(
            File::new(field.name, fmt!("config:{}", field.bits))?,
            GFP_KERNEL,
        )?;
    }

    let mut events = KVec::new();
    for event in capabilities.events() {
        for name in event.name.files() {
            events.push(
                File::new(name, format_args!("{}", event.terms()))?,
                GFP_KERNEL,
            )?;
        }
    }

    let mut caps = KVec::new();
    // There is no PEBS: a sample is where the PMI was.
    caps.push(File::new(c"max_precise", fmt!("0"))?, GFP_KERNEL)?;
    if let Some(name) = capabilities.pmu_name {
        caps.push(File::new(c"pmu_name", fmt!("{name}"))?, GFP_KERNEL)?;
    }
    AttributeGroups::new([(c"format", format), (c"events", events), (c"caps", caps)])
}
