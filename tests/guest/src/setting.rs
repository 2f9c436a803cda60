// SPDX-License-Identifier: GPL-2.0
//! Changes to the system that a test makes for itself: each is undone when its guard is
//! dropped, also if the test fails.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::unistd::{gettid, Pid};

use crate::undo;

/// A file of /proc/sys or /sys, which has its first value again after this is dropped.
pub struct Setting {
    file: PathBuf,
    before: String,
    restored: bool,
}

impl Setting {
    /// Remembers the present value.
    pub fn save(file: impl Into<PathBuf>) -> Result<Self> {
        let mut setting = Self {
            file: file.into(),
            before: String::new(),
            restored: false,
        };
        setting.before = setting.get()?;
        undo::record(&setting.file, &setting.before)?;
        Ok(setting)
    }

    /// Remembers the present value, and writes another one.
    pub fn change(file: impl Into<PathBuf>, value: impl Display) -> Result<Self> {
        let setting = Self::save(file)?;
        setting.set(value)?;
        Ok(setting)
    }

    /// The present value.
    pub fn get(&self) -> Result<String> {
        let text = fs::read_to_string(&self.file)
            .with_context(|| format!("cannot read {}", self.file.display()))?;
        Ok(chosen(text.trim_end()).to_string())
    }

    /// Writes a value.
    pub fn set(&self, value: impl Display) -> Result<()> {
        fs::write(&self.file, value.to_string())
            .with_context(|| format!("cannot write {value} to {}", self.file.display()))
    }

    /// Writes the first value again. For tests that are about this change.
    pub fn restore(mut self) -> Result<()> {
        self.restored = true;
        self.set(&self.before)
    }

    /// The value that is written on drop.
    pub fn before(&self) -> &str {
        &self.before
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        if self.restored {
            return;
        }
        if let Err(error) = self.set(&self.before) {
            // A drop cannot fail; the tests that follow may.
            eprintln!("{error:#}");
        }
    }
}

/// The value in a file's text: a file that lists all values, such as
/// `/sys/power/mem_sleep`, has the present one in brackets.
fn chosen(text: &str) -> &str {
    match text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
    {
        Some((chosen, _)) => chosen,
        None => text,
    }
}

/// The file that says whether a CPU is online: 0 takes it offline.
pub fn online_file(cpu: usize) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/online")
}

/// How many samples a second perf allows, and how it lowers that number.
///
/// Perf lowers it if samples take more than `perf_cpu_time_max_percent` of the time.
pub struct SampleRate {
    _rate: Setting,
    percent: Setting,
}

impl SampleRate {
    /// Allows this many samples a second. The percentage stays what it is.
    pub fn limit(rate: u64) -> Result<Self> {
        let percent = Setting::save(Self::PERCENT)?;
        let before = percent.before().to_string();
        Self::with(percent, rate, before)
    }

    /// Allows this many samples a second, and never fewer: an emulated CPU is so slow
    /// that perf would lower the number.
    pub fn fixed(rate: u64) -> Result<Self> {
        let percent = Setting::save(Self::PERCENT)?;
        Self::with(percent, rate, Self::NEVER_LOWERED)
    }

    const RATE: &str = "/proc/sys/kernel/perf_event_max_sample_rate";
    const PERCENT: &str = "/proc/sys/kernel/perf_cpu_time_max_percent";
    /// The percentage that keeps perf from lowering the rate.
    const NEVER_LOWERED: u32 = 0;
    /// The default percentage. The rate can only be set while perf may lower it.
    const DEFAULT_PERCENT: u32 = 25;

    fn with(percent: Setting, rate: u64, final_percent: impl Display) -> Result<Self> {
        percent.set(Self::DEFAULT_PERCENT)?;
        let _rate = Setting::change(Self::RATE, rate)?;
        // Undone first.
        undo::record(Path::new(Self::PERCENT), Self::DEFAULT_PERCENT)?;
        percent.set(final_percent)?;
        Ok(Self { _rate, percent })
    }

    /// The number of samples a second that is allowed now.
    pub fn now() -> Result<u64> {
        fs::read_to_string(Self::RATE)?
            .trim_end()
            .parse()
            .context(Self::RATE)
    }

    /// Has perf lower the rate if samples take more than this part of the time.
    pub fn set_percent(&self, percent: u32) -> Result<()> {
        self.percent.set(percent)
    }
}

impl Drop for SampleRate {
    fn drop(&mut self) {
        // The fields are dropped next, the rate first; it can be set after this.
        let _ = self.percent.set(Self::DEFAULT_PERCENT);
    }
}

/// The affinity of the calling thread, which it has again after this is dropped.
pub struct Affinity {
    thread: Pid,
    before: CpuSet,
}

impl Affinity {
    /// Remembers the present affinity.
    pub fn save() -> Result<Self> {
        let thread = gettid();
        let before = sched_getaffinity(thread).context("sched_getaffinity")?;
        Ok(Self { thread, before })
    }

    /// Binds the thread to one CPU.
    pub fn pinned_to(cpu: usize) -> Result<Self> {
        let affinity = Self::save()?;
        affinity.pin(cpu)?;
        Ok(affinity)
    }

    /// Lets the thread run on these CPUs only.
    pub fn restrict_to(&self, cpus: &[usize]) -> Result<()> {
        let mut set = CpuSet::new();
        for cpu in cpus {
            set.set(*cpu)?;
        }
        sched_setaffinity(self.thread, &set).with_context(|| format!("cannot run on {cpus:?}"))
    }

    /// Binds the thread to another CPU.
    pub fn pin(&self, cpu: usize) -> Result<()> {
        pin(self.thread, cpu)
    }
}

impl Drop for Affinity {
    fn drop(&mut self) {
        if let Err(error) = sched_setaffinity(self.thread, &self.before) {
            eprintln!("sched_setaffinity: {error}");
        }
    }
}

/// Binds a thread to one CPU. The thread of a test has its affinity again after the test.
pub fn pin(thread: Pid, cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(thread, &set).with_context(|| format!("cannot run on CPU {cpu}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_its_value_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("setting");
        fs::write(&file, "1\n").unwrap();
        {
            let setting = Setting::change(&file, 2).unwrap();
            assert_eq!(setting.get().unwrap(), "2");
            setting.set(3).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), "3");
            assert_eq!(setting.before(), "1");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "1");
        assert!(Setting::save(dir.path().join("none")).is_err());
    }

    #[test]
    fn of_several_values_the_chosen_one_counts() {
        assert_eq!(chosen("s2idle [deep]"), "deep");
        assert_eq!(chosen("[none] core platform"), "none");
        assert_eq!(chosen("25"), "25");
    }

    #[test]
    fn a_thread_has_its_affinity_again() {
        let before = sched_getaffinity(gettid()).unwrap();
        let cpu = (0..CpuSet::count()).find(|&cpu| before.is_set(cpu).unwrap());
        drop(Affinity::pinned_to(cpu.unwrap()).unwrap());
        assert!(sched_getaffinity(gettid()).unwrap() == before);
    }
}
