// SPDX-License-Identifier: GPL-2.0

//! The parts of the kernel module that drive the hardware, as a library for
//! the host, so that the tests in here can run them on the PMU model.

pub use pmc;

pub mod cpu;
pub mod x86;
