// SPDX-License-Identifier: GPL-2.0

//! Kernel services that the drivers need and the `kernel` crate does not have:
//! interrupt contexts, data of each CPU, CPU hotplug, the system's sleep and shutdown,
//! tasks, and trace points.

pub(crate) mod hotplug;
pub mod irq;
pub(crate) mod percpu;
pub(crate) mod syscore;
pub mod task;
pub(crate) mod time;
pub(crate) mod tracepoint;
