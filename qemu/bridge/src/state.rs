// SPDX-License-Identifier: GPL-2.0

//! Save and restore.

use std::{
    ffi::{c_char, CStr},
    ptr, slice,
};

use pmu_model::{Pmu, RestoreError, SavedPmu};

use crate::PmuBridge;

/// Writes the state of the PMU to the `size` bytes at `buffer` if there is room for it. Returns the
/// number of bytes that it has. Call pmu_retire() before.
///
/// # Safety
///
/// `buffer` is valid for writes of `size` bytes, or `size` is 0.
#[no_mangle]
pub unsafe extern "C" fn pmu_save(pmu: &PmuBridge, buffer: *mut u8, size: usize) -> usize {
    let state = serde_json::to_vec(&pmu.0.save()).expect("every state can be written as JSON");
    if state.len() <= size {
        // SAFETY: `state` is valid for its length and was allocated here, so that it cannot
        // overlap. This function's contract says that the buffer has `size` bytes, which are at
        // least as many and so not 0.
        unsafe { ptr::copy_nonoverlapping(state.as_ptr(), buffer, state.len()) };
    }
    state.len()
}

/// Restores a state of `size` bytes that pmu_save() has written, of this PMU or of one with the same
/// configuration. Returns NULL, or a message of one line, which must not be freed; then the PMU is
/// as it was.
///
/// Restore the PMUs of all vCPUs before one of them runs.
///
/// # Safety
///
/// `state` is valid for reads of `size` bytes, or `size` is 0.
#[no_mangle]
pub unsafe extern "C" fn pmu_restore(
    pmu: &mut PmuBridge,
    state: *const u8,
    size: usize,
) -> *const c_char {
    let state = match size {
        0 => &[],
        // SAFETY: This function's contract says that the bytes can be read. C does not change them
        // meanwhile, because this function has not returned.
        _ => unsafe { slice::from_raw_parts(state, size) },
    };
    match restore(&mut pmu.0, state) {
        Ok(()) => ptr::null(),
        Err(message) => message.as_ptr(),
    }
}

fn restore(pmu: &mut Pmu, state: &[u8]) -> Result<(), &'static CStr> {
    let damaged = c"the saved state of the PMU is damaged, or of another version of the PMU";
    let saved: SavedPmu = serde_json::from_slice(state).map_err(|_| damaged)?;
    pmu.restore(&saved).map_err(|error| match error {
        RestoreError::OtherPmu => {
            c"the PMU that was saved is another one: start with its -cpu and threads="
        }
        RestoreError::Impossible => damaged,
    })
}
