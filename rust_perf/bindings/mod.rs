// SPDX-License-Identifier: GPL-2.0

//! The C interface, as bindgen generates it from `bindings_helper.h`.

#![allow(
    clippy::all,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]

use kernel::ffi;

include!(env!("RUST_PERF_BINDINGS"));

/// What the callback of an hrtimer returns (`include/linux/hrtimer_types.h`).
///
/// With kCFI the type of a function that C calls through a pointer must have the names that the C
/// type has. Those of bindgen's enums are the names of integers.
#[repr(C)]
pub enum hrtimer_restart {
    HRTIMER_NORESTART,
    HRTIMER_RESTART,
}
