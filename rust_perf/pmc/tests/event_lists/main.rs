// SPDX-License-Identifier: GPL-2.0

//! The driver's tables of Intel's models, against Intel's own event lists.
//!
//! The lists are from the source package of the kernel. `make test` unpacks it, and so does
//! `make event-lists`. AMD's lists in there do not say which counters can count an event, so
//! there is nothing to compare.
//!
//! `docs/adding-a-cpu.md` says how to read what fails here.

#[path = "../common/mod.rs"]
mod common;
mod cpu;
mod difference;
mod known;
mod list;

use difference::Core;
use known::{Unknown, RULES, UNKNOWN};
use list::{Event, List};
use pmc::counter::CounterSet;
use pmu_model::{CoreType, Signature};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// The CPUs of a list. Of the steppings of a model that it is for, the first one.
fn cpus(list: &List) -> impl Iterator<Item = Signature> + '_ {
    (0..=0xff).filter_map(|model| {
        let steppings = (0..=0xf).map(|stepping| Signature {
            family: list.family,
            model,
            stepping,
        });
        let mut steppings = steppings.filter(|signature| list.is_for(*signature));
        steppings.next()
    })
}

/// The counters that the events of a type of core name.
fn named(list: &List, unit: Option<CoreType>) -> CounterSet {
    let events = list.events_of(unit);
    events.fold(CounterSet::EMPTY, |set, event| set | event.counters)
}

/// A core of a CPU that a list is for.
struct Place {
    signature: Signature,
    unit: Option<CoreType>,
}

impl Place {
    /// The places of a list.
    fn all(list: &List) -> Vec<Self> {
        let units = list.units();
        cpus(list)
            .flat_map(|signature| units.iter().map(move |&unit| Place { signature, unit }))
            .collect()
    }

    fn is(&self, unknown: &Unknown, list: &List) -> bool {
        unknown.list == list.name
            && (unknown.family, unknown.model) == (self.signature.family, self.signature.model)
            && (unknown.unit.is_none() || unknown.unit == self.unit)
    }

    /// The core, if rust_pmu and the PMU model know it.
    fn core<'a>(&self, list: &'a List, smt: bool) -> Option<Core<'a>> {
        let named = named(list, self.unit);
        let caps = cpu::detect(self.signature, self.unit, smt, named)?;
        // The driver has this name, and no table, for other CPUs.
        let known = caps
            .pmu_name
            .is_some_and(|name| !name.starts_with("generic"));
        known.then_some(Core { list, caps, named })
    }
}

/// As mapfile.csv has it, but for the unit.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Signature { family, model, .. } = self.signature;
        write!(f, "GenuineIntel-{family}-{model:02X}")?;
        self.unit.map_or(Ok(()), |unit| write!(f, " ({unit:?})"))
    }
}

/// Each CPU of a list has a table, and the counters of which the list speaks.
#[test]
fn every_cpu_of_a_list_is_known() {
    for list in &list::read_all() {
        for place in Place::all(list) {
            let name = &list.name;
            let unknown = UNKNOWN.iter().any(|it| place.is(it, list));
            // Intel's lists have the counters of one of two threads.
            let core = match place.core(list, true) {
                Some(core) => core,
                None if unknown => continue,
                None => panic!(
                    "{name} has {place}, which is not in pmc/intel/mod.rs, \
                     not in pmu-model/src/processor, or not in either"
                ),
            };
            assert!(!unknown, "{name}: {place} is known, and in UNKNOWN");
            let (ours, named) = (core.caps.counters, core.named);
            assert_eq!(ours.gp_part(), named.gp_part(), "{name}, {place}");
            let fixed = |set: CounterSet| set.fixed_part().len();
            assert_eq!(fixed(ours), fixed(named), "{name}, {place}");
        }
    }
}

/// What came of the comparison of all lists.
#[derive(Default)]
struct Report {
    /// The differences that no rule has.
    failures: BTreeSet<String>,
    /// By rule: how many events differ for that reason.
    events: BTreeMap<usize, usize>,
    /// By rule and row: the lists and the codes that have the difference.
    used: BTreeMap<(usize, usize), (BTreeSet<String>, BTreeSet<u16>)>,
    total: usize,
    agree: usize,
    cpus: usize,
}

impl Report {
    fn add(&mut self, list: &List) {
        let (mut cpus, mut events, mut differ) = (BTreeSet::new(), 0, 0);
        for unit in list.units() {
            let places = Place::all(list).into_iter().filter(|it| it.unit == unit);
            let mut cores = Vec::new();
            for place in places {
                // Hybrid CPUs have the same counters with Hyper-Threading and without.
                for core in [false, true].map(|smt| place.core(list, smt)) {
                    let Some(core) = core else { continue };
                    cpus.insert(place.signature.model);
                    cores.push((place.to_string(), core));
                }
            }
            if cores.is_empty() {
                continue;
            }
            for event in list.events_of(unit) {
                let rules = self.compare(event, &cores);
                events += 1;
                differ += usize::from(!rules.is_empty());
                for rule in rules {
                    *self.events.entry(rule).or_default() += 1;
                }
            }
        }
        self.cpus += cpus.len();
        self.total += events;
        self.agree += events - differ;
        println!(
            "{}: {} CPUs, {events} events, {differ} differ",
            list.name,
            cpus.len()
        );
    }

    /// Compares an event on some cores of a list. Returns the rules by which it differs.
    fn compare(&mut self, event: &Event, cores: &[(String, Core<'_>)]) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        for (place, core) in cores {
            let list = &core.list.name;
            for difference in core.differences(event) {
                let rows = RULES.iter().map(|rule| rule.row(list, event, &difference));
                let mut rows = rows.enumerate();
                let row = rows.find_map(|(rule, row)| row.map(|row| (rule, row)));
                let Some(row) = row else {
                    let name = &event.name;
                    let failure = format!("{list}, {place}: {name}, {difference}");
                    self.failures.insert(failure);
                    continue;
                };
                found.insert(row.0);
                let (lists, codes) = self.used.entry(row).or_default();
                lists.insert(list.clone());
                codes.insert(difference.code);
            }
        }
        found
    }

    /// The entries of [`RULES`] that no event needs.
    fn unused(&self) -> Vec<String> {
        let mut unused = Vec::new();
        for (i, rule) in RULES.iter().enumerate() {
            for (j, row) in rule.rows.iter().enumerate() {
                let (lists, codes) = self.used.get(&(i, j)).cloned().unwrap_or_default();
                let lists = row.lists.iter().filter(|&&list| !lists.contains(list));
                let codes = row.codes.iter().filter(|&code| !codes.contains(code));
                let entries = lists.map(|list| (*list).to_owned());
                let entries = entries.chain(codes.map(|code| format!("{code:#06x}")));
                unused.extend(entries.map(|entry| format!("{entry}: {}", rule.reason)));
            }
        }
        unused
    }
}

/// The counters and the further registers of each event.
#[test]
fn events_are_as_in_intels_lists() {
    let mut report = Report::default();
    for list in &list::read_all() {
        report.add(list);
    }
    for (rule, events) in &report.events {
        println!("{events} events differ: {}", RULES[*rule].reason);
    }
    let Report {
        cpus, total, agree, ..
    } = report;
    println!("{cpus} CPUs, {total} events in all lists, {agree} agree");
    let failures: Vec<_> = report.failures.iter().map(String::as_str).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let unused = report.unused();
    assert!(unused.is_empty(), "no event needs\n{}", unused.join("\n"));
}
