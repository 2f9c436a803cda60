// SPDX-License-Identifier: GPL-2.0

//! Indexes that users choose (`Documentation/admin-guide/hw-vuln/spectre.rst`).

use crate::bindings;

/// The element at an index that a user has chosen, `None` if it is out of bounds.
///
/// A CPU may run on speculatively with an index that is out of bounds. What it reads there can be
/// found out from the cache. So the index is masked after the comparison (`array_index_nospec()`).
/// Any context.
pub fn get<T>(slice: &[T], index: usize) -> Option<&T> {
    if index >= slice.len() {
        return None;
    }
    // SAFETY: The function computes with two numbers.
    let index = unsafe { bindings::rust_perf_array_index_nospec(index, slice.len()) };
    slice.get(index)
}
