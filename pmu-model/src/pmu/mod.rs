// SPDX-License-Identifier: GPL-2.0

//! The PMU of one logical processor: the state of its registers and what they do.
//!
//! | file        | has                                                         |
//! |-------------|-------------------------------------------------------------|
//! | `cpuid`     | CPUID, and PERF_CAPABILITIES                                |
//! | `registers` | which register is at an address, and which bits can be set  |
//! | `access`    | RDMSR, WRMSR and RDPMC                                      |
//! | `active`    | which counters count what, given the registers              |
//! | `report`    | what has retired: counts, overflows, PMIs that freeze       |
//! | `branches`  | branches that the LBRs record                               |
//! | `budget`    | how much may retire until a counter can overflow            |
//! | `inject`    | faults for host tests                                       |
//! | `garbage`   | defects in which registers hold what nobody has written     |
//! | `saved`     | save and restore                                            |

mod access;
mod active;
mod branches;
mod budget;
mod cpuid;
mod garbage;
mod inject;
mod registers;
mod report;
mod saved;

use core::{cell::Cell, fmt};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::active::Active;
pub use self::saved::{RestoreError, SavedPmu};
use crate::{
    accesses::AccessCounts,
    config::{Config, RefCycles},
    error::ConfigError,
    event::Totals,
    fields::{DebugCtl, FixedCtrCtrl, GlobalCtrl, GlobalStatus},
    generation::Generation,
    lbr::LbrState,
    metrics::Metrics,
    msr::EventSel,
    pmi::{Defect, PmiDelivery},
    processor::{Core, Processor, MAX_MODEL_MSRS},
    selection::Selection,
    shape::{Shape, MAX_FIXED, MAX_GENERAL},
    smt::SmtCore,
    svm::Svm,
};

/// What a PMU has to remember: all that distinguishes it from one that has just been created
/// with the same configuration and the same defect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    eventsel: [EventSel; MAX_GENERAL],
    selection: Selection,
    general: [u64; MAX_GENERAL],
    fixed: [u64; MAX_FIXED],
    fixed_ctr_ctrl: FixedCtrCtrl,
    global_ctrl: GlobalCtrl,
    global_status: GlobalStatus,
    debugctl: DebugCtl,
    lbrs: LbrState,
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
    /// Creates the PMU that `config` describes, in its state after power-up.
    pub fn new(config: Config) -> Result<Pmu, ConfigError> {
        Pmu::with_defect(config, Defect::None)
    }

    /// Creates a PMU with a defect. Fails with [`ConfigError::Status`], [`ConfigError::Msr`],
    /// [`ConfigError::MaskLvtpc`] or [`ConfigError::Foreign`] if this PMU cannot have it.
    pub fn with_defect(config: Config, defect: Defect) -> Result<Pmu, ConfigError> {
        let pmu = Pmu::at_power_up(config, config.generation()?, defect);
        match defect {
            Defect::Status(bits) if pmu.state.global_status.0 != bits => Err(ConfigError::Status),
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
                global_ctrl: GlobalCtrl(generation.reset_global_ctrl(&shape)),
                pmi: PmiDelivery::new(defect),
                lbrs: LbrState::new(config.lbrs.map_or(0, |it| it.depth())),
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

    /// Whether instructions that retire must be reported: a counter counts, a delayed PMI waits for
    /// them, or branches are recorded.
    pub fn counting(&self) -> bool {
        !self.active.is_empty() || self.state.pmi.has_delayed() || self.records_branches()
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
