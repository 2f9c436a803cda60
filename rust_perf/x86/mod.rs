// SPDX-License-Identifier: GPL-2.0

//! The hardware: model-specific registers, CPUID, the local APIC and NMIs.
//!
//! How the counters of each generation are driven is in [`hal`], which works
//! on any [`hal::Registers`]: those of the CPU ([`ThisCpu`]) or of a model of
//! it, in tests.

mod apic;
mod cpu;
#[expect(unreachable_pub, reason = "it is part of a library on the host")]
pub(crate) mod hal;
mod late;
pub(crate) mod nmi;
mod rdpmc;
mod reservation;

use core::num::NonZeroU8;
use kernel::prelude::*;

pub(crate) use self::{
    apic::LocalApic,
    cpu::ThisCpu,
    late::LatePmi,
    rdpmc::UserRdpmc,
    reservation::Reservation, //
};

/// What all CPUs of this machine have for performance monitoring.
pub(crate) struct Hardware {
    /// What the counters can do, and how they are driven.
    pub(crate) capabilities: hal::Capabilities,
    /// Access to their registers.
    pub(crate) cpu: ThisCpu,
    /// What delivers their interrupts.
    pub(crate) apic: LocalApic,
    /// Who may read them in user mode.
    pub(crate) user_rdpmc: UserRdpmc,
}

/// What of the hardware is to be used, for experiments: all, by default.
#[derive(Default)]
pub(crate) struct Limits {
    /// The generation to take the counters for, see [`hal::detect_as`].
    pub(crate) generation: Option<NonZeroU8>,
    /// How many general counters at the most.
    pub(crate) general: Option<NonZeroU8>,
    /// No fixed counters.
    pub(crate) no_fixed: bool,
}

/// CPUID.01H:ECX.PDCM: there is IA32_PERF_CAPABILITIES (SDM vol. 2, CPUID).
const PDCM: u32 = 1 << 15;

/// CPUID.(EAX=07H,ECX=0):EDX.Hybrid: not all cores are of one kind (ibid.).
const HYBRID: u32 = 1 << 15;

impl Hardware {
    /// Finds out what the CPUs have, within `limits`. Fails with `ENODEV`, and
    /// a message that says what is missing, if that is nothing to work with.
    /// Task context.
    pub(crate) fn detect(limits: &Limits) -> Result<Self> {
        let missing = |what: &str| {
            pr_err!("no PMU: {}\n", what);
            ENODEV
        };
        if cpu::cpuid(7, 0).edx & HYBRID != 0 {
            return Err(missing("the cores are of different kinds (CPUID leaf 0x7)"));
        }
        let apic = LocalApic::find().ok_or_else(|| missing("there is no local APIC"))?;
        let perf_capabilities = if cpu::cpuid(1, 0).ecx & PDCM != 0 {
            cpu::rdmsr_safe(hal::msr::intel::PERF_CAPABILITIES)
        } else {
            None
        };
        let mut capabilities = match limits.generation {
            None => hal::detect(cpu::cpuid, perf_capabilities).ok_or_else(|| {
                missing("these are no counters that the driver knows (CPUID leaf 0xA)")
            })?,
            Some(generation) => hal::detect_as(generation.get(), cpu::cpuid, perf_capabilities)
                .ok_or_else(|| missing("the CPU has no such generation of counters"))?,
        };
        if let Some(n) = limits.general {
            capabilities = capabilities.limit_general(n);
        }
        if limits.no_fixed {
            capabilities = capabilities.without_fixed();
        }
        let (generation, counters) = (capabilities.generation, capabilities.counters);
        // AMD's oldest counters are not enumerated, and a hypervisor may have left out any.
        let is_missing = |msr| cpu::rdmsr_safe(msr).is_none();
        if capabilities.registers().any(is_missing) {
            return Err(missing("there are registers missing that CPUID tells of"));
        }
        // Counters that others have work; whoever wants them meanwhile finds them busy.
        if let Ok(_reservation) = Reservation::take(&capabilities) {
            let mut general = counters.general_part().into_iter();
            if !general.all(|counter| cpu::is_working(generation, counter)) {
                return Err(missing("the counters do not keep what is written to them"));
            }
        }
        if !generation.reservable {
            pr_warn!("nothing keeps the in-tree driver from these counters: do not use both\n");
        }
        Ok(Hardware {
            capabilities,
            // SAFETY: The registers were just seen to exist, and the CPUs are all alike.
            cpu: unsafe { ThisCpu::new() },
            apic,
            user_rdpmc: UserRdpmc::find().inspect_err(|_| {
                pr_err!(
                    "this kernel's cr4_update_pce(), perf_clear_dirty_counters() or \
                     perf_get_x86_pmu_capability() is not found by kprobes\n"
                )
            })?,
        })
    }
}
