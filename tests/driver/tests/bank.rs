// SPDX-License-Identifier: GPL-2.0

//! The module's hardware code on the PMU model: what it counts, and how many
//! register accesses it takes.

use driver_tests::{
    cpu::{amd, config, generations, Cpu, Cpuid},
    pmc::{
        counter::{Counter, CounterSet},
        event::EventSel,
        period,
    },
    x86::hal::{detect, Bank, Capabilities, CpuidLeaf, Msr, Registers},
};
use pmu_model::{Config, Mode};
use proptest::prelude::*;
use std::cell::RefCell;

fn instructions() -> EventSel {
    EventSel::from_config(0xc0, EventSel::INTEL, true, true).unwrap()
}

/// A bank that has taken over a CPU, and what it works on.
struct Driven {
    cpu: Cpu,
    bank: Bank,
    caps: Capabilities,
}

impl Driven {
    fn new(config: Config) -> Self {
        let cpu = Cpu::new(config);
        let caps = cpu.detect().expect("counters that the driver knows");
        let bank = Bank::default();
        bank.take_over(&caps, &cpu);
        Driven { cpu, bank, caps }
    }

    /// Has the driver take the counters for an older generation's.
    fn new_as(config: Config, generation: u8) -> Self {
        let cpu = Cpu::new(config);
        let caps = cpu.detect_as(generation).expect("an older generation");
        let bank = Bank::default();
        bank.take_over(&caps, &cpu);
        Driven { cpu, bank, caps }
    }

    fn program(&self, counter: Counter, event: EventSel, value: u64) {
        self.bank
            .program(&self.caps, &self.cpu, counter, event, value);
    }

    fn run(&self, run: CounterSet) {
        self.bank.run(&self.caps, &self.cpu, run);
    }

    fn read(&self, counter: Counter) -> u64 {
        self.bank.read(&self.cpu, counter)
    }

    fn take_overflows(&self, active: CounterSet) -> CounterSet {
        self.bank.take_overflows(&self.caps, &self.cpu, active)
    }
}

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
                CounterSet::general(general) | CounterSet::fixed((1 << fixed) - 1)
            );
            assert_eq!(caps.general_width, width);
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
    let general = Counter::general(0).unwrap();
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
    let cycles = EventSel::from_config(0x3c, EventSel::INTEL, true, true).unwrap();
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
fn without_global_control_each_counter_is_switched() {
    let driven = Driven::new(config(1, 4, 0, 48));
    let [first, second] = [0, 1].map(|i| Counter::general(i).unwrap());
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

/// However late it is looked at, up to half the range of the counter; and not
/// before it has wrapped, however far away it started.
#[test]
fn without_status_the_value_tells_of_an_overflow() {
    for width in [32, 48] {
        let driven = Driven::new(config(1, 1, 0, width));
        let counter = Counter::general(0).unwrap();
        let set = CounterSet::of(counter);
        let half = period::max_distance(width);
        let far = driven.caps.max_distance();
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
    driven.bank.give_back(&driven.caps, &driven.cpu);

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
    let bank = Bank::default();
    bank.take_over(&caps, &cpu);
    assert!(bank.take_overflows(&caps, &cpu, caps.counters).is_empty());
}

/// Registers that remember what is written to them, and read as 1.
#[derive(Default)]
struct Log(RefCell<Vec<(u32, u64)>>);

impl Registers for Log {
    fn rdmsr(&self, _: Msr) -> u64 {
        1
    }

    fn wrmsr(&self, msr: Msr, value: u64) {
        self.0.borrow_mut().push((msr.address(), value));
    }

    fn rdpmc(&self, _: u32) -> u64 {
        1
    }
}

/// The ZXC's status can be cleared only while the global control is on. The
/// model knows no such thing.
#[test]
fn the_zxc_clears_its_status_while_on() {
    let writes = |family, model| {
        let leaf = [0x0730_0402, 0, 0, 0x603];
        let cpu = Cpuid::new(b"  Shanghai  ", family, model, 0).with(0xa, 0, leaf);
        let caps = cpu.detect().unwrap();
        let log = Log::default();
        Bank::default().take_overflows(&caps, &log, caps.counters);
        log.0.into_inner()
    };
    let all = 0x7_0000_000f;
    assert_eq!(writes(6, 0x19), [(0x38f, all), (0x390, 1), (0x38f, 0)]);
    assert_eq!(writes(7, 0x1b), [(0x390, 1)]);
}

/// Samples `total` instructions at `period` as the module's PMI handler does,
/// and returns after how many instructions each sample was.
fn sample(driven: &Driven, counter: Counter, period: u64, total: u64) -> Vec<u64> {
    let width = driven.caps.width(counter);
    let max = driven.caps.max_distance();
    let set = CounterSet::of(counter);
    let mut samples = Vec::new();
    let mut left = 0;
    let mut done = 0;

    let arm = |left: &mut i64| {
        let step = period::rearm(*left, period, max);
        *left = step.left;
        let value = period::start_value(step.distance, width);
        driven.program(counter, instructions(), value);
        driven.run(set);
        (value, step.elapsed)
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
        let Driven { cpu, bank, caps } = &driven;
        for counter in caps.counters {
            sample(&driven, counter, 1000, 3500);
            driven.run(CounterSet::EMPTY);
        }
        let value = |counter: Counter| cpu.rdpmc(counter.rdpmc());
        assert!(caps.counters.into_iter().all(|counter| value(counter) != 0));

        let mut general = caps.counters.general_part().into_iter();
        let one = CounterSet::of(general.next().unwrap());
        bank.clear(caps, cpu, one);
        for counter in caps.counters {
            assert_eq!(value(counter) == 0, one.contains(counter));
        }
        let again = cpu.cost(|| bank.clear(caps, cpu, one));
        assert_eq!(again, (0, 0), "nothing is written twice");

        bank.give_back(caps, cpu);
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

        driven.bank.give_back(&driven.caps, &driven.cpu);
        assert!(!driven.cpu.pmu.borrow().counting());
        assert_eq!(read(global_status), 0);
        // As after a reset: the general counters.
        assert_eq!(read(global_ctrl), (1 << config.shape.general) - 1);
    }
    // The counters themselves are not new there.
    let driven = Driven::new_as(amd(2, 6), 1);
    let third = Counter::general(3).unwrap();
    assert_eq!(sample(&driven, third, 7, 20), [7, 14]);
}

#[test]
fn a_period_longer_than_the_counter_ends_where_it_should() {
    for (version, fixed, width) in [(1, 0, 32), (2, 1, 32), (3, 1, 40), (5, 1, 48)] {
        let driven = Driven::new(config(version, 2, fixed, width));
        let period = (1 << 47) + 12345;
        let general = Counter::general(1);
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

/// Counters that can count instructions.
fn count_instructions(driven: &Driven) -> CounterSet {
    driven.caps.counters_for(instructions())
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

    /// The same on counters of all widths.
    #[test]
    fn the_width_makes_no_difference(
        version in 1u8..=5, width in 32u8..=48, fixed: bool, period in 1u64..1 << 50, periods in 1u64..4,
    ) {
        let fixed = fixed && version > 1;
        let driven = Driven::new(config(version, 1, fixed.into(), width));
        let counter = if fixed { Counter::fixed(0) } else { Counter::general(0) }.unwrap();
        // Bounds the number of rounds that the counter takes.
        let period = period.min(9 * driven.caps.max_distance());
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
        driven.bank.give_back(&driven.caps, &driven.cpu);
        prop_assert!(!driven.cpu.pmu.borrow().counting());
    }
}
