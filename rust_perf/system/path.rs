// SPDX-License-Identifier: GPL-2.0

//! Paths of regular files.
//!
//! C header: `include/linux/path.h`.

use crate::bindings;
use kernel::{
    error::to_result,
    ffi::{
        c_int,
        c_uint, //
    },
    prelude::*, //
};

/// A regular file at a path. Its file system cannot be unmounted while this exists.
///
/// # Invariants
///
/// Holds references to the mount and the directory entry. The entry is that of a regular
/// file.
pub struct RegularFile(bindings::path);

// SAFETY: A reference to a path belongs to no task.
unsafe impl Send for RegularFile {}
// SAFETY: Nothing is changed through a shared reference.
unsafe impl Sync for RegularFile {}

impl RegularFile {
    /// The file of this name, as the current task sees it. Symbolic links are followed.
    /// Fails with `EINVAL` if it is not a regular file, and with the errors of
    /// `kern_path()`. Task context, may sleep.
    pub fn at(name: &CStr) -> Result<Self> {
        // SAFETY: `name` is a string, and `path` is valid for writes.
        Self::new(|path| unsafe { bindings::rust_perf_path_lookup(name.as_char_ptr(), path) })
    }

    /// The file that the current task has opened as descriptor `fd`. Fails with `EBADF` if
    /// there is none, and with `EINVAL` if it is not a regular file. Task context.
    pub fn opened_as(fd: c_uint) -> Result<Self> {
        // SAFETY: `path` is valid for writes.
        Self::new(|path| unsafe { bindings::rust_perf_path_of_file(fd, path) })
    }

    fn new(find: impl FnOnce(*mut bindings::path) -> c_int) -> Result<Self> {
        let mut path = bindings::path::default();
        to_result(find(&mut path))?;
        // INVARIANT: `find` succeeded, and returned a path with references. If it is not a regular
        // file, dropping the value below gives them back, and needs no more than that.
        let file = RegularFile(path);
        // SAFETY: The path is valid.
        if !unsafe { bindings::rust_perf_path_is_regular_file(&file.0) } {
            return Err(EINVAL);
        }
        Ok(file)
    }

    /// The inode that has the file's pages. It is valid while `self` is.
    pub(super) fn inode(&self) -> *mut bindings::inode {
        // SAFETY: The path is that of a regular file, by the type invariant.
        unsafe { bindings::rust_perf_path_inode(&self.0) }
    }
}

impl Drop for RegularFile {
    fn drop(&mut self) {
        // SAFETY: The value holds the references, by the type invariant.
        unsafe { bindings::path_put(&self.0) };
    }
}
