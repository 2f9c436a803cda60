// SPDX-License-Identifier: GPL-2.0

//! The performance monitoring unit of an x86 processor, without the processor.

#![forbid(unsafe_code)]

mod config;
mod event;
mod generation;
pub mod msr;
mod pmi;
mod pmu;

pub use config::{Config, ConfigError, Shape, Vendor, MAX_FIXED, MAX_GENERAL};
pub use event::{Mode, Retired, PERIOD};
pub use pmi::PmiFault;
pub use pmu::{GeneralProtection, MsrError, Pmu};
