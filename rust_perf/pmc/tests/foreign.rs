// SPDX-License-Identifier: GPL-2.0

//! Registers that start with garbage, and registers that someone else writes while the counters
//! count.

use crate::common::{
    amd, amd_family, config, count_instructions, generations, instructions, intel_model, Cpu,
    Driven,
};
use pmc::{
    counter::{Counter, CounterSet},
    event::{EventSel, Modes},
    period, Capabilities,
};
use pmu_model::{Config, Defect, Foreign};
use std::num::NonZeroU64;

const DEBUGCTL: u32 = 0x1d9;
const FREEZE_PERFMON_ON_PMI: u64 = 1 << 12;
const GLOBAL_STATUS: u32 = 0x38e;

fn garbage(config: Config, seed: u64) -> Cpu {
    Cpu::with_defect(config, Defect::Garbage(NonZeroU64::new(seed).unwrap()))
}

/// Every generation, and processors with extra registers, PERF_METRICS and pairs.
fn configs() -> Vec<Config> {
    let mut configs = generations();
    configs.push(amd_family(0x19, 3, 6));
    configs.extend([0x55, GOLDEN_COVE].map(intel_model));
    configs
}

/// It has PERF_METRICS.
const GOLDEN_COVE: u8 = 0x8f;

/// Where the shadow says nothing about the registers, nothing that is in them matters.
#[test]
fn counts_are_right_after_garbage() {
    let mut counting = 0;
    for config in configs() {
        for seed in 1..40 {
            let cpu = garbage(config, seed);
            let caps = cpu.detect().unwrap();
            counting += u32::from(caps.is_counting(&cpu));
            let driven = Driven::take_over(cpu, caps);
            assert!(!driven.caps.is_counting(&driven.cpu));
            assert!(!driven.cpu.pmu.borrow().counting());
            let what = format!("{config:?} {seed}");
            let usable = count_instructions(&driven);
            let start =
                |counter| period::start_value(driven.caps.max_period(), driven.caps.width(counter));
            assert!(driven.take_overflows(CounterSet::EMPTY).is_empty());
            for counter in usable {
                driven.program(counter, instructions(), start(counter));
            }
            driven.run(usable);
            driven.cpu.run(12_345);
            assert!(driven.counters().are_as_written(usable), "{what}");
            driven.run(CounterSet::EMPTY);
            for counter in usable {
                assert_eq!(driven.read(counter), start(counter) + 12_345, "{what}");
            }
            driven.counters().give_back();
            assert!(!driven.cpu.pmu.borrow().counting());
        }
    }
    assert!(counting > 100, "{counting}");
}

/// A previous user had PMIs freeze the counters, and the counters may be frozen already.
#[test]
fn counters_that_a_pmi_freezes_count_on() {
    for version in 2..=6 {
        let cpu = Cpu::new(config(version, 4, 3, 48));
        {
            let mut pmu = cpu.pmu.borrow_mut();
            pmu.wrmsr(DEBUGCTL, FREEZE_PERFMON_ON_PMI).unwrap();
            pmu.wrmsr(0x186, 0x53_00c0).unwrap();
            pmu.wrmsr(0xc1, u32::MAX.into()).unwrap();
            pmu.wrmsr(0x38f, 1).unwrap();
        }
        cpu.run(1);
        let frozen = cpu.pmu.borrow().rdmsr(GLOBAL_STATUS).unwrap() & (1 << 59) != 0;
        assert_eq!(frozen, version >= 4);
        assert!(cpu.pmu.borrow_mut().take_pmi());

        let caps = cpu.detect().unwrap();
        let driven = Driven::take_over(cpu, caps);
        let [sampled, counted] = [0, 1].map(|i| Counter::gp(i).unwrap());
        let both = CounterSet::of(sampled) | CounterSet::of(counted);
        let start = period::start_value(100, 48);
        driven.program(sampled, instructions(), start);
        driven.program(counted, instructions(), 1_000 << 24);
        for pmi in 1..=3 {
            driven.run(both);
            driven.cpu.run(100);
            assert!(
                driven.cpu.pmu.borrow_mut().take_pmi(),
                "version {version}, PMI {pmi}"
            );
            driven.run(CounterSet::EMPTY);
            assert_eq!(driven.take_overflows(both), CounterSet::of(sampled));
            assert_eq!(driven.read(counted), (1_000 << 24) + 100 * pmi);
            driven.program(sampled, instructions(), start);
        }
    }
}

/// A CPU of which a register changes after 5,000 instructions, with a counter that counts from
/// 2^47 + 1 on.
fn foreign(config: Config, what: Foreign, counter: Counter) -> Driven {
    let defect = Defect::Foreign {
        what,
        every: NonZeroU64::new(5_000).unwrap(),
        seed: 11,
    };
    let cpu = Cpu::with_defect(config, defect);
    let caps: Capabilities = cpu.detect().unwrap();
    let driven = Driven::take_over(cpu, caps);
    let start = period::start_value(driven.caps.max_period(), driven.caps.width(counter));
    driven.program(counter, instructions(), start);
    driven
}

/// What is found, and what it costs to look. Nothing is read where nobody looks.
#[test]
fn what_others_have_written_is_found() {
    let general = Counter::gp(0).unwrap();
    let fixed = Counter::fixed(0).unwrap();
    use Foreign::{Counter as Value, EventSel as Select, FixedCtrCtrl, GlobalCtrl, Zero};
    let intel = config(4, 4, 3, 48);
    let v2 = amd(3, 6);
    for (config, what, counter, reads) in [
        // GLOBAL_CTRL, EVENTSEL; of a counter that has not wrapped GLOBAL_STATUS is not read.
        (intel, Select, general, 2),
        (intel, FixedCtrCtrl, fixed, 2),
        (intel, Value, general, 2),
        (intel, Value, fixed, 2),
        (intel, GlobalCtrl, general, 2),
        (intel, Zero, fixed, 2),
        (intel_model(GOLDEN_COVE), Value, general, 2),
        (v2, Select, general, 2),
        (v2, Value, general, 2),
        (v2, GlobalCtrl, general, 2),
        (v2, Zero, general, 2),
        (config(1, 4, 0, 48), Select, general, 1),
        (config(1, 4, 0, 48), Zero, general, 1),
        (amd(1, 4), Select, general, 1),
        (amd(2, 6), Select, general, 1),
        (amd(2, 6), Zero, general, 1),
    ] {
        let driven = foreign(config, what, counter);
        let set = CounterSet::of(counter);
        let start = driven.counters().known(counter).unwrap();
        driven.run(set);
        driven.cpu.run(4_999);
        let cost = driven.cpu.cost(|| {
            assert!(driven.counters().are_as_written(set), "{config:?} {what:?}");
        });
        assert_eq!(cost, (reads, 0), "{config:?} {what:?}");
        assert_eq!(driven.read(counter), start + 4_999);
        driven.cpu.run(1);
        assert!(
            !driven.counters().are_as_written(set),
            "{config:?} {what:?}"
        );
        // The next event that is programmed after the counters were left to others counts right.
        driven.run(CounterSet::EMPTY);
        driven.counters().forget();
        driven.program(counter, instructions(), start + 7);
        driven.run(set);
        driven.cpu.run(4_000);
        driven.run(CounterSet::EMPTY);
        assert_eq!(driven.read(counter), start + 4_007, "{config:?} {what:?}");
    }
}

/// GLOBAL_CTRL alone, and bits of EVENTSEL that matter or do not.
#[test]
fn single_bits_that_others_have_written() {
    const EVENTSEL0: u32 = 0x186;
    const GLOBAL_CTRL: u32 = 0x38f;
    let driven = Driven::new(config(4, 4, 3, 48));
    let counter = Counter::gp(0).unwrap();
    let set = CounterSet::of(counter);
    let start = period::start_value(driven.caps.max_period(), 48);
    driven.program(counter, instructions(), start);
    driven.run(set);
    let as_written = || driven.counters().are_as_written(set);
    let change = |msr, bits| {
        let mut pmu = driven.cpu.pmu.borrow_mut();
        let value = pmu.rdmsr(msr).unwrap();
        pmu.wrmsr(msr, value ^ bits).unwrap();
    };
    for (msr, bits, expected) in [
        (GLOBAL_CTRL, 0b0001, false),
        // Another counter, which is not ours.
        (GLOBAL_CTRL, 0b0010, true),
        (EVENTSEL0, EventSel::PC.mask(), true),
        (EVENTSEL0, EventSel::ANY.mask(), true),
        (EVENTSEL0, EventSel::EN.mask(), false),
        (EVENTSEL0, EventSel::INT.mask(), false),
        (EVENTSEL0, EventSel::USR.mask(), false),
        (EVENTSEL0, 1 << 24, false),
        (EVENTSEL0, 1, false),
    ] {
        assert!(as_written());
        change(msr, bits);
        assert_eq!(as_written(), expected, "{msr:#x} {bits:#x}");
        change(msr, bits);
    }
}

/// With metrics, slots are counted from 0, which is no foreign write.
#[test]
fn slots_start_from_0() {
    let slots = EventSel::from_config(0x0400, EventSel::INTEL, Modes::ALL).unwrap();
    for (config, expected) in [
        (intel_model(GOLDEN_COVE), true),
        (config(5, 8, 4, 48), false),
    ] {
        let driven = Driven::new(config);
        assert_eq!(driven.caps.metrics.is_empty(), !expected);
        driven.program(Counter::SLOTS, slots, 0);
        let set = CounterSet::of(Counter::SLOTS);
        driven.run(set);
        driven.cpu.run(10);
        assert_eq!(driven.counters().are_as_written(set), expected);
    }
}

/// Without GLOBAL_STATUS a counter that was set to 0 looks like one whose PMI was lost.
#[test]
fn a_counter_that_was_set_is_not_found_without_status() {
    let counter = Counter::gp(0).unwrap();
    let set = CounterSet::of(counter);
    for config in [config(1, 4, 0, 48), amd(1, 4), amd(2, 6)] {
        let driven = foreign(config, Foreign::Counter, counter);
        driven.run(set);
        driven.cpu.run(5_000);
        assert_eq!(driven.read(counter), 0);
        assert!(driven.counters().are_as_written(set));
    }
}

/// A counter that has overflowed is no foreign write, whether its PMI comes or not.
#[test]
fn an_overflow_is_no_foreign_write() {
    for config in configs() {
        let driven = Driven::new(config);
        for counter in count_instructions(&driven) {
            let set = CounterSet::of(counter);
            let start = period::start_value(100, driven.caps.width(counter));
            driven.program(counter, instructions(), start);
            driven.run(set);
            driven.cpu.run(150);
            assert!(driven.counters().are_as_written(set), "{config:?}");
            driven.run(CounterSet::EMPTY);
            driven.take_overflows(set);
        }
    }
}
