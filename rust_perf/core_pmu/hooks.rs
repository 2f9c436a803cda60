// SPDX-License-Identifier: GPL-2.0

//! What the kernel does with the counters that the driver must know of.
//!
//! These functions of the kernel are hooked, as far as it has them:
//!
//! - `perf_clear_dirty_counters()`: the kernel calls it just before it sets CR4.PCE, that is, when
//!   it switches to an address space whose tasks may use RDPMC, and when this has become allowed
//!   (`cr4_update_pce_mm()` in `arch/x86/mm/tlb.c`).
//! - `perf_load_guest_context()`: KVM's mediated vPMU gives this CPU's counters to a guest.
//! - `amd_pmu_enable_virt()` and `amd_pmu_disable_virt()`: KVM has enabled or disabled SVM on this CPU.
//!   HOST_ONLY in EVENTSEL must be what the new state needs.
//! - These two and [`RUN_COUNTERS`] write GLOBAL_CTRL as a whole, so that counters run that the driver
//!   has stopped.
//!
//! Where they cannot be hooked, the driver assumes the worst: that every task may use RDPMC, that
//! a guest has had the counters whenever no event was on the CPU, and that any counter may have run.
//! That costs accesses. It then finds a change of SVM when perf next puts an event on a CPU that has
//! none.

use super::{
    cpu_pmu::CpuPmu,
    Handler, //
};
use crate::system::{
    ftrace::{
        self,
        Hook, //
    },
    irq::IrqsDisabled,
    symbols::Symbols, //
};
use kernel::prelude::*;

/// Functions that rewrite GLOBAL_CTRL, or whose callers do so afterwards, when a BPF program takes a
/// snapshot of the branch stack. They are called when that is frozen, so that a hook leaves no
/// branches in it.
const RUN_COUNTERS: [&CStr; 2] = [c"amd_pmu_lbr_read", c"__intel_pmu_snapshot_branch_stack"];

/// Functions that rewrite GLOBAL_CTRL because SVM has been enabled, or disabled, on this CPU.
const SVM: [(&CStr, bool); 2] = [
    (c"amd_pmu_enable_virt", true),
    (c"amd_pmu_disable_virt", false),
];

/// The hooks of one PMU.
pub(super) struct Hooks {
    _user_read: Pin<KBox<Hook<UserRead>>>,
    /// `None` if the kernel cannot give counters to guests.
    _guest: Option<Pin<KBox<Hook<Guest>>>>,
    _svm: KVec<Pin<KBox<Hook<Svm>>>>,
    _run_counters: KVec<Pin<KBox<Hook<RunCounters>>>>,
}

struct UserRead(Handler);

struct Guest(Handler);

struct Svm {
    handler: Handler,
    /// Whether the function is called when SVM has been enabled.
    enabled: bool,
}

struct RunCounters(Handler);

impl Hooks {
    /// Hooks the functions, and has the driver rely on it. `None`, with a message, if that is
    /// impossible. Task context, may sleep. To be called before the PMU has events.
    pub(super) fn register(handler: &Handler) -> Option<Self> {
        Self::try_register(handler)
            .inspect_err(|error| {
                pr_info!(
                    "functions of the kernel cannot be hooked ({:?}): a switch between tasks with \
                     events costs more\n",
                    error
                )
            })
            .ok()
    }

    fn try_register(handler: &Handler) -> Result<Self> {
        let symbols = Symbols::find()?;
        let user_read = symbols
            .address(c"perf_clear_dirty_counters")
            .ok_or(ENOENT)?;
        let guest = symbols.address(c"perf_load_guest_context");
        let mut svm = KVec::new();
        for (name, enabled) in SVM {
            let handler = handler.clone();
            if let Some(address) = symbols.address(name) {
                svm.push(hook(address, Svm { handler, enabled })?, GFP_KERNEL)?;
            }
        }
        let mut run_counters = KVec::new();
        for address in RUN_COUNTERS.iter().filter_map(|name| symbols.address(name)) {
            run_counters.push(hook(address, RunCounters(handler.clone()))?, GFP_KERNEL)?;
        }
        let hooks = Hooks {
            _user_read: hook(user_read, UserRead(handler.clone()))?,
            _guest: guest
                .map(|address| hook(address, Guest(handler.clone())))
                .transpose()?,
            _svm: svm,
            _run_counters: run_counters,
        };
        handler.driver().hooks_alive.watch(symbols)?;
        Ok(hooks)
    }
}

fn hook<H: ftrace::Handler>(address: usize, handler: H) -> Result<Pin<KBox<Hook<H>>>> {
    KBox::pin_init(Hook::register(address, handler), GFP_KERNEL)
}

impl ftrace::Handler for UserRead {
    fn called(&self, irqs: IrqsDisabled<'_>) {
        self.0.this_cpu(irqs).hide_counts();
    }
}

impl ftrace::Handler for Guest {
    fn called(&self, irqs: IrqsDisabled<'_>) {
        self.0.this_cpu(irqs).state().tenure.lend();
    }
}

impl ftrace::Handler for Svm {
    fn called(&self, irqs: IrqsDisabled<'_>) {
        let pmu = self.handler.this_cpu(irqs);
        pmu.set_svm(self.enabled);
        pmu.expect_others_to_run_counters();
    }
}

impl ftrace::Handler for RunCounters {
    fn called(&self, irqs: IrqsDisabled<'_>) {
        self.0.this_cpu(irqs).expect_others_to_run_counters();
    }
}

impl CpuPmu<'_> {
    /// Someone else is about to write GLOBAL_CTRL of this CPU.
    fn expect_others_to_run_counters(self) {
        let cpu = self.state();
        // Others may have the counters. If it were not known which run, the PMU would stop all of them when
        // it is next enabled.
        if !cpu.tenure.is_ours() {
            return;
        }
        cpu.run.note_nmi();
        self.counters().forget_running();
    }
}
