// SPDX-License-Identifier: GPL-2.0

//! What is written to the registers, and how many accesses that takes.

use crate::common::{config, count_instructions, generations, instructions, Cpu, Driven};
use pmc::{
    counter::{Counter, CounterSet},
    detect,
    event::{EventSel, Modes},
    period, CpuidLeaf,
};

#[test]
fn what_cpuid_says_is_found() {
    for version in 1..=5 {
        for (general, fixed, width) in [(1, 0, 32), (4, 3, 40), (8, 4, 48)] {
            let fixed = match version {
                1 => 0,
                5 => fixed,
                _ => fixed.min(3),
            };
            let cpu = Cpu::new(config(version, general, fixed, width));
            let caps = cpu.detect().unwrap();
            assert_eq!(
                caps.counters,
                CounterSet::first_gp(general) | CounterSet::fixed((1 << fixed) - 1)
            );
            assert_eq!(caps.gp_width, width);
            let v1 = caps.generation.name.ends_with("v1");
            assert_eq!(v1, version == 1);
        }
    }
}

#[test]
fn a_cpu_without_counters_is_refused() {
    assert!(detect(|_, _| CpuidLeaf::default(), None).is_none());
}

#[test]
fn accesses_are_only_made_where_something_changes() {
    let driven = Driven::new(config(4, 4, 3, 48));
    let general = Counter::gp(0).unwrap();
    let fixed = Counter::fixed(0).unwrap();
    let both = CounterSet::of(general) | CounterSet::of(fixed);
    let start = |counter| driven.program(counter, instructions(), 1000);
    let cost = |f: &dyn Fn()| driven.cpu.cost(f);

    // What each counter counts, and from where on.
    assert_eq!(cost(&|| start(general)), (0, 2));
    assert_eq!(cost(&|| start(fixed)), (0, 2));
    // Both as they are already.
    assert_eq!(cost(&|| start(general)), (0, 0));
    assert_eq!(cost(&|| start(fixed)), (0, 0));
    // However many counters there are, one write starts or stops them.
    assert_eq!(cost(&|| driven.run(both)), (0, 1));
    assert_eq!(cost(&|| driven.run(both)), (0, 0));
    driven.cpu.run(5);
    assert_eq!(cost(&|| driven.run(CounterSet::EMPTY)), (0, 1));
    // To go on from where a counter stopped takes nothing but reading it.
    let now = driven.read(general);
    assert_eq!(now, 1005);
    assert_eq!(
        cost(&|| driven.program(general, instructions(), now)),
        (0, 0)
    );
    // Another value is one write, another event one more.
    assert_eq!(cost(&|| start(general)), (0, 1));
    let cycles = EventSel::from_config(0x3c, EventSel::INTEL, Modes::ALL).unwrap();
    assert_eq!(cost(&|| driven.program(general, cycles, 7)), (0, 2));
    // Asking for overflows is a read where there are none, and a write where there are.
    let overflows = || {
        driven.take_overflows(CounterSet::of(general));
    };
    assert_eq!(cost(&overflows), (1, 0));
    driven.program(general, instructions(), period::start_value(3, 48));
    driven.run(CounterSet::of(general));
    driven.cpu.run(3);
    driven.run(CounterSet::EMPTY);
    assert_eq!(cost(&overflows), (1, 1));
}

#[test]
fn a_counter_that_is_deprogrammed_counts_nothing() {
    let driven = Driven::new(config(4, 4, 3, 48));
    let counter = Counter::gp(0).unwrap();
    driven.program(counter, instructions(), 1000);
    driven.counters().deprogram(counter);
    driven.run(CounterSet::of(counter));
    driven.cpu.run(5);
    assert_eq!(driven.read(counter), 1000);
    // The event is programmed again, although it was the last one.
    driven.run(CounterSet::EMPTY);
    driven.program(counter, instructions(), 1000);
    driven.run(CounterSet::of(counter));
    driven.cpu.run(5);
    assert_eq!(driven.read(counter), 1005);
}

#[test]
fn without_global_control_each_counter_is_switched() {
    let driven = Driven::new(config(1, 4, 0, 48));
    let [first, second] = [0, 1].map(|i| Counter::gp(i).unwrap());
    let both = CounterSet::of(first) | CounterSet::of(second);
    let cost = |f: &dyn Fn()| driven.cpu.cost(f);

    driven.program(first, instructions(), period::start_value(10, 48));
    driven.program(second, instructions(), period::start_value(20, 48));
    assert_eq!(cost(&|| driven.run(both)), (0, 2));
    driven.cpu.run(10);
    assert_eq!(cost(&|| driven.run(CounterSet::EMPTY)), (0, 2));
    // Which has overflowed its value says.
    assert_eq!(driven.take_overflows(both), CounterSet::of(first));
    assert_eq!(cost(&|| driven.run(CounterSet::of(second))), (0, 1));
}

/// Whether it is read or written meanwhile.
#[test]
fn what_a_running_counter_holds_is_not_known() {
    for config in [config(1, 4, 0, 48), config(4, 4, 3, 48)] {
        let driven = Driven::new(config);
        let counter = Counter::gp(0).unwrap();
        let known = || driven.counters().known(counter);
        driven.program(counter, instructions(), 1000);
        assert_eq!((driven.shadow.is_stopped(), known()), (true, Some(1000)));
        driven.run(CounterSet::of(counter));
        assert_eq!((driven.shadow.is_stopped(), known()), (false, None));
        driven.cpu.run(5);
        assert_eq!((driven.read(counter), known()), (1005, None));
        driven.counters().set(counter, 7);
        assert_eq!(known(), None);
        driven.cpu.run(2);
        driven.run(CounterSet::EMPTY);
        assert_eq!((driven.shadow.is_stopped(), known()), (true, None));
        assert_eq!((driven.read(counter), known()), (9, Some(9)));
    }
}

#[test]
fn one_of_two_counters_is_stopped() {
    for config in [config(1, 4, 0, 48), config(4, 4, 3, 48)] {
        let driven = Driven::new(config);
        let [first, second] = [0, 1].map(|i| Counter::gp(i).unwrap());
        let [first_alone, second_alone] = [first, second].map(CounterSet::of);
        let both = first_alone | second_alone;
        let pause = |counter, active| {
            let cost = driven.cpu.cost(|| driven.counters().pause(counter, active));
            cost != (0, 0)
        };
        driven.program(first, instructions(), 1000);
        driven.program(second, instructions(), 1000);
        driven.run(both);
        driven.cpu.run(5);
        let stop = || driven.counters().pause(first, CounterSet::EMPTY);
        assert_eq!(driven.cpu.cost(stop), (0, 1));
        driven.cpu.run(7);
        assert_eq!(driven.counters().known(first), None);
        assert_eq!(driven.counters().read_stopped(first), 1005);
        assert_eq!(driven.counters().known(first), Some(1005));
        assert_eq!(driven.read(second), 1012);
        assert!(!pause(first, both), "it is stopped");

        // What runs is not known now.
        driven.counters().forget_running();
        assert!(!pause(second, first_alone));
        driven.cpu.run(3);
        assert!(pause(second, second_alone));
        driven.cpu.run(3);
        assert_eq!(driven.read(first), 1005);
        assert_eq!(driven.read(second), 1015);
    }
}

/// However late it is looked at, up to half the range of the counter; and not
/// before it has wrapped, however far away it started.
#[test]
fn without_status_the_value_tells_of_an_overflow() {
    for width in [32, 48] {
        let driven = Driven::new(config(1, 1, 0, width));
        let counter = Counter::gp(0).unwrap();
        let set = CounterSet::of(counter);
        let half = period::max_period(width);
        let far = driven.caps.max_period();
        for (distance, count, wraps) in [
            (10, 9, false),
            (10, 10, true),
            (10, 10 + half, true),
            (far, 0, false),
            (far, far - 1, false),
            (far, far, true),
        ] {
            driven.program(
                counter,
                instructions(),
                period::start_value(distance, width),
            );
            driven.run(set);
            driven.cpu.run(count);
            driven.run(CounterSet::EMPTY);
            assert_eq!(
                !driven.take_overflows(set).is_empty(),
                wraps,
                "{distance} {count} {width}"
            );
        }
    }
}

#[test]
fn counters_are_left_as_they_were_found() {
    let driven = Driven::new(config(4, 4, 3, 48));
    let global = driven.cpu.pmu.borrow().rdmsr(0x38f).unwrap();
    assert_eq!(global, 0);
    for counter in driven.caps.counters {
        driven.program(counter, instructions(), 1);
    }
    driven.run(driven.caps.counters);
    driven.counters().give_back();

    let pmu = driven.cpu.pmu.borrow();
    for i in 0..4 {
        assert_eq!(pmu.rdmsr(0x186 + i), Ok(0));
    }
    assert_eq!(pmu.rdmsr(0x38d), Ok(0));
    // The reset value of GLOBAL_CTRL, which was found: the general counters.
    assert_eq!(pmu.rdmsr(0x38f), Ok(0xf));
    assert!(!pmu.counting());
}

#[test]
fn overflows_from_before_are_not_ours() {
    let cpu = Cpu::new(config(4, 4, 3, 48));
    cpu.pmu.borrow_mut().inject_status(0x7_0000_000f);
    let caps = cpu.detect().unwrap();
    let driven = Driven::take_over(cpu, caps);
    assert!(driven.take_overflows(caps.counters).is_empty());
}

/// Stopping all counters does what running none does, also if it is not known what runs.
#[test]
fn stopping_all_is_running_none() {
    for config in generations() {
        for is_known in [true, false] {
            let stopped = |stop: &dyn Fn(&Driven)| {
                let driven = Driven::new(config);
                let counters = driven.counters();
                let mut run = count_instructions(&driven);
                for counter in run {
                    driven.program(counter, instructions(), 1000);
                }
                // One is programmed, but does not run.
                let idle = run.into_iter().last().unwrap();
                run = run.without(CounterSet::of(idle));
                driven.run(run);
                driven.cpu.run(7);
                if !is_known {
                    counters.forget_running();
                }
                // What is learnt while it is not known what runs does not hold for long.
                assert_eq!(counters.read_stopped(idle), 1000);
                let cost = driven.cpu.cost(|| stop(&driven));
                assert_eq!(counters.known(idle).is_some(), is_known);
                assert!(run.into_iter().all(|it| counters.known(it).is_none()));
                // Nothing more is to be done, and nothing counts any more.
                assert_eq!(driven.cpu.cost(|| stop(&driven)), (0, 0));
                driven.cpu.run(5);
                assert!(run.into_iter().all(|it| driven.read(it) == 1007));
                cost
            };
            let expected = stopped(&|driven| driven.run(CounterSet::EMPTY));
            assert_eq!(stopped(&|driven| driven.counters().stop()), expected);
            // Where there is one counter, nothing runs.
            let has_one = config.shape.general == 1 && config.shape.fixed == 0;
            assert_eq!(expected == (0, 0), has_one && is_known);
        }
    }
}

/// A counter that holds the value already is only written if that is not known any more.
#[test]
fn what_a_counter_holds_is_not_written_again() {
    for config in generations() {
        let driven = Driven::new(config);
        let counters = driven.counters();
        let counter = count_instructions(&driven).into_iter().next().unwrap();
        let until_wrap = 1 << 30;
        let start = period::start_value(until_wrap, driven.caps.width(counter));
        driven.program(counter, instructions(), start);
        let again = || counters.program_held(counter, instructions(), false, until_wrap);
        assert_eq!(driven.cpu.cost(again), (0, 0));
        counters.forget_running();
        assert_eq!(driven.cpu.cost(again).1, 1);
        driven.run(CounterSet::of(counter));
        driven.cpu.run(7);
        driven.counters().stop();
        assert_eq!(driven.read(counter), start + 7);
    }
}
