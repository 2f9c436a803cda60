// SPDX-License-Identifier: GPL-2.0

//! Kinds of branches, loads and stores, which the processors in the tables count.

use pmu_model::{msr::*, Config, Mode, Pmu, Retired, Signature, Vendor};
use proptest::prelude::*;

mod nehalem;
use nehalem::clear_if_needed;

/// What retires in the tests. All numbers, and what events make of them, differ.
const RETIRED: Retired = Retired {
    instructions: 1000,
    branches: 200,
    conditional: 150,
    conditional_taken: 90,
    near_unconditional: 40,
    loads: 300,
    stores: 100,
};

const CONDITIONAL: u64 = 150;
const CONDITIONAL_TAKEN: u64 = 90;
const NOT_TAKEN: u64 = 150 - 90;
const TAKEN: u64 = 200 - 150 + 90;
const NEAR_TAKEN: u64 = 40 + 90;
const LOADS: u64 = 300;
const STORES: u64 = 100;

/// A processor, the code of an event, and what it counts of [`RETIRED`].
type Case = (Vendor, u16, u8, u64, u64);

/// A processor of each kind that has such events.
const WITH: &[Case] = &[
    (Vendor::Intel, 6, 0x1a, 0x01c4, CONDITIONAL),
    (Vendor::Intel, 6, 0x1a, 0x010b, LOADS),
    (Vendor::Intel, 6, 0x1a, 0x020b, STORES),
    (Vendor::Intel, 6, 0x2a, 0x01c4, CONDITIONAL),
    (Vendor::Intel, 6, 0x2a, 0x10c4, NOT_TAKEN),
    (Vendor::Intel, 6, 0x2a, 0x20c4, NEAR_TAKEN),
    (Vendor::Intel, 6, 0x2a, 0x81d0, LOADS),
    (Vendor::Intel, 6, 0x2a, 0x82d0, STORES),
    (Vendor::Intel, 6, 0x9e, 0x01c4, CONDITIONAL),
    (Vendor::Intel, 6, 0x9e, 0x10c4, NOT_TAKEN),
    (Vendor::Intel, 6, 0x9e, 0x20c4, NEAR_TAKEN),
    (Vendor::Intel, 6, 0x9e, 0x81d0, LOADS),
    (Vendor::Intel, 6, 0x9e, 0x82d0, STORES),
    (Vendor::Intel, 6, 0x6a, 0x11c4, CONDITIONAL),
    (Vendor::Intel, 6, 0x6a, 0x01c4, CONDITIONAL_TAKEN),
    (Vendor::Intel, 6, 0x8f, 0x11c4, CONDITIONAL),
    (Vendor::Intel, 6, 0x8f, 0x01c4, CONDITIONAL_TAKEN),
    (Vendor::Intel, 6, 0x8f, 0x10c4, NOT_TAKEN),
    (Vendor::Intel, 6, 0x8f, 0x20c4, NEAR_TAKEN),
    (Vendor::Intel, 6, 0xbd, (1 << 40) | 0x11c4, CONDITIONAL),
    (
        Vendor::Intel,
        6,
        0xbd,
        (1 << 40) | 0x01c4,
        CONDITIONAL_TAKEN,
    ),
    (Vendor::Intel, 6, 0xbd, 0x10c4, NOT_TAKEN),
    (Vendor::Intel, 6, 0xcc, 0x07c4, CONDITIONAL),
    (Vendor::Intel, 6, 0xcc, 0x03c4, CONDITIONAL_TAKEN),
    (Vendor::Intel, 6, 0xcc, 0x04c4, NOT_TAKEN),
    (Vendor::Intel, 6, 0xcc, 0xfbc4, NEAR_TAKEN),
    (Vendor::Intel, 18, 0x01, 0x07c4, CONDITIONAL),
    (Vendor::Intel, 6, 0x37, 0x7ec4, CONDITIONAL),
    (Vendor::Intel, 6, 0x37, 0xfec4, CONDITIONAL_TAKEN),
    (Vendor::Intel, 6, 0x37, 0x80c4, TAKEN),
    (Vendor::Intel, 6, 0x37, 0x4004, LOADS),
    (Vendor::Intel, 6, 0x37, 0x8004, STORES),
    (Vendor::Intel, 6, 0x57, 0x4004, LOADS),
    (Vendor::Intel, 6, 0x5c, 0x80c4, TAKEN),
    (Vendor::Intel, 6, 0x5c, 0x81d0, LOADS),
    (Vendor::Intel, 6, 0x96, 0xfec4, CONDITIONAL_TAKEN),
    (Vendor::Intel, 6, 0xbe, 0x7ec4, CONDITIONAL),
    (Vendor::Intel, 6, 0xbe, 0xc0c4, NEAR_TAKEN),
    (Vendor::Intel, 6, 0xbe, 0x82d0, STORES),
    (Vendor::Intel, 6, 0xaf, 0x7ec4, CONDITIONAL),
    (Vendor::Intel, 6, 0xdd, 0x07c4, CONDITIONAL),
    (Vendor::Amd, 0x17, 0x01, 0x00d1, CONDITIONAL),
    (Vendor::Amd, 0x17, 0x01, 0x00c4, TAKEN),
    (Vendor::Amd, 0x19, 0x61, 0x00d1, CONDITIONAL),
    (Vendor::Amd, 0x19, 0x61, 0x00c4, TAKEN),
];

/// Processors without them, and codes that others have.
const WITHOUT: &[Case] = &[
    (Vendor::Intel, 6, 0x0f, 0x01c4, 0),
    (Vendor::Intel, 6, 0x1a, 0x10c4, 0),
    (Vendor::Intel, 6, 0x9e, 0x11c4, 0),
    (Vendor::Intel, 6, 0xbd, 0x11c4, 0),
    (Vendor::Intel, 6, 0x1c, 0x7ec4, 0),
    (Vendor::Intel, 6, 0x37, 0x81d0, 0),
    (Vendor::Amd, 0x10, 0x02, 0x00d1, 0),
    (Vendor::Amd, 0x17, 0x01, 0x01d1, 0),
    (Vendor::Amd, 0x17, 0x01, (1 << 32) | 0x00d1, 0),
];

/// The PMU of a processor whose counter 0 counts an event in user mode.
fn pmu((vendor, family, model, code, _): Case, fields: u64) -> Pmu {
    let signature = Signature {
        family,
        model,
        stepping: 0,
    };
    let config = Config::of_processor(vendor, signature, false).unwrap();
    let mut pmu = Pmu::new(config).unwrap();
    if family == 6 {
        clear_if_needed(&mut pmu, model);
    }
    let (select, counter) = match vendor {
        Vendor::Amd => (K7_PERF_CTL0, K7_PERF_CTR0),
        _ => (IA32_PERFEVTSEL0, IA32_PMC0),
    };
    pmu.wrmsr(
        select,
        EventSel::EN | EventSel::INT | EventSel::USR | fields | code,
    )
    .unwrap();
    if vendor == Vendor::Intel && config.version > 1 {
        pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 1).unwrap();
    }
    pmu.wrmsr(counter, 0).unwrap();
    pmu
}

fn count(pmu: &mut Pmu) -> u64 {
    pmu.rdpmc(0, true, false).unwrap()
}

/// Retires [`RETIRED`] in both modes. Kernel mode is not counted.
fn retire(pmu: &mut Pmu) {
    pmu.retire(&[RETIRED, RETIRED]);
}

#[test]
fn processors_count_them() {
    for case in WITH {
        let (.., want) = *case;
        let mut pmu = pmu(*case, 0);
        retire(&mut pmu);
        assert_eq!(count(&mut pmu), want, "{case:x?}");
        retire(&mut pmu);
        assert_eq!(count(&mut pmu), 2 * want, "{case:x?}");
    }
}

/// All but conditional branches need numbers that cost the emulator more.
#[test]
fn details_are_asked_for() {
    for case in WITH {
        let (.., want) = *case;
        let mut pmu = pmu(*case, 0);
        assert_eq!(pmu.counts_details(), want != CONDITIONAL, "{case:x?}");
        pmu.reset();
        assert!(!pmu.counts_details(), "{case:x?}");
    }
}

#[test]
fn others_do_not() {
    for case in WITHOUT {
        let mut pmu = pmu(*case, 0);
        retire(&mut pmu);
        assert_eq!(count(&mut pmu), 0, "{case:x?}");
    }
}

/// The cycles without a kind, of which each has one instruction.
#[test]
fn cycles_without_one() {
    const STALLS: u64 = 15 * (RETIRED.branches / 64);
    for case in WITH.iter().filter(|(_, _, model, ..)| *model == 0x9e) {
        let (.., want) = *case;
        let mut pmu = pmu(*case, EventSel::INV | (1 << 24));
        retire(&mut pmu);
        let cycles = RETIRED.instructions + STALLS;
        assert_eq!(count(&mut pmu), cycles - want, "{case:x?}");
    }
}

/// An instruction of the programs that are counted below.
#[derive(Clone, Copy, Debug)]
struct Instruction {
    /// Conditional: 0 not taken, 1 taken. Unconditional: 2 near, 3 far. 4 is no branch.
    branch: u8,
    load: bool,
    store: bool,
}

fn instruction() -> impl Strategy<Value = Instruction> {
    (0..=4_u8, any::<bool>(), any::<bool>()).prop_map(|(branch, load, store)| Instruction {
        branch,
        load,
        store,
    })
}

fn total(program: &[Instruction]) -> Retired {
    let number = |is: fn(&Instruction) -> bool| program.iter().filter(|it| is(it)).count() as u64;
    Retired {
        instructions: program.len() as u64,
        branches: number(|it| it.branch < 4),
        conditional: number(|it| it.branch < 2),
        conditional_taken: number(|it| it.branch == 1),
        near_unconditional: number(|it| it.branch == 2),
        loads: number(|it| it.load),
        stores: number(|it| it.store),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A counter overflows with the instruction that makes it wrap, and never within a budget.
    #[test]
    fn overflow(
        case in prop::sample::select(WITH),
        period in 1..2_000_u64,
        program in prop::collection::vec(instruction(), 1..10_000),
    ) {
        // With full width, so that all bits of the counter can be written.
        prop_assume!(case.0 == Vendor::Amd || case.2 == 0x9e || case.2 == 0x8f);
        let (vendor, ..) = case;
        let mut pmu = pmu(case, 0);
        let counter = if vendor == Vendor::Amd { K7_PERF_CTR0 } else { IA32_PMC0 };
        pmu.wrmsr(counter, period.wrapping_neg()).unwrap();
        let kind = [CONDITIONAL, CONDITIONAL_TAKEN, NOT_TAKEN, TAKEN, NEAR_TAKEN, LOADS, STORES]
            .iter()
            .position(|it| *it == case.4);
        let of_kind = |it: &Instruction| match kind {
            Some(0) => it.branch < 2,
            Some(1) => it.branch == 1,
            Some(2) => it.branch == 0,
            Some(3) => matches!(it.branch, 1..=3),
            Some(4) => matches!(it.branch, 1 | 2),
            Some(5) => it.load,
            _ => it.store,
        };
        let mut rest = program.as_slice();
        let mut counted = 0;
        while !rest.is_empty() {
            let [budget, _] = pmu.budget(Mode::User);
            let budget = usize::try_from(budget).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at(budget);
            let before = counted;
            counted += now.iter().filter(|it| of_kind(it)).count() as u64;
            // The last instruction of a budget may be the one that overflows.
            prop_assert!(counted <= period || before >= period);
            pmu.retire(&[total(now), Retired::default()]);
            prop_assert_eq!(pmu.take_pmi(), before < period && counted == period);
            rest = later;
        }
    }
}
