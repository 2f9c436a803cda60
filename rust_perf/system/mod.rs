// SPDX-License-Identifier: GPL-2.0

//! Kernel services that the drivers need and the `kernel` crate does not have:
//! interrupt contexts, data of each CPU, CPU hotplug, the system's sleep and shutdown,
//! tasks, and trace points.

pub mod hotplug;
pub mod irq;
pub mod percpu;
pub mod syscore;
pub mod task;
pub mod time;
pub mod tracepoint;
