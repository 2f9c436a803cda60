// SPDX-License-Identifier: GPL-2.0

//! Registration of `rust_pmu`, or of the PMUs of a hybrid CPU, if there are counters.

use super::{
    branches::BranchSupport,
    hooks::Hooks,
    hybrid::{
        self,
        Handlers,
        Part, //
    },
    place::{
        Naming,
        Place, //
    },
    sysfs,
    CorePmu,
    Handler, //
};
use crate::{
    perf::{
        self,
        PmuType, //
    },
    pmc::lbr::Lbr,
    system::{
        cpumask::CpuMask,
        hotplug,
        syscore, //
    },
    x86::{
        self,
        nmi,
        Detected,
        Hardware,
        NoHardware,
        Options, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// PMUs whose interrupts the in-tree driver handles. The driver would take them for late ones of its own.
const NEED_IN_TREE: [&CStr; 2] = [c"intel_pt", c"intel_bts"];

/// What is registered for `rust_pmu`, or for the PMUs of a hybrid CPU. It is dropped in this
/// order.
pub(crate) struct Registrations {
    _pmus: KVec<PmuRegistration>,
    _nmi: NmiRegistration,
}

/// What is registered for one PMU. It is dropped in this order.
struct PmuRegistration {
    _pmu: Pin<KBox<perf::Registration<CorePmu>>>,
    _hooks: Option<Hooks>,
    _syscore: Pin<KBox<syscore::Registration<Handler>>>,
    _hotplug: Pin<KBox<hotplug::Registration<Handler>>>,
}

/// The handler of NMIs. That of one PMU need not look for the right one.
enum NmiRegistration {
    One(#[expect(dead_code)] Pin<KBox<nmi::Registration<Handler>>>),
    Hybrid(#[expect(dead_code)] Pin<KBox<nmi::Registration<Handlers>>>),
}

/// Registers `rust_pmu`, or a PMU for each type of core. Returns `None`, with a message, if the
/// CPU has no PMU that the driver can drive: the module's other PMUs need none. A type of core
/// without one does not keep the others from having theirs. Task context, may sleep.
///
/// All other failures are errors, because the user asked for something that can be
/// had in another way, or the kernel cannot run the driver: a generation that the CPU lacks, or
/// `primary=1` without usable counters (`ENODEV`), `named_events=1` on a hybrid CPU (`EINVAL`, see
/// [`Naming::OfCore`]), counters that someone else uses (`EBUSY`), with `primary=1` PMUs that need
/// the in-tree driver (`EBUSY`), functions that are missing in the kernel.
pub(crate) fn register(
    options: &Options,
    place: Place,
    module: &'static ThisModule,
) -> Result<Option<Registrations>> {
    let in_place = matches!(place, Place::InTree);
    if in_place {
        check_in_tree_is_absent()?;
    }
    let Detected { all, refused } = match Hardware::detect(options) {
        Ok(detected) => detected,
        Err(NoHardware::Missing(why)) => {
            if let Some(generation) = options.generation {
                pr_err!("generation={}: {}\n", generation.get(), why);
                return Err(ENODEV);
            }
            if in_place {
                pr_err!("primary=1: no PMU: {}\n", why);
                return Err(ENODEV);
            }
            pr_info!("no PMU: {}; rust_pmu is not registered\n", why);
            return Ok(None);
        }
        Err(NoHardware::Failed(error)) => return Err(error),
    };
    let (all, branch_support) = with_branch_support(all)?;
    let sampling = perf::Sampling::find().inspect_err(|_| {
        pr_err!("perf_event_overflow() or perf_sample_event_took() cannot be found with kprobes\n")
    })?;

    hybrid::report(&refused, place);
    let has_raw = |it: &Hardware| place.pmu_type(it.core_type) == PmuType::Raw;
    if in_place && !all.iter().any(has_raw) {
        pr_err!("primary=1: no performance core is online whose counters the driver can drive\n");
        return Err(ENODEV);
    }
    let naming = place.naming();
    if naming == Naming::OfCore && all.iter().any(|it| it.core_type.is_some()) {
        pr_err!(
            "named_events=1: not on a hybrid CPU: perf would mistake `cpu_atom` for `cpu_core`\n"
        );
        return Err(EINVAL);
    }
    let mut parts = KVec::new();
    for hardware in &all {
        parts.push(Part::of(hardware, &all, &refused, naming)?, GFP_KERNEL)?;
    }
    let mut instances = KVec::new();
    let mut handlers = KVec::new();
    for (hardware, part) in all.into_iter().zip(parts) {
        let cpus = part.as_ref().map(|part| part.cpus.clone());
        let scope = perf::Scope {
            only_on: part.as_ref().map(Part::only_on),
            generic_events: place.generic_events(),
            task_data: branch_support.as_ref().map(BranchSupport::task_data),
        };
        let support = branch_support.clone();
        let driver = CorePmu::new(hardware, sampling, support, part, naming);
        let instance = perf::Instance::with_scope(driver, scope)?;
        handlers.push(Handler(instance.clone()), GFP_KERNEL)?;
        instances.push((instance, cpus), GFP_KERNEL)?;
    }

    // The PMUs come last: they may get events as soon as they are registered.
    let nmi = register_nmi(handlers)?;
    let mut prepared = KVec::new();
    for (instance, cpus) in instances {
        let pmu = Prepared::new(instance, cpus, place, naming)?;
        prepared.push(pmu, GFP_KERNEL)?;
    }
    let mut pmus = KVec::with_capacity(prepared.len(), GFP_KERNEL)?;
    for pmu in prepared {
        pmus.push(pmu.register(module)?, GFP_KERNEL)?;
    }
    Ok(Some(Registrations {
        _pmus: pmus,
        _nmi: nmi,
    }))
}

/// The hardware, and what its branch records need of the kernel. If the kernel does not have that, the
/// hardware has no branch records. Task context, may sleep.
fn with_branch_support(all: KVec<Hardware>) -> Result<(KVec<Hardware>, Option<BranchSupport>)> {
    let mut lbrs = all.iter().filter_map(|it| it.capabilities.lbr.as_ref());
    if lbrs.clone().next().is_none() {
        return Ok((all, None));
    }
    // An access to the records raises #GP while Intel PT traces.
    let is_excluded =
        lbrs.any(Lbr::excludes_pt) && perf::is_registered(c"intel_pt").unwrap_or(true);
    if is_excluded {
        pr_warn!(
            "no branch stacks: this CPU cannot have them beside intel_pt; boot with \
             `initcall_blacklist=pt_init`\n"
        );
    } else if let Some(support) = BranchSupport::find()? {
        return Ok((all, Some(support)));
    }
    let mut without = KVec::with_capacity(all.len(), GFP_KERNEL)?;
    for mut hardware in all {
        hardware.capabilities = hardware.capabilities.without_lbr();
        without.push(hardware, GFP_KERNEL)?;
    }
    Ok((without, None))
}

/// Checks that neither the in-tree driver nor a PMU that needs it has come up. Otherwise fails with
/// `EBUSY`. Task context, may sleep.
fn check_in_tree_is_absent() -> Result {
    if x86::has_in_tree_driver()? {
        pr_err!(
            "primary=1: the kernel's own driver has the counters; boot with \
             `initcall_blacklist=init_hw_perf_events,pt_init,bts_init`\n"
        );
        return Err(EBUSY);
    }
    for name in NEED_IN_TREE {
        let is_registered = perf::is_registered(name).inspect_err(|_| {
            pr_err!("primary=1: perf's PMUs cannot be found (CONFIG_KALLSYMS_ALL)\n")
        })?;
        if is_registered {
            pr_err!(
                "primary=1: {} needs the kernel's own driver for its interrupts; boot with \
                 `initcall_blacklist=init_hw_perf_events,pt_init,bts_init`\n",
                name
            );
            return Err(EBUSY);
        }
    }
    Ok(())
}

fn register_nmi(mut handlers: KVec<Handler>) -> Result<NmiRegistration> {
    if handlers.len() > 1 {
        let handlers = Handlers::new(handlers);
        let nmi = KBox::pin_init(nmi::Registration::register(handlers), GFP_KERNEL)?;
        return Ok(NmiRegistration::Hybrid(nmi));
    }
    let handler = handlers.pop().ok_or(ENODEV)?;
    let nmi = KBox::pin_init(nmi::Registration::register(handler), GFP_KERNEL)?;
    Ok(NmiRegistration::One(nmi))
}

/// All that a PMU needs before perf may have events for it.
struct Prepared {
    instance: Arc<perf::Instance<CorePmu>>,
    groups: perf::AttributeGroups,
    place: Place,
    hooks: Option<Hooks>,
    hotplug: Pin<KBox<hotplug::Registration<Handler>>>,
    syscore: Pin<KBox<syscore::Registration<Handler>>>,
}

impl Prepared {
    /// Prepares the PMU of `instance`, which is on `cpus` only if there are any.
    fn new(
        instance: Arc<perf::Instance<CorePmu>>,
        cpus: Option<Arc<CpuMask>>,
        place: Place,
        naming: Naming,
    ) -> Result<Self> {
        let driver = instance.driver();
        let capabilities = &driver.hardware.capabilities;
        let groups = sysfs::attribute_groups(capabilities, naming, cpus.as_ref())?;
        let handler = Handler(instance.clone());
        let hotplug = KBox::pin_init(
            hotplug::Registration::register(c"perf/rust_pmu:online", handler.clone()),
            GFP_KERNEL,
        )?;
        Ok(Prepared {
            instance,
            groups,
            place,
            hooks: Hooks::register(&handler),
            hotplug,
            syscore: KBox::pin_init(syscore::Registration::register(handler), GFP_KERNEL)?,
        })
    }

    /// Registers the PMU.
    fn register(self, module: &'static ThisModule) -> Result<PmuRegistration> {
        let Hardware {
            core_type,
            capabilities,
            ..
        } = self.instance.driver().hardware;
        let (name, pmu_type) = (self.place.name(core_type), self.place.pmu_type(core_type));
        let pmu = KBox::pin_init(
            perf::Registration::register_as(pmu_type, name, self.groups, self.instance, module),
            GFP_KERNEL,
        )?;

        let (events_of, model) = match capabilities.pmu_name {
            Some(name) => (", events of ", name),
            None => ("", ""),
        };
        pr_info!(
            "{}: {}, {} general counters of {} bits, {} fixed of {}{}{}\n",
            name,
            capabilities.generation.name,
            capabilities.counters.gp_part().len(),
            capabilities.gp_width,
            capabilities.counters.fixed_part().len(),
            capabilities.fixed_width,
            events_of,
            model,
        );
        Ok(PmuRegistration {
            _pmu: pmu,
            _hooks: self.hooks,
            _syscore: self.syscore,
            _hotplug: self.hotplug,
        })
    }
}
