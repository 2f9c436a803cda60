// SPDX-License-Identifier: GPL-2.0

//! Top-down analysis: the events of a kind of CPU that say how it used its slots.

use core::ffi::CStr;

/// The topdown events of a kind of CPU.
#[derive(Clone, Copy)]
pub(super) struct Topdown {
    /// Their files.
    pub(super) files: &'static [TopdownFile],
    /// How many metrics PERF_METRICS has. If it has any, the files are only there if the CPU
    /// has the register.
    pub(super) metrics: u8,
}

impl Topdown {
    /// No such events.
    pub(super) const NONE: Self = Self::events(&[]);

    /// Events that counters count.
    pub(super) const fn events(files: &'static [TopdownFile]) -> Self {
        Topdown { files, metrics: 0 }
    }
}

/// A file in `events/`: an event, or what its counts are to be multiplied by.
pub struct TopdownFile {
    /// Its name.
    pub name: &'static CStr,
    text: &'static str,
    text_of_thread: &'static str,
}

impl TopdownFile {
    /// What it reads as. `threads` says whether a core has more than one.
    pub const fn text(&self, threads: bool) -> &'static str {
        if threads {
            self.text_of_thread
        } else {
            self.text
        }
    }
}

/// A file that reads the same on every CPU of this kind.
pub(super) const fn file(name: &'static CStr, text: &'static str) -> TopdownFile {
    per_thread(name, text, text)
}

/// A file that reads as `text_of_thread` if a core has more than one thread.
pub(super) const fn per_thread(
    name: &'static CStr,
    text: &'static str,
    text_of_thread: &'static str,
) -> TopdownFile {
    TopdownFile {
        name,
        text,
        text_of_thread,
    }
}
