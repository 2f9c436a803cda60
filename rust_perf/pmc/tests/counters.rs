// SPDX-License-Identifier: GPL-2.0

//! The counters on the PMU model: what they count, and how many register accesses
//! that takes.

mod common;

use common::{amd, config, generations, Cpu, Cpuid};
use pmc::{
    counter::{Counter, CounterSet},
    detect,
    event::{EventSel, Modes},
    period, Capabilities, Counters, CpuidLeaf, Msr, Registers, Shadow,
};
use pmu_model::{Config, Mode};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};

fn instructions() -> EventSel {
    EventSel::from_config(0xc0, EventSel::INTEL, Modes::ALL).unwrap()
}

/// A CPU whose counters the driver owns.
struct Driven {
    cpu: Cpu,
    shadow: Shadow,
    caps: Capabilities,
}

impl Driven {
    fn new(config: Config) -> Self {
        let cpu = Cpu::new(config);
        let caps = cpu.detect().expect("counters that the driver knows");
        Self::take_over(cpu, caps)
    }

    /// Drives the counters as an older generation.
    fn new_as(config: Config, generation: u8) -> Self {
        let cpu = Cpu::new(config);
        let caps = cpu.detect_as(generation).expect("an older generation");
        Self::take_over(cpu, caps)
    }

    fn take_over(cpu: Cpu, caps: Capabilities) -> Self {
        let shadow = Shadow::default();
        let driven = Driven { cpu, shadow, caps };
        driven.counters().take_over();
        driven
    }

    fn counters(&self) -> Counters<'_, Cpu> {
        Counters::new(&self.shadow, &self.caps, &self.cpu)
    }

    fn program(&self, counter: Counter, event: EventSel, value: u64) {
        self.counters().program(counter, event, value);
    }

    fn run(&self, run: CounterSet) {
        self.counters().run(run);
    }

    fn read(&self, counter: Counter) -> u64 {
        self.counters().read(counter)
    }

    fn take_overflows(&self, active: CounterSet) -> CounterSet {
        self.counters().take_overflows(active)
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
        Counters::new(&Shadow::default(), &caps, &log).take_overflows(caps.counters);
        log.0.into_inner()
    };
    let all = 0x7_0000_000f;
    assert_eq!(writes(6, 0x19), [(0x38f, all), (0x390, 1), (0x38f, 0)]);
    assert_eq!(writes(7, 0x1b), [(0x390, 1)]);
}

/// Registers of a ZXC: writing a GLOBAL_CTRL other than 0 lets counter 1
/// overflow, once.
struct Zxc {
    status: Cell<u64>,
    overflows: Cell<bool>,
}

impl Registers for Zxc {
    fn rdmsr(&self, msr: Msr) -> u64 {
        assert_eq!(msr.address(), 0x38e);
        self.status.get()
    }

    fn wrmsr(&self, msr: Msr, value: u64) {
        match msr.address() {
            0x38f if value != 0 && self.overflows.take() => {
                self.status.set(self.status.get() | 0b10);
            }
            0x390 => self.status.set(self.status.get() & !value),
            _ => {}
        }
    }

    fn rdpmc(&self, _: u32) -> u64 {
        unreachable!()
    }
}

/// LVTPC is still masked when the second counter overflows, so its PMI is lost.
#[test]
fn an_overflow_while_the_zxc_clears_its_status_is_not_lost() {
    let leaf = [0x0730_0402, 0, 0, 0x603];
    let caps = Cpuid::new(b"  Shanghai  ", 6, 0x19, 0)
        .with(0xa, 0, leaf)
        .detect()
        .unwrap();
    let zxc = Zxc {
        status: Cell::new(0b01),
        overflows: Cell::new(true),
    };
    let shadow = Shadow::default();
    let overflowed = Counters::new(&shadow, &caps, &zxc).take_overflows(caps.counters);
    assert_eq!(overflowed.bits(), 0b11);
    assert_eq!(zxc.status.get(), 0);
}

/// The MSRs of EVENTSEL, counters and FIXED_CTR_CTRL.
fn programmed(caps: &Capabilities) -> Vec<u32> {
    let global = if caps.gp_width == 48 && caps.fixed_width == 0 {
        0xc000_0300..=0xc000_0302
    } else {
        0x38e..=0x390
    };
    let msrs = caps.registers().map(Msr::address);
    msrs.filter(|msr| !global.contains(msr)).collect()
}

/// On version 6, where the kernel does not arbitrate, this tells that another user
/// has the counters.
#[test]
fn a_counter_that_counts_is_seen() {
    for config in generations() {
        let driven = Driven::new(config);
        let is_counting = || driven.caps.is_counting(&driven.cpu);
        for counter in count_instructions(&driven) {
            assert!(!is_counting());
            driven.program(counter, instructions(), 1000);
            assert!(!is_counting());
            driven.run(CounterSet::of(counter));
            assert!(is_counting());
            driven.run(CounterSet::EMPTY);
            driven.counters().give_back();
            driven.counters().take_over();
        }
    }
}

/// KVM's mediated vPMU leaves zeros in all registers when no event is on the CPU.
#[test]
fn registers_that_others_have_zeroed_are_programmed_again() {
    for config in generations() {
        let driven = Driven::new(config);
        for counter in count_instructions(&driven) {
            let set = CounterSet::of(counter);
            for _ in 0..2 {
                driven.program(counter, instructions(), 1000);
                driven.run(set);
                driven.cpu.run(5);
                driven.run(CounterSet::EMPTY);
                assert_eq!(driven.read(counter), 1005);

                driven.counters().forget();
                for msr in programmed(&driven.caps) {
                    driven.cpu.pmu.borrow_mut().wrmsr(msr, 0).unwrap();
                }
            }
        }
        driven.counters().give_back();
        assert!(!driven.cpu.pmu.borrow().counting());
    }
}

/// What the driver programmed before it forgot is disarmed, too.
#[test]
fn forgotten_registers_are_given_back() {
    for config in generations() {
        let driven = Driven::new(config);
        for counter in count_instructions(&driven) {
            driven.program(counter, instructions(), 1000);
        }
        driven.counters().forget();
        driven.counters().give_back();
        for msr in programmed(&driven.caps) {
            assert_eq!(driven.cpu.pmu.borrow().rdmsr(msr), Ok(0), "{msr:#x}");
        }
    }
}

/// Others write GLOBAL_CTRL without asking. The next start or stop repairs it, with
/// no register access more.
#[test]
fn a_global_control_that_others_wrote_is_repaired() {
    for (config, global_ctrl) in [
        (config(4, 4, 3, 48), 0x38f),
        (config(2, 2, 0, 32), 0x38f),
        (amd(3, 6), 0xc000_0301),
    ] {
        let driven = Driven::new(config);
        let all = driven.caps.counters.bits();
        let counter = Counter::gp(0).unwrap();
        let set = CounterSet::of(counter);
        for foreign in [0, all] {
            driven.program(counter, instructions(), 1000);
            driven
                .cpu
                .pmu
                .borrow_mut()
                .wrmsr(global_ctrl, foreign)
                .unwrap();
            assert_eq!(driven.cpu.cost(|| driven.run(set)), (0, 1));
            driven.cpu.run(7);
            driven
                .cpu
                .pmu
                .borrow_mut()
                .wrmsr(global_ctrl, foreign)
                .unwrap();
            assert_eq!(driven.cpu.cost(|| driven.run(CounterSet::EMPTY)), (0, 1));
            driven.cpu.run(100);
            assert_eq!(driven.read(counter), 1007, "{foreign:#x}");
        }
        // After an NMI of unknown origin even a CPU with nothing to run is repaired.
        driven.cpu.pmu.borrow_mut().wrmsr(global_ctrl, all).unwrap();
        driven.counters().forget_running();
        driven.run(CounterSet::EMPTY);
        assert!(!driven.cpu.pmu.borrow().counting());
    }
}

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
