// SPDX-License-Identifier: GPL-2.0
//! The kernel log: what it gained since a given moment.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, Result};

/// Words that mean trouble wherever in the log they stand.
const TROUBLE: &[&str] = &[
    "NMI received for unknown reason",
    "Dazed and confused",
    "perfevents: irq loop stuck",
    "WARNING:",
    "BUG:",
    "INFO: task",
    "INFO: rcu",
    "rcu: INFO:",
    "INFO: possible",
    "suspicious RCU",
    "general protection fault",
    "unchecked MSR access",
    "Oops",
    "Call Trace",
    "Kernel panic",
];

/// New lines that a test run may bring and that say nothing about a PMU.
const HARMLESS: &[&str] = &[
    // What taking an out-of-tree module says, once.
    "loading out-of-tree module taints kernel",
    "module verification failed",
    // An emulated CPU is slow, and a busy host makes its clocks uneven.
    "clocksource:",
    "hrtimer: interrupt took",
    "took too long to run:",
    "Marking TSC unstable",
    "sched_clock: Marking",
    "tsc: ",
    "TSC ",
    // What this program asks for, or provokes.
    "perf: interrupt took too long",
    "NMI watchdog: Enabled.",
    "smpboot: ",
    "Dynamic interrupt throttling disabled",
    // Going to sleep and waking up.
    "PM: suspend ",
    "PM: Preparing",
    "PM: Saving",
    "PM: Restoring",
    "PM: Low-level resume",
    "PM: Waking up",
    "Filesystems sync:",
    "Freezing ",
    "OOM killer ",
    "printk: Suspending console",
    "Disabling non-boot CPUs",
    "Enabling non-boot CPUs",
    "no longer affine to cpu1",
    "CPU1 is up",
    "Enabling Passive Release",
    "Restarting tasks",
    "hpet: Lost",
    // The guest's root is an overlay.
    "evm: overlay not supported",
    // The kernel generates its random numbers late in a short-lived guest.
    "random: ",
];

/// A reader of /dev/kmsg.
pub struct Kmsg(File);

impl Kmsg {
    /// Everything since boot.
    pub fn from_boot() -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")
            .context("/dev/kmsg")?;
        Ok(Self(file))
    }

    /// Everything from now on.
    pub fn from_now() -> Result<Self> {
        let mut kmsg = Self::from_boot()?;
        kmsg.0.seek(SeekFrom::End(0)).context("seek in /dev/kmsg")?;
        Ok(kmsg)
    }

    /// The lines that have come since the last call.
    pub fn lines(&mut self) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        let mut record = [0; 8192];
        loop {
            match self.0.read(&mut record) {
                Ok(len) => lines.extend(message(&String::from_utf8_lossy(&record[..len]))),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(lines),
                // EPIPE: the ring buffer went past us; reading goes on behind the gap.
                Err(e) if e.raw_os_error() == Some(libc::EPIPE) => {}
                Err(e) => return Err(e).context("read /dev/kmsg"),
            }
        }
    }
}

/// The text of one record, `prio,seq,time,flags[,…];text\n[ KEY=value\n…]`, or
/// nothing where user space wrote it.
fn message(record: &str) -> Option<String> {
    let (header, text) = record.split_once(';')?;
    let priority: u32 = header.split(',').next()?.parse().ok()?;
    // Bits above the level are the facility: 0 is the kernel.
    (priority >> 3 == 0).then(|| text.lines().next().unwrap_or_default().to_string())
}

/// Is this line one that must never be there?
pub fn is_trouble(line: &str) -> bool {
    TROUBLE.iter().any(|word| line.contains(word))
}

/// Is this line one that any run may bring?
pub fn is_harmless(line: &str) -> bool {
    !is_trouble(line) && HARMLESS.iter().any(|word| line.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records() {
        let line = "6,339,5140900,-,caller=T1;NET: Registered PF_INET\n SUBSYSTEM=net\n";
        assert_eq!(message(line).as_deref(), Some("NET: Registered PF_INET"));
        assert_eq!(message("12,340,5140901,-;from user space\n"), None);
    }

    #[test]
    fn trouble_is_never_harmless() {
        assert!(is_trouble(
            "Uhhuh. NMI received for unknown reason 21 on CPU 0."
        ));
        assert!(is_harmless(
            "tsc: Refined TSC clocksource calibration: 2000 MHz"
        ));
        assert!(!is_harmless("BUG: tsc: what"));
    }
}
