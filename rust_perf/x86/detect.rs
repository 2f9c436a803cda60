// SPDX-License-Identifier: GPL-2.0

//! Detection of the hardware: what CPUID enumerates, and which registers really work.
//!
//! On a hybrid CPU each type of core has its own. What a type has is read on a core of that
//! type. All cores of a type are alike.

use super::{
    cpu,
    reservation::Reservation,
    Hardware,
    InTree,
    LocalApic,
    NoHardware,
    Options,
    Reservable,
    ThisCpu,
    UserRdpmc, //
};
use crate::{
    pmc::{
        self,
        counter::CounterSet,
        lbr::Lbr,
        Capabilities,
        CoreType,
        Generation,
        Leaf01Ecx, //
    },
    system::{
        irq::{
            self,
            IrqsDisabled, //
        },
        raw_spinlock::RawSpinLock, //
    }, //
};
use core::{
    mem,
    ptr,
    sync::atomic::{
        AtomicBool,
        Ordering::Relaxed, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The counters of a type of core.
struct Found {
    core_type: Option<CoreType>,
    capabilities: Capabilities,
}

/// What [`Hardware::detect`] finds.
pub(crate) struct Detected {
    /// One entry, or on a hybrid CPU one for each type of core that is online and can be driven.
    pub(crate) all: KVec<Hardware>,
    /// The types of cores that are online and cannot be driven, in the order of
    /// [`CoreType::ALL`], and why.
    pub(crate) refused: Refused,
}

/// Why types of cores cannot be driven, in the order of [`CoreType::ALL`].
pub(crate) type Refused = [Option<&'static str>; CoreType::ALL.len()];

impl Hardware {
    /// Finds out what the CPUs have. Task context, may sleep.
    ///
    /// Fails with `EBUSY` if someone else uses counters that the kernel does not
    /// arbitrate.
    pub(crate) fn detect(options: &Options) -> Result<Detected, NoHardware> {
        use NoHardware::Missing;

        let apic = || LocalApic::find().ok_or(Missing("there is no local APIC"));
        apic()?;
        let hypervisor = Leaf01Ecx::from_raw(cpu::cpuid(1, 0).ecx).has(Leaf01Ecx::HYPERVISOR);
        let mut types = Types::enumerate(options)?;
        let (generation, reservable) = types.common()?;
        types.keep(|it| {
            let Capabilities {
                generation: own,
                reservable: arbitrated,
                ..
            } = it.capabilities;
            let alike = ptr::eq(own, generation) && arbitrated == reservable;
            Ok((!alike).then_some("the generation of counters is not that of the other cores"))
        })?;

        // CPUID does not enumerate AMD's legacy counters, and a hypervisor may have left out any.
        types.keep(|it| {
            let is_missing = |msr| cpu::rdmsr_safe(msr).is_none();
            let missing = it.on_core(|caps| caps.registers().any(is_missing))?;
            Ok(missing.then_some("registers are missing that CPUID enumerates"))
        })?;
        let gp = types
            .found
            .iter()
            .map(|it| it.capabilities.counters.gp_part());
        let gp = gp.fold(CounterSet::EMPTY, |all, gp| all | gp);
        let reservation = Reservation::take(generation, gp);
        // Counters that someone else has reserved work.
        if reservation.is_ok() {
            types.keep(|it| {
                let is_working = |counter| cpu::is_working(generation, counter);
                let all = |caps: &Capabilities| {
                    let mut counters = caps.counters.gp_part().into_iter();
                    counters.all(is_working)
                };
                let works = it.on_core(all)?;
                Ok((!works).then_some("the counters do not keep what is written to them"))
            })?;
        }
        let Types { mut found, refused } = types;
        let is_in_use = || {
            // SAFETY: The registers of each type were just found to exist. `is_in_use` accesses them
            // on CPUs of the type only.
            let this_cpu = unsafe { ThisCpu::new() };
            found.iter().any(|it| it.is_in_use(&this_cpu))
        };
        let mut shared = reservation.is_err();
        if reservable && !shared && is_in_use() {
            // In-tree: `check_hw_exists()`.
            pr_warn!(
                "[Firmware Bug]: counters count that nobody has reserved. The first event stops \
                 them; if firmware starts them again, counts will be wrong\n"
            );
        }
        if !reservable {
            shared = is_in_use();
            if !options.unreserved && shared {
                pr_err!(
                    "the counters are in use, by events of the in-tree `cpu` PMU or the NMI \
                     watchdog, and the kernel does not arbitrate them: close those events, \
                     `sysctl kernel.nmi_watchdog=0`; or load with unreserved=1\n"
                );
                return Err(EBUSY.into());
            }
            if super::has_in_tree_driver()? {
                // Both would write LBR_CTL, and wipe each other's branch records.
                for it in &mut found {
                    it.capabilities = it.capabilities.without_lbr();
                }
                pr_warn!("the kernel does not arbitrate these counters: do not use both drivers\n");
            }
        }
        // A CPU has the registers of its model, but not every hypervisor provides them.
        if hypervisor {
            for it in &mut found {
                it.capabilities = it.on_core(|caps| {
                    let is_missing = |msr| cpu::rdmsr_safe(msr).is_none();
                    let has_lbr = |lbr: &Lbr| {
                        !lbr.other_registers().any(is_missing)
                            && lbr.addresses().all(|msr| cpu::is_accessible(msr, shared))
                    };
                    let caps = match caps.lbr.as_ref().is_none_or(has_lbr) {
                        true => caps,
                        false => &caps.without_lbr(),
                    };
                    let caps = match caps.metrics_register().is_some_and(is_missing) {
                        true => caps.without_metrics(),
                        false => *caps,
                    };
                    caps.extra_registers()
                        .filter(|register| !cpu::is_accessible(register.msr(), shared))
                        .fold(caps, Capabilities::without_extra)
                })?;
            }
        }
        drop(reservation);

        let both_count = !reservable && options.unreserved;
        let reservable = Arc::pin_init(Reservable::new(generation, gp), GFP_KERNEL)?;
        let mut all = KVec::new();
        for Found {
            core_type,
            capabilities,
        } in found
        {
            let user_rdpmc = UserRdpmc::find()?;
            let may_mask_lvtpc = generation.masks_lvtpc || hypervisor;
            let lvtpc_order = may_mask_lvtpc.then(|| capabilities.lvtpc_order());
            let hardware = Hardware {
                core_type,
                capabilities,
                reservable: reservable.clone(),
                // SAFETY: The registers were found to exist above, on a CPU of this type. Those of a type
                // are alike, and so are all CPUs of a machine that is not hybrid. `CorePmu` accesses
                // registers on CPUs of its type only: perf puts its events on no other.
                cpu: unsafe { ThisCpu::new() },
                apic: apic()?,
                in_tree: InTree::find(&user_rdpmc, both_count)?,
                user_rdpmc,
                lvtpc_order,
            };
            all.push(hardware, GFP_KERNEL).map_err(Error::from)?;
        }
        Ok(Detected { all, refused })
    }
}

/// The types of cores that are online.
struct Types {
    /// Those that can be driven, as far as is known.
    found: KVec<Found>,
    /// The others.
    refused: Refused,
}

impl Types {
    /// Finds out what CPUID enumerates on each type, within what `options` allow.
    fn enumerate(options: &Options) -> Result<Self, NoHardware> {
        let mut types = Types {
            found: KVec::new(),
            refused: [None; CoreType::ALL.len()],
        };
        for core_type in core_types()? {
            match on_core(core_type, || capabilities(options))? {
                Ok(capabilities) => {
                    let it = Found {
                        core_type,
                        capabilities,
                    };
                    types.found.push(it, GFP_KERNEL).map_err(Error::from)?;
                }
                Err(why) => types.refuse(core_type, why)?,
            }
        }
        Ok(types)
    }

    /// How the first type is driven, and whether the kernel arbitrates its counters.
    fn common(&self) -> Result<(&'static Generation, bool), NoHardware> {
        let first = self.found.first().map(|it| &it.capabilities);
        first
            .map(|caps| (caps.generation, caps.reservable))
            .ok_or(NoHardware::Missing(self.why_none()))
    }

    /// Keeps the types for which `objection` has none. One must remain.
    fn keep(
        &mut self,
        objection: impl Fn(&Found) -> Result<Option<&'static str>>,
    ) -> Result<(), NoHardware> {
        for it in mem::replace(&mut self.found, KVec::new()) {
            match objection(&it)? {
                None => self.found.push(it, GFP_KERNEL).map_err(Error::from)?,
                Some(why) => self.refuse(it.core_type, why)?,
            }
        }
        self.common().map(|_| ())
    }

    /// Leaves a type out. Fails if the CPU is not hybrid.
    fn refuse(&mut self, core_type: Option<CoreType>, why: &'static str) -> Result<(), NoHardware> {
        let reason = core_type.and_then(|it| self.refused.get_mut(it as usize));
        *reason.ok_or(NoHardware::Missing(why))? = Some(why);
        Ok(())
    }

    /// Why no type can be driven.
    fn why_none(&self) -> &'static str {
        let first = self.refused.iter().find_map(|why| *why);
        first.unwrap_or("the driver knows no type of core (CPUID leaf 0x1A)")
    }
}

impl Found {
    /// Calls `f` with the capabilities on a CPU of this type, with interrupts disabled if the
    /// CPU is hybrid. Fails with `EAGAIN` if none is online any more. Task context, may sleep.
    fn on_core<R: Send>(&self, f: impl Fn(&Capabilities) -> R + Sync) -> Result<R> {
        on_core(self.core_type, || f(&self.capabilities))
    }

    /// Whether any counter counts on any CPU of this type. Task context, may sleep.
    fn is_in_use(&self, cpu: &ThisCpu) -> bool {
        let in_use = AtomicBool::new(false);
        irq::on_each_cpu(
            |_| true,
            |irqs| {
                if super::core_type(irqs) == self.core_type && self.capabilities.is_counting(*cpu) {
                    in_use.store(true, Relaxed);
                }
            },
        );
        in_use.into_inner()
    }
}

/// Calls `f` on a CPU whose core is of this type, with interrupts disabled. If it is `None`,
/// the CPU is not hybrid, and `f` is called right here.
///
/// Fails with `EAGAIN` if no such CPU is online. Task context, may sleep.
fn on_core<R: Send>(core_type: Option<CoreType>, f: impl Fn() -> R + Sync) -> Result<R> {
    if core_type.is_none() {
        return Ok(f());
    }
    let result = KBox::pin_init(RawSpinLock::new(None), GFP_KERNEL)?;
    irq::on_each_cpu(
        |_| true,
        |irqs| {
            if super::core_type(irqs) == core_type {
                result.with(irqs, |result| {
                    if result.is_none() {
                        *result = Some(f());
                    }
                });
            }
        },
    );
    IrqsDisabled::with(|irqs| result.with(irqs, Option::take)).ok_or(EAGAIN)
}

/// The types of cores that are online. `None` stands for all cores of a CPU that is not
/// hybrid. Task context, may sleep.
fn core_types() -> Result<KVec<Option<CoreType>>> {
    let mut types = KVec::new();
    if !pmc::is_hybrid(cpu::cpuid) {
        types.push(None, GFP_KERNEL)?;
        return Ok(types);
    }
    let online = CoreType::ALL.map(|_| AtomicBool::new(false));
    irq::on_each_cpu(
        |_| true,
        |irqs| {
            let core_type = super::core_type(irqs);
            if let Some(online) = core_type.and_then(|it| online.get(it as usize)) {
                online.store(true, Relaxed);
            }
        },
    );
    for (core_type, online) in CoreType::ALL.into_iter().zip(online) {
        if online.into_inner() {
            types.push(Some(core_type), GFP_KERNEL)?;
        }
    }
    Ok(types)
}

/// Detects the counters of the CPU that the code runs on.
fn capabilities(options: &Options) -> Result<Capabilities, &'static str> {
    let features = Leaf01Ecx::from_raw(cpu::cpuid(1, 0).ecx);
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
    }?;
    if let Some(n) = options.gp {
        capabilities = capabilities.limit_gp(n);
    }
    if options.no_fixed {
        capabilities = capabilities.without_fixed();
    }
    Ok(capabilities)
}
