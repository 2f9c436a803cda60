// SPDX-License-Identifier: GPL-2.0

//! A driver for the performance counters of x86 CPUs.
//!
//! Registers the PMU `rust_pmu` with perf: see [`core_pmu`].

use crate::{
    core_pmu::{
        CorePmu,
        PmiHandler, //
    },
    x86::{
        nmi,
        Hardware,
        Limits, //
    }, //
};
use core::{
    borrow::Borrow,
    num::NonZeroU8, //
};
use kernel::prelude::*;

mod bindings;
mod core_pmu;
mod perf;
#[expect(dead_code, unreachable_pub, reason = "it is a library on the host")]
mod pmc;
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
            description: "Take the counters for those of this older generation: 1 to 6 of Intel's \
                          architectural performance monitoring; for AMD 1 (legacy), 2 \
                          (PerfCtrExtCore) or 3 (PerfMonV2). 0, the default: the CPU's own",
        },
        general: u8 {
            default: 0,
            description: "Use so many general counters at the most. 0, the default: all",
        },
        fixed: u8 {
            default: 1,
            description: "Whether to use fixed counters: 0 or 1, the default",
        },
    },
}

/// The registrations, in the order in which they are to be undone.
struct RustPerf {
    _pmu: Pin<KBox<perf::Registration<CorePmu>>>,
    _nmi: Pin<KBox<nmi::Registration<PmiHandler>>>,
}

impl kernel::Module for RustPerf {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let hardware = Hardware::detect(&limits()?)?;
        let capabilities = hardware.capabilities;
        let overflow = perf::OverflowHandler::find().inspect_err(|_| {
            pr_err!(
                "this kernel's perf_event_overflow() or perf_sample_event_took() is not found by kprobes\n"
            )
        })?;
        let groups = core_pmu::attribute_groups(&capabilities)?;
        let instance = perf::Instance::new(CorePmu::new(hardware, overflow))?;
        let nmi = KBox::pin_init(
            nmi::Registration::register(c"rust_perf", PmiHandler(instance.clone())),
            GFP_KERNEL,
        )?;
        let pmu = KBox::pin_init(
            perf::Registration::register(c"rust_pmu", groups, instance, module),
            GFP_KERNEL,
        )?;

        pr_info!(
            "rust_pmu: {}, {} general counters of {} bits, {} fixed of {}\n",
            capabilities.generation.name,
            capabilities.counters.general_part().len(),
            capabilities.general_width,
            capabilities.counters.fixed_part().len(),
            capabilities.fixed_width,
        );
        Ok(RustPerf {
            _pmu: pmu,
            _nmi: nmi,
        })
    }
}

/// What the module's parameters ask for.
fn limits() -> Result<Limits> {
    // Older kernels return a reference.
    fn read(value: impl Borrow<u8>) -> u8 {
        *value.borrow()
    }
    let fixed = read(module_parameters::fixed.value());
    if fixed > 1 {
        pr_err!("parameter fixed={}: 0 or 1\n", fixed);
        return Err(EINVAL);
    }
    Ok(Limits {
        generation: NonZeroU8::new(read(module_parameters::generation.value())),
        general: NonZeroU8::new(read(module_parameters::general.value())),
        no_fixed: fixed == 0,
    })
}
