// SPDX-License-Identifier: GPL-2.0

//! Event data without an allocation.

use core::{
    num::NonZeroU64,
    ptr, //
};
use kernel::{
    ffi::c_void,
    types::ForeignOwnable, //
};

/// Event data that is one word, kept without an allocation.
pub struct Word(pub NonZeroU64);

/// A pointer can hold it.
const _: () = assert!(size_of::<usize>() >= size_of::<u64>());

// SAFETY: `into_foreign()` returns a pointer that is not null, and 1 is the alignment of any
// pointer. No memory is behind it, so that every borrow is valid.
unsafe impl ForeignOwnable for Word {
    const FOREIGN_ALIGN: usize = 1;

    type Borrowed<'a> = u64;
    type BorrowedMut<'a> = u64;

    fn into_foreign(self) -> *mut c_void {
        ptr::without_provenance_mut(self.0.get() as usize)
    }

    unsafe fn from_foreign(ptr: *mut c_void) -> Self {
        // SAFETY: `ptr` comes from `into_foreign()` by the safety requirement, so it is not null.
        Word(unsafe { NonZeroU64::new_unchecked(ptr.addr() as u64) })
    }

    unsafe fn borrow<'a>(ptr: *mut c_void) -> Self::Borrowed<'a> {
        ptr.addr() as u64
    }

    unsafe fn borrow_mut<'a>(ptr: *mut c_void) -> Self::BorrowedMut<'a> {
        ptr.addr() as u64
    }
}
