// SPDX-License-Identifier: GPL-2.0

//! The hardware: model-specific registers, CPUID, the local APIC and NMIs.
//!
//! How the counters of each generation are driven is in [`hal`], which works
//! on any [`hal::Registers`]: those of the CPU ([`cpu::ThisCpu`]) or of a model
//! of it, in tests.

pub(crate) mod apic;
pub(crate) mod cpu;
#[expect(unreachable_pub, reason = "it is part of a library on the host")]
pub(crate) mod hal;
pub(crate) mod nmi;
pub(crate) mod reservation;

/// How this kernel's CPU is driven.
pub(crate) type CpuHal = dyn hal::Hal<cpu::ThisCpu>;
