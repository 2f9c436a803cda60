// SPDX-License-Identifier: GPL-2.0

//! Kernel services that the drivers need and the `kernel` crate does not have:
//! interrupt contexts, CPU hotplug, the system's sleep and shutdown, and probes.

pub(crate) mod hotplug;
pub mod irq;
pub(crate) mod kprobe;
pub(crate) mod path;
mod regs;
pub(crate) mod symbols;
pub(crate) mod syscore;
pub(crate) mod task;
pub(crate) mod time;
pub(crate) mod uprobe;
pub(crate) mod user_string;
