// SPDX-License-Identifier: GPL-2.0
//! The kernel log: what it gained since a given moment, and whether that is bad.
//!
//! A line is bad by its level and by its subject, see [`is_bad`]. What else the kernel
//! prints at level info or notice depends on the machine and on its speed, and says
//! nothing about a PMU.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, PoisonError};

use anyhow::{ensure, Context, Result};

use crate::ctx::is_from_module;

/// KERN_WARNING. A lower number is more severe.
const WARNING: u8 = 4;

/// Words that mean trouble at any level, on any subject.
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
    "INFO: trying to register",
    "UBSAN:",
    "CFI failure",
    "general protection fault",
    "unchecked MSR access",
    "Oops",
    "Call Trace",
    "Kernel panic",
];

/// Subjects on which any line is bad, whatever its level, by the first letters of a word.
/// Case does not matter.
const SUBJECTS: &[&str] = &["perf", "nmi", "msr", "pmu", "lockdep", "rcu"];

/// Words that begin like a subject.
const OTHER_SUBJECTS: &[&str] = &["perform"];

/// Lines that are not bad although their level or their subject says so: what a test
/// provokes on purpose, and what only tells how slow the host is.
const TOLERATED: &[&str] = &[
    // Interrupts have come for a CPU that was about to go offline. It finds them when it is online again.
    "APIC: Stale IRR: ",
    // The stress test kills processes while they close events of uprobes: see docs/findings.md.
    "failed to unregister, leaking uprobe",
    // The module is loaded: it is not part of the kernel, and is not signed.
    "loading out-of-tree module taints kernel",
    "module verification failed",
    // A test sets kernel.perf_cpu_time_max_percent to 0.
    "perf: Dynamic interrupt throttling disabled",
    // rr starts programs in this way, and bpftrace looks for trace points in debugfs.
    "launched '/usr/bin/../lib/rr/rr_exec_stub' with NULL argv",
    "NOTICE: Automounting of tracing to debugfs is deprecated",
    // A test enables the NMI watchdog.
    "NMI watchdog: Enabled.",
    // The in-tree driver says so for the first CPU of a type of core that comes online. Tests take
    // all CPUs of a type offline.
    "cpu_atom PMU driver:",
    // A test takes the CPU offline that one of its threads is bound to.
    "no longer affine to cpu",
    // The rate limit of that line.
    "select_fallback_rq: ",
    // Samples or an NMI took long by the guest's clock, which runs on while the host does
    // not run the guest. One test provokes the first.
    "perf: interrupt took too long",
    "INFO: NMI handler",
    "hrtimer: interrupt took",
    // Likewise for work items and real-time tasks.
    "hogged CPU for",
    "RT throttling activated",
    // For the same reason the guest's clocks differ, or ticks are late.
    "clocksource: ",
    "TSC found unstable after boot",
    "TSC synchronization [CPU",
    "cycles TSC warp between CPUs",
    "TSC warped randomly between CPUs",
    "TSC ADJUST compensate",
    "hpet: Lost",
    // The rate limit of the last one.
    "hpet_rtc_timer_reinit: ",
];

/// A record of the kernel's own, that is, none that user space wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place in the log.
    pub sequence: u64,
    /// KERN_EMERG, 0, to KERN_DEBUG, 7.
    pub level: u8,
    /// Its text, without the time.
    pub text: String,
}

impl Record {
    /// Parses `priority,sequence,time,flags[,…];text\n[ KEY=value\n…]`
    /// (Documentation/ABI/testing/dev-kmsg). `None` if user space wrote it.
    fn parse(record: &str) -> Option<Self> {
        let (header, text) = record.split_once(';')?;
        let mut header = header.split(',');
        let priority: u64 = header.next()?.parse().ok()?;
        let sequence = header.next()?.parse().ok()?;
        // The bits above the level are the facility: 0 is the kernel.
        let level = u8::try_from(priority).ok().filter(|level| *level < 8)?;
        Some(Self {
            sequence,
            level,
            text: text.lines().next().unwrap_or_default().to_string(),
        })
    }
}

/// A reader of /dev/kmsg.
pub struct Kmsg(File);

impl Kmsg {
    /// Reads all records since boot that the ring buffer still has.
    pub fn from_boot() -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")
            .context("/dev/kmsg")?;
        Ok(Self(file))
    }

    /// Reads the records from now on.
    pub fn from_now() -> Result<Self> {
        let mut kmsg = Self::from_boot()?;
        kmsg.0.seek(SeekFrom::End(0)).context("seek in /dev/kmsg")?;
        Ok(kmsg)
    }

    /// The records since the last call.
    pub fn records(&mut self) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        let mut buffer = [0; 8192];
        loop {
            match self.0.read(&mut buffer) {
                Ok(len) => records.extend(Record::parse(&String::from_utf8_lossy(&buffer[..len]))),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(records),
                // The ring buffer has overwritten the next record. The next read continues
                // with the oldest one that is left.
                Err(e) if e.raw_os_error() == Some(libc::EPIPE) => {}
                Err(e) => return Err(e).context("read /dev/kmsg"),
            }
        }
    }

    /// The texts of the records since the last call.
    pub fn lines(&mut self) -> Result<Vec<String>> {
        let records = self.records()?.into_iter();
        Ok(records.map(|record| record.text).collect())
    }
}

/// The records that a test provoked and judged itself, by their sequence numbers.
static JUDGED: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// Makes [`check_clean`] leave these records out: a test provoked them and has checked
/// that they are as expected.
pub fn set_judged(records: &[Record]) {
    let mut judged = JUDGED.lock().unwrap_or_else(PoisonError::into_inner);
    judged.extend(records.iter().map(|record| record.sequence));
}

/// The texts of the bad records in `log` since the last call.
pub fn bad_lines(log: &mut Kmsg) -> Result<Vec<String>> {
    Ok(bad_in_guest(log.records()?))
}

/// The texts of the bad records among those of a guest.
fn bad_in_guest(records: Vec<Record>) -> Vec<String> {
    without_other_races(records)
        .into_iter()
        .filter(|record| is_bad(record, Machine::Guest))
        .map(|record| record.text)
        .collect()
}

/// Whose kernel log it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// That of a guest which does nothing but run the tests.
    Guest,
    /// That of a computer with other users and devices.
    Any,
}

/// How many records after one of trouble belong to it: a report with its stacks.
const REPORT: usize = 60;

/// Fails if there are bad records in `log`, or in a guest trouble since boot.
pub fn check_clean(log: &mut Kmsg, machine: Machine) -> Result<()> {
    let judged = JUDGED.lock().unwrap_or_else(PoisonError::into_inner);
    let unjudged = |records| {
        let mut records = without_other_races(records);
        records.retain(|record| !judged.contains(&record.sequence));
        records
    };
    let mut bad = Vec::new();
    if machine == Machine::Guest {
        bad = reports(unjudged(Kmsg::from_boot()?.records()?));
    }
    let new = unjudged(log.records()?).into_iter();
    bad.extend(new.filter(|record| is_bad(record, machine)));
    bad.sort_by_key(|record| record.sequence);
    bad.dedup();
    let lines: Vec<_> = bad.into_iter().map(|record| record.text).collect();
    ensure!(
        lines.is_empty(),
        "the kernel log has:\n{}",
        lines.join("\n")
    );
    Ok(())
}

/// The records of trouble, each with those that follow it.
fn reports(records: Vec<Record>) -> Vec<Record> {
    let mut left = 0;
    let is_part = |record: &Record| {
        left = if is_trouble(&record.text) {
            REPORT
        } else {
            left.saturating_sub(1)
        };
        left > 0
    };
    records.into_iter().filter(is_part).collect()
}

/// The records without KCSAN's reports of races that the module has no part in.
fn without_other_races(records: Vec<Record>) -> Vec<Record> {
    let lines = records.iter().map(|record| record.text.as_str());
    let flags = suites::in_other_races(lines);
    let flagged = records.into_iter().zip(flags);
    let kept = flagged.filter(|(_, is_other)| !is_other);
    kept.map(|(record, _)| record).collect()
}

/// Whether a line must never be in the log.
pub fn is_trouble(line: &str) -> bool {
    TROUBLE.iter().any(|word| line.contains(word))
}

/// Whether a record is bad: trouble, or about a subject of these tests, or in a guest a warning
/// or worse. What the module prints is for those tests to judge that provoke it.
fn is_bad(record: &Record, machine: Machine) -> bool {
    let Record { level, text, .. } = record;
    let is_warning = machine == Machine::Guest && *level <= WARNING;
    is_trouble(text)
        || (is_warning || names_subject(text))
            && !is_from_module(text)
            && !TOLERATED.iter().any(|words| text.contains(words))
}

fn names_subject(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| {
            let begins = |words: &[&str]| words.iter().any(|start| word.starts_with(start));
            begins(SUBJECTS) && !begins(OTHER_SUBJECTS)
        })
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    const INFO: u8 = 6;

    fn bad_on(machine: Machine, level: u8, text: &str) -> bool {
        let text = text.into();
        let record = Record {
            sequence: 0,
            level,
            text,
        };
        is_bad(&record, machine)
    }

    fn bad(level: u8, text: &str) -> bool {
        bad_on(Machine::Guest, level, text)
    }

    #[test]
    fn other_users_may_provoke_warnings() {
        let of_a_device = "usb 1-1: device not responding to setup address.";
        assert!(bad(WARNING, of_a_device));
        assert!(!bad_on(Machine::Any, WARNING, of_a_device));
        assert!(bad_on(Machine::Any, INFO, "perf: something odd"));
        assert!(bad_on(Machine::Any, INFO, "BUG: what"));
    }

    #[test]
    fn records() {
        let line = "6,339,5140900,-,caller=T1;NET: Registered PF_INET\n SUBSYSTEM=net\n";
        let record = Record::parse(line).unwrap();
        assert_eq!(record.sequence, 339);
        assert_eq!(record.level, INFO);
        assert_eq!(record.text, "NET: Registered PF_INET");
        assert_eq!(Record::parse("12,340,5140901,-;from user space\n"), None);
        assert_eq!(Record::parse("no record"), None);
    }

    #[test]
    fn a_race_of_the_kernel_alone_is_not_bad() {
        let report = |function: &str| {
            let rule = "=".repeat(66);
            let lines = [&rule, "BUG: KCSAN: data-race in a / b", function, &rule];
            let records = (0..).zip(lines).map(|(sequence, text)| Record {
                sequence,
                level: INFO,
                text: text.into(),
            });
            bad_in_guest(records.collect())
        };
        assert_eq!(report(" a+0x1/0x2"), Vec::<String>::new());
        assert!(!report(" a+0x1/0x2 [rust_perf]").is_empty());
    }

    #[test]
    fn trouble_is_reported_with_what_follows() {
        let record = |(sequence, text): (u64, &str)| Record {
            sequence,
            level: INFO,
            text: text.into(),
        };
        let after = iter::repeat_n("after", 2 * REPORT);
        let texts = ["before", "BUG: what", "Call Trace:"]
            .into_iter()
            .chain(after);
        let found = reports((0..).zip(texts).map(record).collect());
        assert_eq!(found[0].text, "BUG: what");
        assert_eq!(found[1].text, "Call Trace:");
        assert_eq!(found.len(), 1 + REPORT);
    }

    #[test]
    fn what_a_machine_does_is_not_bad() {
        for text in [
            "pci 0000:00:00.0: quirk_passive_release+0x0/0x80 took 10995 usecs",
            "PM: suspend entry (deep)",
            "smpboot: CPU 1 is now offline",
            "random: crng init done",
            "tsc: Refined TSC clocksource calibration: 2000 MHz",
            "cpufreq: governor performance",
        ] {
            assert!(!bad(INFO, text), "{text}");
            assert!(bad(WARNING, text), "{text}");
        }
    }

    #[test]
    fn trouble_is_bad_at_any_level() {
        for text in [
            "Uhhuh. NMI received for unknown reason 21 on CPU 0.",
            "WARNING: CPU: 0 PID: 1 at arch/x86/events/core.c:1 x86_pmu_stop+0x0/0x80",
            "BUG: kernel NULL pointer dereference, address: 0000000000000000",
            "unchecked MSR access error: RDMSR from 0x38e at rIP: 0xffffffffc0000000",
            "hrtimer: interrupt took 1 ns; BUG: what",
            "rust_perf: WARNING: what",
        ] {
            for level in 0..8 {
                assert!(bad(level, text), "{level} {text}");
            }
        }
    }

    #[test]
    fn a_subject_of_these_tests_is_bad_at_any_level() {
        for text in [
            "perf: something odd",
            "perfevents: something odd",
            "Performance Events: perfctr is odd",
            "NMI watchdog: something odd",
            "nmi_backtrace on CPU 0",
            "msr: something odd",
            "intel_pmu_something: odd",
            "lockdep is turned off",
            "rcu_preempt: something odd",
            "loading rust_perf: something odd",
        ] {
            assert!(bad(INFO, text), "{text}");
        }
    }

    #[test]
    fn a_slow_host_and_what_tests_provoke_are_tolerated() {
        for text in [
            "rust_perf: loading out-of-tree module taints kernel.",
            "perf: interrupt took too long (2509 > 2500), lowering kernel.perf_event_max_sample_rate to 79750",
            "perf: Dynamic interrupt throttling disabled, can hang your system!",
            "INFO: NMI handler (perf_event_nmi_handler) took too long to run: 2.003 msecs",
            "NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.",
            "process 140 (guest-tests) no longer affine to cpu1",
            "select_fallback_rq: 3 callbacks suppressed",
            "hrtimer: interrupt took 12345678 ns",
            "workqueue: pm_runtime_work hogged CPU for >10000us 4 times, consider switching to WQ_UNBOUND",
            "sched: RT throttling activated",
            "clocksource: Marking clocksource tsc unstable due to frequency skew",
            "hpet: Lost 12 RTC interrupts",
            "hpet_rtc_timer_reinit: 36 callbacks suppressed",
        ] {
            assert!(!bad(WARNING, text), "{text}");
            assert!(!bad(INFO, text), "{text}");
        }
    }

    #[test]
    fn the_module_s_own_lines_are_left_to_the_tests() {
        assert!(!bad(WARNING, "rust_perf: the counters are in use"));
        assert!(bad(INFO, "other: rust_perf is in use"));
    }
}
