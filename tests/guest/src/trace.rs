// SPDX-License-Identifier: GPL-2.0
//! Trace points: as events of rust_trace, and of the in-tree PMU.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};
use perf_event::data::Sample;
use perf_event::events::Raw;
use perf_event::{Builder, Counter};
use perf_event_open_sys::bindings::{perf_event_attr, PERF_TYPE_TRACEPOINT};

/// The PMU of trace points that the module registers.
pub const RUST_TRACE: &str = "/sys/bus/event_source/devices/rust_trace";

/// The number of a name: its 32-bit FNV-1a hash.
pub fn number(name: &str) -> u64 {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.into()
}

/// The `perf_event_attr.type` of rust_trace.
pub fn rust_type() -> Result<u32> {
    let text = fs::read_to_string(Path::new(RUST_TRACE).join("type")).context("no rust_trace")?;
    Ok(text.trim().parse()?)
}

/// Whether the kernel has kCFI: then the module cannot attach to trace points.
pub fn has_kcfi() -> bool {
    let opened = Event::rust("sched_switch").map(|event| event.builder().build());
    matches!(opened, Ok(Err(error)) if error.raw_os_error() == Some(libc::EOPNOTSUPP))
}

/// The folder of a trace event in tracefs.
pub fn tracefs(name: &str) -> Option<PathBuf> {
    let categories = fs::read_dir("/sys/kernel/tracing/events").ok()?;
    // Several categories may have an event of the same name, which is the same trace point.
    let mut found: Vec<_> = categories
        .filter_map(|category| Some(category.ok()?.path().join(name)))
        .filter(|event| event.join("id").exists())
        .collect();
    found.sort();
    found.into_iter().next()
}

/// An event of either PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// `perf_event_attr.type`.
    pub type_: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
}

impl Event {
    /// A trace point, or one of the other named events, of rust_trace.
    pub fn rust(name: &str) -> Result<Self> {
        Ok(Self {
            type_: rust_type()?,
            config: number(name),
        })
    }

    /// A trace point of the in-tree PMU.
    pub fn in_tree(name: &str) -> Result<Self> {
        let folder = tracefs(name).with_context(|| format!("no trace event {name}"))?;
        Ok(Self {
            type_: PERF_TYPE_TRACEPOINT,
            config: fs::read_to_string(folder.join("id"))?.trim().parse()?,
        })
    }

    /// An event of perf's own, PERF_TYPE_SOFTWARE.
    pub fn software(config: u32) -> Self {
        Self {
            type_: perf_event_open_sys::bindings::PERF_TYPE_SOFTWARE,
            config: config.into(),
        }
    }

    /// Builds an event of the calling thread, disabled, that excludes nothing.
    pub fn builder(self) -> Builder<'static> {
        let mut builder = Builder::new(Raw::new(self.config));
        builder.attrs_mut().type_ = self.type_;
        builder.exclude_kernel(false).exclude_hv(false);
        builder
    }

    /// Sets the event in an attribute.
    pub fn set(self, attr: &mut perf_event_attr) {
        attr.type_ = self.type_;
        attr.config = self.config;
    }
}

/// Events that count the same, in one group, so that they begin and end at once.
pub struct Same(pub Vec<Counter>);

impl Same {
    /// Opens the events. `set` sets what they have in common.
    pub fn open(events: &[Event], set: impl Fn(&mut Builder<'static>)) -> Result<Self> {
        let mut group: Vec<Counter> = Vec::new();
        for event in events {
            let mut builder = event.builder();
            set(&mut builder);
            let counter = match group.first_mut() {
                None => builder.build(),
                Some(leader) => builder.enabled(true).build_with_group(leader),
            };
            group.push(counter.with_context(|| format!("open {event:x?}"))?);
        }
        Ok(Self(group))
    }

    /// The trace point on both PMUs.
    pub fn both(name: &str, set: impl Fn(&mut Builder<'static>)) -> Result<Self> {
        Self::open(&[Event::rust(name)?, Event::in_tree(name)?], set).context(name.to_string())
    }

    /// Starts counting.
    pub fn enable(&mut self) -> Result<()> {
        Ok(self.0[0].enable()?)
    }

    /// Stops counting.
    pub fn disable(&mut self) -> Result<()> {
        Ok(self.0[0].disable()?)
    }

    /// The count, which must be the same for all.
    pub fn count(&mut self, what: &str) -> Result<u64> {
        let counts = self
            .0
            .iter_mut()
            .map(Counter::read)
            .collect::<Result<Vec<_>, _>>()?;
        ensure!(
            counts.iter().all(|count| *count == counts[0]),
            "{what}: the counts differ: {counts:?}"
        );
        Ok(counts[0])
    }
}

/// The raw record of a sample of rust_trace, see `docs/rust-trace.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The task that was running.
    pub pid: i32,
    /// The number of the trace point.
    pub number: u64,
    /// Its arguments.
    pub args: Vec<u64>,
}

impl Record {
    /// Decodes the record of a sample.
    pub fn of(sample: &Sample) -> Result<Self> {
        let raw = sample.raw().context("no RAW")?;
        Self::decode(raw).with_context(|| format!("{raw:x?}"))
    }

    fn decode(raw: &[u8]) -> Result<Self> {
        ensure!(raw.len() >= 20, "too short");
        let u32_at =
            |at: usize| u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        let len = u32_at(12) as usize;
        ensure!(raw.len() == 16 + 8 * len + 4, "not as long as it says");
        ensure!(u32_at(raw.len() - 4) == 0, "the last word is not 0");
        ensure!(raw[..2] == [0, 0], "it has a type");
        let word = |i| u64::from(u32_at(16 + 8 * i)) | (u64::from(u32_at(20 + 8 * i)) << 32);
        Ok(Self {
            pid: u32_at(4) as i32,
            number: u32_at(8).into(),
            args: (0..len).map(word).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        // The published vectors of 32-bit FNV-1a.
        assert_eq!(number(""), 0x811c_9dc5);
        assert_eq!(number("a"), 0xe40c_292c);
        assert_eq!(number("foobar"), 0xbf9c_f968);
    }

    #[test]
    fn a_record() {
        let mut raw = vec![0, 0, 1, 2];
        raw.extend(7_u32.to_le_bytes());
        raw.extend(0xabcd_u32.to_le_bytes());
        raw.extend(1_u32.to_le_bytes());
        raw.extend(0x1_0000_0002_u64.to_le_bytes());
        raw.extend([0; 4]);
        let record = Record {
            pid: 7,
            number: 0xabcd,
            args: vec![0x1_0000_0002],
        };
        assert_eq!(Record::decode(&raw).unwrap(), record);
        raw.pop();
        assert!(Record::decode(&raw).is_err());
    }
}
