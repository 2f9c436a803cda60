// SPDX-License-Identifier: GPL-2.0

//! The PMU of one logical processor: the state of its registers and what they do.

mod garbage;
mod saved;

use core::{cell::Cell, fmt};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::saved::{RestoreError, SavedPmu};
use crate::{
    accesses::{AccessCounts, CPUID_ACCESSES},
    config::{Config, ConfigError, RefCycles, Shape, Vendor, MAX_FIXED, MAX_GENERAL},
    event::{Event, Filter, FilteredEvent, Mode, Retired, Totals},
    generation::{self, FreezeOnPmi, Generation},
    metrics::Metrics,
    msr::{
        debugctl, fixed_ctrl, global_status, EventSel, Register, FIXED_SHIFT, FW_WRITE,
        IA32_PERF_CAPABILITIES, IA32_PERF_GLOBAL_STATUS, MSR_PERF_METRICS, PERF_CNTR_GLOBAL_STATUS,
        PERF_METRICS_AVAILABLE, PERF_METRICS_BIT, PMI_IN_USE, RDPMC_METRICS, RDPMC_METRICS_CLEAR,
    },
    pair,
    pmi::{Defect, PmiDelivery, PmiFault},
    processor::{self, Core, Processor, Report, MAX_MODEL_MSRS},
    selection::Selection,
    smt::{Counting, SmtCore},
};

/// The reason why an access to an MSR fails. A failed access changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MsrError {
    /// The access raises #GP.
    GeneralProtection,
    /// The address does not belong to the PMU.
    NotPmu,
}

/// RDPMC raises #GP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneralProtection;

impl fmt::Display for MsrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MsrError::GeneralProtection => "the access raises #GP",
            MsrError::NotPmu => "the address does not belong to the PMU",
        })
    }
}

impl std::error::Error for MsrError {}

impl fmt::Display for GeneralProtection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RDPMC raises #GP")
    }
}

impl std::error::Error for GeneralProtection {}

/// The name of a counter, which need not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    General(usize),
    Fixed(usize),
}

impl Counter {
    /// The bit of the counter in GLOBAL_CTRL and GLOBAL_STATUS.
    fn bit(self) -> u64 {
        match self {
            Counter::General(i) => 1 << i,
            Counter::Fixed(i) => 1 << (FIXED_SHIFT + i),
        }
    }
}

/// Leaf 23H, EBX: RDPMC_USER_DISABLE.
const RDPMC_USER_DISABLE_CPUID: u32 = 1 << 2;

/// The fixed-function counter that PERF_METRICS belongs to. It counts slots.
const SLOTS: usize = 3;

/// The state of AMD's virtualization (APM vol. 2, "Secure Virtual Machine").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Svm {
    /// EFER.SVME.
    pub(crate) enabled: bool,
    /// Whether a guest runs: between VMRUN and #VMEXIT.
    pub(crate) guest: bool,
}

/// A counter that counts.
#[derive(Clone, Copy, Debug)]
struct Active {
    counter: Counter,
    event: FilteredEvent,
    /// Whether it counts in each [`Mode`]. It counts in at least one.
    modes: [bool; 2],
    /// Whether an overflow requests a PMI.
    pmi: bool,
    /// Whether it is merged with the next counter.
    merged: bool,
}

/// What a PMU has to remember: all that distinguishes it from one that has just been created
/// with the same configuration and the same defect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    eventsel: [EventSel; MAX_GENERAL],
    selection: Selection,
    general: [u64; MAX_GENERAL],
    fixed: [u64; MAX_FIXED],
    fixed_ctr_ctrl: u64,
    global_ctrl: u64,
    global_status: u64,
    debugctl: u64,
    /// Of a register that the threads of the core share, the value for which [`Pmu::active`] is
    /// right.
    model_msrs: [u64; MAX_MODEL_MSRS],
    metrics: Metrics,
    svm: Svm,
    /// By [`Mode`].
    totals: [Totals; 2],
    pmi: PmiDelivery,
    /// The accesses that [`Defect::GeneralProtection`] has let through since RESET. It is a
    /// cell because RDMSR, which changes nothing else, is counted too.
    accesses: Cell<u64>,
    /// [`Defect::Foreign`]: the instructions that have retired since the last change while at
    /// least one counter counted.
    since_change: u64,
    /// The number of such changes.
    changes: u64,
}

/// The PMU of one logical processor.
///
/// # Invariants
///
/// - The value of a counter fits its width.
/// - `active` contains exactly the counters that count, given the values of the other
///   registers. What another thread of the core has changed is seen at the next report.
pub struct Pmu {
    config: Config,
    generation: &'static dyn Generation,
    processor: Option<&'static Processor>,
    core: Option<Core>,
    shape: Shape,
    state: State,
    active: Vec<Active>,
    defect: Defect,
    /// The core that this is a thread of, and the number of the thread there.
    smt: Option<(Arc<SmtCore>, usize)>,
    /// If accesses are counted, those since then. It is not part of the state that is saved.
    counted: Option<AccessCounts>,
}

impl Pmu {
    /// The part of a [`Pmu::budget`] that sets no limit: more instructions than can ever
    /// retire.
    pub const UNLIMITED: u64 = u64::MAX / 4;

    /// Creates the PMU that `config` describes, in its state after power-up.
    pub fn new(config: Config) -> Result<Pmu, ConfigError> {
        Pmu::with_defect(config, Defect::None)
    }

    /// Creates a PMU with a defect. Fails with [`ConfigError::Status`], [`ConfigError::Msr`],
    /// [`ConfigError::MaskLvtpc`] or [`ConfigError::Foreign`] if this PMU cannot have it.
    pub fn with_defect(config: Config, defect: Defect) -> Result<Pmu, ConfigError> {
        let pmu = Pmu::at_power_up(config, config.generation()?, defect);
        match defect {
            Defect::Status(bits) if pmu.state.global_status != bits => Err(ConfigError::Status),
            Defect::GeneralProtection { msr, .. } if pmu.register(msr).is_err() => {
                Err(ConfigError::Msr)
            }
            Defect::MaskLvtpc if pmu.generation.pmi_masks_lvtpc() => Err(ConfigError::MaskLvtpc),
            Defect::Foreign { what, .. } if !pmu.has_foreign(what) => Err(ConfigError::Foreign),
            _ => Ok(pmu),
        }
    }

    fn at_power_up(config: Config, generation: &'static dyn Generation, defect: Defect) -> Pmu {
        let shape = config.shape;
        let mut pmu = Pmu {
            config,
            generation,
            processor: config.processor(),
            core: config.core(),
            shape,
            state: State {
                global_ctrl: generation.reset_global_ctrl(&shape),
                pmi: PmiDelivery::new(defect),
                ..State::default()
            },
            active: Vec::with_capacity(MAX_GENERAL + MAX_FIXED),
            defect,
            smt: None,
            counted: None,
        };
        match defect {
            Defect::Status(bits) => pmu.inject_status(bits),
            Defect::Garbage(seed) => pmu.fill(seed.get()),
            _ => {}
        }
        pmu
    }

    /// RESET: restores the state after power-up. Injected faults are dropped, the defect
    /// stays.
    ///
    /// INIT does not change a PMU (SDM vol. 3A, table "IA-32 and Intel 64 Processor States
    /// Following Power-up, Reset, or INIT").
    pub fn reset(&mut self) {
        let (smt, counted) = (self.smt.take(), self.counted.take());
        *self = Pmu::at_power_up(self.config, self.generation, self.defect);
        (self.smt, self.counted) = (smt, counted);
        if let (Some((core, _)), Some(processor)) = (&self.smt, self.processor) {
            processor.msrs_of_core().for_each(|i| core.set_msr(i, 0));
        }
        self.update_active();
        self.take_disturbed();
    }

    /// Makes this the PMU of one of the threads of `core`, until it is dropped. No other PMU may
    /// be that of the same thread meanwhile.
    ///
    /// # Panics
    ///
    /// If the core does not have so many threads.
    pub fn set_thread(&mut self, core: Arc<SmtCore>, thread: usize) {
        assert!(thread < core.threads(), "there is no such thread");
        if let Some((before, thread)) = self.smt.replace((core, thread)) {
            before.leave(thread);
        }
        self.update_active();
    }

    /// AMD: sets EFER.SVME, and whether a guest runs, that is, whether the processor is
    /// between VMRUN and #VMEXIT. All instructions that have retired must have been
    /// reported by [`Pmu::retire`]. RESET clears both.
    pub fn set_svm(&mut self, svme: bool, guest: bool) {
        self.state.svm = Svm {
            enabled: svme,
            guest,
        };
        self.update_active();
    }

    /// Counts accesses to the registers from now on, also across RESET. CPUID leaf
    /// [`CPUID_ACCESSES`] has the counts.
    pub fn count_accesses(&mut self) {
        self.counted = Some(AccessCounts::default());
    }

    /// Returns EAX, EBX, ECX and EDX of subleaf 0 of a CPUID leaf, or `None` if the leaf
    /// does not belong to the PMU.
    pub fn cpuid(&self, leaf: u32) -> Option<[u32; 4]> {
        self.cpuid_count(leaf, 0)
    }

    /// Returns EAX, EBX, ECX and EDX of a CPUID subleaf. A leaf without subleaves returns
    /// the same for all of them.
    pub fn cpuid_count(&self, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        if leaf == CPUID_ACCESSES {
            return self.counted.as_ref().map(|it| it.cpuid(subleaf));
        }
        let [eax, ebx, ecx, edx] = self.cpuid_of_generation(leaf, subleaf)?;
        let added = match (leaf, subleaf) {
            (0x23, 0) if self.has_rdpmc_user_disable() => RDPMC_USER_DISABLE_CPUID,
            _ => 0,
        };
        Some([eax, ebx | added, ecx, edx])
    }

    fn cpuid_of_generation(&self, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        let of_generation = |shape| self.generation.cpuid(shape, leaf, subleaf);
        let Some(core) = self.core else {
            return of_generation(&self.shape);
        };
        match (leaf, core.report()) {
            (0x1a, _) => Some(core.leaf_1ah()),
            (0xa, Report::Common { general, fixed }) => of_generation(&Shape {
                general: general.min(self.shape.general),
                fixed: fixed.min(self.shape.fixed),
                ..self.shape
            }),
            // Without the fields that version 6 adds.
            (0x23, Report::Leaf23h) if !self.generation.has_leaf_23h() => {
                Some(generation::leaf_23h(&self.shape, subleaf, 0))
            }
            _ => of_generation(&self.shape),
        }
    }

    /// CPUID.(7,1):EAX.ArchPerfMonExt: whether leaf 23H exists.
    pub fn perfmon_ext(&self) -> bool {
        let of_core = self.core.map(|core| core.report());
        self.generation.has_leaf_23h() || of_core == Some(Report::Leaf23h)
    }

    /// CPUID.(7,0):EDX.Hybrid: whether the processor is hybrid, and leaf 1AH exists.
    pub fn hybrid(&self) -> bool {
        self.core.is_some()
    }

    /// The value of PERF_CAPABILITIES, `None` if the register does not exist, which is when
    /// CPUID.1:ECX.PDCM is clear.
    pub fn perf_capabilities(&self) -> Option<u64> {
        self.register(IA32_PERF_CAPABILITIES).ok()?;
        let full_width = if self.shape.full_width { FW_WRITE } else { 0 };
        let metrics = match (self.metrics_fields(), self.core) {
            (0, _) => 0,
            (_, Some(core)) if core.hides_metrics() => 0,
            _ => PERF_METRICS_AVAILABLE,
        };
        let clear = match self.metrics_clear_bit() {
            0 => 0,
            _ => RDPMC_METRICS_CLEAR,
        };
        Some(full_width | metrics | clear)
    }

    /// The number of fields of PERF_METRICS, 0 if it does not exist. It needs
    /// fixed-function counter 3.
    fn metrics_fields(&self) -> u8 {
        match self.processor {
            Some(processor) if usize::from(self.shape.fixed) > SLOTS => processor.metrics(),
            _ => 0,
        }
    }

    /// The bit of PERF_METRICS in GLOBAL_CTRL and GLOBAL_STATUS, if it exists.
    fn metrics_bit(&self) -> u64 {
        match self.metrics_fields() {
            0 => 0,
            _ => PERF_METRICS_BIT,
        }
    }

    /// The bit of FIXED_CTR_CTRL with which RDPMC of PERF_METRICS clears both registers, if it
    /// exists (SDM vol. 2B, RDPMC: METRICS_CLEAR_EN).
    fn metrics_clear_bit(&self) -> u64 {
        match self.processor {
            Some(processor) if self.metrics_fields() > 0 && processor.metrics_clear() => {
                fixed_ctrl::METRICS_CLEAR << (SLOTS * fixed_ctrl::BITS)
            }
            _ => 0,
        }
    }

    /// CPUID.80000001H:ECX.PerfCtrExtCore.
    pub fn perfctr_core(&self) -> bool {
        self.generation.perfctr_core()
    }

    /// What reference cycles are.
    pub fn ref_cycles(&self) -> RefCycles {
        self.config.ref_cycles
    }

    /// Whether the local APIC sets the mask bit of LVTPC when it delivers a PMI.
    pub fn pmi_masks_lvtpc(&self) -> bool {
        self.defect == Defect::MaskLvtpc || self.generation.pmi_masks_lvtpc()
    }

    /// Reports what has retired in each [`Mode`] since the last call: [`Pmu::report`] for a PMU
    /// whose reference cycles do not depend on time.
    pub fn retire(&mut self, retired: &[Retired; 2]) {
        self.report(retired, [0; 2]);
    }

    /// Reports what has retired in each [`Mode`] since the last call, and with
    /// [`RefCycles::Tsc`] the cycles of the time-stamp counter that have passed in each mode
    /// while the processor was not halted.
    ///
    /// Counters that overflow set their status bits and together request one PMI. If the
    /// PMI freezes the counters, they stop at the end of this report. An overflow and a
    /// freeze are therefore in the right place only if each report keeps to
    /// [`Pmu::budget`] and [`Pmu::tsc_until_overflow`].
    pub fn report(&mut self, retired: &[Retired; 2], tsc: [u64; 2]) {
        self.take_disturbed();
        if self.take_shared() {
            self.update_active();
        }
        let before = self.state.totals;
        for ((totals, retired), tsc) in self.state.totals.iter_mut().zip(retired).zip(tsc) {
            *totals = totals.after(*retired, tsc);
        }
        let [user, kernel] = retired;
        let instructions = user.instructions.saturating_add(kernel.instructions);
        let counting = !self.active.is_empty();
        self.state.pmi.retire(instructions, counting);

        let mut overflowed = 0;
        let mut pmi = false;
        for active in &self.active {
            let gain: u128 = Mode::ALL
                .into_iter()
                .filter(|&mode| active.modes[mode as usize])
                .map(|mode| {
                    let (before, after) = (before[mode as usize], self.state.totals[mode as usize]);
                    active.event.between(before, after)
                })
                .sum();
            let has_overflowed = match active.counter {
                Counter::General(i) if active.merged => pair::add(&mut self.state.general, i, gain),
                Counter::General(i) => {
                    add(&mut self.state.general[i], self.shape.counter_mask(), gain)
                }
                Counter::Fixed(i) => add(&mut self.state.fixed[i], self.shape.counter_mask(), gain),
            };
            if has_overflowed {
                overflowed |= active.counter.bit();
                pmi |= active.pmi;
            }
            let metrics = self.state.global_ctrl & PERF_METRICS_BIT != 0;
            if active.counter == Counter::Fixed(SLOTS) && metrics {
                let modes = Mode::ALL.into_iter().map(|mode| mode as usize);
                for mode in modes.filter(|&mode| active.modes[mode]) {
                    self.state
                        .metrics
                        .count(before[mode], self.state.totals[mode]);
                }
                if has_overflowed && self.state.metrics.overflow(self.shape.width) {
                    overflowed |= PERF_METRICS_BIT;
                    pmi = true;
                }
            }
        }
        self.state.global_status |= overflowed;
        if pmi {
            self.freeze();
            self.state.pmi.request();
        }
        if counting {
            self.retire_towards_change(instructions);
        }
    }

    /// Freezes what DEBUGCTL says a PMI freezes (SDM vol. 3B, "Freezing LBR and
    /// Performance Counters on PMI").
    fn freeze(&mut self) {
        let lbrs = self.state.debugctl & debugctl::FREEZE_LBRS_ON_PMI != 0;
        let counters = self.state.debugctl & debugctl::FREEZE_PERFMON_ON_PMI != 0;
        match self.generation.freeze_on_pmi() {
            FreezeOnPmi::Unsupported => {}
            FreezeOnPmi::Legacy => {
                if lbrs {
                    self.state.debugctl &= !debugctl::LBR;
                }
                if counters {
                    self.state.global_ctrl = 0;
                    self.update_active();
                }
            }
            FreezeOnPmi::Streamlined => {
                if lbrs {
                    self.state.global_status |= global_status::LBR_FRZ;
                }
                if counters {
                    self.state.global_status |= global_status::CTR_FRZ;
                    self.update_active();
                }
            }
        }
    }

    /// The error of counters that other threads have disturbed.
    fn take_disturbed(&mut self) {
        let Some((core, thread)) = &self.smt else {
            return;
        };
        let disturbed = core.take_disturbed(*thread);
        let error = 1 << (self.shape.width - 8);
        for (i, value) in self.state.general.iter_mut().enumerate() {
            if disturbed & Counter::General(i).bit() != 0 {
                *value = value.wrapping_add(error) & self.shape.counter_mask();
            }
        }
    }

    /// Takes the values of the registers that the threads of the core share. Returns whether
    /// another thread has changed one.
    fn take_shared(&mut self) -> bool {
        let (Some((core, _)), Some(processor)) = (&self.smt, self.processor) else {
            return false;
        };
        let mut changed = false;
        for i in processor.msrs_of_core() {
            let value = core.msr(i);
            changed |= value != self.state.model_msrs[i];
            self.state.model_msrs[i] = value;
        }
        changed
    }

    /// The core, if its threads share the register of this index.
    fn core_of_msr(&self, index: usize) -> Option<&SmtCore> {
        let (core, _) = self.smt.as_ref()?;
        self.processor?.msr(index).of_core.then_some(core)
    }

    /// Restores the invariant of `active` after a register was changed.
    fn update_active(&mut self) {
        self.take_shared();
        let counting = self.find_active();
        if let Some((core, thread)) = &self.smt {
            core.set_counting(*thread, counting);
        }
    }

    /// Fills `active`. Returns the general-purpose counters that count, be it an event that is
    /// not modelled.
    fn find_active(&mut self) -> Counting {
        let mut counting = Counting::default();
        self.active.clear();
        if self.state.global_status & global_status::CTR_FRZ != 0 {
            return counting;
        }
        let enabled = |counter: Counter| self.state.global_ctrl & counter.bit() != 0;
        for (i, &eventsel) in self.state.eventsel.iter().enumerate() {
            let counter = Counter::General(i);
            let modes = [eventsel.has(EventSel::USR), eventsel.has(EventSel::OS)];
            if !eventsel.has(EventSel::EN) || !enabled(counter) || modes == [false; 2] {
                continue;
            }
            let filter = Filter {
                edge: eventsel.has(EventSel::EDGE),
                inv: eventsel.has(EventSel::INV),
                // Generations without this bit never have it set.
                eq: eventsel.has(EventSel::EQ),
                cmask: eventsel.cmask(),
            };
            if !self.generation.counts(eventsel, self.state.svm) {
                continue;
            }
            counting.all |= counter.bit();
            if self.processor.is_some_and(|it| it.disturbs(eventsel)) {
                counting.disturbing |= counter.bit();
            }
            let event = if self.needs_clearing() && self.state.selection.is_wrong(i) {
                Some(FilteredEvent::Occurrences(Event::Cycles))
            } else {
                self.selected_event(i, eventsel)
                    .and_then(|event| FilteredEvent::new(self.timed(event), filter))
            };
            if let Some(event) = event {
                self.active.push(Active {
                    counter,
                    event,
                    modes,
                    pmi: eventsel.has(EventSel::INT),
                    merged: self.is_merged(i),
                });
            }
        }
        for i in 0..self.shape.fixed.into() {
            let counter = Counter::Fixed(i);
            let ctrl = self.state.fixed_ctr_ctrl >> (i * fixed_ctrl::BITS);
            let modes = [ctrl & fixed_ctrl::USR != 0, ctrl & fixed_ctrl::OS != 0];
            if !enabled(counter) || modes == [false; 2] {
                continue;
            }
            if let Some(event) = self.generation.fixed_event(i) {
                self.active.push(Active {
                    counter,
                    event: FilteredEvent::Occurrences(self.timed(event)),
                    modes,
                    pmi: ctrl & fixed_ctrl::PMI != 0,
                    merged: false,
                });
            }
        }
        counting
    }

    /// The event that a general-purpose counter counts with this EVENTSEL, `None` if it counts
    /// nothing.
    fn selected_event(&self, counter: usize, eventsel: EventSel) -> Option<Event> {
        // These bits are in the second unit mask of Intel's version 6.
        let event = match self.config.vendor {
            Vendor::Amd => eventsel.without(EventSel::GUEST_ONLY | EventSel::HOST_ONLY),
            Vendor::Intel | Vendor::Zhaoxin => eventsel,
        };
        let of_model = self
            .processor
            .and_then(|it| it.retired(event))
            .or_else(|| self.responses(eventsel))
            .or_else(|| self.generation.event(eventsel));
        match self.processor.and_then(|it| it.constraint(event)) {
            Some(counters) if (counters >> counter) & 1 == 0 => None,
            // What such an event really counts is not modelled.
            Some(_) => of_model.or(Some(Event::Instructions)),
            None if self.config.has_pairs() && pair::is_flops(eventsel) => {
                Some(pair::flops(eventsel, self.is_merged(counter)))
            }
            None => of_model,
        }
    }

    /// Whether counters must be cleared before they count a new event. Without GLOBAL_CTRL they
    /// cannot be.
    fn needs_clearing(&self) -> bool {
        self.config.version > 1 && self.processor.is_some_and(Processor::needs_clearing)
    }

    /// The event, if a register describes it.
    fn responses(&self, eventsel: EventSel) -> Option<Event> {
        let index = self.processor?.msr_of(eventsel)?;
        let value = self.state.model_msrs[index];
        Some(self.processor?.msr(index).responses(value))
    }

    /// An event as the configuration has it: reference cycles may be those of the TSC.
    fn timed(&self, event: Event) -> Event {
        match (event, self.config.ref_cycles) {
            (Event::RefCycles, RefCycles::Tsc) => Event::Tsc,
            _ => event,
        }
    }

    /// Whether a general-purpose counter and the next one are programmed to be one of 64 bits.
    fn is_pair(&self, first: usize) -> bool {
        let second = self.state.eventsel.get(first + 1);
        let exists = self.config.has_pairs() && first % 2 == 0 && self.shape.has_general(first + 1);
        exists && second.is_some_and(|&eventsel| pair::is_merge(eventsel))
    }

    /// Whether a general-purpose counter and the next one count as one.
    fn is_merged(&self, first: usize) -> bool {
        self.is_pair(first) && self.state.global_ctrl & Counter::General(first + 1).bit() != 0
    }

    /// What reading a general-purpose counter returns.
    fn read_general(&self, index: usize) -> u64 {
        match self.is_pair(index) {
            true => pair::value(&self.state.general, index),
            false => self.state.general[index],
        }
    }

    fn register(&self, msr: u32) -> Result<Register, MsrError> {
        if msr == MSR_PERF_METRICS && self.metrics_fields() > 0 {
            return Ok(Register::PerfMetrics);
        }
        let of_model = || Some(Register::Model(self.processor?.msr_index(msr)?));
        self.generation
            .register(&self.shape, msr)
            .or_else(of_model)
            .ok_or_else(|| {
                let of_another_model =
                    self.processor.is_some() && processor::is_model_msr(self.config.vendor, msr);
                if generation::is_pmu_address(msr) || of_another_model {
                    MsrError::GeneralProtection
                } else {
                    MsrError::NotPmu
                }
            })
    }

    /// Whether RDPMC of single counters can be disabled in user mode.
    fn has_rdpmc_user_disable(&self) -> bool {
        let processor = self.processor;
        self.generation.has_leaf_23h() && processor.is_some_and(Processor::rdpmc_user_disable)
    }

    /// The bit of FIXED_CTR_CTRL that disables RDPMC of a fixed-function counter in user mode.
    /// 0 if there is none.
    fn user_disable_bit(&self, fixed: usize) -> u64 {
        match self.has_rdpmc_user_disable() {
            true => fixed_ctrl::RDPMC_USER_DISABLE << (fixed * fixed_ctrl::BITS),
            false => 0,
        }
    }

    /// Whether RDPMC in user mode reads 0.
    fn is_user_disabled(&self, counter: Counter) -> bool {
        match counter {
            Counter::General(i) => {
                let eventsel = self.state.eventsel.get(i);
                let disabled = |it: &EventSel| it.has(EventSel::RDPMC_USER_DISABLE);
                self.has_rdpmc_user_disable() && eventsel.is_some_and(disabled)
            }
            Counter::Fixed(i) => self.state.fixed_ctr_ctrl & self.user_disable_bit(i) != 0,
        }
    }

    /// The bits of a register that can be written, `None` if every write raises #GP.
    fn writable_bits(&self, register: Register) -> Option<u64> {
        match register {
            Register::Model(i) => Some(self.processor?.msr(i).writable),
            Register::PerfMetrics => Some(Metrics::mask(self.metrics_fields())),
            Register::GlobalCtrl | Register::GlobalStatusReset | Register::GlobalStatusSet => {
                let bits = self.generation.writable_bits(&self.shape, register)?;
                Some(bits | self.metrics_bit())
            }
            Register::EventSel(_) if self.has_rdpmc_user_disable() => {
                let bits = self.generation.writable_bits(&self.shape, register)?;
                Some(bits | EventSel::RDPMC_USER_DISABLE)
            }
            Register::FixedCtrCtrl => {
                let bits = self.generation.writable_bits(&self.shape, register)?;
                let disable = (0..self.shape.fixed.into()).map(|i| self.user_disable_bit(i));
                let disable = disable.fold(0, |all, bit| all | bit);
                Some(bits | self.metrics_clear_bit() | disable)
            }
            _ => self.generation.writable_bits(&self.shape, register),
        }
    }

    /// Counts an access that a PMU without a defect would allow. Fails if
    /// [`Defect::GeneralProtection`] makes it raise #GP.
    fn count_access(&self, msr: u32) -> Result<(), MsrError> {
        match self.defect {
            Defect::GeneralProtection { msr: faulty, after } if faulty == msr => {
                if self.state.accesses.get() == after {
                    return Err(MsrError::GeneralProtection);
                }
                self.state.accesses.set(self.state.accesses.get() + 1);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// RDMSR. All instructions that have retired must have been reported by
    /// [`Pmu::retire`].
    pub fn rdmsr(&self, msr: u32) -> Result<u64, MsrError> {
        let register = self.register(msr)?;
        if let Some(counted) = &self.counted {
            counted.rdmsr(msr);
        }
        self.count_access(msr)?;
        Ok(match register {
            Register::EventSel(i) => self.state.eventsel[i].0,
            Register::Pmc(i) | Register::PmcFullWidth(i) => self.read_general(i),
            Register::FixedCtr(i) => self.state.fixed[i],
            Register::FixedCtrCtrl => self.state.fixed_ctr_ctrl,
            Register::GlobalCtrl => self.state.global_ctrl,
            Register::GlobalStatus => self.state.global_status,
            // A write takes effect on GLOBAL_STATUS and is not stored.
            Register::GlobalStatusReset | Register::GlobalStatusSet => 0,
            Register::GlobalInUse => self.global_in_use(),
            Register::PerfCapabilities => self.perf_capabilities().unwrap_or(0),
            Register::PerfMetrics => self.read_metrics(),
            Register::DebugCtl => self.state.debugctl,
            Register::Model(i) => match self.core_of_msr(i) {
                Some(core) => core.msr(i),
                None => self.state.model_msrs[i],
            },
        })
    }

    /// The value of PERF_METRICS.
    fn read_metrics(&self) -> u64 {
        self.state.metrics.read() & Metrics::mask(self.metrics_fields())
    }

    /// The value of GLOBAL_INUSE (SDM vol. 3B, "IA32_PERF_GLOBAL_INUSE MSR").
    fn global_in_use(&self) -> u64 {
        let mut in_use = 0;
        let mut pmi = false;
        for (i, eventsel) in self.state.eventsel.iter().enumerate() {
            if eventsel.event() != 0 {
                in_use |= Counter::General(i).bit();
            }
            pmi |= eventsel.has(EventSel::INT);
        }
        for i in 0..self.shape.fixed.into() {
            let ctrl = self.state.fixed_ctr_ctrl >> (i * fixed_ctrl::BITS);
            if ctrl & (fixed_ctrl::OS | fixed_ctrl::USR) != 0 {
                in_use |= Counter::Fixed(i).bit();
            }
            pmi |= ctrl & fixed_ctrl::PMI != 0;
        }
        if pmi {
            in_use |= PMI_IN_USE;
        }
        in_use
    }

    /// WRMSR. All instructions that have retired must have been reported by
    /// [`Pmu::retire`].
    pub fn wrmsr(&mut self, msr: u32, value: u64) -> Result<(), MsrError> {
        let register = self.register(msr)?;
        if let Some(counted) = &self.counted {
            counted.wrmsr(msr);
        }
        let value = match self.writable_bits(register) {
            Some(writable) if self.generation.ignores_reserved_bits() => value & writable,
            Some(writable) if value & !writable == 0 => value,
            _ => return Err(MsrError::GeneralProtection),
        };
        self.count_access(msr)?;
        self.take_disturbed();
        self.write(register, value);
        self.update_active();
        Ok(())
    }

    /// Writes a register that exists and can have this value. The caller must restore the
    /// invariant of `active`.
    fn write(&mut self, register: Register, value: u64) {
        match register {
            Register::EventSel(i) => {
                let eventsel = EventSel(value);
                self.state
                    .selection
                    .select(i, self.state.eventsel[i], eventsel);
                self.state.eventsel[i] = eventsel;
            }
            Register::Pmc(i) => {
                let extended = i64::from(value as i32) as u64;
                self.state.general[i] = extended & self.shape.counter_mask();
            }
            Register::PmcFullWidth(i) => self.state.general[i] = value,
            Register::FixedCtr(i) => self.state.fixed[i] = value,
            Register::FixedCtrCtrl => self.state.fixed_ctr_ctrl = value,
            Register::GlobalCtrl => {
                let existing = &self.state.eventsel[..self.shape.general.into()];
                self.state.selection.enable(value, existing);
                self.state.global_ctrl = value;
            }
            Register::GlobalStatusReset => self.state.global_status &= !value,
            Register::GlobalStatusSet => self.state.global_status |= value,
            Register::DebugCtl => self.state.debugctl = value,
            Register::Model(i) => match self.core_of_msr(i) {
                Some(core) => core.set_msr(i, value),
                None => self.state.model_msrs[i] = value,
            },
            Register::PerfMetrics => self.state.metrics.write(value, self.state.fixed[SLOTS]),
            // Generations in which the write does not raise #GP ignore it.
            Register::GlobalStatus => {}
            Register::GlobalInUse | Register::PerfCapabilities => {
                unreachable!("a write to a read-only register raises #GP")
            }
        }
    }

    /// RDPMC, given whether CPL is 0 and whether CR4.PCE is set (SDM vol. 2B, RDPMC). All
    /// instructions that have retired must have been reported by [`Pmu::retire`].
    pub fn rdpmc(&mut self, ecx: u32, cpl0: bool, cr4_pce: bool) -> Result<u64, GeneralProtection> {
        if let Some(counted) = &self.counted {
            counted.rdpmc(ecx);
        }
        if !cpl0 && !cr4_pce {
            return Err(GeneralProtection);
        }
        if ecx == RDPMC_METRICS && self.metrics_fields() > 0 {
            let value = self.read_metrics();
            if self.state.fixed_ctr_ctrl & self.metrics_clear_bit() != 0 {
                self.state.fixed[SLOTS] = 0;
                self.state.metrics = Metrics::default();
            }
            return Ok(value);
        }
        let counter = self.generation.rdpmc(ecx);
        let is_hidden = !cpl0 && counter.is_some_and(|counter| self.is_user_disabled(counter));
        match counter {
            Some(_) if is_hidden => Ok(0),
            Some(Counter::General(i)) if self.shape.has_general(i) => Ok(self.read_general(i)),
            Some(Counter::Fixed(i)) if i < self.shape.fixed.into() => Ok(self.state.fixed[i]),
            _ => Err(GeneralProtection),
        }
    }

    /// Whether instructions that retire must be reported: a counter counts, or a delayed
    /// PMI waits for them.
    pub fn counting(&self) -> bool {
        !self.active.is_empty() || self.state.pmi.has_delayed()
    }

    /// Whether a counter counts what depends on more than the numbers of instructions, branches
    /// and conditional branches in [`Retired`]. If not, the others may be 0.
    pub fn counts_details(&self) -> bool {
        self.active.iter().any(|active| active.event.is_detail())
    }

    /// Takes the pending PMI. Returns whether there was one.
    pub fn take_pmi(&mut self) -> bool {
        self.state.pmi.take()
    }

    /// The number of instructions of each mode that may retire before the next call of
    /// [`Pmu::retire`], if the processor is in `mode`.
    ///
    /// The budget is valid for any mixture of instructions, whether or not they are
    /// branches:
    ///
    /// - While instructions of both modes are left in the budget, no counter has
    ///   overflowed and no PMI has become pending.
    /// - The instruction that uses up the budget of its mode may be the one that
    ///   overflows a counter. Call [`Pmu::retire`] right after it, and ask for a new
    ///   budget.
    /// - The budget of `mode` is at least 1. That of the other mode may be 0; then call
    ///   [`Pmu::retire`] and ask for a new budget on the switch to that mode.
    /// - [`Pmu::UNLIMITED`] sets no limit.
    pub fn budget(&self, mode: Mode) -> [u64; 2] {
        let (current, other) = (mode as usize, mode.other() as usize);
        let mut budget = [Pmu::UNLIMITED; 2];
        // Instructions bring no counter of time nearer to its overflow.
        for active in self.active.iter().filter(|it| !it.event.is_tsc()) {
            let mut until_overflow = self.until_overflow(active);
            if active.modes[other] {
                let n = if active.modes[current] {
                    // Leave the other mode a quarter of what is left until the overflow.
                    let n = active
                        .event
                        .min_instructions(self.state.totals[other], until_overflow / 4 + 1)
                        - 1;
                    until_overflow -= active.event.max_gain(self.state.totals[other], n) as u64;
                    n
                } else {
                    active
                        .event
                        .min_instructions(self.state.totals[other], until_overflow)
                };
                budget[other] = budget[other].min(n);
            }
            if active.modes[current] {
                let n = active
                    .event
                    .min_instructions(self.state.totals[current], until_overflow);
                budget[current] = budget[current].min(n);
            }
        }
        let until_pmi = self.state.pmi.until_next(!self.active.is_empty());
        if let Some(until) = until_pmi.into_iter().chain(self.until_change()).min() {
            budget[other] = budget[other].min(until / 4);
            budget[current] = budget[current].min(until - until / 4);
        }
        budget
    }

    /// How many cycles of the time-stamp counter may pass in each [`Mode`] until a counter that
    /// counts them in this mode overflows. `None` if there is no such counter.
    ///
    /// A counter that counts in both modes overflows after so many in both together.
    pub fn tsc_until_overflow(&self) -> [Option<u64>; 2] {
        Mode::ALL.map(|mode| {
            let timed = self.active.iter().filter(|it| it.event.is_tsc());
            timed
                .filter(|it| it.modes[mode as usize])
                .map(|it| self.until_overflow(it))
                .min()
        })
    }

    /// What a counter must gain to overflow, or a smaller number.
    fn until_overflow(&self, active: &Active) -> u64 {
        let range = self.shape.counter_mask() + 1;
        match active.counter {
            Counter::General(i) if active.merged => {
                // A pair that is further away needs no larger budget.
                pair::until_overflow(&self.state.general, i).min(range)
            }
            Counter::General(i) => range - self.state.general[i],
            Counter::Fixed(i) => range - self.state.fixed[i],
        }
    }

    /// Injects `fault` into the next PMI that has no injected fault yet.
    pub fn inject(&mut self, fault: PmiFault) {
        self.state.pmi.inject(fault);
    }

    /// Injects a spurious PMI, one that no counter has requested. It becomes pending after
    /// this many more instructions have retired in either mode.
    pub fn inject_spurious_pmi(&mut self, instructions: u64) {
        self.state.pmi.schedule(instructions);
    }

    /// Sets overflow bits in GLOBAL_STATUS, as if a previous user of the PMU had left them
    /// set. Bits that belong to no counter are ignored, and so are all bits if the PMU has
    /// no such register.
    pub fn inject_status(&mut self, bits: u64) {
        let has_status = [IA32_PERF_GLOBAL_STATUS, PERF_CNTR_GLOBAL_STATUS]
            .iter()
            .any(|&msr| self.register(msr) == Ok(Register::GlobalStatus));
        if has_status {
            self.state.global_status |= bits & (self.shape.counters() | self.metrics_bit());
        }
    }
}

/// Adds to a counter with these bits. Returns whether it has overflowed.
fn add(value: &mut u64, mask: u64, gain: u128) -> bool {
    let sum = u128::from(*value) + gain;
    *value = sum as u64 & mask;
    sum > mask.into()
}

impl Drop for Pmu {
    fn drop(&mut self) {
        if let Some((core, thread)) = &self.smt {
            core.leave(*thread);
        }
    }
}

impl fmt::Debug for Pmu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pmu")
            .field("shape", &self.shape)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
