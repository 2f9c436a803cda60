// SPDX-License-Identifier: GPL-2.0

//! Commands in guests. `make test-counted` runs them, with these environment variables:
//!
//! | variable         | is                                       |
//! |------------------|------------------------------------------|
//! | `COUNTED`        | the program, linked statically           |
//! | `COUNTED_QEMU`   | QEMU with a PMU                          |
//! | `COUNTED_KERNEL` | the image of a kernel that is installed  |

mod counting;
mod ends;
mod failures;
mod files;
mod run;
mod streams;
mod terminal;
