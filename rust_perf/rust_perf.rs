// SPDX-License-Identifier: GPL-2.0

//! A driver for the performance counters of x86 CPUs.
//!
//! It registers PMUs with perf: `rust_pmu`, see [`core_pmu`], and `rust_trace`, see
//! [`trace_pmu`].

use crate::{
    core_pmu::{
        CorePmu,
        Handler, //
    },
    system::{
        hotplug,
        syscore, //
    },
    trace_pmu::TracePmu,
    x86::{
        nmi,
        Hardware,
        Options, //
    }, //
};
use core::{
    borrow::Borrow,
    num::NonZeroU8, //
};
use kernel::prelude::*;

// `perf` and `pmc` are libraries: public, because this driver uses only a part of each.
#[macro_use]
pub mod pmc;
pub mod perf;

mod bindings;
mod core_pmu;
pub mod system;
mod trace_pmu;
mod x86;

module! {
    type: RustPerf,
    name: "rust_perf",
    authors: ["The rust_perf developers"],
    description: "x86 performance counters for perf",
    license: "GPL",
    params: {
        generation: u8 {
            default: 0,
            description: "Drive the counters as this older generation: version 1 to 6 of Intel's \
                          architectural performance monitoring; on AMD 1 (legacy), 2 \
                          (PerfCtrExtCore) or 3 (PerfMonV2). 0, the default: the CPU's own",
        },
        general: u8 {
            default: 0,
            description: "Use at most this number of GP counters. 0, the default: all",
        },
        fixed: u8 {
            default: 1,
            description: "Whether to use fixed counters: 0 or 1, the default",
        },
        unreserved: u8 {
            default: 0,
            description: "Whether to load although someone else uses counters that the kernel does \
                          not arbitrate (architectural perfmon v6): 0, the default, or 1",
        },
    },
}

/// The registrations. They are dropped in this order.
struct RustPerf {
    _trace: Pin<KBox<perf::Registration<TracePmu>>>,
    _pmu: Pin<KBox<perf::Registration<CorePmu>>>,
    _syscore: Pin<KBox<syscore::Registration<Handler>>>,
    _hotplug: Pin<KBox<hotplug::Registration<Handler>>>,
    _nmi: Pin<KBox<nmi::Registration<Handler>>>,
}

impl kernel::Module for RustPerf {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let hardware = Hardware::detect(&options()?)?;
        let capabilities = hardware.capabilities;
        let sampling = perf::Sampling::find().inspect_err(|_| {
            pr_err!(
                "perf_event_overflow() or perf_sample_event_took() cannot be found with kprobes\n"
            )
        })?;
        let groups = core_pmu::attribute_groups(&capabilities)?;
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

        pr_info!(
            "rust_pmu: {}, {} general counters of {} bits, {} fixed of {}\n",
            capabilities.generation.name,
            capabilities.counters.gp_part().len(),
            capabilities.gp_width,
            capabilities.counters.fixed_part().len(),
            capabilities.fixed_width,
        );
        let trace = trace_pmu::register(module)?;
        Ok(RustPerf {
            _trace: trace,
            _pmu: pmu,
            _syscore: syscore,
            _hotplug: hotplug,
            _nmi: nmi,
        })
    }
}

/// What the module's parameters ask for. Fails with `EINVAL`, and a message.
fn options() -> Result<Options> {
    // Older kernels return a reference.
    fn read(value: impl Borrow<u8>) -> u8 {
        *value.borrow()
    }
    fn switch(name: &str, value: u8) -> Result<bool> {
        match value {
            0 => Ok(false),
            1 => Ok(true),
            _ => {
                pr_err!("parameter {}={}: 0 or 1\n", name, value);
                Err(EINVAL)
            }
        }
    }
    Ok(Options {
        generation: NonZeroU8::new(read(module_parameters::generation.value())),
        gp: NonZeroU8::new(read(module_parameters::general.value())),
        no_fixed: !switch("fixed", read(module_parameters::fixed.value()))?,
        unreserved: switch("unreserved", read(module_parameters::unreserved.value()))?,
    })
}
