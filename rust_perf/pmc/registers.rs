// SPDX-License-Identifier: GPL-2.0

//! How the registers of a CPU are reached.

use super::msr::Msr;

/// Access to the registers of the CPU that the code runs on.
///
/// An [`Msr`] is always a performance monitoring register. The caller must make
/// sure that the CPU has it.
pub trait Registers: Copy {
    /// Reads a register.
    fn rdmsr(self, msr: Msr) -> u64;
    /// Writes a register.
    fn wrmsr(self, msr: Msr, value: u64);
    /// Reads a counter by its [`Counter::rdpmc`] index.
    fn rdpmc(self, index: u32) -> u64;
}
