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
//! - These two and those of [`Change::Runs`] write GLOBAL_CTRL as a whole, so that counters run
//!   that the driver has stopped.
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

/// What a hooked function, other than that of RDPMC, does to this CPU's counters.
#[derive(Clone, Copy)]
enum Change {
    /// It gives them to a guest.
    Lends,
    /// It rewrites GLOBAL_CTRL because SVM has been enabled, or disabled.
    SetsSvm { enabled: bool },
    /// It rewrites GLOBAL_CTRL, or its callers do so afterwards.
    Runs,
}

/// The functions. Some are missing in some kernels.
///
/// The last two read branch records, for a BPF program that takes a snapshot of them, and the former
/// also for the in-tree driver's PMI. The records are frozen then, so that a hook leaves no branches in
/// them.
const CHANGES: [(&CStr, Change); 5] = [
    (c"perf_load_guest_context", Change::Lends),
    (c"amd_pmu_enable_virt", Change::SetsSvm { enabled: true }),
    (c"amd_pmu_disable_virt", Change::SetsSvm { enabled: false }),
    (c"amd_pmu_lbr_read", Change::Runs),
    (c"__intel_pmu_snapshot_branch_stack", Change::Runs),
];

/// The hooks of one PMU. Removing a hook waits for grace periods. The function that a switch between
/// tasks calls has its own, which need not look for what was called. The others share one.
pub(super) struct Hooks {
    _user_read: Pin<KBox<Hook<UserRead>>>,
    /// `None` if the kernel has none of the functions.
    _changes: Option<Pin<KBox<Hook<Changes>>>>,
}

struct UserRead(Handler);

struct Changes {
    handler: Handler,
    /// Where the functions begin. No two begin at the same address.
    functions: KVec<(usize, Change)>,
}

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
        let mut functions = KVec::with_capacity(CHANGES.len(), GFP_KERNEL)?;
        let mut addresses = KVec::with_capacity(CHANGES.len(), GFP_KERNEL)?;
        for (name, change) in CHANGES {
            if let Some(address) = symbols.address(name) {
                functions.push((address, change), GFP_KERNEL)?;
                addresses.push(address, GFP_KERNEL)?;
            }
        }
        let changes = Changes {
            handler: handler.clone(),
            functions,
        };
        let hooks = Hooks {
            _user_read: hook(&[user_read], UserRead(handler.clone()))?,
            _changes: match addresses.is_empty() {
                true => None,
                false => Some(hook(&addresses, changes)?),
            },
        };
        handler.driver().hooks_alive.watch(symbols)?;
        Ok(hooks)
    }
}

fn hook<H: ftrace::Handler>(addresses: &[usize], handler: H) -> Result<Pin<KBox<Hook<H>>>> {
    KBox::pin_init(Hook::register(addresses, handler), GFP_KERNEL)
}

impl ftrace::Handler for UserRead {
    fn called(&self, _ip: usize, irqs: IrqsDisabled<'_>) {
        self.0.this_cpu(irqs).hide_counts();
    }
}

impl ftrace::Handler for Changes {
    fn called(&self, ip: usize, irqs: IrqsDisabled<'_>) {
        // A function calls ftrace in its first bytes, so that none of the others begins in between.
        let before = self.functions.iter().filter(|(address, _)| *address <= ip);
        let Some((_, change)) = before.max_by_key(|(address, _)| *address) else {
            return;
        };
        let pmu = self.handler.this_cpu(irqs);
        match *change {
            Change::Lends => pmu.state().tenure.lend(),
            Change::SetsSvm { enabled } => {
                pmu.set_svm(enabled);
                pmu.expect_others_to_run_counters();
            }
            Change::Runs => pmu.expect_others_to_run_counters(),
        }
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
