// SPDX-License-Identifier: GPL-2.0

//! Kernel services that the drivers need and the `kernel` crate does not have:
//! interrupt contexts, data of each CPU, CPU hotplug, the system's sleep and shutdown,
//! tasks, trace points and probes, and what says where a probe is.

pub(crate) mod address_space;
pub(crate) mod hotplug;
pub mod irq;
pub(crate) mod kprobe;
pub(crate) mod path;
pub(crate) mod percpu;
mod regs;
pub(crate) mod symbols;
pub(crate) mod syscore;
pub mod task;
pub(crate) mod time;
pub(crate) mod tracepoint;
pub(crate) mod uprobe;
pub(crate) mod user_string;
