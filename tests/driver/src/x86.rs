// SPDX-License-Identifier: GPL-2.0

//! The module's `x86`, so far as it does not depend on the kernel.

#[path = "../../../rust_perf/x86/hal/mod.rs"]
pub mod hal;
