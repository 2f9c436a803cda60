// SPDX-License-Identifier: GPL-2.0

//! The events and constraints of AMD's, Hygon's and Zhaoxin's CPUs.

use crate::common::{config, events::*, Cpu, Cpuid};
use pmc::{event::EventSel, CacheEvent, Capabilities, EventName};

#[test]
fn amd_events_follow_family_and_model() {
    let stalls = [
        EventName::StalledCyclesFrontend,
        EventName::StalledCyclesBackend,
    ];
    let cases = [
        // K8, family 10H, Zen, Zen 2, Zen 3, Zen 4, Zen 5.
        (0x0f, 0x41, 0x077d, [Some(0xd0), Some(0xd1)], None),
        (0x10, 0x0a, 0x077d, [Some(0xd0), Some(0xd1)], None),
        (0x15, 0x02, 0x077d, [Some(0xd0), Some(0xd1)], None),
        (0x17, 0x01, 0xff60, [Some(0x0287), Some(0x0187)], None),
        (0x17, 0x31, 0xff60, [Some(0x00a9), None], None),
        (0x17, 0x2f, 0xff60, [Some(0x0287), Some(0x0187)], None),
        (0x17, 0x30, 0xff60, [Some(0x00a9), None], None),
        (0x17, 0x4f, 0xff60, [Some(0x00a9), None], None),
        (0x17, 0x50, 0xff60, [Some(0x0287), Some(0x0187)], None),
        (0x17, 0x5f, 0xff60, [Some(0x0287), Some(0x0187)], None),
        (0x17, 0x60, 0xff60, [Some(0x00a9), None], None),
        (0x17, 0xa0, 0xff60, [Some(0x00a9), None], None),
        (0x19, 0x01, 0xff60, [Some(0x00a9), None], None),
        (
            0x19,
            0x11,
            0xff60,
            [Some(0x00a9), None],
            Some(0x1_0000_0120),
        ),
        (
            0x19,
            0x61,
            0xff60,
            [Some(0x00a9), None],
            Some(0x1_0000_0120),
        ),
        (
            0x1a,
            0x02,
            0xff60,
            [Some(0x00a9), None],
            Some(0x1_0000_0120),
        ),
    ];
    for (family, model, references, stalled, ref_cycles) in cases {
        let caps = amd_cpu(family, model).detect().unwrap();
        let of = |name| config_of(&caps, name);
        assert_eq!(of(EventName::CpuCycles), Some(0x76));
        assert_eq!(of(EventName::CacheReferences), Some(references));
        assert_eq!(stalls.map(of), stalled, "{family:#x} {model:#x}");
        assert_eq!(of(EventName::RefCycles), ref_cycles);
        assert_eq!(of(EventName::BusCycles), None);
        assert_eq!(caps.hardware_event(9), ref_cycles);
        assert_eq!(caps.hardware_event(10), None);
        assert_eq!(caps.pmu_name, None);
        assert_eq!(
            fields(&caps),
            [
                ("event", "0-7,32-35"),
                ("umask", "8-15"),
                ("edge", "18"),
                ("inv", "23"),
                ("cmask", "24-31")
            ]
        );
    }
    // Hygon has Zen's.
    let hygon = Cpuid::new(b"HygonGenuine", 0x18, 0, 1).with(CORE.0, CORE.1, CORE.2);
    let caps = hygon.detect().unwrap();
    assert_eq!(
        config_of(&caps, EventName::StalledCyclesBackend),
        Some(0x0187)
    );
}

#[test]
fn sysfs_says_how_an_event_is_encoded() {
    let text = |caps: &Capabilities, name| {
        let found = caps.events().find(|event| event.name == name).unwrap();
        found.terms().to_string()
    };
    let zen4 = amd_cpu(0x19, 0x11).detect().unwrap();
    assert_eq!(text(&zen4, EventName::RefCycles), "event=0x120,umask=0x01");
    assert_eq!(text(&zen4, EventName::CpuCycles), "event=0x76");
    let zxd = zhaoxin_cpu(7, 0x1b, 0).detect().unwrap();
    assert_eq!(
        text(&zxd, EventName::StalledCyclesFrontend),
        "event=0x01,umask=0x01,inv,cmask=0x01"
    );
}

#[test]
fn cache_events_are_those_of_the_model() {
    use CacheEvent::{Config, Invalid, Missing};
    let id = |cache: u64, operation: u64, result: u64| cache | (operation << 8) | (result << 16);
    let k7 = amd_cpu(0x10, 0).detect().unwrap();
    let zen = amd_cpu(0x17, 1).detect().unwrap();
    let zxd = zhaoxin_cpu(7, 0x1b, 0).detect().unwrap();
    let zxe = zhaoxin_cpu(7, 0x3b, 0).detect().unwrap();
    let zxc = zhaoxin_cpu(6, 0x19, 0).detect().unwrap();
    let intel = Cpu::new(config(5, 4, 3, 48)).detect().unwrap();
    let all = [&k7, &zen, &zxd, &zxe, &zxc, &intel];
    let expect = |cache, operation, result, expected: [CacheEvent; 6]| {
        let found = all.map(|caps| caps.cache_event(id(cache, operation, result)));
        assert_eq!(found, expected, "{cache} {operation} {result}");
    };
    // L1D: read miss, write access, prefetch access.
    let l1d = [
        Config(0x0141),
        Config(0xc860),
        Config(0x0538),
        Config(0x054b),
    ];
    expect(0, 0, 1, [l1d[0], l1d[1], l1d[2], l1d[3], Missing, Missing]);
    let l1d = [Missing, Missing, Config(0x0043), Config(0x0669)];
    expect(0, 1, 0, [l1d[0], l1d[1], l1d[2], l1d[3], Missing, Missing]);
    let l1d = [Config(0x0267), Config(0xff5a), Invalid, Invalid];
    expect(0, 2, 0, [l1d[0], l1d[1], l1d[2], l1d[3], Missing, Missing]);
    // L1I: write access.
    expect(
        1,
        1,
        0,
        [Invalid, Invalid, Invalid, Invalid, Missing, Missing],
    );
    // LL: read access.
    expect(
        2,
        0,
        0,
        [Config(0x037d), Missing, Invalid, Missing, Missing, Missing],
    );
    // NODE: read miss, prefetch miss.
    expect(
        6,
        0,
        1,
        [Config(0x98e9), Missing, Invalid, Invalid, Missing, Missing],
    );
    expect(
        6,
        2,
        1,
        [Invalid, Invalid, Invalid, Invalid, Missing, Missing],
    );
    // What perf does not have.
    for none in [id(7, 0, 0), id(0, 3, 0), id(0, 0, 2), id(255, 255, 255)] {
        assert_eq!(all.map(|caps| caps.cache_event(none)), [Invalid; 6]);
    }
    // The byte above is nobody's.
    assert_eq!(k7.cache_event(1 << 24), Config(0x0040));
}

#[test]
fn family_15h_binds_events_to_counters() {
    let caps = amd_cpu(0x15, 2).detect().unwrap();
    let cases = [
        // Floating point: most on the upper half, some by their unit mask.
        (0x000, 0x01, 0x38),
        (0x000, 0xf0, 0x38),
        (0x000, 0x11, 0x08),
        (0x003, 0xff, 0x08),
        (0x004, 0x01, 0x38),
        (0x004, 0x03, 0x08),
        (0x00b, 0x00, 0x08),
        (0x010, 0x00, 0x38),
        (0x103, 0x00, 0x38),
        (0x023, 0x00, 0x07),
        (0x02d, 0x00, 0x08),
        (0x02e, 0x00, 0x09),
        (0x02f, 0x00, 0x3f),
        (0x031, 0x10, 0x07),
        (0x031, 0x00, 0x07),
        (0x031, 0x11, 0x00),
        (0x032, 0x11, 0x3f),
        (0x040, 0x00, 0x3f),
        (0x055, 0x00, 0x07),
        (0x065, 0x00, 0x07),
        (0x07e, 0x07, 0x07),
        (0x080, 0x00, 0x07),
        (0x08f, 0x00, 0x01),
        (0x187, 0x00, 0x01),
        (0x18f, 0x00, 0x07),
        (0x0a5, 0x00, 0x00),
        (0x0b0, 0x00, 0x00),
        (0x0c0, 0x00, 0x3f),
        (0x1c0, 0x00, 0x38),
        (0x0d0, 0x00, 0x07),
        (0x0da, 0x00, 0x07),
        (0x0db, 0x00, 0x3f),
        (0x0dc, 0x00, 0x3f),
        (0x0df, 0x00, 0x3f),
        (0x1d6, 0x00, 0x3f),
        (0x1d7, 0x00, 0x07),
        (0x0e0, 0x00, 0x00),
        (0x1ff, 0x00, 0x00),
    ];
    for (event, umask, expected) in cases {
        assert_eq!(
            counters(&caps, amd_event(event, umask)),
            Some(expected),
            "{event:#x} {umask:#x}"
        );
    }
    // How the occurrences are counted makes no difference.
    let edges = amd_event(0x02e, 0) | EventSel::EDGE.mask();
    assert_eq!(counters(&caps, edges), Some(0x09));
}

#[test]
fn a_northbridge_that_cores_share_is_out_of_bounds() {
    let cores = |n: u32| {
        let cpu = Cpuid::new(b"AuthenticAMD", 0x10, 4, 0);
        cpu.with(0x8000_0008, 0, [0, 0, n - 1, 0]).detect().unwrap()
    };
    for event in [0x0e0, 0x0ff, 0x1e9] {
        assert_eq!(counters(&cores(1), amd_event(event, 0)), Some(0xf));
        assert_eq!(counters(&cores(4), amd_event(event, 0)), Some(0));
    }
    assert_eq!(counters(&cores(4), amd_event(0x0d1, 0)), Some(0xf));
    assert_eq!(counters(&cores(4), amd_event(0x1c0, 0)), Some(0xf));
}

#[test]
fn large_increments_take_an_even_counter_and_the_next() {
    let flops = EventSel::from_raw(amd_event(0x003, 0xff));
    for (family, expected) in [(0x10, 0x3f), (0x17, 0x15), (0x19, 0x15), (0x1a, 0x15)] {
        let caps = amd_cpu(family, 0).detect().unwrap();
        assert_eq!(counters(&caps, amd_event(0x003, 0xff)), Some(expected));
        assert_eq!(counters(&caps, amd_event(0x103, 0xff)), Some(0x3f));
        assert_eq!(caps.needs_pair(flops), family >= 0x17);
        assert!(!caps.needs_pair(EventSel::from_raw(amd_event(0x103, 0xff))));
    }
    let hygon = Cpuid::new(b"HygonGenuine", 0x18, 0, 1).with(CORE.0, CORE.1, CORE.2);
    assert!(hygon.detect().unwrap().needs_pair(flops));
    // Without PerfCtrExtCore nothing is merged.
    let legacy = Cpuid::new(b"AuthenticAMD", 0x17, 1, 0).detect().unwrap();
    assert!(!legacy.needs_pair(flops) && legacy.counters_for(flops).is_empty());
    // The last counter has no next one.
    for (n, expected) in [(1, 0), (2, 0b1), (3, 0b1), (5, 0b101), (15, 0x1555)] {
        let zen4 = amd_cpu(0x1a, 0).with(0x8000_0022, 0, [1, n, 0, 0]);
        let caps = zen4.detect().unwrap();
        assert_eq!(counters(&caps, amd_event(0x003, 0xff)), Some(expected));
    }
    let three = hygon.detect().unwrap().limit_gp(3.try_into().unwrap());
    assert_eq!(counters(&three, amd_event(0x003, 0xff)), Some(0b1));
}

/// Its codes are those of Intel's metrics, which only CPUs with PERF_METRICS have.
#[test]
fn event_select_0_is_an_event_of_amds() {
    for umask in [0x01, 0x04, 0x80, 0x87] {
        for family in [0x0f, 0x17, 0x1a] {
            let caps = amd_cpu(family, 0).detect().unwrap();
            let all = Some(caps.counters.bits());
            assert_eq!(counters(&caps, amd_event(0x000, umask)), all);
            assert_eq!(counters(&caps, amd_event(0x100, umask)), all);
        }
    }
}

#[test]
fn zhaoxin_has_encodings_of_its_own() {
    let general = 0xf;
    let [first, second, third] = [1u64 << 32, 1 << 33, 1 << 34];

    let zxc = zhaoxin_cpu(6, 0x19, 0).detect().unwrap();
    assert_eq!(names(&zxc), [EventName::CpuCycles]);
    assert_eq!(counters(&zxc, 0x82), Some(general | second));
    assert_eq!(counters(&zxc, 0xc0), Some(general));

    for (model, branches) in [(0x1b, 0x0700), (0x3b, 0x0028)] {
        let caps = zhaoxin_cpu(7, model, 0).detect().unwrap();
        assert_eq!(counters(&caps, 0xc0), Some(general | first));
        assert_eq!(counters(&caps, 0x82), Some(general | second));
        assert_eq!(counters(&caps, 0x83), Some(general | third));
        // Nothing of Intel's.
        assert_eq!(counters(&caps, 0x3c), Some(general));
        assert_eq!(counters(&caps, 0x0300), Some(general));
        assert_eq!(config_of(&caps, EventName::BusCycles), Some(0x83));
        assert_eq!(
            config_of(&caps, EventName::BranchInstructions),
            Some(branches)
        );
        assert_eq!(config_of(&caps, EventName::RefCycles), None);
        assert_eq!(
            fields(&caps),
            [
                ("event", "0-7"),
                ("umask", "8-15"),
                ("edge", "18"),
                ("inv", "23"),
                ("cmask", "24-31")
            ]
        );
        assert_eq!(counters(&caps, EventSel::ANY.mask() | 0xc0), None);
        assert_eq!(caps.pmu_name, None);
    }

    // The Nano, and what is not known.
    assert!(zhaoxin_cpu(6, 0x0f, 0x0d).detect().is_none());
    assert!(zhaoxin_cpu(6, 0x0f, 0x0e).detect().is_some());
    assert!(zhaoxin_cpu(7, 0x5b, 0).detect().is_none());
    let centaur = Cpuid::new(b"CentaurHauls", 7, 0x1b, 0);
    assert!(centaur.detect().is_none());
    let centaur = centaur.with(0xa, 0, LEAF_0A);
    assert_eq!(centaur.detect().unwrap().counters.len(), 7);
    assert!(centaur.detect_as(2).is_some());
    assert!(centaur.detect_as(1).is_none());
    // One of the architectural events is missing.
    let [eax, _, ecx, edx] = LEAF_0A;
    let cpu = Cpuid::new(b"  Shanghai  ", 7, 0x1b, 0).with(0xa, 0, [eax, 1 << 2, ecx, edx]);
    assert_eq!(cpu.detect().unwrap().hardware_event(6), None);
}
