// SPDX-License-Identifier: GPL-2.0

//! Performance counters as pure logic: what an event is, which counters can
//! count it, where it goes, and the arithmetic of periods and wrap-around.
//!
//! There is no kernel and no hardware in here, and nothing that allocates,
//! recurses or panics: everything but [`assign`] runs in NMIs too. The same
//! files build as a crate for the host, where their tests run.

#![deny(unsafe_code)]

pub mod assign;
pub mod counter;
pub mod event;
pub mod period;
