// SPDX-License-Identifier: GPL-2.0

//! Kernel services that the drivers need and the `kernel` crate does not have:
//! calls of its functions, interrupt contexts, a lock for them, words that one CPU accesses, data
//! of each CPU, sets of CPUs, CPU hotplug, the detector of hard lockups, the system's sleep and
//! shutdown, tasks, indexes that users choose, trace points and probes, and what says where a
//! probe is.

pub mod address_space;
pub mod cpumask;
pub mod ftrace;
pub mod hotplug;
pub mod irq;
pub mod kprobe;
pub mod local;
pub mod lockup;
pub mod nospec;
pub mod path;
pub mod percpu;
pub mod raw_spinlock;
pub mod symbols;
pub mod syscore;
pub mod task;
pub mod time;
pub mod tracepoint;
pub mod uprobe;
pub mod user_string;
