// SPDX-License-Identifier: GPL-2.0

//! Intel's event lists, as perf's source has them: `tools/perf/pmu-events/arch/x86`.
//!
//! `mapfile.csv` says which CPUs a list is for. A list is a directory of JSON files with an
//! object for each event. `tools/perf/pmu-events/jevents.py` reads them for perf.

use pmc::{
    counter::{Counter, CounterSet},
    event::EventSel,
};
use pmu_model::{CoreType, Signature};
use regex_lite::Regex;
use serde::Deserialize;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A list of Intel's.
pub struct List {
    /// The name of its directory.
    pub name: String,
    /// The family of the CPUs that it is for.
    pub family: u16,
    /// These CPUs.
    cpus: Regex,
    /// Its events. Those of the uncore are left out.
    pub events: Vec<Event>,
}

/// An event of a list.
pub struct Event {
    /// Its name.
    pub name: String,
    /// The type of core that has the event, on hybrid CPUs.
    pub unit: Option<CoreType>,
    /// The counters that can count it.
    pub counters: CounterSet,
    /// `attr.config`. There are several if the event has several codes, which differ in the
    /// further register.
    pub configs: Vec<u64>,
    /// The addresses of the further registers, one of which the event needs.
    pub msrs: Vec<u32>,
    /// What the event needs in that register.
    pub value: u64,
    /// Whether the event is for precise samples (PEBS) only.
    pub is_precise: bool,
}

/// Where `make test` and `make event-lists` link the lists.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../out/event-lists")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| {
        let path = path.display();
        panic!("{path}: {error}\n`make event-lists` unpacks Intel's event lists")
    })
}

/// A line of `mapfile.csv`.
#[derive(Deserialize)]
struct Mapping {
    #[serde(rename = "Family-model")]
    cpus: String,
    #[serde(rename = "Filename")]
    directory: String,
    #[serde(rename = "EventType")]
    kind: String,
}

/// Reads the lists for CPUs of Intel. Those for AMD's do not have the counters.
pub fn read_all() -> Vec<List> {
    let mapfile = read(&directory().join("mapfile.csv"));
    let mut mapfile = csv::Reader::from_reader(mapfile.as_bytes());
    mapfile
        .deserialize()
        .map(|line| line.expect("a line of mapfile.csv"))
        .filter(|line: &Mapping| line.kind == "core")
        .filter_map(|line| {
            // Such as 6-55-[01234]: family, model and perhaps stepping.
            let cpus = line.cpus.strip_prefix("GenuineIntel-")?;
            let (family, _) = cpus.split_once('-').expect("a family and a model");
            Some(List {
                events: read_list(&directory().join(&line.directory)),
                family: family.parse().expect("a family"),
                cpus: Regex::new(&format!("^{cpus}(-[0-9A-F])?$")).expect("a pattern"),
                name: line.directory,
            })
        })
        .collect()
}

impl List {
    /// Whether it is for this CPU.
    pub fn is_for(&self, signature: Signature) -> bool {
        let Signature {
            family,
            model,
            stepping,
        } = signature;
        self.cpus
            .is_match(&format!("{family}-{model:X}-{stepping:X}"))
    }

    /// The types of cores that it has events of.
    pub fn units(&self) -> Vec<Option<CoreType>> {
        let mut units = Vec::new();
        for event in &self.events {
            if !units.contains(&event.unit) {
                units.push(event.unit);
            }
        }
        units
    }

    /// The events of a type of core.
    pub fn events_of(&self, unit: Option<CoreType>) -> impl Iterator<Item = &Event> + Clone {
        self.events.iter().filter(move |event| event.unit == unit)
    }
}

/// An object of a list.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Object {
    event_name: String,
    #[serde(default)]
    event_code: String,
    #[serde(default, rename = "UMask")]
    umask: String,
    counter: String,
    #[serde(default)]
    counter_mask: String,
    #[serde(default)]
    invert: String,
    #[serde(default)]
    edge_detect: String,
    #[serde(default)]
    any_thread: String,
    #[serde(default, rename = "MSRIndex")]
    msr_index: String,
    #[serde(default, rename = "MSRValue")]
    msr_value: String,
    #[serde(default, rename = "PEBS")]
    pebs: String,
    #[serde(default)]
    brief_description: String,
}

fn read_list(directory: &Path) -> Vec<Event> {
    let files = fs::read_dir(directory).unwrap_or_else(|error| {
        panic!("{}: {error}", directory.display());
    });
    let files = files.map(|file| file.unwrap().path());
    // The uncore's files are the largest.
    let uncore = |file: &PathBuf| {
        file.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("uncore-")
    };
    let mut files: Vec<PathBuf> = files.filter(|file| !uncore(file)).collect();
    files.sort();
    let mut events = Vec::new();
    for file in files {
        let contents: Value = serde_json::from_str(&read(&file)).unwrap_or_else(|error| {
            panic!("{}: {error}", file.display());
        });
        // Names of groups of metrics are in an object.
        let Value::Array(objects) = contents else {
            continue;
        };
        for object in objects {
            // Metrics, and the numbers of counters.
            if object.get("EventName").is_none() {
                continue;
            }
            let unit = match object.get("Unit").and_then(Value::as_str) {
                None => None,
                Some("cpu_core") => Some(CoreType::Performance),
                Some("cpu_atom") => Some(CoreType::Efficient),
                Some("cpu_lowpower") => Some(CoreType::LowPower),
                // The uncore.
                Some(_) => continue,
            };
            let object = Object::deserialize(&object).unwrap_or_else(|error| {
                panic!("{}: {error}: {object}", file.display());
            });
            events.push(object.event(unit));
        }
    }
    events
}

impl Object {
    fn event(self, unit: Option<CoreType>) -> Event {
        Event {
            unit,
            counters: counters(&self.counter),
            configs: self.configs(),
            msrs: numbers(&self.msr_index).map(|msr| msr as u32).collect(),
            value: number(&self.msr_value),
            // Newer lists do not have the number, but say it.
            is_precise: self.pebs == "2"
                || self
                    .brief_description
                    .contains("Only counts with PEBS enabled"),
            name: self.event_name,
        }
    }

    fn configs(&self) -> Vec<u64> {
        // perf has its own codes of these (`real_event()` in jevents.py).
        let is_fixed = self.counter.starts_with(FIXED);
        match self.event_name.as_str() {
            "INST_RETIRED.ANY" if is_fixed => return vec![0xc0],
            "CPU_CLK_UNHALTED.THREAD" | "CPU_CLK_UNHALTED.CORE" if is_fixed => return vec![0x3c],
            "CPU_CLK_UNHALTED.THREAD_ANY" if is_fixed => return vec![0x3c | EventSel::ANY.mask()],
            "CPU_CLK_UNHALTED.REF" if is_fixed => return vec![0x0300],
            _ => {}
        }
        let umask = number(&self.umask);
        let modifiers = EventSel::from_raw(0)
            .with(EventSel::UMASK, umask & 0xff)
            .with(EventSel::UMASK2, umask >> 8)
            .with(EventSel::CMASK, number(&self.counter_mask))
            .with(EventSel::INV, number(&self.invert))
            .with(EventSel::EDGE, number(&self.edge_detect))
            .with(EventSel::ANY, number(&self.any_thread))
            .into_raw();
        let codes = if self.event_code.is_empty() {
            "0"
        } else {
            &self.event_code
        };
        numbers(codes).map(|code| code | modifiers).collect()
    }
}

/// How the counters of a line about a fixed counter begin.
const FIXED: &str = "Fixed counter ";

/// The counters of a text such as "0,1,2,3" or "Fixed counter 1".
fn counters(text: &str) -> CounterSet {
    let number = |text: &str| text.trim().parse().ok();
    let counter = |text: &str| match text.strip_prefix(FIXED) {
        Some(text) => Counter::fixed(number(text)?),
        None => Counter::gp(number(text)?),
    };
    text.split(',')
        .map(|text| counter(text).unwrap_or_else(|| panic!("{text}: not a counter")))
        .collect()
}

/// Numbers, separated by commas.
fn numbers(text: &str) -> impl Iterator<Item = u64> + '_ {
    let texts = text.split(',').filter(|text| !text.is_empty());
    texts.map(|text| number(text.trim()))
}

/// A number, which is 0 if the list does not have it.
fn number(text: &str) -> u64 {
    let lower = text.to_ascii_lowercase();
    let number = match lower.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None if text.is_empty() => Ok(0),
        None => text.parse(),
    };
    number.unwrap_or_else(|_| panic!("{text}: not a number"))
}
