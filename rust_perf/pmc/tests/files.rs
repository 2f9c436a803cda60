// SPDX-License-Identifier: GPL-2.0

//! The files of events in sysfs, and events that are selected by name, on every CPU that the
//! in-tree driver knows.

use crate::common::{
    emulated::{core_types, detected},
    events::fields,
    Cpuid,
};
use pmc::{
    counter::Counter, event::EventSel, CacheEvent, Capabilities, FileText, Rate, Selectable,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use suites::CPUS;

/// Name and contents of each file.
fn files(caps: &Capabilities, all_names: bool) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let _ = caps.for_each_file::<()>(all_names, &mut |(name, text)| {
        files.push((name.to_str().unwrap().into(), text.to_string()));
        ControlFlow::Continue(())
    });
    files
}

/// The names that select events, by their bits.
fn selectable(caps: &Capabilities) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let _ = caps.for_each_selectable::<()>(&mut |bit, (name, _)| {
        assert_eq!(bit as usize, names.len());
        names.push(name.to_str().unwrap().into());
        ControlFlow::Continue(())
    });
    names
}

/// All CPUs, and one with TSX.
fn all() -> Vec<Capabilities> {
    let cores = CPUS.iter().flat_map(|suite| {
        let types = core_types(suite).into_iter();
        types.filter_map(move |core_type| detected(suite, core_type))
    });
    let all: Vec<_> = cores.chain([with_tsx()]).collect();
    assert_eq!(all.len(), 112);
    all
}

/// An Ice Lake with TSX, which the emulated one does not have.
fn with_tsx() -> Capabilities {
    Cpuid::new(b"GenuineIntel", 6, 0x7e, 0)
        .with(0xa, 0, [0x0830_0805, 0, 0b1111, 0x8604])
        .with(7, 0, [0, 1 << 11, 0, 0])
        .detect()
        .unwrap()
}

/// `attr.config` and `attr.config1` of a file's terms, as the perf tool computes them.
fn encode(caps: &Capabilities, terms: &str) -> [u64; 2] {
    let [mut config, mut config1] = [0; 2];
    for term in terms.split(',') {
        let (name, value) = term.split_once('=').unwrap_or((term, "1"));
        let value = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
            None => value.parse().unwrap(),
        };
        let mut extra = caps.extra_format();
        if let Some(field) = extra.find(|field| field.name.to_str() == Ok(name)) {
            // All of them begin at bit 0.
            assert_eq!(field.bits, "0-63", "{term}");
            config1 |= value;
            continue;
        }
        let fields = fields(caps);
        let (_, bits) = fields.iter().find(|(field, _)| *field == name).unwrap();
        let mut rest = value;
        for range in bits.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            for bit in first.parse::<u32>().unwrap()..=last.parse().unwrap() {
                config |= (rest & 1) << bit;
                rest >>= 1;
            }
        }
        assert_eq!(rest, 0, "{term}");
    }
    [config, config1]
}

#[test]
fn each_name_stands_for_the_event_of_its_file() {
    for caps in all() {
        let files = files(&caps, true);
        let mut compared = 0;
        let _ = caps.for_each_selectable::<()>(&mut |_, (name, text)| {
            let name = name.to_str().unwrap();
            let (_, terms) = files.iter().find(|(file, _)| file == name).unwrap();
            let event = caps.event_of(text).unwrap();
            let found = [event.config, event.config1];
            assert_eq!(found, encode(&caps, terms), "{name}: {terms}");
            compared += 1;
            ControlFlow::Continue(())
        });
        assert!((2..64).contains(&compared), "{compared}");
    }
}

#[test]
fn events_of_transactions_are_selected() {
    let caps = with_tsx();
    let names = selectable(&caps);
    for name in ["tx-start", "cycles-t", "cycles-ct"] {
        assert!(
            names.iter().any(|it| it == name),
            "{name} is not in {names:?}"
        );
    }
}

#[test]
fn all_events_but_those_with_a_scale_are_selected() {
    for caps in all() {
        let names: BTreeSet<_> = selectable(&caps).into_iter().collect();
        let files: BTreeSet<_> = files(&caps, true).into_iter().map(|(it, _)| it).collect();
        for file in &files {
            let scaled = file.ends_with(".scale") || files.contains(&format!("{file}.scale"));
            assert_eq!(names.contains(file), !scaled, "{file}");
        }
        assert!(names.is_subset(&files));
    }
}

#[test]
fn the_code_is_event_select_and_unit_mask() {
    for caps in all() {
        let fields = fields(&caps);
        let has = |bits| fields.iter().any(|(_, it)| *it == bits);
        let high = if has("0-7,32-35") { 0xf << 32 } else { 0 };
        let umask2 = if has("8-15,40-47") { 0xff << 40 } else { 0 };
        assert_eq!(caps.code_mask(), 0xffff | high | umask2);
    }
}

#[test]
fn files_have_one_name_where_perf_knows_the_others() {
    for caps in all() {
        let (one, all) = (files(&caps, false), files(&caps, true));
        let added: Vec<_> = all.iter().filter(|file| !one.contains(file)).collect();
        let caches = cache_names();
        assert!(added
            .iter()
            .all(|(it, _)| it == "cycles" || it == "branches" || caches.contains(it)));
        assert_eq!(added.len(), all.len() - one.len());
        let names: BTreeSet<_> = all.iter().map(|(it, _)| it).collect();
        assert_eq!(names.len(), all.len(), "a name is there twice");
    }
}

/// perf's names of caches, in the order of `enum perf_hw_cache_id`.
const CACHES: [&str; 7] = [
    "l1-dcache",
    "l1-icache",
    "llc",
    "dtlb",
    "itlb",
    "branch",
    "node",
];

/// The names by which perf lists cache events, in lower case.
fn cache_names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for cache in CACHES {
        for (accesses, misses) in [
            ("loads", "load-misses"),
            ("stores", "store-misses"),
            ("prefetches", "prefetch-misses"),
        ] {
            names.extend([accesses, misses].map(|it| format!("{cache}-{it}")));
        }
    }
    names
}

/// Each cache event that the CPU has is in a file, with the value of its further register, and at the
/// rate of a cache event. An event without a file cannot be opened in-tree either, or has no counter.
#[test]
fn cache_events_have_files() {
    const OPERATIONS: [&str; 3] = ["load", "store", "prefetch"];
    let [mut with_value, mut without] = [0; 2];
    for caps in all() {
        let mut found = BTreeMap::new();
        let _ = caps.for_each_selectable::<()>(&mut |_, (name, text)| {
            let event = caps.event_of(text).unwrap();
            found.insert(name.to_str().unwrap().to_owned(), event);
            ControlFlow::Continue(())
        });
        for (i, cache) in (0..).zip(CACHES) {
            for (j, operation) in (0..).zip(OPERATIONS) {
                for (k, missing) in [(0, false), (1, true)] {
                    let (config, config1) = match caps.cache_event(i | (j << 8) | (k << 16)) {
                        CacheEvent::Config(config) => (config, 0),
                        CacheEvent::Extra { config, config1 } => (config, config1),
                        CacheEvent::Missing | CacheEvent::Invalid => continue,
                    };
                    let name = match (missing, operation) {
                        (true, _) => format!("{cache}-{operation}-misses"),
                        (false, "prefetch") => format!("{cache}-prefetches"),
                        (false, _) => format!("{cache}-{operation}s"),
                    };
                    let event = EventSel::from_raw(config);
                    let Some(found) = found.get(&name) else {
                        let is_extra = config1 != 0 && caps.extra_format().next().is_none();
                        // Sandy Bridge does not have all bits of some values.
                        let is_refused = caps.extra(event, config1).is_err();
                        let is_counted = !caps.counters_for(event).is_empty();
                        assert!(!is_counted || is_refused || is_extra, "{name}");
                        without += 1;
                        continue;
                    };
                    let want = Selectable {
                        config,
                        config1,
                        rate: Rate::CACHE,
                    };
                    assert_eq!(*found, want, "{name}");
                    with_value += usize::from(config1 != 0);
                }
            }
        }
    }
    assert!(with_value > 100 && without > 0, "{with_value}, {without}");
}

/// With metrics, slots are one of their files. Without them it is a file like those of other events.
#[test]
fn slots_have_one_file() {
    for caps in all() {
        let files = files(&caps, false);
        let count = |name: &str| files.iter().filter(|(it, _)| it == name).count();
        assert_eq!(count("instructions"), 1);
        let has_slots = caps.counters.contains(Counter::SLOTS);
        assert_eq!(count("slots"), usize::from(has_slots), "{files:?}");
    }
}

#[test]
fn a_value_that_does_not_fit_is_refused() {
    let config = |terms| Some(with_tsx().event_of(FileText::Static(terms))?.config);
    assert_eq!(config("event=0xff,umask=0xff,edge"), Some(0x4_ffff));
    for terms in [
        "event=0x100",
        "umask=0x1ff",
        "edge=2",
        "nothing=1",
        "event=x",
    ] {
        assert_eq!(config(terms), None, "{terms}");
    }
}
