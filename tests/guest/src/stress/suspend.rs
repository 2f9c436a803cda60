// SPDX-License-Identifier: GPL-2.0
//! A suspend that ends after the tasks are frozen (Documentation/power/basic-pm-debugging.rst).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::worker::Outcome;
use crate::setting::Setting;

const TEST: &str = "/sys/power/pm_test";
const DELAY: &str = "/sys/module/suspend/parameters/pm_test_delay";

/// Whether the kernel has it.
pub fn is_available() -> bool {
    Path::new(TEST).exists() && Path::new(DELAY).exists()
}

/// Has the kernel stop after the tasks are frozen, as long as the result lives.
pub fn prepare() -> Result<Vec<Setting>> {
    Ok(vec![
        Setting::change(TEST, "freezer")?,
        Setting::change(DELAY, 0)?,
    ])
}

/// Freezes all tasks, and thaws them.
pub fn freeze() -> Result<Outcome> {
    match fs::write("/sys/power/state", "mem") {
        Ok(()) => Ok(Outcome::Done),
        // A task could not be frozen in time, or another worker suspends.
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(Outcome::Refused),
        Err(error) => Err(error).context("echo mem >/sys/power/state"),
    }
}
