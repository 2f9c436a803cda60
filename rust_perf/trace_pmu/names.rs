// SPDX-License-Identifier: GPL-2.0

//! What is special about some trace points, and which have a file in `events/`.

use crate::system::tracepoint::number_of;
use kernel::prelude::*;

/// Events that are not hits of one trace point, but have a number like those.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    /// It is a trace point.
    None,
    /// perf's own `page-faults`.
    PageFaults,
    /// perf's own `cpu-migrations`.
    Migrations,
    /// A probe that was made with its event. It has no number of its own.
    Probe,
}

/// What is special about a trace point.
#[derive(Clone, Copy)]
pub(super) struct Traits {
    number: u32,
    pub(super) special: Special,
    /// Argument 0 is a task that the hit is about. It is counted for that task, too.
    pub(super) has_task: bool,
    /// Argument 1 is how often to count a hit. Otherwise it is counted once.
    pub(super) has_count: bool,
    /// Every user may record the arguments of his own tasks.
    pub(super) is_public: bool,
    /// Taking a sample hits the trace point again.
    pub(super) is_caused_by_samples: bool,
    /// It is hit by page faults, so that reading user memory may hit it again.
    pub(super) is_page_fault: bool,
}

impl Traits {
    const fn new(name: &str) -> Self {
        Traits {
            number: number_of(name.as_bytes()),
            special: Special::None,
            has_task: false,
            has_count: false,
            is_public: false,
            is_caused_by_samples: false,
            is_page_fault: false,
        }
    }

    const fn task(name: &str) -> Self {
        Traits {
            has_task: true,
            ..Self::new(name)
        }
    }

    const fn delay(name: &str) -> Self {
        Traits {
            has_count: true,
            ..Self::task(name)
        }
    }

    const fn public(name: &str) -> Self {
        Traits {
            is_public: true,
            ..Self::new(name)
        }
    }

    const fn page_fault(name: &str) -> Self {
        Traits {
            is_page_fault: true,
            ..Self::new(name)
        }
    }

    /// Those of probes.
    pub(super) const PROBE: Self = Traits {
        special: Special::Probe,
        ..Self::new("")
    };

    /// Those of the trace point with this number.
    pub(super) fn of(number: u32) -> Self {
        SPECIAL
            .iter()
            .copied()
            .find(|special| special.number == number)
            .unwrap_or(Traits {
                number,
                ..Self::new("")
            })
    }
}

/// As `__perf_task()`, `__perf_count()`, `TRACE_EVENT_FLAGS()` and
/// `TRACE_EVENT_PERF_PERM()` in the headers of trace events.
const SPECIAL: &[Traits] = &[
    Traits::task("sched_waking"),
    Traits::task("sched_wakeup"),
    Traits::task("sched_wakeup_new"),
    Traits::delay("sched_stat_wait"),
    Traits::delay("sched_stat_sleep"),
    Traits::delay("sched_stat_iowait"),
    Traits::delay("sched_stat_blocked"),
    Traits {
        has_count: true,
        ..Traits::new("sched_stat_runtime")
    },
    Traits::public("sys_enter"),
    Traits::public("sys_exit"),
    Traits {
        is_caused_by_samples: true,
        ..Traits::new("irq_work_exit")
    },
    Traits::page_fault("page_fault_user"),
    Traits::page_fault("page_fault_kernel"),
    Traits {
        special: Special::PageFaults,
        ..Traits::page_fault("page-faults")
    },
    Traits {
        special: Special::Migrations,
        ..Traits::new("cpu-migrations")
    },
];

/// Events that perf has as well: its name, and the number here.
pub(super) const SOFTWARE: &[(&CStr, u32)] = &[
    // perf counts a context switch where the kernel has this trace point.
    (c"context-switches", number_of(b"sched_switch")),
    (c"cpu-migrations", number_of(b"cpu-migrations")),
    (c"page-faults", number_of(b"page-faults")),
];

/// The trace points that have a file in `events/`, if the kernel has them.
pub(super) const NAMED: &[&CStr] = &[
    c"block_bio_queue",
    c"block_rq_complete",
    c"block_rq_insert",
    c"block_rq_issue",
    c"hrtimer_expire_entry",
    c"hrtimer_expire_exit",
    c"hrtimer_start",
    c"irq_handler_entry",
    c"irq_handler_exit",
    c"kfree_skb",
    c"net_dev_queue",
    c"net_dev_xmit",
    c"netif_receive_skb",
    c"page_fault_kernel",
    c"page_fault_user",
    c"sched_migrate_task",
    c"sched_process_exec",
    c"sched_process_exit",
    c"sched_process_fork",
    c"sched_switch",
    c"sched_wakeup",
    c"sched_wakeup_new",
    c"sched_waking",
    c"signal_deliver",
    c"signal_generate",
    c"softirq_entry",
    c"softirq_exit",
    c"softirq_raise",
    c"sys_enter",
    c"sys_exit",
    c"task_rename",
    c"timer_expire_entry",
    c"timer_expire_exit",
    c"timer_start",
];
