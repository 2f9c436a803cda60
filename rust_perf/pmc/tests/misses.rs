// SPDX-License-Identifier: GPL-2.0

//! What the PMU model counts for perf's generic events: misses are a part of the references that
//! they belong to. Otherwise `perf stat -d` in a guest would print nonsense.

use crate::common::{
    emulated::{core_types, detected, emulated},
    events::config_of,
};
use pmc::{
    event::{EventSel, Modes},
    CacheEvent::{Config as Plain, Extra, Invalid, Missing},
    Capabilities, EventName,
};
use pmu_model::{msr, Config, Pmu, Retired, Vendor};
use suites::CPUS;

/// `attr.config` and `attr.config1` of references, and of the misses among them.
type Pair = [(u64, u64); 2];

/// All pairs that perf has names for.
fn pairs(caps: &Capabilities) -> Vec<(String, Pair)> {
    let named = |name| config_of(caps, name).map(|config| (config, 0));
    let cache = |id| match caps.cache_event(id) {
        Plain(config) => Some((config, 0)),
        Extra { config, config1 } => Some((config, config1)),
        Missing | Invalid => None,
    };
    let hardware = [
        (EventName::CacheReferences, EventName::CacheMisses),
        (EventName::BranchInstructions, EventName::BranchMisses),
    ];
    let hardware = hardware.map(|(all, misses)| {
        let name = format!("{all:?} and {misses:?}");
        (name, named(all).zip(named(misses)))
    });
    // enum perf_hw_cache_id and perf_hw_cache_op_id; results are 0 and 1.
    let ids = (0..7).flat_map(|cache| (0..3).map(move |operation| (operation << 8) | cache));
    let caches = ids.map(|id| {
        let pair = cache(id).zip(cache(id | (1 << 16)));
        (format!("{id:#06x}"), pair)
    });
    let all = hardware.into_iter().chain(caches);
    all.filter_map(|(name, pair)| Some((name, pair.map(|(all, misses)| [all, misses])?)))
        .collect()
}

/// Counters of Nehalem and Westmere count cycles otherwise, see the model's `selection.rs`.
fn clear_counters(pmu: &mut Pmu, config: Config) {
    const CLEARING: [u64; 4] = [0x43_00b5, 0x43_00d2, 0x43_00b1, 0x43_00b1];
    if config.vendor == Vendor::Intel && config.version == 3 {
        for (i, value) in (0..config.shape.general.into()).zip(CLEARING) {
            pmu.wrmsr(msr::IA32_PERFEVTSEL0 + i, value).unwrap();
        }
        let all = (1 << config.shape.general) - 1;
        pmu.wrmsr(msr::IA32_PERF_GLOBAL_CTRL, all).unwrap();
    }
}

/// What the program counts, `None` if the model cannot count the event, as with a value of a
/// register with a bit that the processor does not have.
fn count(
    config: Config,
    caps: &Capabilities,
    event: (u64, u64),
    program: &[Retired; 2],
) -> Option<u64> {
    let mut pmu = Pmu::new(config).unwrap();
    let eventsel = EventSel::from_config(event.0, caps.config_mask(), Modes::ALL).unwrap();
    if let Some(extra) = caps.extra(eventsel, event.1).ok()? {
        pmu.wrmsr(extra.register.msr().address(), extra.value)
            .ok()?;
    }
    let counters = caps.counters_for(eventsel).gp_part();
    let counter = counters.into_iter().next()?.index() as u32;
    let eventsel = eventsel.with(EventSel::EN, 1).into_raw();
    let (select, value) = match config.vendor {
        vendor if vendor.is_amd() && config.version == 1 => {
            (msr::K7_PERF_CTL0 + counter, msr::K7_PERF_CTR0 + counter)
        }
        vendor if vendor.is_amd() => (msr::PERF_CTL0 + 2 * counter, msr::PERF_CTR0 + 2 * counter),
        _ => (msr::IA32_PERFEVTSEL0 + counter, msr::IA32_PMC0 + counter),
    };
    clear_counters(&mut pmu, config);
    pmu.wrmsr(select, eventsel).unwrap();
    pmu.retire(program);
    Some(pmu.rdmsr(value).unwrap())
}

/// A program of so many instructions: a quarter of them branches, a quarter loads.
fn program(instructions: u64) -> [Retired; 2] {
    let user = Retired {
        instructions,
        branches: instructions / 4,
        conditional: instructions / 8,
        conditional_taken: instructions / 16,
        near_unconditional: instructions / 16,
        loads: instructions / 4,
        stores: instructions / 8,
    };
    [user, Retired::default()]
}

/// An event that the model does not have counts nothing. Of a pair it has both or neither.
#[test]
fn misses_are_a_part_of_the_references() {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for suite in CPUS {
        for core_type in core_types(suite) {
            let known = emulated(suite, core_type).zip(detected(suite, core_type));
            let Some((config, caps)) = known else {
                continue;
            };
            for (name, [all, misses]) in pairs(&caps) {
                for instructions in [1 << 14, 1_000_000, 1 << 30] {
                    let count = |event| count(config, &caps, event, &program(instructions));
                    let Some((all, misses)) = count(all).zip(count(misses)) else {
                        continue;
                    };
                    compared += usize::from(all > 0);
                    if misses >= all && all + misses > 0 {
                        wrong.push((suite.name, core_type, name.clone(), all, misses));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
    assert!(compared > 2_000, "{compared}");
}
