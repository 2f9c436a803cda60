// SPDX-License-Identifier: GPL-2.0

//! Kernel services that the drivers need and the `kernel` crate does not have:
//! interrupt contexts, CPU hotplug, and the system's sleep and shutdown.

pub(crate) mod hotplug;
pub mod irq;
pub(crate) mod syscore;
pub(crate) mod time;
