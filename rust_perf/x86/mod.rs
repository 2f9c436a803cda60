// SPDX-License-Identifier: GPL-2.0

//! The hardware as the kernel reaches it: CPUID, MSRs, RDPMC, the local APIC and
//! NMIs; and what is x86's own about the registers of code and page faults.
//!
//! What the registers mean is in [`pmc`](crate::pmc).

mod apic;
mod cpu;
pub(crate) mod nmi;
mod rdpmc;
mod regs;
mod reservation;

use crate::{
    bindings,
    pmc::{
        self,
        Capabilities,
        Counters,
        Leaf01Ecx,
        Leaf07Edx,
        Shadow, //
    },
    system::irq::{
        self,
        PreemptDisabled, //
    }, //
};
use core::{
    num::NonZeroU8,
    sync::atomic::{
        AtomicBool,
        Ordering::Relaxed, //
    }, //
};
use kernel::prelude::*;

pub(crate) use self::{
    apic::LocalApic,
    cpu::ThisCpu,
    rdpmc::UserRdpmc,
    regs::REGISTER_ARGUMENTS,
    reservation::Reservation, //
};

/// The performance monitoring hardware, which all CPUs of the machine have alike.
pub(crate) struct Hardware {
    /// What the counters can do, and how they are driven.
    pub(crate) capabilities: Capabilities,
    /// Access to their registers.
    pub(crate) cpu: ThisCpu,
    /// Delivers their interrupts.
    pub(crate) apic: LocalApic,
    /// Controls who may read them in user mode.
    pub(crate) user_rdpmc: UserRdpmc,
    /// Whether a PMI may leave LVTPC masked, so that its handler must unmask it: on
    /// Intel's CPUs, and under a hypervisor, because older KVM does so on AMD, too.
    pub(crate) may_mask_lvtpc: bool,
}

/// What the module's parameters ask for.
#[derive(Default)]
pub(crate) struct Options {
    /// The generation to drive the counters as, see [`pmc::detect_as`].
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
    /// The CPUs have no PMU that the driver can drive, for this reason.
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
    /// Finds out what the CPUs have. Task context, may sleep.
    ///
    /// Fails with `EBUSY` if someone else uses counters that the kernel does not
    /// arbitrate.
    pub(crate) fn detect(options: &Options) -> Result<Self, NoHardware> {
        use NoHardware::Missing;

        if Leaf07Edx::from_raw(cpu::cpuid(7, 0).edx).has(Leaf07Edx::HYBRID) {
            return Err(Missing("the cores are of different kinds (CPUID leaf 0x7)"));
        }
        let apic = LocalApic::find().ok_or(Missing("there is no local APIC"))?;
        let features = Leaf01Ecx::from_raw(cpu::cpuid(1, 0).ecx);
        let mut capabilities = capabilities(options, features)?;
        let (generation, counters) = (capabilities.generation, capabilities.counters);

        // CPUID does not enumerate AMD's legacy counters, and a hypervisor may have left out any.
        let is_missing = |msr| cpu::rdmsr_safe(msr).is_none();
        if capabilities.registers().any(is_missing) {
            return Err(Missing("registers are missing that CPUID enumerates"));
        }
        let reservation = Reservation::take(&capabilities);
        // Counters that someone else has reserved work.
        if reservation.is_ok() {
            let mut gp = counters.gp_part().into_iter();
            if !gp.all(|counter| cpu::is_working(generation, counter)) {
                return Err(Missing("the counters do not keep what is written to them"));
            }
        }
        // SAFETY: The registers of the generation were just found to exist on this CPU. The CPUs of a
        // machine are alike unless CPUID declares them hybrid, which was checked.
        let this_cpu = unsafe { ThisCpu::new() };
        let mut shared = reservation.is_err();
        if !capabilities.reservable {
            shared = is_in_use(&capabilities, &this_cpu);
            if !options.unreserved && shared {
                pr_err!(
                    "the counters are in use, by events of the in-tree `cpu` PMU or the NMI \
                     watchdog, and the kernel does not arbitrate them: close those events, \
                     `sysctl kernel.nmi_watchdog=0`; or load with unreserved=1\n"
                );
                return Err(EBUSY.into());
            }
            pr_warn!("the kernel does not arbitrate these counters: do not use both drivers\n");
        }
        // A CPU has the extra registers of its model, but not every hypervisor provides them.
        if features.has(Leaf01Ecx::HYPERVISOR) {
            let missing = |register: &_| !cpu::is_accessible(*register, shared);
            capabilities = capabilities
                .extra_registers()
                .filter(missing)
                .fold(capabilities, Capabilities::without_extra);
        }
        drop(reservation);
        Ok(Hardware {
            may_mask_lvtpc: generation.masks_lvtpc || features.has(Leaf01Ecx::HYPERVISOR),
            capabilities,
            cpu: this_cpu,
            apic,
            user_rdpmc: UserRdpmc::find().inspect_err(|_| {
                pr_err!(
                    "cr4_update_pce(), perf_clear_dirty_counters() or \
                     perf_get_x86_pmu_capability() cannot be found with kprobes\n"
                )
            })?,
        })
    }

    /// The counters of the CPU that the code runs on, whose shadow is `shadow`.
    pub(crate) fn counters<'a>(&'a self, shadow: &'a Shadow) -> Counters<'a, ThisCpu> {
        Counters::new(shadow, &self.capabilities, &self.cpu)
    }
}

/// Detects the counters, within what `options` allow.
fn capabilities(options: &Options, features: Leaf01Ecx) -> Result<Capabilities, NoHardware> {
    let perf_capabilities = if features.has(Leaf01Ecx::PDCM) {
        cpu::rdmsr_safe(pmc::PERF_CAPABILITIES)
    } else {
        None
    };
    let mut capabilities = match options.generation {
        None => pmc::detect(cpu::cpuid, perf_capabilities)
            .ok_or("the driver does not know these counters (CPUID leaf 0xA)"),
        Some(generation) => pmc::detect_as(generation.get(), cpu::cpuid, perf_capabilities)
            .ok_or("the CPU does not have this generation of counters"),
    }
    .map_err(NoHardware::Missing)?;
    if let Some(n) = options.gp {
        capabilities = capabilities.limit_gp(n);
    }
    if options.no_fixed {
        capabilities = capabilities.without_fixed();
    }
    Ok(capabilities)
}

/// Whether any counter counts on any CPU. Task context, may sleep.
fn is_in_use(capabilities: &Capabilities, cpu: &ThisCpu) -> bool {
    let in_use = AtomicBool::new(false);
    irq::on_each_cpu(
        |_| true,
        |_| {
            if capabilities.is_counting(cpu) {
                in_use.store(true, Relaxed);
            }
        },
    );
    in_use.into_inner()
}

/// Whether perf counts the page fault at `address`, whose trace point has been hit, as one:
/// user memory was accessed, where that may sleep. Any context; the probe of the trace
/// point, and nothing else of this module, has disabled preemption.
pub(crate) fn is_user_fault(address: u64, _: PreemptDisabled<'_>) -> bool {
    // SAFETY: The function reads the state of this CPU and of the current task.
    unsafe { bindings::rust_perf_is_user_fault(address as usize) }
}
