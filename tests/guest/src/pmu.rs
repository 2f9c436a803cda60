// SPDX-License-Identifier: GPL-2.0
//! Opening events on the PMU under test, or on the in-tree one beside it.

use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::fs;
use std::io;
use std::path::PathBuf;

use anyhow::{Context, Result};
use perf_event::events::Raw;
use perf_event::{Builder, Counter};

/// The seven architectural events, by the names of the in-tree driver, and
/// reference cycles in its encoding for the fixed counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    CpuCycles,
    Instructions,
    Branches,
    BranchMisses,
    CacheReferences,
    CacheMisses,
    BusCycles,
    RefCycles,
}

impl Event {
    pub const ALL: [Self; 8] = [
        Self::CpuCycles,
        Self::Instructions,
        Self::Branches,
        Self::BranchMisses,
        Self::CacheReferences,
        Self::CacheMisses,
        Self::BusCycles,
        Self::RefCycles,
    ];

    /// `perf_event_attr.config`: UMASK << 8 | event select.
    pub fn config(self) -> u64 {
        match self {
            Self::CpuCycles => 0x003c,
            Self::Instructions => 0x00c0,
            Self::Branches => 0x00c4,
            Self::BranchMisses => 0x00c5,
            Self::CacheReferences => 0x4f2e,
            Self::CacheMisses => 0x412e,
            Self::BusCycles => 0x013c,
            Self::RefCycles => 0x0300,
        }
    }

    /// Its file in the `events/` directory of sysfs.
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuCycles => "cpu-cycles",
            Self::Instructions => "instructions",
            Self::Branches => "branch-instructions",
            Self::BranchMisses => "branch-misses",
            Self::CacheReferences => "cache-references",
            Self::CacheMisses => "cache-misses",
            Self::BusCycles => "bus-cycles",
            Self::RefCycles => "ref-cycles",
        }
    }
}

/// The privilege levels that an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    User,
    Kernel,
    Both,
}

/// A PMU as sysfs shows it.
#[derive(Clone, Debug)]
pub struct Pmu {
    pub name: String,
    pub type_: u32,
}

impl Pmu {
    /// The PMU of this name, which is there when its driver is.
    pub fn find(name: &str) -> Result<Self> {
        let file = device(name).join("type");
        let text = fs::read_to_string(&file).with_context(|| format!("no PMU {name}"))?;
        let type_ = text
            .trim()
            .parse()
            .with_context(|| format!("{}", file.display()))?;
        Ok(Self {
            name: name.into(),
            type_,
        })
    }

    /// Its directory in sysfs.
    pub fn dir(&self) -> PathBuf {
        device(&self.name)
    }

    /// What to write behind `perf stat -e` for an event of this PMU.
    pub fn tool_event(&self, event: Event, modifier: &str) -> String {
        format!("{}/{}/{modifier}", self.name, event.name())
    }

    /// An event of the calling thread, disabled, for user mode.
    pub fn event(&self, event: Event) -> Builder<'static> {
        self.raw(event.config())
    }

    /// The same, for any `config`.
    pub fn raw(&self, config: u64) -> Builder<'static> {
        let mut builder = Builder::new(Raw::new(config));
        builder.attrs_mut().type_ = self.type_;
        // Only hypervisors that count for their guests know this bit.
        builder.exclude_hv(false);
        builder
    }

    /// Opens one event of the calling thread, disabled.
    pub fn open(&self, event: Event, mode: Mode) -> Result<Counter> {
        self.event(event)
            .filter(mode)
            .build()
            .with_context(|| format!("open {}/{}/ for {mode:?}", self.name, event.name()))
    }

    /// Opens events as one group, the first its leader.
    ///
    /// Only the leader is disabled, so its ioctls start and stop all of them in
    /// one go: they see the very same instructions.
    pub fn open_group(&self, events: &[(Event, Mode)]) -> Result<Vec<Counter>> {
        let mut group: Vec<Counter> = Vec::new();
        for &(event, mode) in events {
            let mut builder = self.event(event);
            builder.filter(mode);
            let counter = match group.first_mut() {
                None => builder.build(),
                Some(leader) => builder.enabled(true).build_with_group(leader),
            };
            group.push(counter.with_context(|| format!("open {} in a group", event.name()))?);
        }
        Ok(group)
    }
}

fn device(name: &str) -> PathBuf {
    PathBuf::from("/sys/bus/event_source/devices").join(name)
}

/// What [`Builder`] does not have in one word.
pub trait BuilderExt {
    /// Counts these privilege levels only.
    fn filter(&mut self, mode: Mode) -> &mut Self;
}

impl BuilderExt for Builder<'_> {
    fn filter(&mut self, mode: Mode) -> &mut Self {
        self.exclude_user(mode == Mode::Kernel)
            .exclude_kernel(mode == Mode::User)
    }
}

/// Reads all counters of a stopped group.
pub fn read_all(group: &mut [Counter]) -> io::Result<Vec<u64>> {
    group.iter_mut().map(Counter::read).collect()
}

/// What CPUID leaves 0xA and 0x23 say of this CPU (SDM vol. 2A, CPUID).
#[derive(Clone, Copy, Debug)]
pub struct ArchPerfmon {
    pub version: u32,
    pub general: u32,
    /// Bits of a general counter.
    pub width: u32,
    pub fixed: u32,
}

impl ArchPerfmon {
    /// Asks the CPU this runs on.
    pub fn probe() -> Self {
        // SAFETY: every x86-64 CPU has CPUID; one without the leaf gives zeros
        // here, as it is below the highest leaf of any CPU that QEMU emulates.
        let leaf = unsafe { __cpuid(0xa) };
        let version = leaf.eax & 0xff;
        let general = if version >= 6 {
            // Some may be missing: leaf 0xA tells of those before.
            // SAFETY: as above; version 6 has the leaf.
            unsafe { __cpuid_count(0x23, 1) }.eax.count_ones()
        } else {
            (leaf.eax >> 8) & 0xff
        };
        Self {
            version,
            general,
            width: (leaf.eax >> 16) & 0xff,
            fixed: leaf.edx & 0x1f,
        }
    }
}
