// SPDX-License-Identifier: GPL-2.0

//! What is detected, and how it can be restricted.

use crate::common::{amd, config, events::*, Cpu, Cpuid};
use pmc::{
    counter::{Counter, CounterSet},
    event::EventSel,
    Capabilities, EventName,
};
use proptest::prelude::*;
use std::{collections::BTreeSet, num::NonZeroU8};

#[test]
fn an_older_generation_can_be_asked_for_and_a_newer_one_not() {
    for version in 1..=5u8 {
        let cpu = Cpu::new(config(version, 4, if version == 1 { 0 } else { 3 }, 48));
        for asked in 1..=6 {
            let caps = cpu.detect_as(asked);
            assert_eq!(caps.is_some(), asked <= version, "{asked} of {version}");
            let Some(caps) = caps else { continue };
            let fixed = if asked == 1 { 0 } else { 0b111 };
            assert_eq!(
                caps.counters,
                CounterSet::first_gp(4) | CounterSet::fixed(fixed)
            );
            assert_eq!(caps.generation.name.ends_with("v1"), asked == 1);
            let any_thread = caps.format().any(|field| field.name == c"any");
            assert_eq!(any_thread, version < 5 && asked >= 3);
        }
        assert!(cpu.detect_as(0).is_none());
    }
}

#[test]
fn the_same_goes_for_amd() {
    for (version, counters) in [(1, 4), (2, 6), (3, 1), (3, 5), (3, 8)] {
        let cpu = Cpu::new(amd(version, counters));
        for (asked, most) in (1..).zip([4, 6, 8]) {
            let caps = cpu.detect_as(asked);
            assert_eq!(caps.is_some(), asked <= version, "{asked} of {version}");
            let Some(caps) = caps else { continue };
            assert_eq!(caps.counters, CounterSet::first_gp(counters.min(most)));
        }
        assert!(cpu.detect_as(0).is_none());
        assert!(cpu.detect_as(4).is_none());
    }
}

#[test]
fn counters_can_be_left_out() {
    let caps = Cpu::new(config(5, 8, 4, 48)).detect().unwrap();
    let limit = |n| caps.limit_gp(NonZeroU8::new(n).unwrap()).counters;
    let fixed = CounterSet::fixed(0b1111);
    assert_eq!(limit(1), CounterSet::first_gp(1) | fixed);
    assert_eq!(limit(3), CounterSet::first_gp(3) | fixed);
    assert_eq!(limit(200), caps.counters);

    let without = caps.without_fixed();
    assert_eq!(without.counters, CounterSet::first_gp(8));
    let names = |caps: &Capabilities| -> Vec<_> { caps.events().map(|event| event.name).collect() };
    // What only a fixed counter counts goes with it.
    assert!(names(&caps).contains(&EventName::RefCycles));
    assert!(!names(&without).contains(&EventName::RefCycles));
}

/// ECX of leaf 0AH has the fixed counters from version 5 on. Counters of version 6 are not
/// arbitrated.
#[test]
fn what_leaf_0a_says_by_version() {
    for version in 1..=6 {
        let leaf = [0x0730_0400 | version, 0, 0b1001, 0x0602];
        let cpu = Cpuid::new(b"GenuineIntel", 6, 0xff, 0).with(0xa, 0, leaf);
        let caps = cpu.detect().unwrap();
        let fixed = match version {
            1 => 0,
            2..=4 => 0b0011,
            _ => 0b1011,
        };
        assert_eq!(
            caps.counters,
            CounterSet::first_gp(4) | CounterSet::fixed(fixed),
            "version {version}"
        );
        assert_eq!(caps.reservable, version < 6);
    }
}

#[test]
fn registers_that_the_cpu_must_have() {
    let registers = |config| -> Vec<u32> {
        let caps = Cpu::new(config).detect().unwrap();
        caps.registers().map(|msr| msr.address()).collect()
    };
    assert_eq!(registers(config(1, 2, 0, 40)), [0x186, 0x187, 0xc1, 0xc2]);
    // 0x4c1 is the alias for full-width writes.
    assert_eq!(
        registers(config(3, 1, 2, 48)),
        [0x186, 0x4c1, 0x309, 0x30a, 0x38d, 0x38f, 0x38e]
    );
    assert_eq!(
        registers(amd(3, 1)),
        [0xc001_0200, 0xc001_0201, 0xc000_0301, 0xc000_0300]
    );
}

#[test]
fn general_and_fixed_counters_may_differ_in_width() {
    let caps = |gp: u32, fixed: u32| {
        Cpuid::new(b"GenuineIntel", 6, 0x1a, 0)
            .with(0xa, 0, [0x0700_0403 | (gp << 16), 0, 0, 3 | (fixed << 5)])
            .detect()
            .unwrap()
    };
    let widths = |caps: Capabilities| [40, 48].map(|width| caps.have_width(width));
    assert_eq!(widths(caps(48, 48)), [false, true]);
    assert_eq!(widths(caps(40, 48)), [false, false]);
    assert_eq!(widths(caps(48, 40)), [false, false]);
    assert_eq!(widths(caps(40, 48).without_fixed()), [true, false]);
}

#[test]
fn version_6_has_counters_of_any_number() {
    // What leaf 0AH can say of it: version 6, 8 general and 3 fixed counters.
    let leaf_0a = [0x0830_0806, 0, 0b111, 0x8603];
    let intel = || Cpuid::new(b"GenuineIntel", 6, 0xe5, 0).with(0xa, 0, leaf_0a);
    // General counters 0, 2 and 9, fixed counters 0 and 5; no bus cycles.
    let leaf_23 = |fields: u32| {
        intel()
            .with(7, 1, [1 << 8, 0, 0, 0])
            .with(0x23, 0, [0b1011, fields, 0, 0])
            .with(0x23, 1, [0b10_0000_0101, 0b10_0001, 0, 0])
            .with(0x23, 3, [0b111_1011, 0, 0, 0])
    };
    let caps = leaf_23(0b11).detect().unwrap();
    assert_eq!(caps.counters.bits(), 0x21_0000_0205);
    assert_eq!(caps.generation.name, "architectural perfmon v6");
    assert_eq!(caps.pmu_name, Some("generic_arch_v5+"));
    assert_eq!(caps.max_period(), (1 << 47) - 1);
    assert_eq!(config_of(&caps, EventName::BusCycles), None);
    assert_eq!(caps.hardware_event(6), None);
    assert_eq!(config_of(&caps, EventName::BranchMisses), Some(0xc5));
    assert_eq!(
        fields(&caps),
        [
            ("event", "0-7"),
            ("umask", "8-15,40-47"),
            ("edge", "18"),
            ("pc", "19"),
            ("inv", "23"),
            ("cmask", "24-31"),
            ("eq", "36")
        ]
    );

    // Each counter has its registers.
    let general = |i| Counter::gp(i).unwrap();
    let fixed = |i| Counter::fixed(i).unwrap();
    assert_eq!(caps.generation.eventsel(general(9)).address(), 0x1925);
    assert_eq!(caps.generation.counter(general(9)).address(), 0x1924);
    assert_eq!(caps.generation.counter(fixed(5)).address(), 0x1994);

    // What a counter with a hole before it is limited to, and what counts what.
    let two = caps.limit_gp(NonZeroU8::new(2).unwrap());
    assert_eq!(two.counters.bits(), 0x21_0000_0005);
    assert_eq!(counters(&caps, 0xc0), Some(0x1_0000_0205));
    assert_eq!(counters(&caps, 0xc0 | (1 << 40)), Some(0x205));
    assert_eq!(counters(&caps, 0xc0 | EventSel::EQ.mask()), Some(0x205));
    assert_eq!(counters(&caps, 0x0600), Some(0x20_0000_0000));
    assert_eq!(counters(&caps, 0x0300), Some(0));

    // Fields are only there where CPUID says so.
    let caps = leaf_23(0b10).detect().unwrap();
    assert!(fields(&caps).contains(&("umask", "8-15")));
    assert!(fields(&caps).contains(&("eq", "36")));
    assert_eq!(counters(&caps, 0xc0 | (1 << 40)), None);
    // As is the leaf.
    let caps = intel().detect().unwrap();
    assert_eq!(caps.counters.bits(), 0x7_0000_00ff);
    assert!(!fields(&caps).contains(&("eq", "36")));
    assert_eq!(config_of(&caps, EventName::BusCycles), Some(0x013c));

    // An older version knows nothing of it.
    let caps = leaf_23(0b11).detect_as(5).unwrap();
    assert_eq!(caps.counters.bits(), 0x7_0000_00ff);
    assert_eq!(caps.generation.eventsel(general(2)).address(), 0x188);
    assert!(leaf_23(0b11).detect_as(6).is_some());
}

#[test]
fn intel_has_the_events_that_cpuid_tells_of() {
    let caps = |version, fixed| Cpu::new(config(version, 4, fixed, 48)).detect().unwrap();
    assert!(names(&caps(5, 4)).contains(&EventName::Slots));
    assert!(!names(&caps(5, 3)).contains(&EventName::Slots));
    assert!(names(&caps(2, 3)).contains(&EventName::RefCycles));
    assert!(!names(&caps(2, 2)).contains(&EventName::RefCycles));
    // perf's number for it stays known; it is the counter that is missing.
    assert_eq!(caps(2, 2).hardware_event(9), Some(0x0300));
    assert_eq!(counters(&caps(2, 2), 0x0300), Some(0));
    assert_eq!(caps(5, 4).hardware_event(10), None);
    assert_eq!(caps(5, 4).hardware_event(7), None);
    for (version, name) in [
        (1, "generic_arch_v1"),
        (2, "generic_arch_v2+"),
        (4, "generic_arch_v2+"),
        (5, "generic_arch_v5+"),
    ] {
        assert_eq!(caps(version, 0).pmu_name, Some(name));
    }
    // Two events are missing, and those beyond the length are.
    let cpu = |eax, ebx| {
        let [_, _, ecx, edx] = LEAF_0A;
        let cpu = Cpuid::new(b"GenuineIntel", 6, 1, 0);
        cpu.with(0xa, 0, [eax, ebx, ecx, edx]).detect().unwrap()
    };
    let some = cpu(0x0730_0402, 0b100_0001);
    assert_eq!([0, 5].map(|id| some.hardware_event(id)), [None, None]);
    assert_eq!(some.hardware_event(1), Some(0xc0));
    let short = cpu(0x0530_0402, 0);
    assert_eq!([4, 5].map(|id| short.hardware_event(id)), [None, None]);
    assert_eq!(short.hardware_event(3), Some(0x412e));
}

/// CPUID.(23H,0):EBX[2] of a CPU with version 6.
#[test]
fn counters_can_be_hidden_where_cpuid_says_so() {
    for (fields, expected) in [(0b011, false), (0b111, true)] {
        let caps = Cpuid::new(b"GenuineIntel", 19, 0x01, 0)
            .with(0xa, 0, [0x0830_0806, 0, 0b1111, 0x8604])
            .with(7, 1, [1 << 8, 0, 0, 0])
            .with(0x23, 0, [0b11, fields, 0, 0])
            .with(0x23, 1, [0xff, 0xf, 0, 0])
            .detect()
            .unwrap();
        assert_eq!(caps.hides_counters, expected);
        // It is no field for the user.
        assert_eq!(caps.config_mask() & (1 << 37), 0);
    }
}

/// Leaves with any bits, as a hypervisor may have them.
fn any_cpuid() -> impl Strategy<Value = Cpuid> {
    const LEAVES: [(u32, u32); 12] = [
        (7, 0),
        (7, 1),
        (0xa, 0),
        (0xb, 0),
        (0x1a, 0),
        (0x23, 0),
        (0x23, 1),
        (0x23, 2),
        (0x23, 3),
        (0x8000_0001, 0),
        (0x8000_0008, 0),
        (0x8000_0022, 0),
    ];
    const NAMES: [&[u8; 12]; 6] = [
        b"GenuineIntel",
        b"AuthenticAMD",
        b"HygonGenuine",
        b"  Shanghai  ",
        b"CentaurHauls",
        b"SomethingNew",
    ];
    let family = prop_oneof![3 => Just(6), 1 => 0x0f..0x1b_u8, 1 => any::<u8>()];
    // Versions that exist, and widths about the limits.
    let leaf_a = (0..9_u32, any::<u8>(), 30..66_u32, any::<[u32; 3]>()).prop_map(
        |(version, general, width, [ebx, ecx, edx])| {
            let eax = 0x0800_0000 | (width << 16) | (u32::from(general) << 8) | version;
            [eax, ebx, ecx, (edx & !0x1fff) | (width << 5) | (edx & 0x1f)]
        },
    );
    let leaves = prop::collection::vec(any::<[u32; 4]>(), LEAVES.len());
    let signature = (family, any::<u8>(), 0..16_u8);
    (prop::sample::select(&NAMES[..]), signature, leaves, leaf_a).prop_map(
        |(name, (family, model, stepping), leaves, leaf_a)| {
            // Of two equal ones the first counts.
            let cpu = Cpuid::new(name, family, model, stepping).with(0xa, 0, leaf_a);
            let leaves = LEAVES.into_iter().zip(leaves);
            leaves.fold(cpu, |cpu, ((leaf, subleaf), registers)| {
                cpu.with(leaf, subleaf, registers)
            })
        },
    )
}

proptest! {
    /// Whatever CPUID says, what is detected can be driven.
    #[test]
    fn any_cpuid_is_refused_or_understood(
        cpu in any_cpuid(),
        generation in prop::option::of(0..8_u8),
        perf_capabilities: u64,
    ) {
        let found = match generation {
            Some(generation) => cpu.detect_as(generation),
            None => cpu.detect_with(perf_capabilities),
        };
        let Some(caps) = found else { return Ok(()) };
        prop_assert!(!caps.counters.gp_part().is_empty());
        for counter in caps.counters {
            prop_assert!((32..=64).contains(&caps.width(counter)));
        }
        prop_assert!((1 << 31..=1 << 63).contains(&(caps.max_period() + 1)));
        // Each register is there once.
        let registers: Vec<_> = caps.registers().map(|msr| msr.address()).collect();
        let distinct: BTreeSet<_> = registers.iter().collect();
        prop_assert_eq!(distinct.len(), registers.len());
        // A named event has bits of fields only.
        for event in caps.events() {
            prop_assert_eq!(event.config & !caps.config_mask(), 0);
        }
        for id in 0..=12 {
            let config = caps.hardware_event(id).unwrap_or(0);
            prop_assert_eq!(config & !caps.config_mask(), 0);
        }
        prop_assert!(caps.metrics.is_empty() || caps.counters.contains(Counter::SLOTS));
    }
}
