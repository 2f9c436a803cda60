// SPDX-License-Identifier: GPL-2.0

//! Samples and counts, for every generation.

use crate::common::{amd, config, count_instructions, generations, instructions, Driven};
use pmc::{
    counter::{Counter, CounterSet},
    period, Registers,
};
use pmu_model::{Config, Mode};
use proptest::prelude::*;

/// Samples `total` instructions at `period` as the module's PMI handler does,
/// and returns after how many instructions each sample was.
fn sample(driven: &Driven, counter: Counter, period: u64, total: u64) -> Vec<u64> {
    let width = driven.caps.width(counter);
    let max = driven.caps.max_period();
    let set = CounterSet::of(counter);
    let mut samples = Vec::new();
    let mut left = 0;
    let mut done = 0;

    let arm = |left: &mut i64| {
        let step = period::rearm(*left, period, max);
        *left = step.period_left;
        let value = period::start_value(step.until_wrap, width);
        driven.program(counter, instructions(), value);
        driven.run(set);
        (value, step.period_ended)
    };
    let (mut previous, _) = arm(&mut left);
    while done < total {
        let budget = driven.cpu.pmu.borrow().budget(Mode::User)[0];
        let step = budget.min(total - done);
        driven.cpu.run(step);
        done += step;
        if driven.cpu.pmu.borrow_mut().take_pmi() {
            driven.run(CounterSet::EMPTY);
            assert_eq!(driven.take_overflows(set), set);
            let now = driven.read(counter);
            left -= period::delta(previous, now, width) as i64;
            let (value, elapsed) = arm(&mut left);
            previous = value;
            if elapsed {
                samples.push(done);
            }
        }
    }
    samples
}

/// What user mode could read of others is cleared, once.
#[test]
fn counters_left_behind_hold_nothing() {
    let cases = [
        config(1, 4, 0, 48),
        config(5, 4, 3, 48),
        amd(1, 4),
        amd(3, 6),
    ];
    for config in cases {
        let driven = Driven::new(config);
        let Driven { cpu, caps, .. } = &driven;
        for counter in caps.counters {
            sample(&driven, counter, 1000, 3500);
            driven.run(CounterSet::EMPTY);
        }
        let value = |counter: Counter| cpu.rdpmc(counter.rdpmc());
        assert!(caps.counters.into_iter().all(|counter| value(counter) != 0));

        let mut general = caps.counters.gp_part().into_iter();
        let one = CounterSet::of(general.next().unwrap());
        driven.counters().clear(one);
        for counter in caps.counters {
            assert_eq!(value(counter) == 0, one.contains(counter));
        }
        let again = cpu.cost(|| driven.counters().clear(one));
        assert_eq!(again, (0, 0), "nothing is written twice");

        driven.counters().give_back();
        assert!(caps.counters.into_iter().all(|counter| value(counter) == 0));
    }
}

/// On newer counters than the driver is told of, the global control lets all
/// count, and what it was comes back.
#[test]
fn newer_counters_work_as_older_ones() {
    let cases = [
        (config(5, 4, 3, 48), 1, 0x38f, 0x38e),
        (config(2, 1, 0, 32), 1, 0x38f, 0x38e),
        (amd(3, 8), 2, 0xc000_0301, 0xc000_0300),
        (amd(3, 2), 1, 0xc000_0301, 0xc000_0300),
    ];
    for (config, generation, global_ctrl, global_status) in cases {
        let driven = Driven::new_as(config, generation);
        let read = |msr| driven.cpu.pmu.borrow().rdmsr(msr).unwrap();
        let counters = driven.caps.counters;
        assert_eq!(read(global_ctrl), counters.bits());
        for counter in counters {
            assert_eq!(sample(&driven, counter, 1000, 3500), [1000, 2000, 3000]);
            driven.run(CounterSet::EMPTY);
        }
        assert_eq!(read(global_status), counters.bits());

        driven.counters().give_back();
        assert!(!driven.cpu.pmu.borrow().counting());
        assert_eq!(read(global_status), 0);
        // As after a reset: the general counters.
        assert_eq!(read(global_ctrl), (1 << config.shape.general) - 1);
    }
    // The counters themselves are not new there.
    let driven = Driven::new_as(amd(2, 6), 1);
    let third = Counter::gp(3).unwrap();
    assert_eq!(sample(&driven, third, 7, 20), [7, 14]);
}

#[test]
fn a_period_longer_than_the_counter_ends_where_it_should() {
    for (version, fixed, width) in [(1, 0, 32), (2, 1, 32), (3, 1, 40), (5, 1, 48)] {
        let driven = Driven::new(config(version, 2, fixed, width));
        let period = (1 << 47) + 12345;
        let general = Counter::gp(1);
        let fixed = Counter::fixed(0).filter(|_| fixed > 0);
        for counter in general.into_iter().chain(fixed) {
            assert_eq!(
                sample(&driven, counter, period, 2 * period + 1),
                [period, 2 * period]
            );
            driven.run(CounterSet::EMPTY);
        }
    }
}

/// Every generation with the fewest and the most counters, and newer ones that
/// are taken for older.
fn everything() -> impl Strategy<Value = (Config, Option<u8>)> {
    let mut all: Vec<_> = generations().into_iter().map(|c| (c, None)).collect();
    for (config, generation) in [
        (config(5, 8, 4, 48), 1),
        (config(5, 8, 4, 40), 4),
        (config(3, 2, 3, 32), 1),
        (amd(3, 8), 2),
        (amd(3, 8), 1),
        (amd(2, 6), 1),
    ] {
        all.push((config, Some(generation)));
    }
    prop::sample::select(all)
}

fn drive((config, generation): (Config, Option<u8>)) -> Driven {
    match generation {
        None => Driven::new(config),
        Some(generation) => Driven::new_as(config, generation),
    }
}

proptest! {
    #[test]
    fn a_sample_is_taken_after_each_period(
        hardware in everything(), which: prop::sample::Index, period in 1u64..5000, total in 0u64..50_000,
    ) {
        let driven = drive(hardware);
        let counters: Vec<_> = count_instructions(&driven).into_iter().collect();
        let expected: Vec<_> = (1..=total / period).map(|n| n * period).collect();
        prop_assert_eq!(sample(&driven, *which.get(&counters), period, total), expected);
    }

    /// A sample is taken after each period on counters of all widths.
    #[test]
    fn the_width_makes_no_difference(
        version in 1u8..=5, width in 32u8..=48, fixed: bool, period in 1u64..1 << 50, periods in 1u64..4,
    ) {
        let fixed = fixed && version > 1;
        let driven = Driven::new(config(version, 1, fixed.into(), width));
        let counter = if fixed { Counter::fixed(0) } else { Counter::gp(0) }.unwrap();
        // Bounds the number of rounds that the counter takes.
        let period = period.min(9 * driven.caps.max_period());
        let expected: Vec<_> = (1..=periods).map(|n| n * period).collect();
        prop_assert_eq!(sample(&driven, counter, period, periods * period), expected);
    }

    /// Whatever is programmed, run and stopped, each counter counts just what
    /// retires while it runs.
    #[test]
    fn counters_count_while_they_run(
        hardware in everything(),
        steps in prop::collection::vec((any::<u64>(), any::<u64>(), 0u64..100_000), 1..30),
    ) {
        let driven = drive(hardware);
        let all = count_instructions(&driven);
        let mut running = CounterSet::EMPTY;
        let mut expected: Vec<Option<u64>> = vec![None; 48];
        for (reprogram, run, retire) in steps {
            for counter in CounterSet::from_bits(reprogram) & all & !running {
                let value = reprogram & period::mask(31);
                driven.program(counter, instructions(), value);
                expected[counter.index()] = Some(value);
            }
            running = all
                .into_iter()
                .filter(|counter| expected[counter.index()].is_some())
                .collect::<CounterSet>()
                & CounterSet::from_bits(run);
            driven.run(running);
            driven.cpu.run(retire);
            for counter in all {
                if let Some(expected) = expected[counter.index()].as_mut() {
                    if running.contains(counter) {
                        *expected = (*expected + retire) & period::mask(driven.caps.width(counter));
                    }
                    prop_assert_eq!(driven.read(counter), *expected);
                }
            }
        }
    }

    /// Several counters that overflow at once are all found, once, and no
    /// other is.
    #[test]
    fn overflows_are_found_on_all_counters(
        hardware in everything(),
        steps in prop::collection::vec((any::<u64>(), 1u64..1000, 0u64..2000), 1..20),
    ) {
        let driven = drive(hardware);
        let all = count_instructions(&driven);
        for (bits, distance, retire) in steps {
            let active = all & CounterSet::from_bits(bits);
            // Each counter has a distance of its own.
            let distances = |counter: Counter| distance + counter.index() as u64;
            for counter in active {
                let width = driven.caps.width(counter);
                let value = period::start_value(distances(counter), width);
                driven.program(counter, instructions(), value);
            }
            driven.run(active);
            driven.cpu.run(retire);
            driven.run(CounterSet::EMPTY);
            let due: CounterSet = active
                .into_iter()
                .filter(|&counter| distances(counter) <= retire)
                .collect();
            prop_assert_eq!(driven.take_overflows(active), due);
        }
        driven.counters().give_back();
        prop_assert!(!driven.cpu.pmu.borrow().counting());
    }

    /// While no counter is running no status bit can appear, whatever retires. The
    /// PMI handler depends on it: it reads the status once.
    #[test]
    fn no_status_bit_appears_while_the_counters_are_stopped(
        hardware in everything(), until_wrap in 1u64..50, retire in 0u64..100, more in 0u64..100,
    ) {
        let driven = drive(hardware);
        let all = count_instructions(&driven);
        for counter in all {
            let width = driven.caps.width(counter);
            driven.program(counter, instructions(), period::start_value(until_wrap, width));
        }
        driven.run(all);
        driven.cpu.run(retire);
        driven.run(CounterSet::EMPTY);
        let first = driven.take_overflows(all);
        prop_assert_eq!(first == all, retire >= until_wrap);
        // With global status a second look finds nothing new.
        if driven.caps.generation.name.contains("v2") || driven.caps.generation.name.contains("V2") {
            driven.cpu.run(more);
            prop_assert!(driven.take_overflows(all).is_empty());
        }
    }
}
