// SPDX-License-Identifier: GPL-2.0

//! What a CPU's counters can do.

mod reduced;

use super::{
    cache::CacheEvent,
    counter::{
        Counter,
        CounterSet, //
    },
    event::{
        EventSel,
        FixedCtrCtrl, //
    },
    extra::{
        Extra,
        ExtraError,
        ExtraField,
        ExtraRegister,
        ExtraSet, //
    },
    generation::{
        Generation,
        GlobalRegisters, //
    },
    lbr::Lbr,
    msr::Msr,
    named::{
        self,
        EventName,
        Events,
        FormatField,
        NamedEvent,
        Presence, //
    },
    needs::Needs,
    pair::Pairs,
    period,
    registers::Registers, //
};
use core::{
    ffi::CStr,
    ptr, //
};

/// What a CPU's counters can do. Made by [`detect`](super::detect()).
#[derive(Clone, Copy)]
pub struct Capabilities {
    /// How the counters are driven.
    pub generation: &'static Generation,
    /// GLOBAL_CTRL of a CPU that is driven as an older generation. It must enable
    /// the counters while the driver owns them.
    pub(super) bypassed_global: Option<&'static GlobalRegisters>,
    /// The counters that the driver uses: all that exist, unless it was told to leave some out.
    pub counters: CounterSet,
    /// The GP counters that exist.
    pub(super) existing_gp: CounterSet,
    /// The number of bits of a GP counter.
    pub gp_width: u8,
    /// The number of bits of a fixed counter.
    pub fixed_width: u8,
    /// The number of low bits of a GP counter that a write sets. The highest of them is
    /// copied into the bits above.
    pub(super) writable_width: u8,
    pub(super) events: &'static Events,
    /// The bits of `attr.config` that `format/` in sysfs names.
    pub(super) format: u64,
    /// The extra registers that exist. CPUID does not enumerate them: a CPU has those of its
    /// model. Not every hypervisor provides them, so there the caller must probe them.
    pub(super) extra: ExtraSet,
    /// Whether the extra registers have fields in `format/`.
    pub(super) names_extra: bool,
    /// The architectural events that are missing, by their bits in CPUID.
    pub(super) missing_events: u32,
    /// Whether the kernel arbitrates the MSRs that the in-tree driver uses on this CPU
    /// (`reserve_perfctr_nmi()`, `arch/x86/kernel/cpu/perfctr-watchdog.c`). It does not
    /// know those of version 6.
    pub reservable: bool,
    /// Whether the CPU has SVM, so that EVENTSEL can select the host or guests
    /// ([`EventSel::HOST_ONLY`]).
    pub svm: bool,
    /// The fields of PERF_METRICS that the driver knows. Events count them together with
    /// [`Counter::SLOTS`].
    pub metrics: CounterSet,
    /// Whether PERF_CAPABILITIES says that RDPMC can clear them.
    pub(super) metrics_clear: bool,
    /// Whether a core has more than one thread.
    pub(super) threads: bool,
    /// What becomes of events that take a pair of counters.
    pub(super) pairs: Pairs,
    /// Whether the threads of a core must not share the counters of some events.
    pub(super) exclusive: bool,
    /// Whether a counter can be hidden from user mode, with [`EventSel::RDPMC_USER_DISABLE`].
    pub hides_counters: bool,
    /// What the CPU records of branches, if it does.
    pub lbr: Option<Lbr>,
    /// `caps/pmu_name` of the in-tree driver, which it has for Intel's CPUs.
    pub pmu_name: Option<&'static str>,
}

impl Capabilities {
    /// These capabilities, with only the counters that have registers. `None` if the driver cannot work
    /// with those.
    pub(super) fn check(mut self) -> Option<Self> {
        self.counters = self.counters & self.generation.addressable();
        self.existing_gp = self.counters.gp_part();
        if !self.events.constraints.have_pairs() {
            self.pairs = Pairs::NotNeeded;
        }
        let usable = |width| (32..=64).contains(&width);
        let gp = !self.counters.gp_part().is_empty() && usable(self.gp_width);
        let fixed = self.counters.fixed_part().is_empty() || usable(self.fixed_width);
        if self.generation.global.is_none() || !self.counters.contains(Counter::SLOTS) {
            self.metrics = CounterSet::EMPTY;
        }
        (gp && fixed).then_some(self)
    }

    /// The named events that the CPU can count.
    pub fn events(&self) -> impl Iterator<Item = &'static NamedEvent> + '_ {
        self.known_events().filter(|event| match event.presence {
            Presence::Fixed(i) => Counter::fixed(i).is_some_and(|i| self.counters.contains(i)),
            Presence::Architectural(_) | Presence::Always => true,
        })
    }

    /// The files of the topdown events: name and contents. They include slots if slots have
    /// metrics.
    pub fn topdown_files(&self) -> impl Iterator<Item = (&'static CStr, &'static str)> + '_ {
        let topdown = self.events.topdown;
        let hidden = topdown.metrics != 0 && self.metrics.is_empty();
        let files = topdown.files.iter().filter(move |_| !hidden);
        files.map(|file| (file.name, file.text(self.threads)))
    }

    /// The encoding in `attr.config` of the generic hardware event
    /// `PERF_COUNT_HW_*` with this number. There may be no counter that can count it.
    pub fn hardware_event(&self, id: u64) -> Option<u64> {
        self.known_events()
            .find(|event| event.name != EventName::Slots && event.name as u64 == id)
            .map(|event| event.config)
    }

    /// The generic cache event with this number: cache, operation and result, one
    /// byte each (`include/uapi/linux/perf_event.h`).
    pub fn cache_event(&self, id: u64) -> CacheEvent {
        self.events.cache_event(id)
    }

    /// The named events, except for those that CPUID declares missing. Each name has one.
    pub(super) fn known_events(&self) -> impl Iterator<Item = &'static NamedEvent> + '_ {
        let known = || {
            let rows = self.events.named.iter().copied().flatten();
            rows.filter(|event| match event.presence {
                Presence::Architectural(bit) => {
                    self.missing_events.wrapping_shr(bit.into()) & 1 == 0
                }
                Presence::Fixed(_) | Presence::Always => true,
            })
        };
        known().filter(move |event| {
            let first = known().find(|row| row.name == event.name);
            first.is_some_and(|first| ptr::eq(first, *event))
        })
    }

    /// The fields of `attr.config`.
    pub fn format(&self) -> impl Iterator<Item = &'static FormatField> {
        named::format_fields(self.format)
    }

    /// The fields of `attr.config1`.
    pub fn extra_format(&self) -> impl Iterator<Item = &'static ExtraField> + '_ {
        let fields = self.events.extra.fields();
        fields.filter(|_| self.names_extra)
    }

    /// The bits of `attr.config` that select an event.
    pub const fn config_mask(&self) -> u64 {
        self.format & !EventSel::PC.mask()
    }

    /// Whether an event is a metric of this CPU.
    pub fn is_metric(&self, event: EventSel) -> bool {
        event
            .metric()
            .is_some_and(|metric| self.metrics.contains(metric))
    }

    /// The counters that can count an event. If it takes a pair, they are the first ones of
    /// pairs.
    pub fn counters_for(&self, event: EventSel) -> CounterSet {
        // AMD's CPUs have other events with these codes.
        let metric = event.metric();
        if let Some(metric) = metric.filter(|metric| self.metrics.contains(*metric)) {
            return CounterSet::of(metric);
        }
        let constraints = &self.events.constraints;
        if self.pairs == Pairs::Missing && constraints.needs_pair(event) {
            return CounterSet::EMPTY;
        }
        let counters = constraints.counters(self.counters, event);
        self.logged(self.in_transactions(counters, event), event)
    }

    /// Those of `counters` that can log the event in branch records, if it is to be logged.
    fn logged(&self, counters: CounterSet, event: EventSel) -> CounterSet {
        if !event.has(EventSel::LBR_LOG) {
            return counters;
        }
        match self.lbr.filter(Lbr::logs) {
            Some(lbr) => counters & lbr.logged,
            // On AMD's CPUs this bit is a part of the event select.
            None => counters,
        }
    }

    /// Whether an event takes a pair of counters: the one that it is on, and the next.
    pub fn needs_pair(&self, event: EventSel) -> bool {
        self.pairs == Pairs::Possible && self.events.constraints.needs_pair(event)
    }

    /// What an event needs of the counters.
    pub fn needs(&self, event: EventSel) -> Needs {
        Needs::one_of(self.counters_for(event))
            .with_pair(self.needs_pair(event))
            .with_exclusive(self.is_exclusive(event))
    }

    /// Whether GLOBAL_CTRL starts and stops the counters.
    pub fn has_global_control(&self) -> bool {
        self.generation.global.is_some()
    }

    /// Whether an event may make the counters of the same number of the core's other threads
    /// count wrongly.
    pub fn is_exclusive(&self, event: EventSel) -> bool {
        self.exclusive && self.events.constraints.is_exclusive(event)
    }

    /// Whether [`Self::is_exclusive`] holds for any event.
    pub fn any_exclusive(&self) -> bool {
        self.exclusive
    }

    /// Whether [`Counters::clear_selection`](super::Counters::clear_selection) may be needed.
    pub(super) fn needs_clearing(&self) -> bool {
        self.events.needs_clearing && self.generation.global.is_some()
    }

    /// The extra registers that events of this CPU need.
    pub fn extra_registers(&self) -> impl Iterator<Item = ExtraRegister> + '_ {
        let all = ExtraRegister::ALL.into_iter();
        all.filter(|&register| self.events.extra.need(register))
    }

    /// Whether the threads of a core share the extra registers.
    pub fn shares_extra(&self) -> bool {
        self.events.extra.per_core
    }

    /// The extra register that an event needs, if any, with the value of
    /// `attr.config1` in it.
    pub fn extra(&self, event: EventSel, value: u64) -> Result<Option<Extra>, ExtraError> {
        self.events.extra.of(event, value, self.extra)
    }

    /// The registers in which an event can have the value of `first`, beginning with
    /// that. The event's code depends on the register: see [`Self::event_in`].
    pub fn extra_choices(&self, event: EventSel, first: Extra) -> impl Iterator<Item = Extra> {
        self.events.extra.choices(event, first, self.extra)
    }

    /// An event whose extra register is `register`, with the code for that register.
    pub fn event_in(&self, event: EventSel, register: ExtraRegister) -> EventSel {
        self.events.extra.event_in(event, register)
    }

    /// Whether samples of where an event's data came from need another event in the group.
    pub fn needs_auxiliary(&self, event: EventSel) -> bool {
        let auxiliary = self.events.extra.auxiliary;
        auxiliary.is_some_and(|(code, _)| code == event.code())
    }

    /// The unit mask and event select of what [`Self::needs_auxiliary`] asks for.
    pub fn auxiliary(&self) -> Option<[u8; 2]> {
        let (_, code) = self.events.extra.auxiliary?;
        Some(code.to_be_bytes())
    }

    /// Whether `event` is what [`Self::needs_auxiliary`] asks for.
    pub fn is_auxiliary(&self, event: EventSel) -> bool {
        let auxiliary = self.events.extra.auxiliary;
        auxiliary.is_some_and(|(_, code)| code == event.code())
    }

    /// The registers that the driver uses and RDPMC reads: the counters, and PERF_METRICS if there are
    /// metrics.
    pub fn readable(&self) -> CounterSet {
        self.counters | self.metrics.global()
    }

    /// The counters, and PERF_METRICS if there are metrics: what has a bit in GLOBAL_STATUS.
    pub(super) fn with_status(&self) -> CounterSet {
        self.readable()
    }

    /// The number of bits of a counter. A metric has none of its own, so that the width of one means nothing.
    pub const fn width(&self, counter: Counter) -> u8 {
        // One comparison: this is asked whenever a counter is read.
        match counter.is_gp() {
            true => self.gp_width,
            false => self.fixed_width,
        }
    }

    /// Whether all counters have this number of bits.
    pub fn have_width(&self, width: u8) -> bool {
        let fixed = self.counters.fixed_part().is_empty() || self.fixed_width == width;
        self.gp_width == width && fixed
    }

    /// The registers that the driver reads, all of which the CPU must have.
    pub fn registers(&self) -> impl Iterator<Item = Msr> + '_ {
        let generation = self.generation;
        let gp = self.counters.gp_part().into_iter();
        let eventsels = gp.map(|counter| generation.eventsel(counter));
        let counters = self.counters.into_iter();
        let counters = counters.map(|counter| generation.counter(counter));
        let global = self
            .any_global()
            .into_iter()
            .flat_map(|global| [global.ctrl, global.status]);
        eventsels
            .chain(counters)
            .chain(self.fixed_ctr_ctrl())
            .chain(global)
    }

    /// Whether any counter is enabled on the CPU that the code runs on.
    pub fn is_counting<R: Registers>(&self, regs: R) -> bool {
        let enabled = match self.any_global() {
            Some(global) => CounterSet::from_bits(regs.rdmsr(global.ctrl)) & self.counters,
            None => self.counters,
        };
        let fixed_ctr_ctrl = match self.fixed_ctr_ctrl() {
            Some(msr) if !enabled.fixed_part().is_empty() => {
                FixedCtrCtrl::from_raw(regs.rdmsr(msr))
            }
            _ => FixedCtrCtrl::default(),
        };
        enabled.into_iter().any(|counter| match counter.as_fixed() {
            Some(i) => fixed_ctr_ctrl.counts(i),
            None => {
                let eventsel = regs.rdmsr(self.generation.eventsel(counter));
                EventSel::from_raw(eventsel).has(EventSel::EN)
            }
        })
    }

    /// FIXED_CTR_CTRL, if there are fixed counters.
    pub(super) fn fixed_ctr_ctrl(&self) -> Option<Msr> {
        if self.counters.fixed_part().is_empty() {
            return None;
        }
        self.generation.fixed.as_ref().map(|fixed| fixed.ctrl)
    }

    /// The global registers that the CPU has.
    pub(super) fn any_global(&self) -> Option<&'static GlobalRegisters> {
        self.generation.global.or(self.bypassed_global)
    }

    /// The largest number of events before the wrap at which every counter can be
    /// started.
    pub fn max_period(&self) -> u64 {
        let fixed = if self.counters.fixed_part().is_empty() {
            self.writable_width
        } else {
            self.fixed_width
        };
        period::max_period(self.writable_width.min(fixed))
    }
}
