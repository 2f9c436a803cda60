// SPDX-License-Identifier: GPL-2.0
//! The PMU under test and the in-tree one: their events in sysfs, opening events on them,
//! and what CPUID says of the hardware.

use std::arch::x86_64::{CpuidResult, __cpuid, __cpuid_count};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use perf_event::events::Raw;
use perf_event::{Builder, Counter};
pub use suites::Vendor;

use crate::setting::Setting;

/// Perf's generic hardware events that the emulated PMUs count, by the in-tree driver's
/// names. A CPU may lack some.
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
    /// All events.
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

    /// The name of its file in the PMU's `events/` directory.
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

/// What the files of events begin with if the events without a PMU are to be those of another.
pub const APART: &str = "hw-";

/// A `config` that the PMU model has no event for. It is below event select 0xe0, where
/// events of a shared northbridge begin on AMD's legacy counters.
pub const UNKNOWN_EVENT: u64 = 0xff9f;

/// The privilege levels at which an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// CPL 3.
    User,
    /// CPL 0.
    Kernel,
    /// All.
    Both,
}

/// A PMU as sysfs shows it.
#[derive(Clone, Debug)]
pub struct Pmu {
    /// Its name.
    pub name: String,
    /// `perf_event_attr.type` of its events.
    pub type_: u32,
    /// `perf_event_attr.config` of each event in its `events/` directory.
    events: Vec<(Event, u64)>,
}

impl Pmu {
    /// The PMU of this name. An error if no driver has registered one.
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
            let file = pmu.event_file(event.name());
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

    /// The file that says how many milliseconds, 1 or more, events are on the counters before perf lets
    /// others have their turn.
    pub fn turn_file(&self) -> String {
        format!("{}/perf_event_mux_interval_ms", self.dir().display())
    }

    /// Sets how long events are on the counters before perf lets others have their turn.
    pub fn set_turn(&self, turn: Duration) -> Result<Setting> {
        Setting::change(self.turn_file(), turn.as_millis())
    }

    /// The file of an event, which exists if the PMU has the event. Beside the in-tree driver
    /// rust_pmu's begin with `hw-`: see docs/names.md.
    pub fn event_file(&self, event: &str) -> PathBuf {
        let events = self.dir().join("events");
        let apart = events.join(format!("{APART}{event}"));
        if apart.exists() {
            apart
        } else {
            events.join(event)
        }
    }

    /// Whether the events have names apart from those of another PMU: see [`Self::event_file`].
    pub fn has_names_apart(&self) -> bool {
        self.dir()
            .join(format!("events/{APART}cpu-cycles"))
            .exists()
    }

    /// The `config` and `config1` of the events that bits of `config2` select by name, by these bits.
    pub fn named(&self) -> Result<Vec<[u64; 2]>> {
        let mut named = BTreeMap::new();
        for file in fs::read_dir(self.dir().join("format"))? {
            let file = file?;
            let text = fs::read_to_string(file.path())?;
            if let Some(bit) = text.trim_end().strip_prefix("config2:") {
                let name = file.file_name().to_string_lossy().into_owned();
                let terms = fs::read_to_string(self.event_file(&name)).context(name)?;
                named.insert(bit.parse::<usize>()?, self.encode_all(terms.trim_end())?);
            }
        }
        ensure!(named.keys().copied().eq(0..named.len()), "gaps: {named:?}");
        Ok(named.into_values().collect())
    }

    /// The bit of `config2` that selects an event by name, if one does.
    pub fn named_config2(&self, name: &str) -> Result<Option<u32>> {
        let file = self.dir().join("format").join(name);
        if !file.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(file)?;
        let bit = text
            .trim_end()
            .strip_prefix("config2:")
            .context("not in config2")?;
        Ok(Some(bit.parse()?))
    }

    /// The bits of `config` that make up a field of `format/`, the lowest first.
    pub fn field(&self, name: &str) -> Result<Vec<u32>> {
        let file = self.dir().join("format").join(name);
        let text = fs::read_to_string(&file).with_context(|| format!("no field {name}"))?;
        parse_bits(text.trim_end()).with_context(|| format!("{}: {text}", file.display()))
    }

    /// The bits of `config` that are part of any field of `format/`.
    pub fn fields(&self) -> Result<Vec<u32>> {
        let mut bits = Vec::new();
        for file in fs::read_dir(self.dir().join("format"))? {
            let file = file?;
            if fs::read_to_string(file.path())?.starts_with("config:") {
                bits.extend(self.field(&file.file_name().to_string_lossy())?);
            }
        }
        Ok(bits)
    }

    /// The `config` of `event=0x…,umask=0x…`, by the fields of `format/`.
    pub fn encode(&self, terms: &str) -> Result<u64> {
        let [config, config1] = self.encode_all(terms)?;
        ensure!(config1 == 0, "{terms} needs config1");
        Ok(config)
    }

    /// The `config` and `config1` of `event=0x…,offcore_rsp=0x…`, by the fields of `format/`.
    pub(crate) fn encode_all(&self, terms: &str) -> Result<[u64; 2]> {
        let [mut config, mut config1] = [0; 2];
        for term in terms.split(',') {
            let (name, value) = term.split_once('=').unwrap_or((term, "0x1"));
            let value = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16)?,
                None => value.parse()?,
            };
            let file = self.dir().join("format").join(name);
            if fs::read_to_string(file)?.trim_end() == "config1:0-63" {
                config1 |= value;
                continue;
            }
            let bits = self.field(name)?;
            ensure!(
                value.checked_shr(bits.len() as u32).unwrap_or(0) == 0,
                "{term} is too wide"
            );
            for (i, bit) in bits.iter().enumerate() {
                config |= ((value >> i) & 1) << bit;
            }
        }
        Ok([config, config1])
    }

    /// The events in its `events/` directory.
    pub fn events(&self) -> impl Iterator<Item = Event> + '_ {
        self.events.iter().map(|(event, _)| *event)
    }

    /// Whether it has this event.
    pub fn has(&self, event: Event) -> bool {
        self.events().any(|it| it == event)
    }

    /// `perf_event_attr.config` of an event.
    ///
    /// # Panics
    ///
    /// Panics if the PMU does not have the event, see [`Pmu::has`].
    pub fn config(&self, event: Event) -> u64 {
        match self.events.iter().find(|(it, _)| *it == event) {
            Some((_, config)) => *config,
            None => panic!("{} has no {}", self.name, event.name()),
        }
    }

    /// An event in the syntax of `perf stat -e`.
    pub fn tool_event(&self, event: Event, modifier: &str) -> String {
        format!("{}/{}/{modifier}", self.name, event.name())
    }

    /// Builds an event of the calling thread, disabled, for user mode.
    pub fn event(&self, event: Event) -> Builder<'static> {
        self.raw(self.config(event))
    }

    /// Builds an event of the calling thread with any `config`, disabled, for user mode.
    pub fn raw(&self, config: u64) -> Builder<'static> {
        let mut builder = Builder::new(Raw::new(config));
        builder.attrs_mut().type_ = self.type_;
        // x86 drivers ignore exclude_hv, but perf-event2 sets it by default.
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

    /// Opens events as one group with the first as its leader.
    ///
    /// Only the leader is disabled. Its ioctls start and stop the whole group, so that
    /// all events see the same instructions.
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

/// The bits that a file of `format/`, such as `config:0-7,32-35`, lists.
fn parse_bits(format: &str) -> Result<Vec<u32>> {
    let ranges = format.strip_prefix("config:").context("not in config")?;
    let mut bits = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse()?, last.parse()?);
        ensure!(first <= last && last < 64, "{range} is no range of bits");
        bits.extend(first..=last);
    }
    Ok(bits)
}

/// An addition to [`Builder`].
pub trait BuilderExt {
    /// Counts only at these privilege levels.
    fn filter(&mut self, mode: Mode) -> &mut Self;
}

impl BuilderExt for Builder<'_> {
    fn filter(&mut self, mode: Mode) -> &mut Self {
        self.exclude_user(mode == Mode::Kernel)
            .exclude_kernel(mode == Mode::User)
    }
}

/// Reads each counter of a stopped group.
pub fn read_all(group: &mut [Counter]) -> io::Result<Vec<u64>> {
    group.iter_mut().map(Counter::read).collect()
}

/// What CPUID says of this CPU and its PMU.
#[derive(Clone, Copy, Debug)]
pub struct CpuPmu {
    /// The maker.
    pub vendor: Vendor,
    /// The family, with the extended family added.
    pub family: u32,
    /// The version of architectural performance monitoring; 0 on AMD, and if there is
    /// no PMU.
    pub version: u32,
    /// The number of general counters.
    pub general: u32,
    /// A bit for each general counter. Version 6 can have gaps.
    pub general_mask: u64,
    /// The bits of a general counter.
    pub width: u32,
    /// The number of fixed counters.
    pub fixed: u32,
    /// A bit for each fixed counter.
    pub fixed_mask: u64,
    /// Whether the MSRs of AMD's general counters are those of PerfCtrExtCore.
    pub perfctr_core: bool,
    /// Whether one write starts or stops all counters. Without it, the counters of a
    /// group start and stop one after the other while the kernel runs.
    pub global_control: bool,
}

impl CpuPmu {
    /// Executes CPUID on the CPU that this runs on. On a hybrid CPU the cores differ.
    pub fn probe() -> Self {
        let [_, ebx, ecx, edx] = cpuid(0, 0);
        let name = [ebx, edx, ecx].map(u32::to_le_bytes);
        let vendor = Vendor::of_cpuid(name.as_flattened()).unwrap_or(Vendor::Intel);
        let [signature, ..] = cpuid(1, 0);
        let family = ((signature >> 8) & 0xf) + ((signature >> 20) & 0xff);
        match vendor {
            Vendor::Amd | Vendor::Hygon => Self::amd(vendor, family),
            Vendor::Intel | Vendor::Zhaoxin => Self::intel(vendor, family),
        }
    }

    /// Whether its PMU is AMD's, which Hygon has, too.
    pub fn is_amd(&self) -> bool {
        self.vendor.is_amd()
    }

    /// Whether it is of AMD's family 15H, whose counters differ from each other.
    pub fn is_family_15h(&self) -> bool {
        (self.vendor, self.family) == (Vendor::Amd, 0x15)
    }

    /// SDM vol. 2A, CPUID: leaf 23H if the CPU has it, else leaf 0AH.
    fn intel(vendor: Vendor, family: u32) -> Self {
        const ARCH_PERF_MON_EXT: u32 = 1 << 8;
        let [eax, _, _, edx] = cpuid(0xa, 0);
        let [features, ..] = cpuid(7, 1);
        let (general_mask, fixed_mask) = match features & ARCH_PERF_MON_EXT {
            0 => (low_bits((eax >> 8) & 0xff), low_bits(edx & 0x1f)),
            _ => {
                let [general, fixed, ..] = cpuid(0x23, 1);
                (general.into(), fixed.into())
            }
        };
        let (general_mask, fixed_mask) = match core_type() {
            Some(CoreType::Core) if features & ARCH_PERF_MON_EXT == 0 && is_declared_hybrid() => {
                // Alder Lake: leaf 0AH has what all cores have. Performance cores have two
                // general counters and a fixed one more (intel_pmu_init()).
                ((general_mask << 2) | 0b11, (fixed_mask << 1) | 1)
            }
            _ => (general_mask, fixed_mask),
        };
        let version = eax & 0xff;
        Self {
            vendor,
            family,
            version,
            general: general_mask.count_ones(),
            general_mask,
            width: (eax >> 16) & 0xff,
            fixed: fixed_mask.count_ones(),
            fixed_mask,
            perfctr_core: false,
            global_control: version >= 2,
        }
    }

    /// APM vol. 3, CPUID: with PerfMonV2, leaf 80000022H gives the number of counters.
    /// Without it there are 6 with PerfCtrExtCore, and 4 without that.
    fn amd(vendor: Vendor, family: u32) -> Self {
        const PERF_CTR_EXT_CORE: u32 = 1 << 23;
        const PERF_MON_V2: u32 = 1;
        let [v2, counters, ..] = cpuid(0x8000_0022, 0);
        let [_, _, features, _] = cpuid(0x8000_0001, 0);
        let global_control = v2 & PERF_MON_V2 != 0;
        let perfctr_core = features & PERF_CTR_EXT_CORE != 0;
        let general = match perfctr_core {
            _ if global_control => counters & 0xf,
            true => 6,
            false => 4,
        };
        Self {
            vendor,
            family,
            version: 0,
            general,
            general_mask: low_bits(general),
            width: 48,
            fixed: 0,
            fixed_mask: 0,
            perfctr_core,
            global_control,
        }
    }
}

/// The lowest `n` bits, 63 at most.
fn low_bits(n: u32) -> u64 {
    (1 << n) - 1
}

/// The family and the model of this CPU, with the extended parts.
pub fn signature() -> (u32, u32) {
    let [eax, ..] = cpuid(1, 0);
    let family = match (eax >> 8) & 0xf {
        0xf => 0xf + ((eax >> 20) & 0xff),
        family => family,
    };
    (family, ((eax >> 4) & 0xf) | ((eax >> 12) & 0xf0))
}

/// A type of core of a hybrid CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreType {
    /// A performance core.
    Core,
    /// An efficient core.
    Atom,
}

/// The type of the core that this runs on, `None` if the CPU is not hybrid (SDM vol. 2A,
/// CPUID, leaf 07H and leaf 1AH). On Alder Lake and Raptor Lake a core without a type is a
/// performance core (adl_get_hybrid_cpu_type()).
pub fn core_type() -> Option<CoreType> {
    let [leaf, ..] = cpuid(0x1a, 0);
    let is_alder_lake = matches!(signature(), (6, 0x97 | 0x9a | 0xb7 | 0xba | 0xbf));
    match leaf >> 24 {
        0 if is_alder_lake => Some(CoreType::Core),
        0x40 if is_declared_hybrid() => Some(CoreType::Core),
        0x20 if is_declared_hybrid() => Some(CoreType::Atom),
        _ => None,
    }
}

/// Whether CPUID declares that the cores are of different types.
fn is_declared_hybrid() -> bool {
    const HYBRID: u32 = 1 << 15;
    let [.., features] = cpuid(7, 0);
    features & HYBRID != 0
}

/// Whether QEMU's TCG emulates this CPU. It names itself in the first leaf of the range
/// that CPUs leave to hypervisors.
pub fn is_tcg() -> bool {
    const HYPERVISOR: u32 = 1 << 31;
    const FIRST_LEAF: u32 = 0x4000_0000;
    let [_, _, features, _] = cpuid(1, 0);
    if features & HYPERVISOR == 0 {
        return false;
    }
    // SAFETY: every x86-64 CPU has CPUID; a leaf that it does not have returns
    // meaningless values, and here the CPU says that there is a hypervisor.
    let CpuidResult { ebx, ecx, edx, .. } = unsafe { __cpuid(FIRST_LEAF) };
    let name = [ebx, ecx, edx].map(u32::to_le_bytes);
    name.as_flattened() == b"TCGTCGTCGTCG"
}

/// EAX, EBX, ECX and EDX of a leaf. All are 0 if the CPU does not have the leaf.
pub fn cpuid(leaf: u32, subleaf: u32) -> [u32; 4] {
    // SAFETY: every x86-64 CPU has CPUID, and leaves 0 and 80000000H.
    let highest = unsafe { __cpuid(leaf & 0x8000_0000) }.eax;
    if leaf > highest {
        return [0; 4];
    }
    // SAFETY: every x86-64 CPU has CPUID, and `leaf` is not above the highest one.
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
