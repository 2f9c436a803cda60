// SPDX-License-Identifier: GPL-2.0

//! The files of events in sysfs, and the events that are selected by name.

use super::{
    capabilities::Capabilities,
    event::EventSel,
    named::{
        EventName,
        Terms, //
    }, //
};
use core::{
    ffi::CStr,
    fmt,
    ops::ControlFlow, //
};

/// What a file of `events/` reads as.
#[derive(Clone, Copy)]
pub enum FileText {
    /// An event that has a number.
    Event(Terms),
    /// An event by the fields of `format/`, or what its counts are to be multiplied by.
    Static(&'static str),
}

impl fmt::Display for FileText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(terms) => terms.fmt(f),
            Self::Static(text) => f.write_str(text),
        }
    }
}

/// A file of `events/`: name and contents.
pub type EventFile = (&'static CStr, FileText);

impl Capabilities {
    /// Calls `f` with the files of all events that the CPU can count, and of their scales, until it
    /// breaks. An event has one file for each of its names if `all_names`, otherwise one.
    pub fn for_each_file<B>(
        &self,
        all_names: bool,
        f: &mut dyn FnMut(EventFile) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        for (name, text) in self.topdown_files() {
            f((name, FileText::Static(text)))?;
        }
        for (name, text) in self.transaction_files() {
            f((name, FileText::Static(text)))?;
        }
        let with_metrics = !self.metrics.is_empty();
        for event in self.events() {
            // The files of metrics include it.
            if event.name == EventName::Slots && with_metrics {
                continue;
            }
            let most = if all_names { usize::MAX } else { 1 };
            for name in event.name.files().iter().take(most) {
                f((name, FileText::Event(event.terms())))?;
            }
        }
        if let Some(code) = self.auxiliary() {
            let event = EventSel::from_raw(u16::from_be_bytes(code).into());
            f((c"mem-loads-aux", FileText::Event(Terms(event))))?;
        }
        ControlFlow::Continue(())
    }

    /// Calls `f` with the events of these files that can be selected by name, and the bit that
    /// selects each, until it breaks. An event whose counts have a scale is none of them: perf
    /// applies the scale only if it finds the event by its file.
    pub fn for_each_selectable<B>(
        &self,
        f: &mut dyn FnMut(u32, EventFile) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut bit: u32 = 0;
        self.for_each_file(true, &mut |file| {
            if !self.is_selectable(file) {
                return ControlFlow::Continue(());
            }
            f(bit, file)?;
            bit = bit.wrapping_add(1);
            ControlFlow::Continue(())
        })
    }

    /// Whether a file is that of an event, and it has no scale.
    fn is_selectable(&self, (name, _): EventFile) -> bool {
        let name = name.to_bytes();
        if name.ends_with(SCALE) {
            return false;
        }
        let has_scale = self.for_each_file(true, &mut |(file, _)| match file
            .to_bytes()
            .strip_suffix(SCALE)
        {
            Some(event) if event == name => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        has_scale.is_continue()
    }

    /// The encoding in `attr.config` of an event by the contents of its file.
    pub fn config_of(&self, text: FileText) -> Option<u64> {
        match text {
            FileText::Event(Terms(event)) => Some(event.into_raw()),
            FileText::Static(text) => self.encode(text),
        }
    }

    /// The bits of `attr.config` that say which event it is: an event that is selected by name
    /// cannot have them, too.
    pub fn code_mask(&self) -> u64 {
        self.mask_of(b"event") | self.mask_of(b"umask")
    }

    /// The bits of a field of `format/`, or 0 if there is no such field.
    fn mask_of(&self, field: &[u8]) -> u64 {
        let mut fields = self.format();
        let found = fields.find(|it| it.name.to_bytes() == field);
        found.map_or(0, |field| field.mask)
    }

    /// The encoding of terms such as `event=0xc9,umask=0x01,in_tx=1`. `None` if a term is no field
    /// of `format/`, or its value no number that fits.
    fn encode(&self, terms: &str) -> Option<u64> {
        terms.split(',').try_fold(0, |config, term| {
            let (field, value) = term.split_once('=').unwrap_or((term, "1"));
            let value = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => value.parse(),
            };
            Some(config | deposit(value.ok()?, self.mask_of(field.as_bytes()))?)
        })
    }
}

/// The end of the name of a file that has a scale.
const SCALE: &[u8] = b".scale";

/// The bits of `value`, the lowest first, at the places of those in `mask`. `None` if they are too
/// many.
fn deposit(mut value: u64, mask: u64) -> Option<u64> {
    let mut deposited = 0;
    let mut free = mask;
    while free != 0 && value != 0 {
        let lowest = free & free.wrapping_neg();
        if value & 1 != 0 {
            deposited |= lowest;
        }
        value >>= 1;
        free &= !lowest;
    }
    (value == 0).then_some(deposited)
}
