// SPDX-License-Identifier: GPL-2.0

//! Registration of `rust_pmu`, if the CPU has counters.

use super::{
    sysfs,
    CorePmu,
    Handler, //
};
use crate::{
    perf,
    system::{
        hotplug,
        syscore, //
    },
    x86::{
        nmi,
        Hardware,
        NoHardware,
        Options, //
    }, //
};
use kernel::prelude::*;

/// What is registered for `rust_pmu`. It is dropped in this order.
pub(crate) struct Registrations {
    _pmu: Pin<KBox<perf::Registration<CorePmu>>>,
    _syscore: Pin<KBox<syscore::Registration<Handler>>>,
    _hotplug: Pin<KBox<hotplug::Registration<Handler>>>,
    _nmi: Pin<KBox<nmi::Registration<Handler>>>,
}

/// Registers `rust_pmu`. Returns `None`, with a message, if the CPU has no PMU that
/// the driver can drive: the module's other PMUs need none. Task context, may sleep.
///
/// All other failures are errors, because the user asked for something that can be
/// had in another way, or the kernel cannot run the driver: a generation that was
/// asked for and that the CPU does not have (`ENODEV`), counters that someone else
/// uses (`EBUSY`), functions that are missing in the kernel.
pub(crate) fn register(
    options: &Options,
    named_events: bool,
    module: &'static ThisModule,
) -> Result<Option<Registrations>> {
    let hardware = match Hardware::detect(options) {
        Ok(hardware) => hardware,
        Err(NoHardware::Missing(why)) => {
            if let Some(generation) = options.generation {
                pr_err!("generation={}: {}\n", generation.get(), why);
                return Err(ENODEV);
            }
            pr_info!("no PMU: {}; rust_pmu is not registered\n", why);
            return Ok(None);
        }
        Err(NoHardware::Failed(error)) => return Err(error),
    };
    let capabilities = hardware.capabilities;
    let sampling = perf::Sampling::find().inspect_err(|_| {
        pr_err!("perf_event_overflow() or perf_sample_event_took() cannot be found with kprobes\n")
    })?;
    let groups = sysfs::attribute_groups(&capabilities, named_events)?;
    let instance = perf::Instance::new(CorePmu::new(hardware, sampling))?;
    let handler = Handler(instance.clone());

    // The PMU comes last: it may get events as soon as it is registered.
    let nmi = KBox::pin_init(nmi::Registration::register(handler.clone()), GFP_KERNEL)?;
    let hotplug = KBox::pin_init(
        hotplug::Registration::register(c"perf/rust_pmu:online", handler.clone()),
        GFP_KERNEL,
    )?;
    let syscore = KBox::pin_init(syscore::Registration::register(handler), GFP_KERNEL)?;
    let pmu = KBox::pin_init(
        perf::Registration::register(c"rust_pmu", groups, instance, module),
        GFP_KERNEL,
    )?;

    let (events_of, model) = match capabilities.pmu_name {
        Some(name) => (", events of ", name),
        None => ("", ""),
    };
    pr_info!(
        "rust_pmu: {}, {} general counters of {} bits, {} fixed of {}{}{}\n",
        capabilities.generation.name,
        capabilities.counters.gp_part().len(),
        capabilities.gp_width,
        capabilities.counters.fixed_part().len(),
        capabilities.fixed_width,
        events_of,
        model,
    );
    Ok(Some(Registrations {
        _pmu: pmu,
        _syscore: syscore,
        _hotplug: hotplug,
        _nmi: nmi,
    }))
}
