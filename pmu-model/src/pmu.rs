// SPDX-License-Identifier: GPL-2.0

//! The registers of one logical processor's PMU, and what they do.

use core::{cell::Cell, fmt};

use crate::{
    config::{Config, ConfigError, Shape, MAX_FIXED, MAX_GENERAL},
    event::{Filter, Mode, Quantity, Retired, Totals},
    generation::{Freeze, Generation},
    msr::{
        debugctl, fixed_ctrl, global_status, EventSel, Register, FIXED_SHIFT, FW_WRITE,
        IA32_PERF_CAPABILITIES, IA32_PERF_GLOBAL_STATUS, PERF_CNTR_GLOBAL_STATUS, PMI_IN_USE,
    },
    pmi::{Defect, PmiFault, PmiLine},
};

/// Why an access to an MSR is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MsrError {
    /// It raises #GP, and has changed nothing.
    GeneralProtection,
    /// The register is not the PMU's.
    NotPmu,
}

/// RDPMC raises #GP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneralProtection;

impl fmt::Display for MsrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MsrError::GeneralProtection => "the access raises #GP",
            MsrError::NotPmu => "the register is not the PMU's",
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

/// A counter. There need not be one of that index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    General(usize),
    Fixed(usize),
}

impl Counter {
    /// Its bit in GLOBAL_CTRL and its kin.
    fn bit(self) -> u64 {
        match self {
            Counter::General(i) => 1 << i,
            Counter::Fixed(i) => 1 << (FIXED_SHIFT + i),
        }
    }
}

/// A counter that counts, and what.
#[derive(Clone, Copy, Debug)]
struct Active {
    counter: Counter,
    quantity: Quantity,
    /// By [`Mode`]; at least one is set.
    modes: [bool; 2],
    /// Whether an overflow raises a PMI.
    pmi: bool,
}

/// The PMU of one logical processor.
///
/// # Invariants
///
/// - No counter exceeds the width of counters.
/// - `active` has the counters that count under the present values of the other
///   registers, and no others.
pub struct Pmu {
    generation: &'static dyn Generation,
    shape: Shape,
    eventsel: [EventSel; MAX_GENERAL],
    general: [u64; MAX_GENERAL],
    fixed: [u64; MAX_FIXED],
    fixed_ctr_ctrl: u64,
    global_ctrl: u64,
    global_status: u64,
    debugctl: u64,
    /// By [`Mode`].
    totals: [Totals; 2],
    pmi: PmiLine,
    active: Vec<Active>,
    defect: Defect,
    /// Accesses that [`Defect::GeneralProtection`] has let through since RESET. A cell,
    /// because RDMSR, which changes nothing else, counts too.
    accesses: Cell<u64>,
}

impl Pmu {
    /// More instructions than will ever retire: [`Pmu::budget`] sets no limit.
    pub const UNLIMITED: u64 = u64::MAX / 4;

    /// The PMU that `config` describes, as it is after power-up.
    pub fn new(config: Config) -> Result<Pmu, ConfigError> {
        Pmu::with_defect(config, Defect::None)
    }

    /// The same with a defect. [`ConfigError::Status`], [`ConfigError::Msr`] or
    /// [`ConfigError::MaskLvtpc`] if this PMU cannot have it.
    pub fn with_defect(config: Config, defect: Defect) -> Result<Pmu, ConfigError> {
        let pmu = Pmu::at_power_up(config.generation()?, config.shape, defect);
        match defect {
            Defect::Status(bits) if pmu.global_status != bits => Err(ConfigError::Status),
            Defect::GeneralProtection { msr, .. } if pmu.register(msr).is_err() => {
                Err(ConfigError::Msr)
            }
            Defect::MaskLvtpc if pmu.generation.pmi_masks_lvtpc() => Err(ConfigError::MaskLvtpc),
            _ => Ok(pmu),
        }
    }

    fn at_power_up(generation: &'static dyn Generation, shape: Shape, defect: Defect) -> Pmu {
        let mut pmu = Pmu {
            generation,
            shape,
            eventsel: Default::default(),
            general: Default::default(),
            fixed: Default::default(),
            fixed_ctr_ctrl: 0,
            global_ctrl: generation.reset_global_ctrl(&shape),
            global_status: 0,
            debugctl: 0,
            totals: Default::default(),
            pmi: PmiLine::new(defect),
            active: Vec::with_capacity(MAX_GENERAL + MAX_FIXED),
            defect,
            accesses: Cell::new(0),
        };
        if let Defect::Status(bits) = defect {
            pmu.inject_status(bits);
        }
        pmu
    }

    /// RESET: everything is as after power-up, and no fault is planned but for what
    /// the defect brings. (INIT leaves a PMU as it is: SDM vol. 3A, table "IA-32 and
    /// Intel 64 Processor States Following Power-up, Reset, or INIT".)
    pub fn reset(&mut self) {
        *self = Pmu::at_power_up(self.generation, self.shape, self.defect);
    }

    /// EAX, EBX, ECX and EDX of a CPUID leaf, and of its first subleaf if it has any;
    /// `None` if it is not the PMU's.
    pub fn cpuid(&self, leaf: u32) -> Option<[u32; 4]> {
        self.cpuid_count(leaf, 0)
    }

    /// The same for a subleaf of a leaf that has some. Other leaves have the same for
    /// all.
    pub fn cpuid_count(&self, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        self.generation.cpuid(&self.shape, leaf, subleaf)
    }

    /// Whether CPUID.(7,1):EAX.ArchPerfMonExt is set: there is leaf 23H.
    pub fn perfmon_ext(&self) -> bool {
        self.generation.enumerates_counters()
    }

    /// The value of PERF_CAPABILITIES. The register is there, and CPUID.1:ECX.PDCM
    /// set, when it is not 0.
    pub fn perf_capabilities(&self) -> u64 {
        match self.register(IA32_PERF_CAPABILITIES) {
            Ok(_) => FW_WRITE,
            Err(_) => 0,
        }
    }

    /// Whether CPUID.80000001H:ECX.PerfCtrExtCore is set.
    pub fn perfctr_core(&self) -> bool {
        self.generation.perfctr_core()
    }

    /// Whether the local APIC sets the mask bit of LVTPC when it delivers a PMI.
    pub fn pmi_masks_lvtpc(&self) -> bool {
        self.defect == Defect::MaskLvtpc || self.generation.pmi_masks_lvtpc()
    }

    /// So much has retired, by [`Mode`], since this was called last.
    ///
    /// Counters that overflow in it set their status and raise one PMI, and if
    /// that is to freeze the counters they are frozen at its end. So call it no
    /// later than [`Pmu::budget`] says, and both happen where they should.
    pub fn retire(&mut self, retired: &[Retired; 2]) {
        let before = self.totals;
        for (totals, retired) in self.totals.iter_mut().zip(retired) {
            *totals = totals.after(*retired);
        }
        let [user, kernel] = retired;
        self.pmi.retire(
            user.instructions.saturating_add(kernel.instructions),
            !self.active.is_empty(),
        );

        let mut overflowed = 0;
        let mut pmi = false;
        for active in &self.active {
            let count: u128 = Mode::ALL
                .into_iter()
                .filter(|&mode| active.modes[mode as usize])
                .map(|mode| {
                    let (before, after) = (before[mode as usize], self.totals[mode as usize]);
                    active.quantity.between(before, after)
                })
                .sum();
            let value = match active.counter {
                Counter::General(i) => &mut self.general[i],
                Counter::Fixed(i) => &mut self.fixed[i],
            };
            let sum = u128::from(*value) + count;
            let mask = self.shape.counter_mask();
            *value = sum as u64 & mask;
            if sum > mask.into() {
                overflowed |= active.counter.bit();
                pmi |= active.pmi;
            }
        }
        self.global_status |= overflowed;
        if pmi {
            self.freeze();
            self.pmi.raise();
        }
    }

    /// Does what DEBUGCTL asks for on a PMI (SDM vol. 3B, "Freezing LBR and
    /// Performance Counters on PMI").
    fn freeze(&mut self) {
        let lbrs = self.debugctl & debugctl::FREEZE_LBRS_ON_PMI != 0;
        let counters = self.debugctl & debugctl::FREEZE_PERFMON_ON_PMI != 0;
        match self.generation.freeze() {
            Freeze::Never => {}
            Freeze::GlobalCtrl => {
                if lbrs {
                    self.debugctl &= !debugctl::LBR;
                }
                if counters {
                    self.global_ctrl = 0;
                }
            }
            Freeze::GlobalStatus => {
                if lbrs {
                    self.global_status |= global_status::LBR_FRZ;
                }
                if counters {
                    self.global_status |= global_status::CTR_FRZ;
                }
            }
        }
        self.reprogram();
    }

    /// Restores the invariant of `active`.
    fn reprogram(&mut self) {
        self.active.clear();
        if self.global_status & global_status::CTR_FRZ != 0 {
            return;
        }
        let enabled = |counter: Counter| self.global_ctrl & counter.bit() != 0;
        for (i, &eventsel) in self.eventsel.iter().enumerate() {
            let counter = Counter::General(i);
            let modes = [eventsel.has(EventSel::USR), eventsel.has(EventSel::OS)];
            if !eventsel.has(EventSel::EN) || !enabled(counter) || modes == [false; 2] {
                continue;
            }
            let filter = Filter {
                edge: eventsel.has(EventSel::EDGE),
                inv: eventsel.has(EventSel::INV),
                // Where there is no such bit it is clear.
                eq: eventsel.has(EventSel::EQ),
                cmask: eventsel.cmask(),
            };
            let event = self.generation.event(eventsel);
            if let Some(quantity) = event.and_then(|event| Quantity::new(event, filter)) {
                self.active.push(Active {
                    counter,
                    quantity,
                    modes,
                    pmi: eventsel.has(EventSel::INT),
                });
            }
        }
        for i in 0..self.shape.fixed.into() {
            let counter = Counter::Fixed(i);
            let ctrl = self.fixed_ctr_ctrl >> (i * fixed_ctrl::STRIDE);
            let modes = [ctrl & fixed_ctrl::USR != 0, ctrl & fixed_ctrl::OS != 0];
            if !enabled(counter) || modes == [false; 2] {
                continue;
            }
            if let Some(event) = self.generation.fixed_event(i) {
                self.active.push(Active {
                    counter,
                    quantity: Quantity::Events(event),
                    modes,
                    pmi: ctrl & fixed_ctrl::PMI != 0,
                });
            }
        }
    }

    fn register(&self, msr: u32) -> Result<Register, MsrError> {
        self.generation.register(&self.shape, msr).ok_or_else(|| {
            if self.generation.owns(msr) {
                MsrError::GeneralProtection
            } else {
                MsrError::NotPmu
            }
        })
    }

    /// Counts an access that works on a PMU without a defect. #GP if the defect is that
    /// it raises one.
    fn access(&self, msr: u32) -> Result<(), MsrError> {
        match self.defect {
            Defect::GeneralProtection { msr: faulty, after } if faulty == msr => {
                if self.accesses.get() == after {
                    return Err(MsrError::GeneralProtection);
                }
                self.accesses.set(self.accesses.get() + 1);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// RDMSR. Everything that has retired must have been told by [`Pmu::retire`].
    pub fn rdmsr(&self, msr: u32) -> Result<u64, MsrError> {
        let register = self.register(msr)?;
        self.access(msr)?;
        Ok(match register {
            Register::EventSel(i) => self.eventsel[i].0,
            Register::Pmc(i) | Register::FullPmc(i) => self.general[i],
            Register::FixedCtr(i) => self.fixed[i],
            Register::FixedCtrCtrl => self.fixed_ctr_ctrl,
            Register::GlobalCtrl => self.global_ctrl,
            Register::GlobalStatus => self.global_status,
            // Made to be written; nothing is kept to be read.
            Register::GlobalStatusReset | Register::GlobalStatusSet => 0,
            Register::GlobalInUse => self.global_in_use(),
            Register::PerfCapabilities => self.perf_capabilities(),
            Register::DebugCtl => self.debugctl,
        })
    }

    /// SDM vol. 3B, "IA32_PERF_GLOBAL_INUSE MSR".
    fn global_in_use(&self) -> u64 {
        let mut in_use = 0;
        let mut pmi = false;
        for (i, eventsel) in self.eventsel.iter().enumerate() {
            if eventsel.event() != 0 {
                in_use |= Counter::General(i).bit();
            }
            pmi |= eventsel.has(EventSel::INT);
        }
        for i in 0..self.shape.fixed.into() {
            let ctrl = self.fixed_ctr_ctrl >> (i * fixed_ctrl::STRIDE);
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

    /// WRMSR. Everything that has retired must have been told by [`Pmu::retire`].
    pub fn wrmsr(&mut self, msr: u32, value: u64) -> Result<(), MsrError> {
        let register = self.register(msr)?;
        let value = match self.generation.writable(&self.shape, register) {
            Some(writable) if self.generation.drops_reserved() => value & writable,
            Some(writable) if value & !writable == 0 => value,
            _ => return Err(MsrError::GeneralProtection),
        };
        self.access(msr)?;
        match register {
            Register::EventSel(i) => self.eventsel[i] = EventSel(value),
            Register::Pmc(i) => {
                let extended = i64::from(value as i32) as u64;
                self.general[i] = extended & self.shape.counter_mask();
            }
            Register::FullPmc(i) => self.general[i] = value,
            Register::FixedCtr(i) => self.fixed[i] = value,
            Register::FixedCtrCtrl => self.fixed_ctr_ctrl = value,
            Register::GlobalCtrl => self.global_ctrl = value,
            Register::GlobalStatusReset => self.global_status &= !value,
            Register::GlobalStatusSet => self.global_status |= value,
            Register::DebugCtl => self.debugctl = value,
            // Where a write to it is no #GP, it is ignored.
            Register::GlobalStatus => {}
            Register::GlobalInUse | Register::PerfCapabilities => {
                unreachable!("a write to a read-only register is a #GP")
            }
        }
        self.reprogram();
        Ok(())
    }

    /// RDPMC at CPL 0 or not, with CR4.PCE set or not (SDM vol. 2B, RDPMC).
    /// Everything that has retired must have been told by [`Pmu::retire`].
    pub fn rdpmc(&self, ecx: u32, cpl0: bool, cr4_pce: bool) -> Result<u64, GeneralProtection> {
        if !cpl0 && !cr4_pce {
            return Err(GeneralProtection);
        }
        match self.generation.rdpmc(ecx) {
            Some(Counter::General(i)) if self.shape.has_general(i) => Ok(self.general[i]),
            Some(Counter::Fixed(i)) if i < self.shape.fixed.into() => Ok(self.fixed[i]),
            _ => Err(GeneralProtection),
        }
    }

    /// Whether anything would be missed if what retires were not told.
    pub fn counting(&self) -> bool {
        !self.active.is_empty() || self.pmi.under_way()
    }

    /// Whether a PMI is due. Once taken it is not due any more.
    pub fn take_pmi(&mut self) -> bool {
        self.pmi.take()
    }

    /// How many instructions may retire in each mode before [`Pmu::retire`] must
    /// be called, if `mode` is the present one.
    ///
    /// As long as some is left of both, no counter can have overflowed, however
    /// many of the instructions were branches. The one that uses up a mode's
    /// budget can overflow one: call [`Pmu::retire`] right after it, before another
    /// retires in whatever mode, and ask for a new budget. The present mode is
    /// given 1 or more. The other may be given 0: do the same on entering it. No
    /// limit is [`Pmu::UNLIMITED`].
    pub fn budget(&self, mode: Mode) -> [u64; 2] {
        let (here, there) = (mode as usize, mode.other() as usize);
        let mut budget = [Pmu::UNLIMITED; 2];
        for active in &self.active {
            let value = match active.counter {
                Counter::General(i) => self.general[i],
                Counter::Fixed(i) => self.fixed[i],
            };
            let mut left = self.shape.counter_mask() - value + 1;
            if active.modes[there] {
                let n = if active.modes[here] {
                    // A part of what is left, to be used up without overflow.
                    let n = active.quantity.fewest(self.totals[there], left / 4 + 1) - 1;
                    left -= active.quantity.most(self.totals[there], n) as u64;
                    n
                } else {
                    active.quantity.fewest(self.totals[there], left)
                };
                budget[there] = budget[there].min(n);
            }
            if active.modes[here] {
                let n = active.quantity.fewest(self.totals[here], left);
                budget[here] = budget[here].min(n);
            }
        }
        if let Some(left) = self.pmi.next(!self.active.is_empty()) {
            budget[there] = budget[there].min(left / 4);
            budget[here] = budget[here].min(left - left / 4);
        }
        budget
    }

    /// Has `fault` happen to the first PMI that none is planned for yet.
    pub fn inject(&mut self, fault: PmiFault) {
        self.pmi.inject(fault);
    }

    /// Sends a PMI that no counter asked for, due when so many instructions have
    /// retired in whatever mode.
    pub fn inject_spurious_pmi(&mut self, instructions: u64) {
        self.pmi.send(instructions);
    }

    /// Sets overflow bits of GLOBAL_STATUS, those of counters that exist, as if
    /// whoever used the PMU before had left them behind. Without the register there
    /// are none.
    pub fn inject_status(&mut self, bits: u64) {
        let there = [IA32_PERF_GLOBAL_STATUS, PERF_CNTR_GLOBAL_STATUS]
            .iter()
            .any(|&msr| self.register(msr) == Ok(Register::GlobalStatus));
        if there {
            self.global_status |= bits & self.shape.counters();
        }
    }
}

impl fmt::Debug for Pmu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pmu")
            .field("shape", &self.shape)
            .field("eventsel", &self.eventsel)
            .field("general", &self.general)
            .field("fixed", &self.fixed)
            .field("fixed_ctr_ctrl", &self.fixed_ctr_ctrl)
            .field("global_ctrl", &self.global_ctrl)
            .field("global_status", &self.global_status)
            .field("debugctl", &self.debugctl)
            .field("totals", &self.totals)
            .field("pmi", &self.pmi)
            .field("accesses", &self.accesses)
            .finish_non_exhaustive()
    }
}
