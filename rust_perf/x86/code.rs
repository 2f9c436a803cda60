// SPDX-License-Identifier: GPL-2.0

//! The instruction that a branch was.

use crate::{
    bindings,
    pmc::lbr::{
        decode::Code,
        is_kernel, //
    },
    system::irq::Interrupt, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Reads instructions.
///
/// # Invariants
///
/// The functions that this needs have been found.
#[derive(Clone, Copy)]
pub(crate) struct CodeReader(());

impl CodeReader {
    /// Finds the functions. Task context, may sleep. Fails with the error of `register_kprobe()`.
    pub(crate) fn find() -> Result<Self> {
        // SAFETY: This is called in task context, as registering a kprobe requires.
        to_result(unsafe { bindings::rust_perf_code_init() })?;
        // INVARIANT: They were just found.
        Ok(CodeReader(()))
    }

    /// The bytes at `address`, where the current task or the kernel has run. There are none if that is not
    /// in memory, or the kernel has no code there.
    pub(crate) fn read(self, address: u64, _: Interrupt<'_>) -> Code {
        let mut code = Code::default();
        // SAFETY: The array has room for as many bytes. The function may be called in any context, for any
        // address.
        code.len = unsafe {
            bindings::rust_perf_copy_code(
                code.bytes.as_mut_ptr().cast(),
                address as usize,
                code.bytes.len(),
            )
        };
        // SAFETY: The function reads the registers that the current task had in user mode. Each task has
        // room for these.
        code.is_64_bit = is_kernel(address) || unsafe { bindings::rust_perf_user_is_64_bit() };
        code
    }
}
