// SPDX-License-Identifier: GPL-2.0

//! `counted [OPTIONS] -- COMMAND` runs a command in a guest whose CPU has performance counters. It needs
//! neither KVM nor root, nor counters of the host.
//!
//! The guest sees the files of the host. What it writes is lost when it ends, but for what is written below
//! the directories of `--rw`.
//!
//! | module  | has                                                              |
//! |---------|------------------------------------------------------------------|
//! | `host`  | the program that a user starts: it runs QEMU                     |
//! | `guest` | the first process of the guest, which is the same program        |
//! | `talk`  | what both say to each other                                      |

mod guest;
mod host;
mod talk;

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The kernel starts it by this name. In a container any program can be process 1.
    match env::args_os().next() {
        Some(name) if name == guest::PROGRAM && std::process::id() == 1 => guest::run(),
        _ => host::run(),
    }
}
