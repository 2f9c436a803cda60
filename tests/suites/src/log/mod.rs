// SPDX-License-Identifier: GPL-2.0

//! The check of a kernel log: which of its lines are bad.
//!
//! A line is bad by its level and by its subject, see [`Record::is_bad`]. What else the kernel
//! prints at level info or notice depends on the machine and on its speed, and says
//! nothing about a PMU.
//!
//! `guest-tests` checks all records when the tests have ended, and xtask what the console has after
//! that: [`complaint`].

mod race;
mod warning;
mod words;

use std::iter;

use race::in_other_races;
use warning::in_known_warnings;
use words::{NEVER, OTHER_SUBJECTS, PROVOKED_AT_MOST, SUBJECTS, TOLERATED};

/// KERN_WARNING. A lower number is more severe.
const WARNING: u8 = 4;

/// How many records after one of trouble belong to it: a report with its stacks.
const REPORT: usize = 60;

/// How many lines of the console after a complaint are shown with it.
const SHOWN: usize = 24;

/// Whose kernel log it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// That of a guest which does nothing but run the tests.
    Guest,
    /// That of a computer with other users and devices.
    Any,
}

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
    pub fn parse(record: &str) -> Option<Self> {
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

    /// Whether it is bad: trouble, or about a subject of these tests, or in a guest a warning
    /// or worse. What the module prints is for those tests to judge that provoke it.
    pub fn is_bad(&self, machine: Machine) -> bool {
        let Self { level, text, .. } = self;
        let is_warning = machine == Machine::Guest && *level <= WARNING;
        is_trouble(text)
            || (is_warning || names_subject(text))
                && !is_from_module(text)
                && !TOLERATED.iter().any(|words| text.contains(words))
    }
}

/// The records of trouble, each with those that follow it.
pub fn reports(records: Vec<Record>) -> Vec<Record> {
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

/// The records without reports that the module has no part in: KCSAN's of races, and warnings of known faults
/// of the kernel.
pub fn without_other_reports(records: Vec<Record>) -> Vec<Record> {
    let flags = in_other_reports(records.iter().map(|record| record.text.as_str()));
    let flagged = records.into_iter().zip(flags);
    let kept = flagged.filter(|(_, is_other)| !is_other);
    kept.map(|(record, _)| record).collect()
}

/// For each line, whether it belongs to such a report.
fn in_other_reports<'a>(lines: impl Iterator<Item = &'a str> + Clone) -> Vec<bool> {
    let races = in_other_races(lines.clone());
    let warnings = in_known_warnings(lines);
    races
        .into_iter()
        .zip(warnings)
        .map(|(a, b)| a || b)
        .collect()
}

/// Whether a line must never be in the log, unless a test has provoked it.
pub fn is_trouble(line: &str) -> bool {
    let mut words = NEVER.iter().chain(PROVOKED_AT_MOST);
    words.any(|words| line.contains(words))
}

/// Whether the module prints this line. The kernel prints some with the same prefix when
/// it loads the module.
pub fn is_from_module(line: &str) -> bool {
    line.starts_with("rust_perf: ") && !line.contains("taint") && !line.contains("verification")
}

/// The kernel's first complaint on a console, with the lines that follow. What tests provoke is
/// there as well, and is none.
pub fn complaint(console: &str) -> Option<String> {
    let is_other = in_other_reports(console.lines());
    let lines = console.lines().zip(is_other);
    let mut lines = lines.filter(|(_, is_other)| !is_other).map(|it| it.0);
    let first = lines.find(|line| NEVER.iter().any(|words| line.contains(words)))?;
    let some: Vec<_> = iter::once(first).chain(lines.take(SHOWN)).collect();
    Some(some.join("\n"))
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
    use super::*;

    const INFO: u8 = 6;

    fn bad_on(machine: Machine, level: u8, text: &str) -> bool {
        let text = text.into();
        let record = Record {
            sequence: 0,
            level,
            text,
        };
        record.is_bad(machine)
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
            let mut left = without_other_reports(records.collect());
            left.retain(|record| record.is_bad(Machine::Guest));
            left
        };
        assert_eq!(report(" a+0x1/0x2"), []);
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

    #[test]
    fn a_complaint_of_the_kernel_is_seen() {
        let console = "..MP-BIOS bug: 8254 timer not connected to IO-APIC\n\
                       INFO: NMI handler took too long\n";
        assert_eq!(complaint(console), None);
        let console = format!("{console}[    9.1] WARNING: CPU: 0 PID: 1 at x\nCall Trace:\n");
        assert!(complaint(&console).unwrap().contains("Call Trace"));
    }
}
