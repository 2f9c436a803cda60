// SPDX-License-Identifier: GPL-2.0

//! The files of events in sysfs, and the events that are selected by name.

use super::{
    cache::{
        self,
        NamedCacheEvent, //
    },
    capabilities::Capabilities,
    event::EventSel,
    frequency::Rate,
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
    /// An event that has a number, and its assumed rate.
    Event(Terms, Rate),
    /// A cache event that needs a value in a further register.
    Extra {
        /// What it is without the register.
        terms: Terms,
        /// The field of `attr.config1`.
        field: &'static CStr,
        /// The value.
        config1: u64,
    },
    /// An event by the fields of `format/`, or what its counts are to be multiplied by.
    Static(&'static str),
}

impl fmt::Display for FileText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(terms, _) => terms.fmt(f),
            Self::Extra {
                terms,
                field,
                config1,
            } => {
                let field = field.to_str().map_err(|_| fmt::Error)?;
                write!(f, "{terms},{field}={config1:#x}")
            }
            Self::Static(text) => f.write_str(text),
        }
    }
}

/// A file of `events/`: name and contents.
pub type EventFile = (&'static CStr, FileText);

/// An event that can be selected by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selectable {
    /// `attr.config`.
    pub config: u64,
    /// `attr.config1`.
    pub config1: u64,
    /// How often it is assumed to occur.
    pub rate: Rate,
}

impl Capabilities {
    /// Calls `f` with the files of all events that the CPU can count, and of their scales, until it
    /// breaks. If `all_names`, an event has one file for each of its names, and perf's cache events have
    /// files. Otherwise an event has one file, and cache events have none.
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
                f((name, FileText::Event(event.terms(), Rate::of(event.name))))?;
            }
        }
        if let Some(code) = self.auxiliary() {
            let event = EventSel::from_raw(u16::from_be_bytes(code).into());
            f((
                c"mem-loads-aux",
                FileText::Event(Terms(event), Rate::UNKNOWN),
            ))?;
        }
        if all_names {
            for event in cache::named(self.events.cache) {
                if let Some(text) = self.cache_text(&event) {
                    f((event.name, text))?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// What the file of a cache event reads as. `None` if the CPU cannot count the event, or if
    /// `format/` has no field for the value of its register.
    fn cache_text(&self, event: &NamedCacheEvent) -> Option<FileText> {
        let &NamedCacheEvent {
            config, config1, ..
        } = event;
        let event = EventSel::from_raw(config);
        if self.counters_for(event).is_empty() {
            return None;
        }
        let terms = Terms(event);
        match self.extra(event, config1).ok()? {
            None => Some(FileText::Event(terms, Rate::CACHE)),
            Some(_) if self.names_extra => Some(FileText::Extra {
                terms,
                field: self.events.extra.field(event)?.name,
                config1,
            }),
            Some(_) => None,
        }
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

    /// An event by the contents of its file. `None` if these are no event.
    pub fn event_of(&self, text: FileText) -> Option<Selectable> {
        let (config, config1, rate) = match text {
            FileText::Event(Terms(event), rate) => (event.into_raw(), 0, rate),
            FileText::Extra {
                terms: Terms(event),
                config1,
                ..
            } => (event.into_raw(), config1, Rate::CACHE),
            FileText::Static(text) => (self.encode(text)?, 0, Rate::UNKNOWN),
        };
        Some(Selectable {
            config,
            config1,
            rate,
        })
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
