// SPDX-License-Identifier: GPL-2.0

//! The hardware as the kernel reaches it: CPUID, MSRs, RDPMC, the local APIC and
//! NMIs; and what is x86's own about the registers of code and page faults.
//!
//! What the registers mean is in [`pmc`](crate::pmc).

mod apic;
mod code;
mod cpu;
mod detect;
mod in_tree;
pub(crate) mod nmi;
mod rdpmc;
mod regs;
mod reservation;

use crate::{
    bindings,
    pmc::{
        Capabilities,
        CoreType,
        Counters,
        LvtpcOrder,
        Shadow, //
    },
    system::irq::{
        IrqsDisabled,
        PreemptDisabled, //
    }, //
};
use core::num::NonZeroU8;
use kernel::{
    prelude::*,
    sync::Arc, //
};

pub(crate) use self::{
    apic::LocalApic,
    code::CodeReader,
    cpu::ThisCpu,
    detect::{
        Detected,
        Refused, //
    },
    in_tree::InTree,
    rdpmc::UserRdpmc,
    regs::REGISTER_ARGUMENTS,
    reservation::{
        Reservable,
        Reserved, //
    }, //
};

/// The performance monitoring hardware, which all CPUs of the machine have alike; or on a
/// hybrid CPU all cores of one type.
pub(crate) struct Hardware {
    /// The type of the cores, if the CPU is hybrid.
    pub(crate) core_type: Option<CoreType>,
    /// What the counters can do, and how they are driven.
    pub(crate) capabilities: Capabilities,
    /// Their reservation, on a hybrid CPU with those of the other types.
    pub(crate) reservable: Arc<Reservable>,
    /// Access to their registers.
    pub(crate) cpu: ThisCpu,
    /// Delivers their interrupts.
    pub(crate) apic: LocalApic,
    /// The other driver of these counters.
    pub(crate) in_tree: InTree,
    /// Controls who may read them in user mode.
    pub(crate) user_rdpmc: UserRdpmc,
    /// When the handler of a PMI must unmask LVTPC. `None` if no PMI leaves it masked. It does on Intel's
    /// CPUs, and perhaps under a hypervisor, because older KVM does so on AMD, too.
    pub(crate) lvtpc_order: Option<LvtpcOrder>,
}

/// What the module's parameters ask for.
#[derive(Default)]
pub(crate) struct Options {
    /// The generation to drive the counters as, see [`detect_as`](crate::pmc::detect_as).
    pub(crate) generation: Option<NonZeroU8>,
    /// The largest number of GP counters to use.
    pub(crate) gp: Option<NonZeroU8>,
    /// Do not use fixed counters.
    pub(crate) no_fixed: bool,
    /// Use counters that the kernel does not arbitrate, even if they are in use.
    pub(crate) unreserved: bool,
}

/// Why there is no [`Hardware`] to drive.
pub(crate) enum NoHardware {
    /// The CPUs have no PMU that the driver can drive, for this reason; on a hybrid CPU, no type of
    /// core has.
    Missing(&'static str),
    /// Something else failed, and a message says what.
    Failed(Error),
}

impl From<Error> for NoHardware {
    fn from(error: Error) -> Self {
        NoHardware::Failed(error)
    }
}

impl Hardware {
    /// The counters of the CPU that the code runs on, whose shadow is `shadow`.
    pub(crate) fn counters<'a>(&'a self, shadow: &'a Shadow) -> Counters<'a, ThisCpu> {
        Counters::new(shadow, &self.capabilities, self.cpu)
    }
}

/// Whether the in-tree driver has come up. Task context, may sleep. Fails as
/// [`UserRdpmc::find`].
pub(crate) fn has_in_tree_driver() -> Result<bool> {
    Ok(UserRdpmc::find()?.has_in_tree_driver())
}

/// The type of the core that the code runs on. `None` if the CPU is not hybrid, or the driver
/// does not know the type.
pub(crate) fn core_type(_: IrqsDisabled<'_>) -> Option<CoreType> {
    CoreType::of(cpu::cpuid)
}

/// Whether perf counts the page fault at `address`, whose trace point has been hit, as one:
/// user memory was accessed, where that may sleep. Any context; the probe of the trace
/// point, and nothing else of this module, has disabled preemption.
pub(crate) fn is_user_fault(address: u64, _: PreemptDisabled<'_>) -> bool {
    // SAFETY: The function reads the state of this CPU and of the current task.
    unsafe { bindings::rust_perf_is_user_fault(address as usize) }
}
