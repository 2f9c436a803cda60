// SPDX-License-Identifier: GPL-2.0

//! Kernel services that the drivers need and the `kernel` crate does not have:
//! interrupt contexts, CPU hotplug, and the system's sleep and shutdown.

pub mod hotplug;
pub mod irq;
pub mod syscore;
pub mod time;
