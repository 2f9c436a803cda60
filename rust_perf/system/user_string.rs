// SPDX-License-Identifier: GPL-2.0

//! Strings in the memory of the current task.
//!
//! C header: `include/linux/string.h`.

use crate::bindings;
use core::{
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    ffi::c_char,
    prelude::*, //
};

/// A copy of a string in user memory.
///
/// # Invariants
///
/// The pointer is to a string that ends with a null, allocated with `kmalloc()`. The string
/// is not changed.
pub struct UserString(NonNull<c_char>);

// SAFETY: The string is not changed, and may be freed by any task.
unsafe impl Send for UserString {}
// SAFETY: The string is not changed.
unsafe impl Sync for UserString {}

impl UserString {
    /// Copies the string at `address` of the current task's memory. `limit` is the largest
    /// size, with the null.
    ///
    /// Fails with `EFAULT` if the memory cannot be read, and with `E2BIG` if the string is
    /// longer. Task context, may sleep.
    pub fn copy(address: u64, limit: usize) -> Result<Self> {
        // SAFETY: The function takes any address of user memory, and this is task context.
        let copy = unsafe { bindings::strndup_user(address as *const c_char, limit as isize) };
        let copy = from_err_ptr(copy)
            // The function has this error for too long a string only.
            .map_err(|error| if error == EINVAL { E2BIG } else { error })?;
        // INVARIANT: This is what `strndup_user()` returns.
        Ok(UserString(NonNull::new(copy).ok_or(ENOMEM)?))
    }
}

impl Deref for UserString {
    type Target = CStr;

    fn deref(&self) -> &CStr {
        // SAFETY: By the type invariant it is a string with a null at its end that does not change.
        unsafe { CStr::from_char_ptr(self.0.as_ptr()) }
    }
}

impl Drop for UserString {
    fn drop(&mut self) {
        // SAFETY: `kmalloc()` allocated it, by the type invariant.
        unsafe { bindings::kfree(self.0.as_ptr().cast()) };
    }
}
