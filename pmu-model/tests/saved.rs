// SPDX-License-Identifier: GPL-2.0

//! PMUs that are saved and restored: the one that was restored behaves as the one that was saved.

use std::{num::NonZeroU64, sync::Arc};

use crate::operations::Operation;
use pmu_model::{
    msr::*, Config, Defect, Foreign, Mode, MsrError, PmiFault, Pmu, RefCycles, RestoreError,
    Retired, SavedPmu, Signature, SmtCore, Vendor,
};
use proptest::prelude::*;
use serde_json::Value;

/// The PMUs of a core's threads.
fn core(config: Config, defect: Defect, threads: usize) -> Vec<Pmu> {
    let core = Arc::new(SmtCore::new(threads));
    let pmu = |thread| {
        let mut pmu = Pmu::with_defect(config, defect).unwrap();
        if threads > 1 {
            pmu.set_thread(core.clone(), thread);
        }
        pmu
    };
    (0..threads).map(pmu).collect()
}

fn to_text(pmu: &Pmu) -> String {
    serde_json::to_string(&pmu.save()).unwrap()
}

/// Puts the states of `from` into new PMUs, through text as a file has it.
fn restored(from: &[Pmu], config: Config, defect: Defect) -> Vec<Pmu> {
    let mut new = core(config, defect, from.len());
    for (new, from) in new.iter_mut().zip(from) {
        let saved: SavedPmu = serde_json::from_str(&to_text(from)).unwrap();
        new.restore(&saved).unwrap();
    }
    new
}

fn retired(instructions: u64) -> Retired {
    let branches = instructions / 3;
    Retired {
        instructions,
        branches,
        conditional: branches / 2,
        conditional_taken: branches / 3,
        near_unconditional: branches / 4,
        loads: instructions / 5,
        stores: instructions / 7,
    }
}

/// Does an operation, and returns all that can be seen of the PMU.
fn apply(pmu: &mut Pmu, operation: &Operation) -> String {
    let result = match operation {
        Operation::Read(msr) => format!("{:?}", pmu.rdmsr(*msr)),
        Operation::Write(msr, value) => format!("{:?}", pmu.wrmsr(*msr, *value)),
        Operation::ReadPmc(ecx, cpl0, pce) => format!("{:?}", pmu.rdpmc(*ecx, *cpl0, *pce)),
        Operation::Retire(instructions) => {
            pmu.report(&instructions.map(retired), instructions.map(|it| it / 2));
            String::new()
        }
        Operation::Inject(fault) => {
            pmu.inject(*fault);
            String::new()
        }
    };
    let budgets = Mode::ALL.map(|mode| pmu.budget(mode));
    let seen = (
        pmu.counting(),
        pmu.counts_details(),
        pmu.tsc_until_overflow(),
    );
    let pmi = pmu.take_pmi();
    format!("{result} {budgets:?} {seen:?} {pmi} {pmu:?}")
}

fn signature(family: u16, model: u8) -> Signature {
    Signature {
        family,
        model,
        stepping: 1,
    }
}

/// Any version, and processors that have more than registers: errata, shared registers, merged
/// counters, PERF_METRICS.
fn config() -> impl Strategy<Value = Config> {
    let versions = [
        (Vendor::Intel, 1..=6),
        (Vendor::Amd, 1..=3),
        (Vendor::Zhaoxin, 2..=2),
    ];
    let versions = versions.map(|(vendor, versions)| versions.map(move |it| (vendor, it)));
    let versions = versions.into_iter().flatten();
    let of_versions = versions.map(|(vendor, version)| Config::new(vendor, version).unwrap());
    let processors = [
        (Vendor::Intel, 6, 0x1e),
        (Vendor::Intel, 6, 0x2a),
        (Vendor::Intel, 6, 0x3c),
        (Vendor::Intel, 6, 0x8f),
        (Vendor::Intel, 18, 0x01),
        (Vendor::Amd, 0x17, 0x01),
        (Vendor::Amd, 0x19, 0x11),
    ];
    let of_processors = processors.map(|(vendor, family, model)| {
        Config::of_processor(vendor, signature(family, model), true).unwrap()
    });
    let configs: Vec<_> = of_versions.chain(of_processors).collect();
    (prop::sample::select(configs), any::<bool>()).prop_map(|(config, tsc)| Config {
        ref_cycles: match tsc {
            true => RefCycles::Tsc,
            false => RefCycles::Instructions,
        },
        ..config
    })
}

/// Configurations of emulated PMUs, each with a defect that such a PMU can have.
fn defective() -> impl Strategy<Value = (Config, Defect)> {
    let number = |n| NonZeroU64::new(n).unwrap();
    let defect = prop_oneof![
        Just(Defect::None),
        (1..100_u64).prop_map(move |n| Defect::Spurious(number(n))),
        (1..4_u64).prop_map(move |n| Defect::Pmi {
            every: number(n),
            fault: PmiFault::Delay(1000 * n),
        }),
        (prop::bool::ANY, 0..4_u64).prop_map(|(amd, after)| {
            let msr = if amd { K7_PERF_CTR0 } else { IA32_PMC0 };
            Defect::GeneralProtection { msr, after }
        }),
        Just(Defect::Status(1)),
        Just(Defect::MaskLvtpc),
        (1..100_u64).prop_map(move |seed| Defect::Garbage(number(seed))),
        (1..100_u64, any::<u64>()).prop_map(move |(n, seed)| Defect::Foreign {
            what: Foreign::Zero,
            every: number(n),
            seed,
        }),
    ];
    (config(), defect).prop_map(|(config, defect)| {
        let possible = Pmu::with_defect(config, defect).is_ok();
        (config, if possible { defect } else { Defect::None })
    })
}

fn operation() -> impl Strategy<Value = (usize, Operation)> {
    let msr = || {
        let near = |first: u32, n: u32| (first..first + n).boxed();
        prop::strategy::Union::new([
            near(IA32_PMC0, 4),
            near(IA32_PERFEVTSEL0, 4),
            near(IA32_FIXED_CTR0, 4),
            near(IA32_PERF_GLOBAL_STATUS, 4),
            near(PERF_CTL0, 4),
            near(K7_PERF_CTL0, 8),
            near(PERF_CNTR_GLOBAL_STATUS, 4),
            near(IA32_PMC_GP0_CTR, 2),
            near(MSR_OFFCORE_RSP_0, 2),
            Just(IA32_FIXED_CTR_CTRL).boxed(),
            Just(IA32_DEBUGCTL).boxed(),
            Just(MSR_PERF_METRICS).boxed(),
        ])
    };
    let small = any::<[u16; 2]>().prop_map(|n| Operation::Retire(n.map(u64::from)));
    let operation = prop_oneof![5 => crate::operations::operation(msr, 0xc0), 2 => small];
    (0..2_usize, operation)
}

fn on(pmus: &mut [Pmu], (thread, operation): &(usize, Operation)) -> String {
    let thread = thread % pmus.len();
    apply(&mut pmus[thread], operation)
}

/// Where the numbers of a state are. No name has a digit.
fn numbers(text: &str) -> Vec<(usize, usize)> {
    let mut numbers: Vec<(usize, usize)> = Vec::new();
    for (i, _) in text.match_indices(|c: char| c.is_ascii_digit()) {
        match numbers.last_mut() {
            Some((_, end)) if *end == i => *end += 1,
            _ => numbers.push((i, i + 1)),
        }
    }
    numbers
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nobody_can_tell(
        (config, defect) in defective(),
        threads in 1..=2_usize,
        svm: [bool; 2],
        before in prop::collection::vec(operation(), 0..60),
        after in prop::collection::vec(operation(), 0..30),
    ) {
        let mut pmus = core(config, defect, threads);
        let [svme, guest] = svm;
        pmus[0].set_svm(svme, guest);
        for operation in &before {
            on(&mut pmus, operation);
        }
        let mut twins = restored(&pmus, config, defect);
        for (pmu, twin) in pmus.iter().zip(&twins) {
            prop_assert_eq!(pmu.save(), twin.save());
        }
        for operation in &after {
            prop_assert_eq!(on(&mut pmus, operation), on(&mut twins, operation));
        }
    }

    /// A state that was changed is refused or is one that a PMU can be in: nothing panics.
    #[test]
    fn a_damaged_state_does_no_harm(
        (config, defect) in defective(),
        threads in 1..=2_usize,
        before in prop::collection::vec(operation(), 0..30),
        which: prop::sample::Index,
        number in prop_oneof![any::<u128>(), any::<u64>().prop_map(u128::from), 0..4_u128],
        after in prop::collection::vec(operation(), 0..30),
    ) {
        let mut pmus = core(config, defect, threads);
        for operation in &before {
            on(&mut pmus, operation);
        }
        let mut text = to_text(&pmus[0]);
        let (start, end) = *which.get(&numbers(&text));
        text.replace_range(start..end, &number.to_string());
        let Ok(saved) = serde_json::from_str::<SavedPmu>(&text) else {
            return Ok(());
        };
        if pmus[0].restore(&saved).is_ok() {
            for operation in &after {
                on(&mut pmus, operation);
            }
        }
    }
}

/// An error that a thread has seen does not come again, and one that it has not seen still comes.
#[test]
fn disturbed_counters() {
    let haswell = Config::of_processor(Vendor::Intel, signature(6, 0x3c), true).unwrap();
    for seen_before in [true, false] {
        let mut pmus = core(haswell, Defect::None, 2);
        for (pmu, code) in pmus.iter_mut().zip([0x00c0, 0x11d0]) {
            pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 1).unwrap();
            let eventsel = EventSel::EN | EventSel::USR | code;
            pmu.wrmsr(IA32_PERFEVTSEL0, eventsel).unwrap();
        }
        if seen_before {
            pmus[0].report(&[retired(5), retired(0)], [0; 2]);
        }
        let mut twins = restored(&pmus, haswell, Defect::None);
        for pmu in [&mut pmus[0], &mut twins[0]] {
            pmu.report(&[retired(10), retired(0)], [0; 2]);
            let error = 1 << 40;
            let count = if seen_before { 15 } else { 10 };
            assert_eq!(pmu.rdmsr(IA32_PMC0), Ok(error + count));
        }
    }
}

#[test]
fn accesses_that_are_left() {
    let config = Config::new(Vendor::Intel, 4).unwrap();
    let (msr, after) = (IA32_PMC0, 3);
    let defect = Defect::GeneralProtection { msr, after };
    let pmus = core(config, defect, 1);
    assert_eq!(pmus[0].rdmsr(msr), Ok(0));
    let twins = restored(&pmus, config, defect);
    for result in [Ok(0), Ok(0), Err(MsrError::GeneralProtection)] {
        assert_eq!(twins[0].rdmsr(msr), result);
    }
}

#[test]
fn the_state_of_another_pmu_is_refused() {
    let config = |model| Config::of_processor(Vendor::Intel, signature(6, model), true).unwrap();
    let skylake = config(0x5e);
    let saved = core(skylake, Defect::None, 1)[0].save();
    let spurious = Defect::Spurious(NonZeroU64::MIN);
    for (config, defect, threads) in [
        (config(0x3c), Defect::None, 1),
        (skylake, spurious, 1),
        (skylake, Defect::None, 2),
    ] {
        let mut other = core(config, defect, threads);
        let before = format!("{:?}", other[0]);
        assert_eq!(other[0].restore(&saved), Err(RestoreError::OtherPmu));
        assert_eq!(format!("{:?}", other[0]), before);
    }
}

/// A number of a state may be as large as it ever is, and no larger.
#[test]
fn limits_of_a_state() {
    let [v1, v4] = [1, 4].map(|version| Config::new(Vendor::Intel, version).unwrap());
    let golden_cove = Config::of_processor(Vendor::Intel, signature(6, 0x8f), true).unwrap();
    let every = NonZeroU64::new(10).unwrap();
    let protects = Defect::GeneralProtection {
        msr: IA32_PMC0,
        after: 3,
    };
    let changes = Defect::Foreign {
        what: Foreign::Zero,
        every,
        seed: 1,
    };
    let bits = |n: u32| (1_u128 << n) - 1;
    // The first number of each field.
    for (config, defect, field, most) in [
        (v4, Defect::None, "eventsel", bits(32)),
        (v4, Defect::None, "general", bits(48)),
        (v4, Defect::None, "fixed", bits(48)),
        (v4, Defect::None, "global_ctrl", 0x7_0000_000f),
        (
            v1,
            Defect::None,
            "global_status",
            bits(v1.shape.general.into()),
        ),
        (v4, Defect::None, "slots", bits(110)),
        (v4, Defect::None, "parts", bits(110)),
        (v4, Defect::None, "instructions", bits(100)),
        (v4, Defect::None, "tsc", bits(100)),
        // There are no instructions that could be these.
        (v4, Defect::None, "branches", 0),
        (v4, Defect::None, "conditional", 0),
        (v4, Defect::None, "conditional_taken", 0),
        (v4, Defect::None, "near_unconditional", 0),
        (v4, Defect::None, "loads", 0),
        (v4, Defect::None, "stores", 0),
        (v4, Defect::None, "requested", u128::from(u64::MAX / 2) - 1),
        (v4, Defect::None, "since_spurious", 0),
        (v4, Defect::Spurious(every), "since_spurious", 9),
        (v4, Defect::None, "accesses", 0),
        (v4, protects, "accesses", 3),
        (v4, Defect::None, "since_change", 0),
        (v4, changes, "since_change", 9),
        (golden_cove, Defect::None, "model_msrs", bits(38)),
        (golden_cove, Defect::None, "disturbed", bits(8)),
        (golden_cove, Defect::None, "msrs", bits(38)),
    ] {
        let mut pmu = core(config, defect, 2).remove(0);
        let text = to_text(&pmu);
        let state = text.find("\"state\":").unwrap();
        let name = text[state..].find(&format!("\"{field}\":")).unwrap();
        let mut numbers = numbers(&text).into_iter();
        let (start, end) = numbers.find(|(i, _)| *i > state + name).unwrap();
        for (number, expected) in [(most, Ok(())), (most + 1, Err(RestoreError::Impossible))] {
            let mut text = text.clone();
            text.replace_range(start..end, &number.to_string());
            let saved: SavedPmu = serde_json::from_str(&text).unwrap();
            assert_eq!(pmu.restore(&saved), expected, "{field}: {number:#x}");
        }
    }
}

#[test]
fn a_state_that_no_pmu_has_is_refused() {
    let config = Config::new(Vendor::Intel, 4).unwrap();
    let mut pmu = Pmu::new(config).unwrap();
    let good = serde_json::to_value(pmu.save()).unwrap();
    let bit_48 = Value::from(1_u64 << 48);
    for (field, value) in [
        ("/state/general/0", bit_48.clone()),
        ("/state/general/4", 1.into()),
        ("/state/fixed/2", bit_48.clone()),
        ("/state/fixed/3", 1.into()),
        ("/state/eventsel/0", bit_48.clone()),
        ("/state/eventsel/4", 0xc0.into()),
        ("/state/fixed_ctr_ctrl", (1 << 13).into()),
        ("/state/global_ctrl", (1 << 5).into()),
        ("/state/global_status", (1 << 5).into()),
        ("/state/debugctl", bit_48),
        ("/state/model_msrs/0", 1.into()),
        ("/state/metrics/counted", true.into()),
        ("/state/totals/0/branches", 1.into()),
        ("/state/totals/1/conditional_taken", 1.into()),
        ("/state/pmi/delayed", vec![0].into()),
        ("/state/accesses", 1.into()),
    ] {
        let mut state = good.clone();
        *state.pointer_mut(field).unwrap() = value;
        let saved: SavedPmu = serde_json::from_value(state).unwrap();
        let error = pmu.restore(&saved).unwrap_err();
        assert_eq!(error, RestoreError::Impossible, "{field}");
        assert_eq!(serde_json::to_value(pmu.save()).unwrap(), good, "{field}");
    }
    for of in [
        "",
        "/config",
        "/state",
        "/state/pmi",
        "/state/totals/1",
        "/state/metrics",
    ] {
        let mut state = good.clone();
        state.pointer_mut(of).unwrap()["unknown"] = 0.into();
        let result = serde_json::from_value::<SavedPmu>(state);
        assert!(result.is_err(), "{of}");
    }
}
