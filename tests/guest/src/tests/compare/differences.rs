// SPDX-License-Identifier: GPL-2.0
//! The intended differences between rust_pmu and the in-tree driver. docs/differences.md
//! lists them for users.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::OnceLock;

use super::attr::{self, bits};
use super::case::{eventsel, Case, Cpu, Kind, Side};
use crate::ctx::RUST_PMU;
use crate::pmu::{core_type, Pmu, Vendor, APART};
use crate::tests::topdown::metrics_of_model;

/// How rust_pmu handles a call that the in-tree driver handles differently.
#[derive(Clone, Copy)]
pub enum Ours {
    /// Refuses the call with one of these errnos. If the in-tree driver refuses it too,
    /// the errno of either driver is right.
    Refuses(&'static [i32]),
    /// Handles the call as the in-tree driver handles the changed one.
    TakesAs(fn(&mut Case)),
}

/// A kind of call with different results of the two drivers.
pub struct Difference {
    /// Its name in the table of docs/differences.md.
    pub what: &'static str,
    /// The reason for it.
    pub why: &'static str,
    /// The CPUs that it applies to.
    on: fn(&Cpu) -> bool,
    /// The calls that it applies to.
    of: fn(&Cpu, &Case) -> bool,
    /// What rust_pmu does.
    ours: Ours,
    seen: AtomicBool,
}

impl Difference {
    const fn new(
        what: &'static str,
        why: &'static str,
        on: fn(&Cpu) -> bool,
        of: fn(&Cpu, &Case) -> bool,
        ours: Ours,
    ) -> Self {
        Self {
            what,
            why,
            on,
            of,
            ours,
            seen: AtomicBool::new(false),
        }
    }
}

const RESERVED_CONFIG: &str = "`config` bits from 32 on that no field of `format/` has";
const MORE_CONFIG: &str = "`config1` … `config4`";
const ANY_THREAD: &str = "AnyThread (`config` bit 21)";
const PSEUDO: &str = "event select 0 with a unit mask that no fixed counter counts (Intel)";
const NAMED: &str = "`config2`, one of its bits in `format/` and no event select or unit mask";
const NO_NAME: &str =
    "`PERF_TYPE_HARDWARE` and `PERF_TYPE_HW_CACHE`, with the PMU's number in `config`";
const PERIOD_1: &str = "sample period 1";
const BRANCH_STACK: &str = "branch stacks, branch counters";
const AUX_OUTPUT: &str = "`aux_output`";
const NORTHBRIDGE: &str = "AMD's legacy counters: events of a northbridge that cores share";

static DIFFERENCES: [Difference; 13] = [
    Difference::new(
        NAMED,
        "it selects an event by name, which the in-tree driver does not have",
        |_| !named().is_empty(),
        |cpu, case| name_of(cpu, case).is_some(),
        Ours::TakesAs(|case| {
            if let Some(event) = name_of(&Cpu::probe(), case) {
                let [config, config1] = event;
                case.attr.set(attr::CONFIG, config | case.config());
                case.attr.set(attr::CONFIG2, 0);
                if config1 != 0 {
                    case.attr.set(attr::CONFIG1, config1);
                }
            }
        }),
    ),
    Difference::new(
        NO_NAME,
        "the in-tree driver takes all PMUs that have them for its own. rust_pmu has its own events \
         of these names, but for what the CPU does not have",
        |_| names_only(),
        |_, case| case.kind != Kind::Own && !has_name(case),
        Ours::Refuses(&[libc::ENOENT]),
    ),
    Difference::new(
        RESERVED_CONFIG,
        "an unknown request should not count something else",
        |_| true,
        |cpu, case| {
            let known = if cpu.amd() {
                eventsel::AMD_EVENT_HIGH
            } else if cpu.is_version(6..) {
                eventsel::EQ | eventsel::UMASK2
            } else {
                0
            };
            let unknown = !(u64::from(u32::MAX) | known);
            case.kind == Kind::Own && case.config() & unknown != 0
        },
        Ours::Refuses(&[libc::EINVAL]),
    ),
    Difference::new(
        MORE_CONFIG,
        "an unknown request should not count something else",
        |_| true,
        |cpu, case| {
            let config2 = case.seen(attr::CONFIG2) != 0 && name_of(cpu, case).is_none();
            let others = [attr::CONFIG1, attr::CONFIG3, attr::CONFIG4];
            config2 || others.iter().any(|field| case.seen(*field) != 0)
        },
        Ours::Refuses(&[libc::EINVAL]),
    ),
    Difference::new(
        ANY_THREAD,
        "the CPU does not have it; the in-tree driver ignores it or sets a reserved bit",
        |cpu| !cpu.is_version(2..=4),
        |_, case| case.kind == Kind::Own && case.config() & eventsel::ANY != 0,
        Ours::Refuses(&[libc::EINVAL]),
    ),
    Difference::new(
        ANY_THREAD,
        "not every kernel lets modules check `perf_event_paranoid`",
        |cpu| cpu.is_version(3..=4),
        |cpu, case| {
            case.paranoid.is_some() && case.kind == Kind::Own && cpu.any_thread(case.config())
        },
        Ours::Refuses(&[libc::EACCES]),
    ),
    Difference::new(
        PSEUDO,
        "a general counter counts nothing for these codes",
        |cpu| !cpu.amd(),
        |cpu, case| {
            let config = match case.kind {
                Kind::Own => case.config() & cpu.chosen(),
                Kind::Hardware if case.config() == HARDWARE_REF_CYCLES => REF_CYCLES,
                Kind::Hardware | Kind::HwCache => return false,
            };
            if config & 0xff != 0 || config & 0xff00 == 0 {
                return false;
            }
            // A fixed counter counts its code without modifiers.
            let umask = config >> 8;
            !PSEUDO_FIXED.contains(&umask) || absent(cpu, umask as u32 - 1)
        },
        Ours::Refuses(&[libc::EINVAL]),
    ),
    Difference::new(
        PERIOD_1,
        "the in-tree driver takes it for Branch Trace Store, which these CPUs do not have",
        |cpu| !cpu.amd(),
        |cpu, case| {
            let branches = match case.kind {
                Kind::Own => case.config() & eventsel::EVENT_UMASK == cpu.branches(),
                Kind::Hardware => case.config() == HARDWARE_BRANCHES,
                Kind::HwCache => false,
            };
            branches
                && case.seen(attr::SAMPLE_PERIOD) == 1
                && !case.attr.has(attr::FREQ)
                && !case.attr.has(attr::EXCLUDE_HOST)
        },
        Ours::TakesAs(|case| case.attr.set(attr::SAMPLE_PERIOD, 2)),
    ),
    Difference::new(
        BRANCH_STACK,
        "the CPU has no branch stack",
        |cpu| cpu.is_version(1..=1),
        |_, case| has_branch_stack(case),
        Ours::Refuses(&[libc::EOPNOTSUPP]),
    ),
    Difference::new(
        BRANCH_STACK,
        "the CPU has no branch stack, so it is `EOPNOTSUPP` without samples, too",
        |cpu| cpu.is_version(2..),
        |_, case| {
            let in_group_of_samples = case.seen(attr::SAMPLE_PERIOD) == 0
                && case.seen(attr::SAMPLE_TYPE) & bits::SAMPLE_READ != 0;
            let counters = case.seen(attr::BRANCH_SAMPLE_TYPE) & bits::BRANCH_COUNTERS != 0;
            has_branch_stack(case) && (in_group_of_samples || counters)
        },
        Ours::Refuses(&[libc::EOPNOTSUPP]),
    ),
    Difference::new(
        BRANCH_STACK,
        "of two errors, rust_pmu reports the same one on every CPU",
        |cpu| cpu.amd() && !cpu.has_amd_lbr(),
        |_, case| {
            let registers = case.seen(attr::SAMPLE_REGS_USER) | case.seen(attr::SAMPLE_REGS_INTR);
            has_branch_stack(case) && (case.kind != Kind::Own || registers > u64::from(u32::MAX))
        },
        Ours::Refuses(&[libc::EINVAL, libc::ENOENT]),
    ),
    Difference::new(
        NORTHBRIDGE,
        "they count the events of all these cores",
        Cpu::shares_northbridge,
        |_, case| match case.kind {
            Kind::Own => case.config() & 0xe0 == 0xe0,
            Kind::Hardware => false,
            Kind::HwCache => case.config() & 0xff == CACHE_NODE,
        },
        Ours::Refuses(&[libc::EINVAL]),
    ),
    Difference::new(
        AUX_OUTPUT,
        "the CPU does not support it, which is `EOPNOTSUPP`",
        |cpu| cpu.is_version(2..),
        |_, case| case.attr.has(attr::AUX_OUTPUT),
        Ours::Refuses(&[libc::EOPNOTSUPP]),
    ),
];

thread_local! {
    /// rust_pmu, if it is there. To find it takes longer than the call of a case.
    static OURS: Option<Side> = Pmu::find(RUST_PMU).ok().map(|pmu| Side::new(pmu, 0));
}

/// Whether the PMU under test has perf's generic events by name only.
fn names_only() -> bool {
    OURS.with(|ours| ours.as_ref().is_some_and(|ours| ours.pmu.has_names_only()))
}

/// Whether rust_pmu has an event of its own for a generic one.
fn has_name(case: &Case) -> bool {
    OURS.with(|ours| {
        let ours = ours.as_ref();
        ours.is_some_and(|ours| ours.by_name(case).is_some())
    })
}

/// The events that rust_pmu selects by bits of `config2`.
fn named() -> &'static [[u64; 2]] {
    static NAMED: OnceLock<Vec<[u64; 2]>> = OnceLock::new();
    NAMED.get_or_init(|| {
        let pmu = Pmu::find(RUST_PMU);
        pmu.and_then(|pmu| pmu.named()).unwrap_or_default()
    })
}

/// The event that a case selects by name.
fn name_of(cpu: &Cpu, case: &Case) -> Option<[u64; 2]> {
    let bits = case.seen(attr::CONFIG2);
    let code = if cpu.amd() {
        eventsel::EVENT_UMASK | eventsel::AMD_EVENT_HIGH
    } else if cpu.is_version(6..) {
        eventsel::EVENT_UMASK | eventsel::UMASK2
    } else {
        eventsel::EVENT_UMASK
    };
    let by_name = case.kind == Kind::Own && bits.is_power_of_two() && case.config() & code == 0;
    let event = named().get(bits.trailing_zeros() as usize);
    event.copied().filter(|_| by_name)
}

fn has_branch_stack(case: &Case) -> bool {
    case.seen(attr::SAMPLE_TYPE) & bits::SAMPLE_BRANCH_STACK != 0
}

/// The unit masks of perf's event codes for fixed counters: the number of the counter
/// plus one.
const PSEUDO_FIXED: RangeInclusive<u64> = 3..=16;
const REF_CYCLES: u64 = 0x0300;
/// The fixed counters of reference cycles and of slots.
const FIXED_REF_CYCLES: u32 = 2;
const FIXED_SLOTS: u32 = 3;
/// PERF_COUNT_HW_BRANCH_INSTRUCTIONS and PERF_COUNT_HW_REF_CPU_CYCLES.
const HARDWARE_BRANCHES: u64 = 4;
const HARDWARE_REF_CYCLES: u64 = 9;
/// PERF_COUNT_HW_CACHE_NODE, in the lower byte of a cache event.
pub const CACHE_NODE: u64 = 6;

fn absent(cpu: &Cpu, fixed: u32) -> bool {
    !cpu.amd() && cpu.perfmon.fixed <= fixed
}

/// The call that the in-tree driver handles like rust_pmu handles this one, if that is
/// another.
pub fn taken_as(cpu: &Cpu, case: &Case) -> Option<Case> {
    let mut taken = None;
    for difference in applying(cpu, case) {
        if let Ours::TakesAs(change) = difference.ours {
            change(taken.get_or_insert(*case));
        }
    }
    taken
}

/// Records that the in-tree driver handles a call differently.
pub fn differs(cpu: &Cpu, case: &Case) {
    for difference in applying(cpu, case) {
        if matches!(difference.ours, Ours::TakesAs(_)) {
            difference.seen.store(true, Relaxed);
        }
    }
}

/// Whether rust_pmu refuses a call that the in-tree driver may not.
pub fn is_refused(cpu: &Cpu, case: &Case) -> bool {
    applying(cpu, case).any(|difference| matches!(difference.ours, Ours::Refuses(_)))
}

/// Whether `ours` is the right errno of rust_pmu. `theirs` is the in-tree driver's for
/// the call that [`taken_as`] gives.
pub fn is_right(cpu: &Cpu, case: &Case, ours: i32, theirs: i32) -> bool {
    let mut refused = false;
    let mut right = false;
    for difference in applying(cpu, case) {
        if let Ours::Refuses(errnos) = difference.ours {
            refused = true;
            if errnos.contains(&ours) {
                right = true;
                if ours != theirs {
                    difference.seen.store(true, Relaxed);
                }
            }
        }
    }
    right || ours == theirs && !(refused && theirs == 0)
}

/// The names of the differences that apply to a call.
pub fn names(cpu: &Cpu, case: &Case) -> Vec<&'static str> {
    applying(cpu, case)
        .map(|difference| difference.what)
        .collect()
}

fn applying<'a>(cpu: &'a Cpu, case: &'a Case) -> impl Iterator<Item = &'static Difference> + 'a {
    DIFFERENCES
        .iter()
        .filter(|difference| (difference.on)(cpu) && (difference.of)(cpu, case))
}

/// The differences that apply to this CPU but did not occur in any call.
pub fn stale(cpu: &Cpu) -> Vec<&'static Difference> {
    DIFFERENCES
        .iter()
        .filter(|difference| (difference.on)(cpu) && !difference.seen.load(Relaxed))
        .collect()
}

/// A file in the PMU's directory in sysfs that only one driver has, or that differs.
pub struct FileDifference {
    /// Its name in the table of docs/differences.md.
    pub what: &'static str,
    /// The CPUs that it applies to.
    pub on: fn(&Cpu) -> bool,
    /// The path of the file.
    pub file: &'static str,
    /// The contents with rust_pmu, or `None` if only the in-tree driver has the file.
    pub ours: Option<Text>,
}

/// The contents of a file of rust_pmu.
#[derive(Clone, Copy)]
pub enum Text {
    /// The contents of this file of the in-tree driver.
    Of(&'static str),
    /// This text.
    Is(&'static str),
}

const ALIASES: &str = "`events/cycles`, `events/branches`";
const NO_FIXED_COUNTER: &str = "`events/ref-cycles` without a fixed counter for it";
const SLOTS: &str = "`events/slots` with a fixed counter for it, but without PERF_METRICS";
/// See `compare::sysfs`.
#[cfg(test)]
const CACHE_EVENTS: &str = "`events/NAME`, for each NAME of perf's cache events";
const MEM_EVENTS: &str = "`events/mem-loads`, `events/mem-stores` on hybrid CPUs";
const NO_ANY_THREAD: &str = "`format/any` below version 3";
const BRANCHES: &str =
    "`caps/branches`, `caps/branch_counter_nr`, `caps/branch_counter_width` on version 6";
const HYGON: &str = "`events/cache-*`, `events/stalled-cycles-*` on Hygon's CPUs";

fn in_tree_has_branches() -> bool {
    let pmus = ["cpu", "cpu_core"].map(Pmu::find).into_iter().flatten();
    pmus.map(|pmu| pmu.dir().join("caps/branches"))
        .any(|file| file.exists())
}

/// A file about branch records, which rust_pmu does not have beside the in-tree driver on version 6.
const fn of_branches(file: &'static str) -> FileDifference {
    FileDifference {
        what: BRANCHES,
        on: |cpu| cpu.is_version(6..) && in_tree_has_branches(),
        file,
        ours: None,
    }
}

/// An event that has another code on a Zen 1 than on a K7.
const fn of_zen_1(file: &'static str, terms: &'static str) -> FileDifference {
    FileDifference {
        what: HYGON,
        on: |cpu| cpu.perfmon.vendor == Vendor::Hygon,
        file,
        ours: Some(Text::Is(terms)),
    }
}

pub static FILES: &[FileDifference] = &[
    FileDifference {
        what: ALIASES,
        on: |_| true,
        file: "events/cycles",
        ours: Some(Text::Of("events/cpu-cycles")),
    },
    FileDifference {
        what: ALIASES,
        // ZX-C has no event of branches.
        on: |cpu| (cpu.perfmon.vendor, cpu.perfmon.family) != (Vendor::Zhaoxin, 6),
        file: "events/branches",
        ours: Some(Text::Of("events/branch-instructions")),
    },
    FileDifference {
        what: NO_FIXED_COUNTER,
        on: |cpu| absent(cpu, FIXED_REF_CYCLES),
        file: "events/ref-cycles",
        ours: None,
    },
    FileDifference {
        what: SLOTS,
        on: |cpu| cpu.is_version(5..) && !absent(cpu, FIXED_SLOTS) && metrics_of_model() == 0,
        file: "events/slots",
        ours: Some(Text::Is("event=0x00,umask=0x04\n")),
    },
    FileDifference {
        what: MEM_EVENTS,
        on: |_| core_type().is_some(),
        file: "events/mem-loads",
        ours: None,
    },
    FileDifference {
        what: MEM_EVENTS,
        on: |_| core_type().is_some(),
        file: "events/mem-stores",
        ours: None,
    },
    FileDifference {
        what: NO_ANY_THREAD,
        on: |cpu| cpu.is_version(2..=2) && cpu.perfmon.vendor == Vendor::Intel,
        file: "format/any",
        ours: None,
    },
    of_branches("caps/branches"),
    of_branches("caps/branch_counter_nr"),
    of_branches("caps/branch_counter_width"),
    // PPR family 17H, models 00H to 0FH.
    of_zen_1("events/cache-references", "event=0x60,umask=0xff\n"),
    of_zen_1("events/cache-misses", "event=0x64,umask=0x09\n"),
    of_zen_1("events/stalled-cycles-frontend", "event=0x87,umask=0x02\n"),
    of_zen_1("events/stalled-cycles-backend", "event=0x87,umask=0x01\n"),
];

/// rust_pmu's files for the in-tree driver's, with its events apart from those of another PMU: the
/// files of events begin with `hw-`, and each event without a scale is a bit of `config2` as well.
/// Returns the files without these bits, and the names of the bits.
pub fn apart(files: BTreeMap<String, String>) -> (BTreeMap<String, String>, BTreeSet<String>) {
    let event = |file: &str| file.strip_prefix("events/").map(str::to_owned);
    let is_scaled = |event: &str| files.contains_key(&format!("events/{event}{SCALE}"));
    let bits = files.keys().filter_map(|file| event(file));
    let bits = bits.filter(|event| !event.ends_with(SCALE) && !is_scaled(event));
    let bits = bits.collect();
    let files = files.into_iter().map(|(file, text)| match event(&file) {
        Some(event) => (format!("events/{APART}{event}"), text),
        None => (file, text),
    });
    (files.collect(), bits)
}

/// The end of the name of a file with the scale of an event.
const SCALE: &str = ".scale";

/// The contents of an event's file with rust_pmu, where the in-tree driver's are others.
pub fn terms(cpu: &Cpu, event: &str) -> Option<&'static str> {
    let is_of_event = |file: &str| file.strip_prefix("events/") == Some(event);
    let mut differences = FILES.iter().filter(|difference| (difference.on)(cpu));
    match differences
        .find(|difference| is_of_event(difference.file))?
        .ours?
    {
        Text::Is(terms) => Some(terms),
        Text::Of(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_every_difference() {
        let page = include_str!("../../../../../docs/differences.md");
        let table = page
            .split("\n## ")
            .find(|section| section.starts_with("rust_pmu\n"))
            .unwrap();
        let calls = DIFFERENCES.iter().map(|difference| difference.what);
        let files = FILES.iter().map(|file| file.what);
        // See `apart()`.
        let names = "`events/hw-NAME` and `format/NAME`, for each event NAME";
        for what in calls.chain(files).chain([names, CACHE_EVENTS]) {
            assert!(table.contains(&format!("\n| {what} |")), "{what}");
        }
    }
}
