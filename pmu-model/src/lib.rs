// SPDX-License-Identifier: GPL-2.0

//! A model of the performance monitoring unit (PMU) of an x86 processor.
//!
//! [`Pmu`] is the PMU of one logical processor. An emulator or a test plays the rest of
//! that processor:
//!
//! - It passes accesses to registers and CPUID on to the model ([`Pmu::rdmsr`],
//!   [`Pmu::wrmsr`], [`Pmu::rdpmc`], [`Pmu::cpuid`]).
//! - It reports the instructions and branches that retire ([`Pmu::retire`]), and branches that are to be
//!   recorded ([`Pmu::branch`]).
//! - It delivers the performance monitoring interrupts (PMIs) that the model requests
//!   ([`Pmu::take_pmi`]).
//!
//! [`Pmu::budget`] says how many instructions may retire before the next report. An
//! emulator that keeps to it sees each overflow right after the instruction that caused
//! it.
//!
//! # What is modelled
//!
//! - Intel: architectural performance monitoring, versions 1 to 6, with 1 to 8
//!   general-purpose counters of 32 to 48 bits and the fixed-function counters of the
//!   version.
//! - Intel, versions 4 to 6: architectural last branch records, but for the logging of events.
//! - Intel, versions 2 to 6: legacy last branch records, which depend on the processor.
//! - AMD: the four legacy counters, the six of PerfCtrExtCore, and PerfMonV2, which has 1
//!   to 15 counters, global control and global status. From family 17H on, event 003H counts
//!   floating-point operations, and two counters can be merged for it (event FFFH).
//! - AMD, version 3: the LBR stack (LbrExtV2). With it, a PMI can freeze the stack and the counters.
//! - Zhaoxin and Centaur: version 2 of Intel's with other events.
//!
//! Each generation is one file in `generation/`, which holds what the generation adds to
//! the previous one. [`msr`] declares the registers. The tables in `processor/` have what
//! differs from one processor of a generation to another. A PMU is that of a processor in
//! these tables if its [`Config`] has the [`Signature`]. The PMUs of a hybrid processor are
//! of several types: one [`Config`] for each [`CoreType`].
//!
//! Every event is a function of the instructions and branches that have retired, see
//! [`event`]. A test can therefore compute every count and the place of every overflow. Only
//! reference cycles can be those of the time-stamp counter instead ([`RefCycles`]).
//!
//! # What is not modelled
//!
//! - Intel: PEBS and the debug store, last exception records, Processor Trace, uncore counters, and auto
//!   counter reload. AnyThread has no effect: [`SmtCore`] has all that the threads of a core share. The status
//!   bits of these features can be set and cleared by WRMSR where the version has them.
//! - AMD: IBS, the northbridge's and the L3's counters, and the single last branch record of DebugCtl.LBR.
//!
//! # No definitions shared with the driver
//!
//! This crate is its own reading of the manuals. It shares no register address, no field
//! and no event code with the driver, on purpose: a misreading in one of them then fails
//! the tests that run the driver on the model. Do not replace definitions here by those
//! of the driver.
//!
//! # Example
//!
//! Sample instructions in user mode, with a PMI after every 1000:
//!
//! ```
//! use pmu_model::{msr::*, Config, Mode, Pmu, Retired, Vendor};
//!
//! let mut pmu = Pmu::new(Config::new(Vendor::Intel, 4)?)?;
//!
//! // Counter 0 counts instructions in user mode and raises a PMI when it overflows.
//! let eventsel = EventSel::EN | EventSel::INT | EventSel::USR | 0xc0;
//! pmu.wrmsr(IA32_PERFEVTSEL0, eventsel)?;
//! pmu.wrmsr(IA32_PMC0, -1000_i64 as u64)?;
//! pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 1 << 0)?;
//! assert!(pmu.counting());
//!
//! // The counter cannot overflow before the 1000th instruction in user mode.
//! assert_eq!(pmu.budget(Mode::User), [1000, Pmu::UNLIMITED]);
//!
//! let user = |instructions| [Retired { instructions, ..Default::default() }, Retired::default()];
//! pmu.retire(&user(999));
//! assert!(!pmu.take_pmi());
//! pmu.retire(&user(1));
//! assert!(pmu.take_pmi());
//!
//! // The PMI handler reads the status, starts the next period and clears the status.
//! assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS)?, 1 << 0);
//! pmu.wrmsr(IA32_PMC0, -1000_i64 as u64)?;
//! pmu.wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, 1 << 0)?;
//! assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS)?, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Save and restore
//!
//! [`Pmu::save`] returns the state of a PMU, which serde can serialize, and [`Pmu::restore`] puts
//! it into another PMU of the same configuration. The two behave alike from then on.
//!
//! # Counts of accesses
//!
//! After [`Pmu::count_accesses`] a PMU counts the accesses to each of its registers, and software
//! reads the counts by CPUID ([`CPUID_ACCESSES`]): what a driver costs.
//!
//! # Fault injection
//!
//! A host test can lose, delay or repeat single PMIs ([`Pmu::inject`]), send spurious ones
//! ([`Pmu::inject_spurious_pmi`]) and leave stale bits in the status
//! ([`Pmu::inject_status`]). A guest cannot call these functions. For it a PMU can be
//! created with a [`Defect`], which takes effect again and again. A [`Fault`] is one as a text.

#![forbid(unsafe_code)]

mod accesses;
mod config;
mod error;
pub mod event;
mod fault;
mod fields;
mod generation;
mod lbr;
mod metrics;
pub mod msr;
mod pair;
mod pmi;
mod pmu;
mod processor;
mod selection;
mod shape;
mod smt;
mod svm;
mod vendor;

pub use accesses::CPUID_ACCESSES;
pub use config::{Config, RefCycles};
pub use error::{ConfigError, GeneralProtection, MsrError};
pub use event::{Mode, Retired};
pub use fault::{Fault, InvalidFault, FAULT_FORMS};
pub use lbr::{
    AmdLbrs, ArchLbrs, Branch, BranchKind, LbrAddresses, LbrFormat, LbrSelect, Lbrs, LegacyLbrs,
};
pub use pmi::{Defect, Foreign, PmiFault};
pub use pmu::{Pmu, RestoreError, SavedPmu};
pub use processor::{CoreType, Signature};
pub use shape::{Shape, MAX_FIXED, MAX_GENERAL, MAX_INTEL_GENERAL};
pub use smt::SmtCore;
pub use vendor::Vendor;
