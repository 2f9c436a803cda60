// SPDX-License-Identifier: GPL-2.0

//! The performance monitoring unit of an x86 processor, without the processor.
//!
//! [`Pmu`] is the PMU of one logical processor. In go accesses to its registers
//! ([`Pmu::rdmsr`], [`Pmu::wrmsr`], [`Pmu::rdpmc`], [`Pmu::cpuid`]) and what the
//! processor has retired ([`Pmu::retire`]); out come values, faults, and PMIs
//! ([`Pmu::take_pmi`]). Whoever runs the processor asks how long nothing can happen
//! ([`Pmu::budget`]) and so sees each overflow after the very instruction that
//! caused it.
//!
//! Modelled is Intel's architectural performance monitoring, versions 1 to 6, with
//! 1 to 8 general counters of 32 to 48 bits and the fixed counters of the version;
//! and AMD's core performance counters in three generations: the four legacy ones,
//! the six of PerfCtrExtCore, and PerfMonV2's 1 to 15 with global control and status.
//! Each is a file in `generation/` that says what it adds to the one before.
//! Registers are declared in [`msr`].
//!
//! What events count is a function of the instructions and branches that have
//! retired, so that every count is exact and every overflow is where it can be
//! computed to be: see [`event`].
//!
//! Not modelled: PEBS and the debug store, last branch records (Intel's freeze bits
//! are there), Processor Trace, uncore counters, PERF_METRICS, counters that reload
//! each other, what forbids RDPMC to user mode by the counter, and the hyper-threads
//! that AnyThread is for: a core has one thread. Bits of status that only these would set
//! can be set and cleared by hand where the version has them. Of AMD's also not: IBS,
//! the northbridge's and the L3's counters, the LBR stack and the freezing of counters,
//! merged counters (event FFFH), and SVM, which is taken to be off.
//!
//! # Example
//!
//! Sampling user instructions: a PMI after each 1000 of them.
//!
//! ```
//! use pmu_model::{msr::*, Config, Mode, Pmu, Retired, Vendor};
//!
//! let mut pmu = Pmu::new(Config::new(Vendor::Intel, 4)?)?;
//!
//! // Counter 0: instructions, in user mode, with a PMI.
//! let eventsel = EventSel::EN | EventSel::INT | EventSel::USR | 0xc0;
//! pmu.wrmsr(IA32_PERFEVTSEL0, eventsel)?;
//! pmu.wrmsr(IA32_PMC0, -1000_i64 as u64)?;
//! pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 1 << 0)?;
//! assert!(pmu.counting());
//!
//! // Nothing can happen within 1000 instructions in user mode.
//! assert_eq!(pmu.budget(Mode::User), [1000, Pmu::UNLIMITED]);
//!
//! let user = |instructions| [Retired { instructions, branches: 0 }, Retired::default()];
//! pmu.retire(&user(999));
//! assert!(!pmu.take_pmi());
//! pmu.retire(&user(1));
//! assert!(pmu.take_pmi());
//!
//! // What a PMI handler does.
//! assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS)?, 1 << 0);
//! pmu.wrmsr(IA32_PMC0, -1000_i64 as u64)?;
//! pmu.wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, 1 << 0)?;
//! assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS)?, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A driver's test can have PMIs go astray ([`Pmu::inject`],
//! [`Pmu::inject_spurious_pmi`]) or find a PMU that someone left in disorder
//! ([`Pmu::inject_status`]). What cannot reach for the model while it runs, as a guest
//! cannot, has a PMU in which the same goes wrong again and again ([`Defect`]).

#![forbid(unsafe_code)]

mod config;
pub mod event;
mod generation;
pub mod msr;
mod pmi;
mod pmu;

pub use config::{Config, ConfigError, Shape, Vendor, MAX_FIXED, MAX_GENERAL, MAX_INTEL_GENERAL};
pub use event::{Mode, Retired};
pub use pmi::{Defect, PmiFault};
pub use pmu::{GeneralProtection, MsrError, Pmu};
