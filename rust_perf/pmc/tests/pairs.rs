// SPDX-License-Identifier: GPL-2.0

//! Events that take a pair of counters.

use crate::common::{amd_family, events::amd_event, instructions, Cpu, Driven};
use pmc::{
    assign::Assignment,
    counter::{Counter, CounterSet},
    event::{EventSel, Modes},
    period, Counters, Msr, Registers, Shadow,
};
use pmu_model::{Config, Mode, Retired};
use proptest::prelude::*;

/// PERF_CTL0 and PERF_CTR0. The registers of the next counter follow.
const PERF_CTL: u32 = 0xc001_0200;
const PERF_CTR: u32 = 0xc001_0201;

/// FLOPs with all bits of the unit mask, of which the model has 7 for each in an instruction.
const PER_INSTRUCTION: u64 = 56;

fn flops() -> EventSel {
    EventSel::from_config(amd_event(0x003, 0xff), EventSel::AMD, Modes::ALL).unwrap()
}

fn gp(i: u8) -> Counter {
    Counter::gp(i).unwrap()
}

/// Zen with each generation, and with newer ones that are driven as older.
fn machines() -> Vec<(Config, Option<u8>)> {
    vec![
        (amd_family(0x17, 2, 6), None),
        (amd_family(0x1a, 3, 6), None),
        (amd_family(0x1a, 3, 15), None),
        (amd_family(0x17, 2, 6), Some(1)),
        (amd_family(0x1a, 3, 6), Some(1)),
        (amd_family(0x1a, 3, 6), Some(2)),
    ]
}

fn driven((config, generation): (Config, Option<u8>)) -> Driven {
    match generation {
        None => Driven::new(config),
        Some(generation) => Driven::new_as(config, generation),
    }
}

fn value(driven: &Driven, counter: u8) -> u64 {
    driven.cpu.rdpmc(gp(counter).rdpmc())
}

#[test]
fn every_pair_counts_all() {
    for machine in machines() {
        let driven = driven(machine);
        let firsts = driven.caps.counters_for(flops());
        assert_eq!(firsts.len(), driven.caps.counters.len() / 2);
        for first in firsts {
            driven.program(first, flops(), 5);
        }
        driven.run(firsts);
        driven.cpu.run(1000);
        driven.run(CounterSet::EMPTY);
        driven.cpu.run(1000);
        for first in firsts {
            let now = driven.read(first);
            assert_eq!(period::delta(5, now, 48), 1000 * PER_INSTRUCTION);
        }
    }
}

/// As the PMI handler does. A sample is due at the end of the instruction in which its period
/// ends.
#[test]
fn samples_are_where_they_should_be() {
    for machine in machines() {
        for period in [57, 560, 12_345, (1 << 47) + 7] {
            let driven = driven(machine);
            let first = gp(2);
            let set = CounterSet::of(first);
            let (mut left, mut done) = (period as i64, 0);
            let mut samples = Vec::new();
            while samples.len() < 5 {
                let step = period::rearm(left, period, driven.caps.max_period());
                if step.period_ended {
                    samples.push(done);
                }
                let start = period::start_value(step.until_wrap, 48);
                driven.program(first, flops(), start);
                driven.run(set);
                while !driven.cpu.pmu.borrow_mut().take_pmi() {
                    let [budget, _] = driven.cpu.pmu.borrow().budget(Mode::User);
                    driven.cpu.run(budget);
                    done += budget;
                }
                driven.run(CounterSet::EMPTY);
                assert_eq!(driven.take_overflows(set), set);
                let counted = period::delta(start, driven.read(first), 48);
                left = step.period_left - counted as i64;
            }
            let due = (1..=5).map(|k| (k * period).div_ceil(PER_INSTRUCTION));
            assert_eq!(samples, due.collect::<Vec<_>>(), "{period}");
        }
    }
}

#[test]
fn accesses_are_only_made_where_something_changes() {
    // Without global control an EVENTSEL is written when its counter is run, not before.
    for (config, select, start, stop) in [
        (amd_family(0x17, 2, 6), 0, 2, 2),
        (amd_family(0x1a, 3, 6), 1, 1, 1),
    ] {
        let driven = Driven::new(config);
        let first = CounterSet::of(gp(0));
        let cost = |f: &dyn Fn()| driven.cpu.cost(f);
        let program = |event| cost(&|| driven.program(gp(0), event, 1));
        // Value and EVENTSEL of both counters.
        assert_eq!(program(flops()), (0, 2 + 2 * select));
        assert_eq!(program(flops()), (0, 0));
        assert_eq!(cost(&|| driven.run(first)), (0, start));
        assert_eq!(cost(&|| driven.run(first)), (0, 0));
        driven.cpu.run(1);
        assert_eq!(cost(&|| driven.run(CounterSet::EMPTY)), (0, stop));
        // Both values. What is counted has not changed.
        assert_eq!(program(flops()), (0, 2));
        assert!(driven.shadow.has_merged());
        assert_eq!(cost(&|| driven.counters().unmerge(gp(0))), (0, 1));
        assert!(!driven.shadow.has_merged());
        assert_eq!(cost(&|| driven.counters().unmerge(gp(0))), (0, 0));
        // An event that takes one counter costs what it costs elsewhere.
        assert_eq!(program(instructions()), (0, select));
        assert_eq!(
            cost(&|| driven.program(gp(1), instructions(), 1)),
            (0, 1 + select),
            "the second counter has another value and another event"
        );
        assert_eq!(cost(&|| driven.counters().unmerge(gp(0))), (0, 0));
    }
}

#[test]
fn nothing_is_left_behind() {
    for machine in machines() {
        let driven = driven(machine);
        let (first, second) = (gp(0), gp(1));
        let both = CounterSet::of(first) | CounterSet::of(second);
        let eventsel = |i: u32| driven.cpu.pmu.borrow().rdmsr(PERF_CTL + 2 * i).unwrap();
        driven.program(first, flops(), 1);
        driven.run(CounterSet::of(first));
        assert_eq!(eventsel(1) & !EventSel::EN.mask(), 0xf_0000_00ff);
        driven.cpu.run(10);
        driven.run(CounterSet::EMPTY);
        driven.counters().unmerge(first);
        assert_eq!(eventsel(1), 0);
        // Two events on the same counters overflow as ever.
        for counter in both {
            let start = period::start_value(10, 48);
            driven.program(counter, instructions(), start);
        }
        driven.run(both);
        driven.cpu.run(10);
        driven.run(CounterSet::EMPTY);
        assert_eq!(driven.take_overflows(both), both);
        assert_eq!([0, 1].map(|i| value(&driven, i)), [0, 0]);

        driven.program(gp(2), flops(), 1);
        driven.run(CounterSet::of(gp(2)));
        driven.counters().give_back();
        let pmu = driven.cpu.pmu.borrow();
        for i in 0..4 {
            assert_eq!(pmu.rdmsr(PERF_CTL + 2 * i), Ok(0));
            assert_eq!(pmu.rdmsr(PERF_CTR + 2 * i), Ok(0));
        }
    }
}

/// After a loss of state no counter is taken for a second one.
#[test]
fn counters_that_were_reset_are_single() {
    let driven = Driven::new(amd_family(0x17, 2, 6));
    driven.program(gp(0), flops(), 1);
    driven.counters().reset();
    driven.program(gp(0), instructions(), 1);
    driven.run(CounterSet::of(gp(0)));
    let eventsel = driven.cpu.pmu.borrow().rdmsr(PERF_CTL + 2).unwrap();
    assert_eq!(eventsel, 0);
}

/// Whoever may run counters again without the driver's knowledge.
#[test]
fn a_pair_starts_again_when_it_is_not_known_what_runs() {
    for machine in machines() {
        let driven = driven(machine);
        let first = CounterSet::of(gp(2));
        driven.program(gp(2), flops(), 0);
        driven.run(first);
        driven.counters().forget_running();
        driven.run(first);
        driven.cpu.run(3);
        driven.counters().forget_running();
        driven.run(CounterSet::EMPTY);
        driven.cpu.run(3);
        let now = driven.read(gp(2));
        assert_eq!(period::delta(0, now, 48), 3 * PER_INSTRUCTION);
    }
}

#[test]
fn the_end_of_an_nmi_runs_both_counters_of_a_pair() {
    for machine in machines() {
        let driven = driven(machine);
        if !driven.caps.has_global_control() {
            continue;
        }
        let first = CounterSet::of(gp(2));
        driven.program(gp(2), flops(), 0);
        driven.run(first);
        // More runs than that.
        assert!(!driven.shadow.runs_just(first));
        driven.run(CounterSet::EMPTY);
        driven.counters().leave_running(first);
        driven.cpu.run(3);
        driven.run(CounterSet::EMPTY);
        let now = driven.read(gp(2));
        assert_eq!(period::delta(0, now, 48), 3 * PER_INSTRUCTION);
    }
}

/// A CPU on which an instruction of the driver retires before each WRMSR takes effect.
struct Busy(Cpu);

impl Registers for &Busy {
    fn rdmsr(self, msr: Msr) -> u64 {
        self.0.rdmsr(msr)
    }

    fn wrmsr(self, msr: Msr, value: u64) {
        let one = Retired {
            instructions: 1,
            branches: 0,
            ..Retired::default()
        };
        self.0.pmu.borrow_mut().retire(&[Retired::default(), one]);
        self.0.wrmsr(msr, value);
    }

    fn rdpmc(self, index: u32) -> u64 {
        self.0.rdpmc(index)
    }
}

/// The first counter never counts without the second one, whose increments it would lose.
#[test]
fn the_second_counter_starts_first_and_stops_last() {
    for machine in machines() {
        let busy = Busy(Cpu::new(machine.0));
        let caps = match machine.1 {
            None => busy.0.detect().unwrap(),
            Some(generation) => busy.0.detect_as(generation).unwrap(),
        };
        let shadow = Shadow::default();
        let counters = Counters::new(&shadow, &caps, &busy);
        counters.take_over();
        let firsts = CounterSet::of(gp(0)) | CounterSet::of(gp(2));
        for first in firsts {
            counters.program(first, flops(), true, 0);
        }
        for _ in 0..3 {
            counters.run(firsts);
            busy.0.run(7);
            counters.run(CounterSet::of(gp(2)));
            counters.run(CounterSet::EMPTY);
        }
        for first in firsts {
            let count = period::delta(0, counters.read(first), 48);
            assert_eq!(count % PER_INSTRUCTION, 0, "{first:?}");
            assert!(count >= 3 * 7 * PER_INSTRUCTION);
        }
    }
}

#[test]
fn pairs_and_other_events_share_the_counters() {
    let caps = Cpu::new(amd_family(0x19, 2, 6)).detect().unwrap();
    let mut assignment = Assignment::default();
    let mut place = |event| {
        let placement = assignment.place_event(caps.needs(event))?;
        Some((placement.counter.index(), placement.moves().count()))
    };
    assert_eq!(place(instructions()), Some((0, 0)));
    assert_eq!(place(flops()), Some((2, 0)));
    assert_eq!(place(instructions()), Some((1, 0)));
    assert_eq!(place(instructions()), Some((4, 0)));
    assert_eq!(place(flops()), None);
    assert_eq!(place(instructions()), Some((5, 0)));
    assert_eq!(place(instructions()), None);
}

proptest! {
    /// Of a group of any size, both drivers count as much as fits.
    #[test]
    fn a_group_fits_if_there_are_enough_counters(
        counters in 1u8..=15,
        events in prop::collection::vec(any::<bool>(), 1..18),
    ) {
        let caps = Cpu::new(amd_family(0x1a, 3, counters)).detect().unwrap();
        let mut assignment = Assignment::default();
        let (mut pairs, mut all) = (0, 0);
        for pair in events {
            let size = if pair { 2 } else { 1 };
            let fits = all + size <= counters && pairs + u8::from(pair) <= counters / 2;
            let event = if pair { flops() } else { instructions() };
            let placed = assignment.place_event(caps.needs(event)).is_some();
            prop_assert_eq!(placed, fits);
            if placed {
                pairs += u8::from(pair);
                all += size;
            }
        }
    }
}
