// SPDX-License-Identifier: GPL-2.0

//! Metrics, on the PMU model.

use crate::common::{config, intel_model, Cpuid, Driven};
use pmc::{
    counter::{Counter, CounterSet},
    event::{EventSel, Modes},
    metrics::Metrics,
    Capabilities,
};
use pmu_model::{Config, Retired};
use proptest::prelude::*;

const SLOTS: u64 = 0x0400;
const GLOBAL_STATUS: u32 = 0x38e;
const GLOBAL_CTRL: u32 = 0x38f;
const PERF_METRICS: u32 = 0x329;

/// Golden Cove.
fn processor(width: u8) -> Config {
    let mut config = intel_model(0x8f);
    config.shape.width = width;
    config
}

/// The model does not report its signature.
fn driven(width: u8) -> Driven {
    let config = processor(width);
    let fixed_and_general = [
        ((width as u32) << 16) | 0x0800_0805,
        0,
        0,
        0x8004 | ((width as u32) << 5),
    ];
    let caps = capabilities(0x8f, fixed_and_general, (1 << 15) | (1 << 13));
    Driven::take_over(crate::common::Cpu::new(config), caps)
}

fn capabilities(model: u8, leaf_a: [u32; 4], perf_capabilities: u64) -> Capabilities {
    Cpuid::new(b"GenuineIntel", 6, model, 0)
        .with(0xa, 0, leaf_a)
        .detect_with(perf_capabilities)
        .unwrap()
}

const LEAF_A: [u32; 4] = [0x0830_0805, 0, 0b1111, 0x8604];

fn event(config: u64) -> EventSel {
    EventSel::from_config(config, EventSel::COMMON, Modes::ALL).unwrap()
}

fn both() -> CounterSet {
    CounterSet::of(Counter::SLOTS) | CounterSet::first_metrics(8)
}

fn retire(driven: &Driven, instructions: u64, branches: u64) {
    let user = Retired {
        instructions,
        branches,
        ..Retired::default()
    };
    driven
        .cpu
        .pmu
        .borrow_mut()
        .retire(&[user, Retired::default()]);
}

fn read(driven: &Driven) -> Metrics {
    Metrics {
        slots: driven.read(Counter::SLOTS),
        fields: driven.read(Counter::PERF_METRICS),
    }
}

#[test]
fn models_have_their_metrics() {
    const AVAILABLE: u64 = 1 << 15;
    for (model, n) in [
        (0x7e, 4),
        (0x6a, 4),
        (0x8f, 8),
        (0xad, 8),
        (0x5e, 0),
        (0xaf, 0),
        (0x99, 0),
    ] {
        let caps = capabilities(model, LEAF_A, AVAILABLE);
        assert_eq!(caps.metrics, CounterSet::first_metrics(n), "{model:#x}");
        let register = caps.metrics_register().map(|msr| msr.address());
        assert_eq!(register, (n != 0).then_some(PERF_METRICS), "{model:#x}");
        // No register that is missing may be cleared.
        let registers = match n {
            0 => CounterSet::EMPTY,
            _ => CounterSet::of(Counter::PERF_METRICS),
        };
        assert_eq!(caps.readable(), caps.counters | registers, "{model:#x}");
        for i in 0..16 {
            let metric = event(0x8000 + (i << 8));
            let expected = match i < n.into() {
                true => CounterSet::of(Counter::metric(i as u8).unwrap()),
                false => CounterSet::EMPTY,
            };
            assert_eq!(caps.counters_for(metric), expected, "{model:#x} {i}");
            assert_eq!(caps.is_metric(metric), i < n.into());
        }
        // Without PERF_METRICS, without fixed counter 3, and without fixed counters.
        let three = [LEAF_A[0], 0, 0b111, 0x8603];
        assert!(capabilities(model, LEAF_A, 0).metrics.is_empty());
        assert!(capabilities(model, three, AVAILABLE).metrics.is_empty());
        assert!(caps.without_fixed().metrics.is_empty());
    }
}

#[test]
fn what_an_event_of_metrics_may_have() {
    assert!(event(SLOTS).is_slots());
    assert!(!event(0x8000).is_slots());
    assert!(!event(0x00c0).is_slots());
    let modes = [(true, true), (true, false), (false, true), (false, false)];
    let modes = modes.map(|(user, kernel)| {
        EventSel::from_config(SLOTS, EventSel::COMMON, Modes { user, kernel }).unwrap()
    });
    for (i, one) in modes.iter().enumerate() {
        for (j, other) in modes.iter().enumerate() {
            assert_eq!(one.has_modes_of(*other), i == j);
        }
    }
    let has_modifiers = |bits| EventSel::from_raw(SLOTS | bits).has_modifiers();
    for field in [EventSel::EDGE, EventSel::INV, EventSel::ANY, EventSel::PC] {
        assert!(has_modifiers(field.mask()));
    }
    assert!(has_modifiers(1 << 24));
    for field in [EventSel::USR, EventSel::OS, EventSel::INT, EventSel::EN] {
        assert!(!has_modifiers(field.mask()));
    }
}

#[test]
fn files_are_there_if_their_events_are() {
    let names = |model, perf_capabilities| -> Vec<_> {
        let caps = capabilities(model, LEAF_A, perf_capabilities);
        caps.topdown_files()
            .map(|(name, _)| name.to_str().unwrap())
            .collect()
    };
    assert_eq!(names(0x7e, 1 << 15).len(), 5);
    assert_eq!(names(0x8f, 1 << 15).len(), 9);
    for model in [0x7e, 0x8f] {
        assert!(names(model, 0).is_empty());
    }
    // These need no PERF_METRICS.
    assert_eq!(names(0x5e, 0).len(), 7);
    assert_eq!(names(0xbe, 0).len(), 4);
    // Nehalem has none.
    assert!(names(0x1a, 1 << 15).is_empty());
}

/// With two threads in a core, events that count for both are used.
#[test]
fn files_of_threads() {
    let of = |model, threads, file| {
        let caps = Cpuid::new(b"GenuineIntel", 6, model, 0)
            .with(0xa, 0, [0x0730_0404, 0, 0, 0x603])
            .with(0xb, 0, [1, threads, 0, 0])
            .detect()
            .unwrap();
        let mut files = caps.topdown_files();
        files.find(|(name, _)| name.to_str() == Ok(file)).unwrap().1
    };
    for (model, text) in [(0x2a, "0x3"), (0x3d, "0x3"), (0x5e, "0x1")] {
        let text = format!("event=0xd,umask={text},cmask=1");
        assert_eq!(of(model, 1, "topdown-recovery-bubbles"), text);
        assert_eq!(of(model, 2, "topdown-recovery-bubbles"), text + ",any=1");
    }
    assert_eq!(of(0x5c, 1, "topdown-total-slots.scale"), "3");
    assert_eq!(of(0x7a, 1, "topdown-total-slots.scale"), "4");
    let text = |threads, file| of(0x5e, threads, file);
    assert_eq!(text(1, "topdown-total-slots.scale"), "4");
    assert_eq!(text(2, "topdown-total-slots.scale"), "2");
    assert_eq!(text(1, "topdown-total-slots"), "event=0x3c,umask=0x0");
    assert_eq!(text(2, "topdown-total-slots"), "event=0x3c,umask=0x0,any=1");
}

#[test]
fn counts_are_parts_of_the_slots() {
    let driven = driven(48);
    driven
        .counters()
        .program_metrics(event(SLOTS), Metrics::default());
    driven.run(both());
    // 17024 slots, of which 4096, 240, 12288 and 400 are of level 1.
    retire(&driven, 4096, 256);
    driven.run(CounterSet::EMPTY);
    let metrics = read(&driven);
    assert_eq!(metrics.slots, 17024);
    let counts: Vec<_> = (0..8)
        .map(|i| metrics.of(Counter::metric(i).unwrap()))
        .collect();
    let fields = [61, 4, 184, 6, 4, 4, 61, 6];
    assert_eq!(counts, fields.map(|field| 17024 * field / 255));
}

#[test]
fn registers_are_written_together_or_not_at_all() {
    let driven = driven(48);
    let set = |slots, fields| {
        let values = Metrics { slots, fields };
        driven.cpu.cost(|| driven.counters().set_metrics(values))
    };
    driven
        .counters()
        .program_metrics(event(SLOTS), Metrics::default());
    assert_eq!(set(0, 0), (0, 0));
    assert_eq!(set(510, 0x40), (0, 2));
    assert_eq!(set(510, 0x40), (0, 0));
    assert_eq!(set(510, 0x41), (0, 2));
    assert_eq!(set(255, 0x41), (0, 2));
    // What runs is not known any more. One write runs both.
    assert_eq!(driven.cpu.cost(|| driven.run(both())), (0, 1));
    assert_eq!(driven.cpu.cost(|| driven.run(both())), (0, 0));
    let ctrl = driven.cpu.pmu.borrow().rdmsr(GLOBAL_CTRL);
    assert_eq!(ctrl, Ok((1 << 48) | (1 << 35)));
    driven.run(CounterSet::EMPTY);
    assert_eq!(driven.counters().known(Counter::SLOTS), None);
    assert_eq!(set(255, 0x41), (0, 2));
    // Reading makes it known.
    assert_eq!(
        read(&driven),
        Metrics {
            slots: 255,
            fields: 0x41
        }
    );
    assert_eq!(set(255, 0x41), (0, 0));
}

#[test]
fn the_end_of_an_nmi_runs_slots_and_all_metrics() {
    let driven = driven(48);
    driven
        .counters()
        .program_metrics(event(SLOTS), Metrics::default());
    driven.counters().leave_running(both());
    let ctrl = driven.cpu.pmu.borrow().rdmsr(GLOBAL_CTRL);
    assert_eq!(ctrl, Ok((1 << 48) | (1 << 35)));
    driven.run(both());
    assert!(!driven.shadow.runs_just(both()));
    let first = CounterSet::of(Counter::SLOTS) | CounterSet::first_metrics(1);
    assert!(driven.shadow.runs_just(first));
}

/// With METRICS_CLEAR, RDPMC of PERF_METRICS clears both registers: they need not be written.
#[test]
fn reading_may_clear_both() {
    let config = intel_model(0xbd);
    for clears in [false, true] {
        let cpu = crate::common::Cpu::new(config);
        let caps = Cpuid::new(b"GenuineIntel", 6, 0xbd, 0)
            .with(0xa, 0, [0x0830_0806, 0, 0b1111, 0x8604])
            .detect_with(cpu.pmu.borrow().perf_capabilities().unwrap())
            .unwrap();
        assert!(caps.has_metrics_clear());
        let driven = Driven::take_over(cpu, caps);
        let slots = event(SLOTS).with(EventSel::METRICS_CLEAR, clears.into());
        driven.counters().program_metrics(slots, Metrics::default());
        let run_and_read = || {
            driven.run(both());
            retire(&driven, 4096, 256);
            driven.run(CounterSet::EMPTY);
            let slots = driven.read(Counter::SLOTS);
            let fields = driven.counters().read_fields();
            Metrics { slots, fields }
        };
        let values = run_and_read();
        assert_eq!(values.slots, 17024);
        assert_eq!(values.fields.to_le_bytes(), [61, 4, 184, 6, 4, 4, 61, 6]);
        let set = |values| driven.cpu.cost(|| driven.counters().set_metrics(values));
        let zero = Metrics::default();
        let writes = if clears { 0 } else { 2 };
        assert_eq!(set(zero), (0, writes));
        assert_eq!(set(zero), (0, 0));
        assert_eq!(run_and_read(), values);
        // What was saved must be restored: it is known only if nothing can have cleared it.
        assert_eq!(set(values), (0, 2 * u32::from(clears)));
        let user_mode = || driven.cpu.pmu.borrow_mut().rdpmc(1 << 29, false, true);
        assert_eq!(user_mode(), Ok(values.fields));
        assert_eq!(set(values), (0, 2 * u32::from(clears)));
        assert_eq!(driven.cpu.pmu.borrow().rdmsr(0x198c), Ok(values.slots));
        assert_eq!(user_mode(), Ok(values.fields));
    }
}

/// An event that is no metric costs what it did before there were any.
#[test]
fn slots_alone_do_not_run_the_metrics() {
    let driven = driven(48);
    let slots = CounterSet::of(Counter::SLOTS);
    let start = || {
        driven.program(Counter::SLOTS, event(SLOTS), 7);
        driven.run(slots);
    };
    // The counter, what it counts, and GLOBAL_CTRL.
    assert_eq!(driven.cpu.cost(start), (0, 3));
    retire(&driven, 4096, 256);
    driven.run(CounterSet::EMPTY);
    assert_eq!(driven.read(Counter::SLOTS), 7 + 17024);
    assert_eq!(driven.read(Counter::PERF_METRICS), 0);
    let (reads, writes) = driven.cpu.cost(|| driven.counters().give_back());
    // 12 counters, FIXED_CTR_CTRL, the status and GLOBAL_CTRL.
    assert_eq!((reads, writes), (0, 15));
}

#[test]
fn nothing_is_left_behind() {
    let driven = driven(48);
    driven
        .counters()
        .program_metrics(event(SLOTS), Metrics::default());
    driven.run(both());
    retire(&driven, 4096, 256);
    driven.counters().give_back();
    let pmu = driven.cpu.pmu.borrow();
    for msr in [PERF_METRICS, 0x30c, 0x38d] {
        assert_eq!(pmu.rdmsr(msr), Ok(0), "{msr:#x}");
    }
}

/// The status bit of PERF_METRICS is reported as its first metric, and cleared.
#[test]
fn overflows_are_taken() {
    let driven = driven(32);
    driven
        .counters()
        .program_metrics(event(SLOTS), Metrics::default());
    driven.run(both());
    retire(&driven, 1 << 30, 0);
    driven.run(CounterSet::EMPTY);
    assert_eq!(
        driven.take_overflows(both()),
        CounterSet::of(Counter::SLOTS)
    );
    driven.run(both());
    retire(&driven, 1 << 30, 0);
    driven.run(CounterSet::EMPTY);
    let expected = CounterSet::of(Counter::SLOTS) | CounterSet::of(Counter::PERF_METRICS);
    assert_eq!(driven.take_overflows(both()), expected);
    assert!(driven.take_overflows(both()).is_empty());
    assert_eq!(driven.cpu.pmu.borrow().rdmsr(GLOBAL_STATUS), Ok(0));
}

#[test]
fn an_overflow_from_before_is_not_ours() {
    let cpu = crate::common::Cpu::new(processor(48));
    cpu.pmu.borrow_mut().inject_status(1 << 48);
    let caps = capabilities(0x8f, LEAF_A, (1 << 15) | (1 << 13));
    let driven = Driven::take_over(cpu, caps);
    assert!(driven.take_overflows(caps.counters).is_empty());
    // Other CPUs do not have the bit: to write it raises #GP.
    Driven::new(config(5, 8, 4, 48)).counters().give_back();
}

proptest! {
    /// Saved and restored at any time, the counts stay what they are, but for eight bits.
    #[test]
    fn saving_and_restoring_loses_nothing(
        parts in prop::collection::vec((1u64..1 << 30, 0u64..=256), 1..12),
    ) {
        let driven = driven(48);
        let mut saved = Metrics::default();
        let (mut instructions, mut branches) = (0, 0);
        for (n, part) in parts.iter().copied() {
            driven.counters().program_metrics(event(SLOTS), saved);
            driven.run(both());
            let b = n * part / 256;
            retire(&driven, n, b);
            driven.run(CounterSet::EMPTY);
            saved = read(&driven);
            instructions += n;
            branches += b;
            // Another task.
            driven.counters().clear(CounterSet::of(Counter::SLOTS) | CounterSet::of(Counter::PERF_METRICS));
        }
        let slots = 4 * (instructions + 15 * (branches / 64) + 100 * (instructions / 4096));
        prop_assert_eq!(saved.slots, slots);
        // Each round trip rounds once more.
        let slack = slots / 255 * (parts.len() as u64 + 1) + 1;
        let retiring = saved.of(Counter::metric(0).unwrap());
        prop_assert!(retiring.abs_diff(instructions) <= slack);
        let heavy = saved.of(Counter::metric(4).unwrap());
        prop_assert!(heavy.abs_diff(branches.min(instructions)) <= slack);
        let level_1: u64 = (0..4).map(|i| saved.of(Counter::metric(i).unwrap())).sum();
        prop_assert!((level_1..=level_1 + 3).contains(&slots));
    }
}
