// SPDX-License-Identifier: GPL-2.0

//! What registers hold where a function begins or ends: the System V ABI, which the
//! kernel's functions and those of programs follow.

use crate::system::irq::Regs;

/// The number of arguments of a function that registers hold.
pub(crate) const REGISTER_ARGUMENTS: usize = 6;

impl Regs<'_> {
    /// The address of the instruction that the code is at.
    pub(crate) fn instruction_pointer(&self) -> u64 {
        // SAFETY: The structure is valid while `self` is.
        unsafe { (*self.as_ptr()).ip as u64 }
    }

    /// What the function returns, at its end (RAX).
    pub(crate) fn return_value(&self) -> u64 {
        // SAFETY: The structure is valid while `self` is.
        unsafe { (*self.as_ptr()).ax as u64 }
    }

    /// The function's first arguments, at its start (RDI, RSI, RDX, RCX, R8, R9).
    pub(crate) fn arguments(&self) -> [u64; REGISTER_ARGUMENTS] {
        // SAFETY: The structure is valid while `self` is.
        let regs = unsafe { &*self.as_ptr() };
        [regs.di, regs.si, regs.dx, regs.cx, regs.r8, regs.r9].map(|word| word as u64)
    }
}
