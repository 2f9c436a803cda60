// SPDX-License-Identifier: GPL-2.0

//! The kernel's detector of hard lockups, which is also called the NMI watchdog.
//!
//! The detector has an event of cycles on each CPU. It looks for a PMU once, while the kernel
//! boots. If it finds none it is not available, and `kernel.nmi_watchdog` cannot be set. A module
//! that brings the PMU later has to say so. Nothing is exported for this.
//!
//! C source: `kernel/watchdog.c`.

use super::symbols::Symbols;
use crate::bindings;
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    ffi::c_int,
    prelude::*, //
};

/// Makes the kernel's detector of hard lockups available until dropped.
///
/// The detector's events belong to the module whose PMU counts them. The module can be unloaded
/// when `kernel.nmi_watchdog` is 0.
///
/// # Invariants
///
/// `available` points to the kernel's variable that says whether the detector has a PMU, and
/// `lockup_detector_reconfigure()` has been found.
pub struct HardLockupDetector {
    available: NonNull<c_int>,
}

// SAFETY: The variable is the kernel's. It exists forever, and any CPU may access it.
unsafe impl Send for HardLockupDetector {}
// SAFETY: Nothing public takes `&self`: shared, the detector cannot be used.
unsafe impl Sync for HardLockupDetector {}

impl HardLockupDetector {
    /// Makes the detector available and starts it, unless the administrator has disabled it. The
    /// PMU `cpu` must be registered.
    ///
    /// Fails with `ENOENT` if the kernel has no such detector or does not tell where the variable is
    /// (`CONFIG_KALLSYMS_ALL`), with `EBUSY` if the detector is available already, or with the error of
    /// `register_kprobe()`. Task context, may sleep.
    pub fn start() -> Result<Self> {
        let symbols = Symbols::find()?;
        // SAFETY: This is task context, as registering a kprobe requires.
        to_result(unsafe { bindings::rust_perf_lockup_init() })?;
        let address = symbols.address(c"watchdog_hardlockup_available");
        let address = address.ok_or(ENOENT)?;
        let has_room = symbols
            .size(address)
            .is_some_and(|it| it >= size_of::<c_int>());
        let available =
            NonNull::new(address as *mut c_int).filter(|it| it.is_aligned() && has_room);
        let available = available.ok_or(ENOENT)?;
        // SAFETY: The symbol is that of the kernel's `int`, which exists forever. There is room
        // for one, and it is aligned.
        if unsafe { available.read_volatile() } != 0 {
            return Err(EBUSY);
        }
        // INVARIANT: Both were just found.
        let detector = HardLockupDetector { available };
        detector.set_available(true);
        Ok(detector)
    }

    /// Also starts the detector's events, or stops them.
    fn set_available(&self, value: bool) {
        // SAFETY: By the type invariant this is the detector's variable. Only the kernel's
        // `__init` code writes it, which has ended. The function takes the detector's lock before
        // it reads it (a detector that uses a PMU has one: it selects `SOFTLOCKUP_DETECTOR`).
        unsafe { bindings::rust_perf_lockup_reconfigure(self.available.as_ptr(), value) };
    }
}

impl Drop for HardLockupDetector {
    fn drop(&mut self) {
        self.set_available(false);
    }
}
