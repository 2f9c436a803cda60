// SPDX-License-Identifier: GPL-2.0

//! The words by which a line of the kernel log is judged.

/// Words that mean trouble at any level, on any subject. No test provokes them.
pub const NEVER: &[&str] = &[
    "Kernel panic",
    "Oops",
    "BUG:",
    "WARNING:",
    "UBSAN:",
    "INFO: possible",
    "INFO: trying to register",
];

/// Words that mean trouble, too, unless a test has provoked them and has checked them itself.
pub const PROVOKED_AT_MOST: &[&str] = &[
    "NMI received for unknown reason",
    "Dazed and confused",
    "perfevents: irq loop stuck",
    "INFO: task",
    "INFO: rcu",
    "rcu: INFO:",
    "suspicious RCU",
    "CFI failure",
    "general protection fault",
    "unchecked MSR access",
    "Call Trace",
];

/// Subjects on which any line is bad, whatever its level, by the first letters of a word.
/// Case does not matter.
pub const SUBJECTS: &[&str] = &["perf", "nmi", "msr", "pmu", "lockdep", "rcu"];

/// Words that begin like a subject.
pub const OTHER_SUBJECTS: &[&str] = &["perform"];

/// Lines that are not bad although their level or their subject says so: what a test
/// provokes on purpose, and what only tells how slow the host is.
pub const TOLERATED: &[&str] = &[
    // Interrupts have come for a CPU that was about to go offline. It finds them when it is online again.
    "APIC: Stale IRR: ",
    // The stress test kills processes while they close events of uprobes: see docs/upstream/findings.md.
    "failed to unregister, leaking uprobe",
    // The module is loaded: it is not part of the kernel, and is not signed.
    "loading out-of-tree module taints kernel",
    "module verification failed",
    // A test loads KVM where there is no in-tree driver.
    "kvm_amd: PMU virtualization is disabled",
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
