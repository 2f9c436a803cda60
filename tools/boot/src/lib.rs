// SPDX-License-Identifier: GPL-2.0

//! What it takes to start a guest. xtask and `counted` start guests.

pub mod image;
pub mod initramfs;
pub mod modules;
pub mod monitor;
pub mod qemu;
pub mod tsc;
