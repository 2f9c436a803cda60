// SPDX-License-Identifier: GPL-2.0
//! Opening events on the PMU under test, or on the in-tree one beside it.

use std::arch::x86_64::{CpuidResult, __cpuid, __cpuid_count};
use std::fs;
use std::io;
use std::path::PathBuf;

use anyhow::{ensure, Context, Result};
use perf_event::events::Raw;
use perf_event::{Builder, Counter};

/// The generic hardware events of perf that the emulated PMUs count, as the
/// in-tree driver names them. A CPU may lack some.
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

/// The encoding of no event that the model has. On AMD's legacy counters, those
/// from 0xe0 on are a shared northbridge's.
pub const UNKNOWN_EVENT: u64 = 0xff9f;

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
    /// The `config` of each event that it has.
    events: Vec<(Event, u64)>,
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
        let mut pmu = Self {
            name: name.into(),
            type_,
            events: Vec::new(),
        };
        for event in Event::ALL {
            let file = pmu.dir().join("events").join(event.name());
            if file.exists() {
                let terms = fs::read_to_string(&file)?;
                let config = pmu
                    .encode(terms.trim_end())
                    .with_context(|| format!("{}", file.display()))?;
                pmu.events.push((event, config));
            }
        }
        Ok(pmu)
    }

    /// Its directory in sysfs.
    pub fn dir(&self) -> PathBuf {
        device(&self.name)
    }

    /// The bits of `config` that a field of `format/` has, lowest first.
    pub fn field(&self, name: &str) -> Result<Vec<u32>> {
        let file = self.dir().join("format").join(name);
        let text = fs::read_to_string(&file).with_context(|| format!("no field {name}"))?;
        parse_bits(text.trim_end()).with_context(|| format!("{}: {text}", file.display()))
    }

    /// The bits of `config` that some field of `format/` has.
    pub fn fields(&self) -> Result<Vec<u32>> {
        let mut bits = Vec::new();
        for file in fs::read_dir(self.dir().join("format"))? {
            let name = file?.file_name();
            bits.extend(self.field(&name.to_string_lossy())?);
        }
        Ok(bits)
    }

    /// What `event=0x…,umask=0x…` is as a `config`, by the fields of `format/`.
    pub fn encode(&self, terms: &str) -> Result<u64> {
        let mut config = 0;
        for term in terms.split(',') {
            let (name, value) = term.split_once('=').unwrap_or((term, "0x1"));
            let value = value.strip_prefix("0x").context("not hexadecimal")?;
            let value = u64::from_str_radix(value, 16)?;
            let bits = self.field(name)?;
            ensure!(
                value.checked_shr(bits.len() as u32).unwrap_or(0) == 0,
                "{term} is too wide"
            );
            for (i, bit) in bits.iter().enumerate() {
                config |= ((value >> i) & 1) << bit;
            }
        }
        Ok(config)
    }

    /// The events that it has.
    pub fn events(&self) -> impl Iterator<Item = Event> + '_ {
        self.events.iter().map(|(event, _)| *event)
    }

    /// Does it have this event?
    pub fn has(&self, event: Event) -> bool {
        self.events().any(|it| it == event)
    }

    /// `perf_event_attr.config` of an event that it has.
    ///
    /// # Panics
    ///
    /// If it has not: ask [`Pmu::has`] first where that may be.
    pub fn config(&self, event: Event) -> u64 {
        match self.events.iter().find(|(it, _)| *it == event) {
            Some((_, config)) => *config,
            None => panic!("{} has no {}", self.name, event.name()),
        }
    }

    /// What to write behind `perf stat -e` for an event of this PMU.
    pub fn tool_event(&self, event: Event, modifier: &str) -> String {
        format!("{}/{}/{modifier}", self.name, event.name())
    }

    /// An event that it has, of the calling thread, disabled, for user mode.
    pub fn event(&self, event: Event) -> Builder<'static> {
        self.raw(self.config(event))
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

/// The bits of `config:0-7,32-35`.
fn parse_bits(format: &str) -> Result<Vec<u32>> {
    let ranges = format.strip_prefix("config:").context("not in config")?;
    let mut bits = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse()?, last.parse()?);
        ensure!(first <= last && last < 64, "{range} are no bits");
        bits.extend(first..=last);
    }
    Ok(bits)
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

/// Whose CPU it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    Intel,
    Amd,
    Hygon,
    /// Zhaoxin, or Centaur before it.
    Zhaoxin,
}

/// What CPUID says of this CPU and its PMU.
#[derive(Clone, Copy, Debug)]
pub struct CpuPmu {
    pub vendor: Vendor,
    pub family: u32,
    /// The version of architectural performance monitoring; 0 for AMD's PMUs, and
    /// where there is none.
    pub version: u32,
    /// General counters.
    pub general: u32,
    /// Bits of a general counter.
    pub width: u32,
    /// Fixed counters.
    pub fixed: u32,
    /// Whether one write starts or stops all counters. Without, those of a group
    /// start and stop one after the other, while the kernel runs.
    pub global_control: bool,
}

impl CpuPmu {
    /// Asks the CPU this runs on.
    pub fn probe() -> Self {
        let [_, ebx, ecx, edx] = cpuid(0, 0);
        let name = [ebx, edx, ecx].map(u32::to_le_bytes);
        let vendor = match name.as_flattened() {
            b"AuthenticAMD" => Vendor::Amd,
            b"HygonGenuine" => Vendor::Hygon,
            b"  Shanghai  " | b"CentaurHauls" => Vendor::Zhaoxin,
            _ => Vendor::Intel,
        };
        let [signature, ..] = cpuid(1, 0);
        let family = ((signature >> 8) & 0xf) + ((signature >> 20) & 0xff);
        match vendor {
            Vendor::Amd | Vendor::Hygon => Self::amd(vendor, family),
            Vendor::Intel | Vendor::Zhaoxin => Self::intel(vendor, family),
        }
    }

    /// SDM vol. 2A, CPUID, leaf 0AH, and where there is 23H, that one.
    fn intel(vendor: Vendor, family: u32) -> Self {
        const ARCH_PERF_MON_EXT: u32 = 1 << 8;
        let [eax, _, _, edx] = cpuid(0xa, 0);
        let [features, ..] = cpuid(7, 1);
        let (general, fixed) = match features & ARCH_PERF_MON_EXT {
            0 => ((eax >> 8) & 0xff, edx & 0x1f),
            _ => {
                let [general, fixed, ..] = cpuid(0x23, 1);
                (general.count_ones(), fixed.count_ones())
            }
        };
        let version = eax & 0xff;
        Self {
            vendor,
            family,
            version,
            general,
            width: (eax >> 16) & 0xff,
            fixed,
            global_control: version >= 2,
        }
    }

    /// APM vol. 3, CPUID: leaf 80000022H gives the number of counters with
    /// PerfMonV2; else there are 6 with PerfCtrExtCore and 4 without.
    fn amd(vendor: Vendor, family: u32) -> Self {
        const PERF_CTR_EXT_CORE: u32 = 1 << 23;
        const PERF_MON_V2: u32 = 1;
        let [v2, counters, ..] = cpuid(0x8000_0022, 0);
        let [_, _, features, _] = cpuid(0x8000_0001, 0);
        let global_control = v2 & PERF_MON_V2 != 0;
        Self {
            vendor,
            family,
            version: 0,
            general: match features & PERF_CTR_EXT_CORE {
                _ if global_control => counters & 0xf,
                0 => 4,
                _ => 6,
            },
            width: 48,
            fixed: 0,
            global_control,
        }
    }
}

/// EAX, EBX, ECX and EDX of a leaf, zeros where there is no such leaf.
fn cpuid(leaf: u32, subleaf: u32) -> [u32; 4] {
    // SAFETY: every x86-64 CPU has CPUID, and the first of its basic and of its
    // extended leaves.
    let highest = unsafe { __cpuid(leaf & 0x8000_0000) }.eax;
    if leaf > highest {
        return [0; 4];
    }
    // SAFETY: as above; the leaf is there.
    let CpuidResult { eax, ebx, ecx, edx } = unsafe { __cpuid_count(leaf, subleaf) };
    [eax, ebx, ecx, edx]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_a_format() {
        assert_eq!(parse_bits("config:18").unwrap(), [18]);
        assert_eq!(
            parse_bits("config:0-7,32-35").unwrap(),
            [0, 1, 2, 3, 4, 5, 6, 7, 32, 33, 34, 35]
        );
        for bad in ["config1:0-7", "config:7-0", "config:64", "config:"] {
            assert!(parse_bits(bad).is_err(), "{bad}");
        }
    }
}
