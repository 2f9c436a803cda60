// SPDX-License-Identifier: GPL-2.0
//! Sysctls that are put back.

use std::fs;

use anyhow::{Context, Result};

const RATE: &str = "perf_event_max_sample_rate";
const PERCENT: &str = "perf_cpu_time_max_percent";

/// perf's limits of sampling, as they were before [`SamplingLimits::lift`].
/// Dropping this puts them back.
pub struct SamplingLimits {
    rate: String,
    percent: String,
}

impl SamplingLimits {
    /// Lets samples come as fast as they are asked for.
    ///
    /// The kernel lowers its limit when NMIs take long, and throttles events that
    /// exceed it. On an emulated CPU that depends on the host's speed.
    pub fn lift() -> Result<Self> {
        let before = Self {
            rate: read(RATE)?,
            percent: read(PERCENT)?,
        };
        set("1000000", "0")?;
        Ok(before)
    }
}

impl Drop for SamplingLimits {
    fn drop(&mut self) {
        if let Err(e) = set(&self.rate, &self.percent) {
            eprintln!("guest-tests: {e:#}");
        }
    }
}

/// The rate can only be set while the kernel may lower it, which 0 and 100 % forbid.
fn set(rate: &str, percent: &str) -> Result<()> {
    write(PERCENT, "25")?;
    write(RATE, rate)?;
    write(PERCENT, percent)
}

fn read(name: &str) -> Result<String> {
    let value = fs::read_to_string(format!("/proc/sys/kernel/{name}")).context(name.to_owned())?;
    Ok(value.trim().to_owned())
}

fn write(name: &str, value: &str) -> Result<()> {
    fs::write(format!("/proc/sys/kernel/{name}"), value).context(name.to_owned())
}
