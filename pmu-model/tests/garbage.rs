// SPDX-License-Identifier: GPL-2.0

//! Registers that start with garbage, and registers that change behind the driver's back.

use std::{collections::BTreeSet, num::NonZeroU64};

use pmu_model::{
    msr::*, Config, ConfigError, Defect, Foreign, Mode, MsrError, Pmu, Retired, Signature, Vendor,
};

fn number(n: u64) -> NonZeroU64 {
    NonZeroU64::new(n).unwrap()
}

/// All versions of all vendors, and processors with extra registers, PERF_METRICS and pairs.
fn configs() -> Vec<Config> {
    let intel = (1..=6).map(|version| (Vendor::Intel, version));
    let amd = (1..=3).map(|version| (Vendor::Amd, version));
    let versions = intel.chain(amd).chain([(Vendor::Zhaoxin, 2)]);
    let versions = versions.map(|(vendor, version)| Config::new(vendor, version).unwrap());
    let processors = [
        (Vendor::Intel, 6, 0x55),
        (Vendor::Intel, 6, 0x8f),
        (Vendor::Amd, 0x19, 0x11),
    ];
    let processors = processors.map(|(vendor, family, model)| {
        let signature = Signature {
            family,
            model,
            stepping: 1,
        };
        Config::of_processor(vendor, signature, false).unwrap()
    });
    versions.chain(processors).collect()
}

/// The addresses of all registers that can be written, and PERF_GLOBAL_STATUS.
fn addresses() -> impl Iterator<Item = u32> {
    let amd = (PERF_CNTR_GLOBAL_STATUS..=PERF_CNTR_GLOBAL_CTL).chain(K7_PERF_CTL0..PERF_CTL0 + 32);
    (0xc0..0x400).chain(0x1328..0x1a00).chain(amd)
}

fn values(pmu: &Pmu) -> Vec<(u32, u64)> {
    let read = |msr| pmu.rdmsr(msr).ok().map(|value| (msr, value));
    addresses().filter_map(read).collect()
}

fn user(instructions: u64) -> [Retired; 2] {
    let retired = Retired {
        instructions,
        ..Retired::default()
    };
    [retired, Retired::default()]
}

/// A driver could have written the values, and they are there again after RESET.
#[test]
fn garbage_is_what_the_registers_accept() {
    for config in configs() {
        for seed in 1..30 {
            let mut pmu = Pmu::with_defect(config, Defect::Garbage(number(seed))).unwrap();
            let before = values(&pmu);
            let saved = pmu.save();
            pmu.restore(&saved).unwrap();
            let status = [IA32_PERF_GLOBAL_STATUS, PERF_CNTR_GLOBAL_STATUS];
            for &(msr, value) in before.iter().filter(|(msr, _)| !status.contains(msr)) {
                // Counters of Intel's are written through other addresses, and some registers are
                // read-only.
                let written = pmu.wrmsr(msr, value);
                let is_counter = (IA32_PMC0..IA32_PMC0 + 8).contains(&msr);
                let read_only = [IA32_PERF_CAPABILITIES, IA32_PERF_GLOBAL_INUSE].contains(&msr);
                if read_only {
                    assert_eq!(written, Err(MsrError::GeneralProtection), "{msr:#x}");
                } else if !is_counter {
                    assert_eq!(written, Ok(()), "{msr:#x} {value:#x}");
                }
            }
            pmu.reset();
            assert_eq!(values(&pmu), before, "{config:?} {seed}");
        }
    }
}

/// Some seeds have counters count, and PMIs arrive, before any driver has done anything.
#[test]
fn garbage_may_count() {
    for config in configs() {
        let (mut counting, mut pmis, mut frozen) = (0, 0, 0);
        for seed in 1..60 {
            let mut pmu = Pmu::with_defect(config, Defect::Garbage(number(seed))).unwrap();
            counting += u32::from(pmu.counting());
            pmu.retire(&user(1 << 21));
            pmis += u32::from(pmu.take_pmi());
            let status = pmu.rdmsr(IA32_PERF_GLOBAL_STATUS).unwrap_or(0);
            frozen += u32::from(status & global_status::CTR_FRZ != 0);
        }
        assert!(counting > 5 && pmis > 2, "{config:?}: {counting} {pmis}");
        let can_freeze = config.vendor == Vendor::Intel && config.version >= 4;
        assert_eq!(frozen > 0, can_freeze, "{config:?}");
    }
}

/// The merge event is where it makes a pair, and nowhere else. PERF_METRICS holds something, and where
/// the counters are frozen, some have overflowed.
#[test]
fn garbage_is_of_all_kinds() {
    const MERGE: u64 = EventSel::EN | EventSel::EVENT_HIGH | 0xff;
    for config in configs() {
        let has_pairs = config.signature.is_some_and(|it| it.family == 0x19);
        let is_golden_cove = config.signature.is_some_and(|it| it.model == 0x8f);
        let (mut merged, mut metrics, mut frozen) = (0, 0, 0);
        for seed in 1..60 {
            let pmu = Pmu::with_defect(config, Defect::Garbage(number(seed))).unwrap();
            if config.vendor == Vendor::Amd && config.version > 1 {
                for i in 0..6 {
                    let is_merge = pmu.rdmsr(PERF_CTL0 + 2 * i).unwrap() == MERGE;
                    assert!(!is_merge || i % 2 == 1, "{config:?} {i}");
                    merged += u32::from(is_merge);
                }
            }
            metrics += u32::from(pmu.rdmsr(MSR_PERF_METRICS).is_ok_and(|it| it != 0));
            let status = pmu.rdmsr(IA32_PERF_GLOBAL_STATUS).unwrap_or(0);
            frozen += u32::from(status & global_status::CTR_FRZ != 0 && status & 0xf != 0);
        }
        assert_eq!(merged > 10, has_pairs, "{config:?}: {merged}");
        assert_eq!(metrics > 50, is_golden_cove, "{config:?}: {metrics}");
        assert_eq!(metrics == 0, !is_golden_cove, "{config:?}: {metrics}");
        let can_freeze = config.vendor == Vendor::Intel && config.version >= 4;
        assert_eq!(frozen > 10, can_freeze, "{config:?}: {frozen}");
    }
}

/// EVENTSEL has another CMASK after each change, and mostly another event.
#[test]
fn each_change_is_another_one() {
    let config = Config::new(Vendor::Intel, 4).unwrap();
    let mut events = BTreeSet::new();
    for seed in 1..30 {
        let defect = Defect::Foreign {
            what: Foreign::EventSel,
            every: number(100),
            seed,
        };
        let mut pmu = Pmu::with_defect(config, defect).unwrap();
        pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 1).unwrap();
        for _ in 0..3 {
            let on = EventSel::EN | EventSel::USR | (1 << 24) | 0xc0;
            pmu.wrmsr(IA32_PERFEVTSEL0, on).unwrap();
            pmu.retire(&user(100));
            let changed = pmu.rdmsr(IA32_PERFEVTSEL0).unwrap();
            assert_eq!(changed & EventSel::CMASK, 0);
            events.insert(changed & !EventSel::CMASK);
        }
    }
    // Every other one is that of instructions.
    assert!((30..70).contains(&events.len()), "{}", events.len());
}

/// The addresses of EVENTSEL 0, counter 0 and GLOBAL_CTRL.
fn registers(config: Config) -> (u32, u32, Option<u32>) {
    match (config.vendor, config.version) {
        (Vendor::Amd, 1 | 2) => (K7_PERF_CTL0, K7_PERF_CTR0, None),
        (Vendor::Amd, _) => (PERF_CTL0, PERF_CTR0, Some(PERF_CNTR_GLOBAL_CTL)),
        (_, 1) => (IA32_PERFEVTSEL0, IA32_PMC0, None),
        _ => (IA32_PERFEVTSEL0, IA32_PMC0, Some(IA32_PERF_GLOBAL_CTRL)),
    }
}

/// A PMU whose counter 0 counts instructions from 1000 on.
fn counting(config: Config, what: Foreign) -> Pmu {
    let defect = Defect::Foreign {
        what,
        every: number(5_000),
        seed: 3,
    };
    let mut pmu = Pmu::with_defect(config, defect).unwrap();
    let (eventsel, counter, global_ctrl) = registers(config);
    let on = EventSel::EN | EventSel::USR | EventSel::OS | 0xc0;
    pmu.wrmsr(eventsel, on).unwrap();
    pmu.wrmsr(counter, 1_000).unwrap();
    if let Some(global_ctrl) = global_ctrl {
        pmu.wrmsr(global_ctrl, 1).unwrap();
    }
    pmu
}

/// The register changes with the instruction that the documentation names, and no other does.
#[test]
fn one_register_changes_at_its_time() {
    for config in configs() {
        let (eventsel, counter, global_ctrl) = registers(config);
        let kinds = [
            (Foreign::EventSel, Some(eventsel)),
            (Foreign::Counter, Some(counter)),
            (Foreign::GlobalCtrl, global_ctrl),
        ];
        for (what, changed) in kinds {
            let Some(changed) = changed else { continue };
            let mut pmu = counting(config, what);
            assert_eq!(pmu.budget(Mode::User), [3_750, 1_250]);
            pmu.retire(&user(4_999));
            assert_eq!(pmu.rdmsr(counter), Ok(5_999));
            let before = values(&pmu);
            assert_eq!(pmu.budget(Mode::User), [1, 0]);
            pmu.retire(&user(1));
            // The counter counts on, both have other addresses, and GLOBAL_INUSE follows.
            let related = [
                changed,
                counter,
                IA32_PMC_GP0_CTR,
                IA32_PMC_GP0_CFG_A,
                IA32_A_PMC0,
                PERF_CTL0,
                PERF_CTR0,
                K7_PERF_CTL0,
                K7_PERF_CTR0,
                IA32_PERF_GLOBAL_INUSE,
            ];
            let after = values(&pmu).into_iter();
            let differ = after.filter(|it| !before.contains(it) && !related.contains(&it.0));
            assert_eq!(differ.collect::<Vec<_>>(), [], "{config:?} {what:?}");
            let after = pmu.rdmsr(changed).unwrap();
            assert_ne!(
                before.iter().find(|(msr, _)| *msr == changed).unwrap().1,
                after
            );
            // The counter counted until then.
            let count = if what == Foreign::Counter { 0 } else { 6_000 };
            assert_eq!(pmu.rdmsr(counter), Ok(count), "{config:?} {what:?}");
            if what == Foreign::GlobalCtrl {
                assert_eq!(after & 1, 0);
                pmu.retire(&user(100));
                assert_eq!(pmu.rdmsr(counter), Ok(6_000));
            }
        }
    }
}

/// Time in which nothing counts does not bring the change nearer.
#[test]
fn nothing_changes_while_no_counter_counts() {
    let config = Config::new(Vendor::Intel, 4).unwrap();
    let mut pmu = counting(config, Foreign::Counter);
    pmu.retire(&user(4_999));
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 0).unwrap();
    assert_eq!(pmu.budget(Mode::User), [Pmu::UNLIMITED; 2]);
    pmu.retire(&user(100_000));
    assert_eq!(pmu.rdmsr(IA32_PMC0), Ok(5_999));
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 1).unwrap();
    pmu.retire(&user(1));
    assert_eq!(pmu.rdmsr(IA32_PMC0), Ok(0));
}

#[test]
fn all_is_zero_after_a_mediated_guest() {
    for config in configs() {
        let (eventsel, counter, global_ctrl) = registers(config);
        let mut pmu = counting(config, Foreign::Zero);
        pmu.retire(&user(5_000));
        assert!(!pmu.counting());
        for msr in [eventsel, counter].into_iter().chain(global_ctrl) {
            assert_eq!(pmu.rdmsr(msr), Ok(0), "{config:?} {msr:#x}");
        }
    }
}

#[test]
fn fixed_counters_change_their_modes() {
    let config = Config::new(Vendor::Intel, 4).unwrap();
    let defect = Defect::Foreign {
        what: Foreign::FixedCtrCtrl,
        every: number(10),
        seed: 0,
    };
    let mut pmu = Pmu::with_defect(config, defect).unwrap();
    pmu.wrmsr(IA32_FIXED_CTR_CTRL, 0x00a).unwrap();
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 1 << 32).unwrap();
    pmu.retire(&user(10));
    assert_eq!(pmu.rdmsr(IA32_FIXED_CTR_CTRL), Ok(0x339));
    assert_eq!(pmu.rdmsr(IA32_FIXED_CTR0), Ok(10));
}

#[test]
fn the_register_must_exist() {
    for (vendor, version, what) in [
        (Vendor::Intel, 1, Foreign::FixedCtrCtrl),
        (Vendor::Intel, 1, Foreign::GlobalCtrl),
        (Vendor::Amd, 2, Foreign::GlobalCtrl),
        (Vendor::Amd, 3, Foreign::FixedCtrCtrl),
    ] {
        let defect = Defect::Foreign {
            what,
            every: number(1),
            seed: 0,
        };
        let config = Config::new(vendor, version).unwrap();
        let error = Pmu::with_defect(config, defect).err();
        assert_eq!(error, Some(ConfigError::Foreign), "{vendor:?} {version}");
    }
}
