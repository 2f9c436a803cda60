// SPDX-License-Identifier: GPL-2.0

//! Kinds of branches, loads and stores, which the processors in the tables count.

use pmu_model::{msr::*, Config, Mode, Pmu, Retired, Signature, Vendor};
use proptest::prelude::*;

use crate::nehalem::clear_if_needed;

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

/// Whether an instruction is of the kind of which [`RETIRED`] has so many.
fn is_of_kind(number: u64, it: &Instruction) -> bool {
    match number {
        CONDITIONAL => it.branch < 2,
        CONDITIONAL_TAKEN => it.branch == 1,
        NOT_TAKEN => it.branch == 0,
        TAKEN => matches!(it.branch, 1..=3),
        NEAR_TAKEN => matches!(it.branch, 1 | 2),
        LOADS => it.load,
        _ => it.store,
    }
}

/// What a program makes an event count, or the cycles without it (`pmu-model/src/event/mod.rs`).
fn counted(number: u64, without: bool, program: &[Instruction]) -> u64 {
    let of_kind = program.iter().filter(|it| is_of_kind(number, it)).count() as u64;
    let Retired {
        instructions,
        branches,
        ..
    } = total(program);
    let cycles = instructions + 15 * (branches / 64) + 100 * (instructions / 4096);
    if without {
        cycles - of_kind
    } else {
        of_kind
    }
}

/// The cases of processors on which all bits of a counter can be written.
fn full_width() -> Vec<Case> {
    let is_full = |case: &&Case| case.0 == Vendor::Amd || [0x9e, 0x8f].contains(&case.2);
    WITH.iter().filter(is_full).copied().collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A counter overflows with the instruction that makes it wrap, and never within a budget.
    #[test]
    fn overflow(
        case in prop::sample::select(full_width()),
        without in any::<bool>(),
        period in 1..2_000_u64,
        program in prop::collection::vec(instruction(), 1..10_000),
    ) {
        let (vendor, .., number) = case;
        let mut pmu = pmu(case, if without { EventSel::INV | (1 << 24) } else { 0 });
        let counter = if vendor == Vendor::Amd { K7_PERF_CTR0 } else { IA32_PMC0 };
        pmu.wrmsr(counter, period.wrapping_neg()).unwrap();
        let mut end = 0;
        while end < program.len() {
            let start = end;
            let [budget, _] = pmu.budget(Mode::User);
            let budget = usize::try_from(budget).unwrap_or(usize::MAX);
            end = start.saturating_add(budget).min(program.len());
            let overflowed = |end| counted(number, without, &program[..end]) >= period;
            // The last instruction of a budget may be the one that overflows.
            prop_assert!(overflowed(start) || !overflowed(end - 1));
            pmu.retire(&[total(&program[start..end]), Retired::default()]);
            prop_assert_eq!(pmu.take_pmi(), !overflowed(start) && overflowed(end));
        }
    }
}

/// A budget of both modes is for branches that are not taken, too, although most instructions that
/// are branches are taken.
#[test]
fn budgets_of_both_modes() {
    for case in WITH.iter().filter(|it| it.2 == 0x9e) {
        let mut pmu = pmu(*case, EventSel::OS);
        pmu.wrmsr(IA32_PMC0, 100_u64.wrapping_neg()).unwrap();
        assert_eq!(pmu.budget(Mode::User), [75, 25], "{case:x?}");
        assert_eq!(pmu.budget(Mode::Kernel), [25, 75], "{case:x?}");
    }
}
