// SPDX-License-Identifier: GPL-2.0

//! PMUs for perf.
//!
//! - `rust_pmu`, the performance counters of x86 CPUs: [`core_pmu`]. It is registered
//!   if the CPU has counters.
//! - `rust_clock`, time: [`clock_pmu`].
//! - `rust_trace`, the kernel's trace points and probes: [`trace_pmu`].

use crate::{
    system::lockup::HardLockupDetector,
    x86::Options, //
};
use core::{
    borrow::Borrow,
    num::NonZeroU8, //
};
use kernel::prelude::*;

// Libraries: public, because this driver uses only a part of each.
#[macro_use]
pub mod pmc;
pub mod perf;
pub mod system;

mod bindings;
mod clock_pmu;
mod core_pmu;
mod trace_pmu;
mod x86;

module! {
    type: RustPerf,
    name: "rust_perf",
    authors: ["The rust_perf developers"],
    description: "PMUs for perf: x86 performance counters, clocks, trace points and probes",
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
        named_events: u8 {
            default: 0,
            description: "Whether the perf tool takes the PMUs for those of types of cores, and offers \
                          its named events and metrics of this CPU for rust_pmu: 0, the default, or 1. \
                          Not on hybrid CPUs",
        },
        primary: u8 {
            default: 0,
            description: "Whether to take the place of the kernel's own driver, as the PMU `cpu`: 0, the \
                          default, or 1. Needs a kernel that was booted without that driver, by \
                          initcall_blacklist=init_hw_perf_events,pt_init,bts_init",
        },
        watchdog: u8 {
            default: 0,
            description: "Whether the kernel's detector of hard lockups (kernel.nmi_watchdog) uses this PMU: \
                          0, the default, or 1. Needs primary=1. The module can be unloaded when \
                          kernel.nmi_watchdog is 0",
        },
        unreserved: u8 {
            default: 0,
            description: "Whether to load although someone else uses counters that the kernel does \
                          not arbitrate (architectural perfmon v6): 0, the default, or 1",
        },
    },
}

/// The PMUs. `None` for one that this machine has no hardware for, or that needs what the
/// kernel does not have.
///
/// They are dropped in this order.
struct RustPerf {
    // It has events of `_core`.
    _lockup_detector: Option<HardLockupDetector>,
    _core: Option<core_pmu::Registrations>,
    _clock: Pin<KBox<perf::Registration<clock_pmu::ClockPmu>>>,
    _trace: Option<Pin<KBox<perf::Registration<trace_pmu::TracePmu>>>>,
}

impl kernel::Module for RustPerf {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let options = options()?;
        let place = place()?;
        let watchdog = watchdog(place)?;
        let core = core_pmu::register(&options, place, module)?;
        let clock = clock_pmu::register(module)?;
        let trace = trace_pmu::register(module)?;
        Ok(RustPerf {
            _lockup_detector: watchdog.then(start_lockup_detector).transpose()?,
            _core: core,
            _clock: clock,
            _trace: trace,
        })
    }
}

/// The value of a parameter. Older kernels return a reference.
fn read(value: impl Borrow<u8>) -> u8 {
    *value.borrow()
}

/// A parameter that is 0 or 1. Fails with `EINVAL`, and a message.
fn switch(name: &str, value: impl Borrow<u8>) -> Result<bool> {
    match read(value) {
        0 => Ok(false),
        1 => Ok(true),
        value => {
            pr_err!("parameter {}={}: 0 or 1\n", name, value);
            Err(EINVAL)
        }
    }
}

/// Where the parameters ask the PMU to be. Fails with `EINVAL`, and a message.
fn place() -> Result<core_pmu::Place> {
    let named_events = switch("named_events", module_parameters::named_events.value())?;
    Ok(
        match switch("primary", module_parameters::primary.value())? {
            false => core_pmu::Place::Beside { named_events },
            // perf always offers its own events for the PMU `cpu`.
            true => core_pmu::Place::InTree,
        },
    )
}

/// Whether the kernel's detector of hard lockups is to use the PMU. Fails with `EINVAL`, and a
/// message.
fn watchdog(place: core_pmu::Place) -> Result<bool> {
    let watchdog = switch("watchdog", module_parameters::watchdog.value())?;
    if watchdog && !matches!(place, core_pmu::Place::InTree) {
        pr_err!("watchdog=1 needs primary=1: the detector has events of the PMU `cpu`\n");
        return Err(EINVAL);
    }
    Ok(watchdog)
}

fn start_lockup_detector() -> Result<HardLockupDetector> {
    HardLockupDetector::start().inspect_err(|error| {
        let why = match *error {
            ENOENT => "the kernel has none that uses a PMU, or no CONFIG_KALLSYMS_ALL",
            EBUSY => "it is available already",
            _ => "the kernel's functions cannot be found with kprobes",
        };
        pr_err!(
            "watchdog=1: cannot start the detector of hard lockups: {}\n",
            why
        )
    })
}

/// What the other parameters ask of the hardware. Fails with `EINVAL`, and a message.
fn options() -> Result<Options> {
    Ok(Options {
        generation: NonZeroU8::new(read(module_parameters::generation.value())),
        gp: NonZeroU8::new(read(module_parameters::general.value())),
        no_fixed: !switch("fixed", module_parameters::fixed.value())?,
        unreserved: switch("unreserved", module_parameters::unreserved.value())?,
    })
}
