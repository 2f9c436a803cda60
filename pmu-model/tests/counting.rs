// SPDX-License-Identifier: GPL-2.0

//! Compares counts and overflows with the reference, for any program on any PMU.

use crate::reference::{Counter, Instruction, Reference};
use pmu_model::{
    event::PATTERN_INSTRUCTIONS, msr::*, Config, Mode, Pmu, RefCycles, Retired, Shape, Vendor,
};
use proptest::prelude::*;

/// A part of a program that runs in one mode.
#[derive(Clone, Debug)]
struct Section {
    mode: Mode,
    instructions: u64,
    /// One instruction in this many is a branch; 0 means none.
    branch_every: u64,
}

fn section(max_instructions: u64) -> impl Strategy<Value = Section> {
    (
        prop_oneof![Just(Mode::User), Just(Mode::Kernel)],
        prop_oneof![1..20u64, 1..=max_instructions],
        0..7u64,
    )
        .prop_map(|(mode, instructions, branch_every)| Section {
            mode,
            instructions,
            branch_every,
        })
}

fn program(max_instructions: u64) -> impl Strategy<Value = Vec<Section>> {
    prop::collection::vec(section(max_instructions), 1..20)
}

fn instructions(program: &[Section]) -> Vec<Instruction> {
    let of_section = |section: &Section| {
        let &Section {
            mode, branch_every, ..
        } = section;
        (1..=section.instructions).map(move |i| Instruction {
            mode,
            branch: branch_every != 0 && i % branch_every == 0,
        })
    };
    program.iter().flat_map(of_section).collect()
}

/// An event select with random fields and an existing or a random event.
fn eventsel() -> impl Strategy<Value = u64> {
    fields(
        &[
            0x003c, 0x013c, 0x00c0, 0x00c4, 0x00c5, 0x4f2e, 0x412e, 0x01a4,
        ],
        0xffff,
    )
}

/// A PERF_CTL with random fields and an existing or a random event.
fn perf_ctl() -> impl Strategy<Value = u64> {
    let events = &[
        0x0076,
        0x00c0,
        0x00c2,
        0x00c3,
        0x037d,
        0x077d,
        0xff60,
        0x037e,
        0x077e,
        0x0964,
        0x1_0000_0120,
    ];
    let guest_or_host = prop_oneof![8 => Just(0), 1 => 1..4u64].prop_map(|bits| bits << 40);
    (fields(events, 0xf_0000_ffff), guest_or_host)
        .prop_map(|(fields, guest_or_host)| fields | guest_or_host)
}

/// The fields that Intel and AMD have in common, with one of `events` or random bits of
/// `mask` as the event.
fn fields(events: &'static [u64], mask: u64) -> impl Strategy<Value = u64> {
    let event = prop_oneof![
        8 => prop::sample::select(events),
        1 => any::<u64>().prop_map(move |any| any & mask),
    ];
    let cmask = prop_oneof![4 => Just(0), 2 => Just(1), 1 => 2..6u64];
    (
        event,
        0..4u64,
        any::<[bool; 3]>(),
        cmask,
        prop::bool::weighted(0.9),
    )
        .prop_map(|(event, modes, [edge, int, inv], cmask, en)| {
            let bit = |set: bool, bit: u64| if set { bit } else { 0 };
            event
                | (modes * EventSel::USR)
                | bit(edge, EventSel::EDGE)
                | bit(int, EventSel::INT)
                | bit(inv, EventSel::INV)
                | bit(en, EventSel::EN)
                | (cmask << 24)
        })
}

/// The number of events until a counter overflows.
fn until_overflow() -> impl Strategy<Value = u64> {
    prop_oneof![1..50u64, 1..5000u64, 1..1u64 << 32]
}

#[derive(Clone, Debug)]
struct Setup {
    config: Config,
    /// The event select or PERF_CTL, and the number of events until overflow.
    general: Vec<(u64, u64)>,
    /// The field of FIXED_CTR_CTRL, and the number of events until overflow.
    fixed: Vec<(u64, u64)>,
}

fn setup() -> impl Strategy<Value = Setup> {
    prop_oneof![intel(), amd()]
}

fn amd() -> impl Strategy<Value = Setup> {
    (1..=3u8, 1..=15u8).prop_flat_map(|(version, general)| {
        let mut config = Config::new(Vendor::Amd, version).unwrap();
        if version == 3 {
            config.shape.general = general;
        }
        let general = prop::collection::vec(
            (perf_ctl(), until_overflow()),
            usize::from(config.shape.general),
        );
        general.prop_map(move |general| Setup {
            config,
            general,
            fixed: Vec::new(),
        })
    })
}

fn intel() -> impl Strategy<Value = Setup> {
    (2..=6u8, 1..=8u8, 0..=4u8, 32..=48u8).prop_flat_map(|(version, general, fixed, width)| {
        let fixed = fixed.min(if version >= 5 { 4 } else { 3 });
        let config = Config {
            vendor: Vendor::Intel,
            version,
            signature: None,
            core_type: None,
            shape: Shape {
                general,
                missing: 0,
                fixed,
                width,
                full_width: true,
            },
            ref_cycles: RefCycles::default(),
            lbrs: None,
        };
        let ctrl = prop::sample::select(vec![0, 1, 2, 3, 8, 9, 10, 11u64]);
        (
            prop::collection::vec(
                (eventsel(), until_overflow(), any::<bool>()),
                general as usize,
            ),
            prop::collection::vec((ctrl, until_overflow()), fixed as usize),
        )
            .prop_map(move |(general, fixed)| Setup {
                config,
                general: general
                    .into_iter()
                    .map(|(eventsel, until_overflow, eq)| match eq && version == 6 {
                        true => (eventsel | EventSel::EQ, until_overflow),
                        false => (eventsel, until_overflow),
                    })
                    .collect(),
                fixed,
            })
    })
}

impl Setup {
    /// Programs the model and the reference in the same way.
    fn build(&self) -> (Pmu, Reference) {
        match self.config.vendor {
            Vendor::Intel | Vendor::Zhaoxin => self.build_intel(),
            Vendor::Amd | Vendor::Hygon => self.build_amd(),
        }
    }

    /// The address of GLOBAL_STATUS, if the PMU has this register.
    fn status(&self) -> Option<u32> {
        match (self.config.vendor, self.config.version) {
            (Vendor::Intel | Vendor::Zhaoxin, _) => Some(IA32_PERF_GLOBAL_STATUS),
            (Vendor::Amd | Vendor::Hygon, 3) => Some(PERF_CNTR_GLOBAL_STATUS),
            (Vendor::Amd | Vendor::Hygon, _) => None,
        }
    }

    fn build_amd(&self) -> (Pmu, Reference) {
        let Config { version, .. } = self.config;
        let mut pmu = Pmu::new(self.config).unwrap();
        let mut counters = Vec::new();
        for (i, &(perf_ctl, until_overflow)) in (0..).zip(&self.general) {
            let value = (1 << 48) - until_overflow;
            let (ctl, ctr) = match version {
                1 => (K7_PERF_CTL0 + i, K7_PERF_CTR0 + i),
                _ => (PERF_CTL0 + 2 * i, PERF_CTR0 + 2 * i),
            };
            pmu.wrmsr(ctl, perf_ctl).unwrap();
            pmu.wrmsr(ctr, value).unwrap();
            // Only version 3 has reference cycles.
            let known = version == 3 || perf_ctl & 0xf_0000_ffff != 0x1_0000_0120;
            let perf_ctl = if known { perf_ctl } else { 0 };
            counters.push(Counter::new(Vendor::Amd, perf_ctl, i, 48, value));
        }
        (pmu, Reference::new(counters))
    }

    fn build_intel(&self) -> (Pmu, Reference) {
        let width = self.config.shape.width;
        let mut pmu = Pmu::new(self.config).unwrap();
        let mut counters = Vec::new();
        let mut global_ctrl = 0;
        for (i, &(eventsel, until_overflow)) in self.general.iter().enumerate() {
            let value = (1 << width) - until_overflow;
            pmu.wrmsr(IA32_PERFEVTSEL0 + i as u32, eventsel).unwrap();
            pmu.wrmsr(IA32_A_PMC0 + i as u32, value).unwrap();
            global_ctrl |= 1 << i;
            // Slots exist from version 5 on.
            let known = self.config.version >= 5 || eventsel & 0xffff != 0x01a4;
            let eventsel = if known { eventsel } else { 0 };
            counters.push(Counter::new(
                Vendor::Intel,
                eventsel,
                i as u32,
                width,
                value,
            ));
        }
        let mut fixed_ctr_ctrl = 0;
        for (i, &(ctrl, until_overflow)) in self.fixed.iter().enumerate() {
            let value = (1 << width) - until_overflow;
            pmu.wrmsr(IA32_FIXED_CTR0 + i as u32, value).unwrap();
            fixed_ctr_ctrl |= ctrl << (4 * i);
            let bit = FIXED_SHIFT + i;
            global_ctrl |= 1 << bit;
            let mut eventsel = [0x00c0, 0x003c, 0x013c, 0x01a4][i] | EventSel::EN;
            for (in_ctrl, in_eventsel) in [
                (fixed_ctrl::OS, EventSel::OS),
                (fixed_ctrl::USR, EventSel::USR),
                (fixed_ctrl::PMI, EventSel::INT),
            ] {
                if ctrl & in_ctrl != 0 {
                    eventsel |= in_eventsel;
                }
            }
            counters.push(Counter::new(
                Vendor::Intel,
                eventsel,
                bit as u32,
                width,
                value,
            ));
        }
        pmu.wrmsr(IA32_FIXED_CTR_CTRL, fixed_ctr_ctrl).unwrap();
        pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, global_ctrl).unwrap();
        (pmu, Reference::new(counters))
    }
}

fn assert_same(setup: &Setup, pmu: &mut Pmu, reference: &Reference) -> Result<(), TestCaseError> {
    let mut status = 0;
    for counter in &reference.counters {
        let ecx = match counter.bit {
            bit @ 0..32 => bit,
            bit => (0x4000 << 16) | (bit - 32),
        };
        let value = pmu.rdpmc(ecx, true, false).unwrap();
        prop_assert_eq!(value, counter.value, "{:?}", counter);
        status |= u64::from(counter.overflowed) << counter.bit;
    }
    if let Some(msr) = setup.status() {
        prop_assert_eq!(pmu.rdmsr(msr), Ok(status));
    }
    Ok(())
}

/// The instructions that retire in a part of a program.
fn sum(part: &[Instruction]) -> [Retired; 2] {
    Mode::ALL.map(|mode| {
        let in_mode = || part.iter().filter(move |i| i.mode == mode);
        Retired {
            instructions: in_mode().count() as u64,
            branches: in_mode().filter(|i| i.branch).count() as u64,
            ..Retired::default()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The counts are those of the reference, however many instructions a report covers.
    #[test]
    fn counts_match_the_reference(
        setup in setup(),
        program in program(5000),
        chunks in prop::collection::vec(1..3000usize, 1..20),
    ) {
        let (mut pmu, mut reference) = setup.build();
        let program = instructions(&program);
        let mut chunks = chunks.into_iter().cycle();
        let mut rest = &program[..];
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(chunks.next().unwrap().min(rest.len()));
            rest = after;
            pmu.retire(&sum(chunk));
            let mut pmi = false;
            for &instruction in chunk {
                let overflowed = reference.retire(instruction);
                pmi |= reference.raises_pmi(overflowed);
            }
            assert_same(&setup, &mut pmu, &reference)?;
            prop_assert_eq!(pmu.take_pmi(), pmi);
            prop_assert!(!pmu.take_pmi());
        }
    }

    /// If each report is made when the budget of a mode is used up, or when a mode with an
    /// empty budget is entered, every overflow and every PMI occurs right after the
    /// instruction that caused it.
    #[test]
    fn budget_ends_at_every_overflow(setup in setup(), program in program(3000)) {
        let (mut pmu, mut reference) = setup.build();
        let program = instructions(&program);
        let mut budget = [0; 2];
        let mut reported = 0;
        for (i, &instruction) in program.iter().enumerate() {
            let mode = instruction.mode as usize;
            if budget[mode] == 0 {
                pmu.retire(&sum(&program[reported..i]));
                reported = i;
                prop_assert!(!pmu.take_pmi());
                budget = pmu.budget(instruction.mode);
                prop_assert!(budget[mode] >= 1);
                prop_assert!(budget.iter().all(|&n| n <= Pmu::UNLIMITED));
            }
            budget[mode] -= 1;
            let overflowed = reference.retire(instruction);
            if budget[mode] == 0 {
                pmu.retire(&sum(&program[reported..=i]));
                reported = i + 1;
                assert_same(&setup, &mut pmu, &reference)?;
                prop_assert_eq!(pmu.take_pmi(), reference.raises_pmi(overflowed));
                budget = [0; 2];
            } else {
                prop_assert_eq!(overflowed, 0, "instruction {}", i);
            }
        }
    }

    /// Budgets reach the overflow in few steps.
    #[test]
    fn budget_takes_few_steps(
        eventsel in eventsel(),
        until_overflow in 1..1u64 << 40,
        branch_every in 3..9u64,
        both in any::<bool>(),
    ) {
        let mut pmu = Pmu::new(Config::new(Vendor::Intel, 6).unwrap()).unwrap();
        let modes = if both { EventSel::USR | EventSel::OS } else { EventSel::USR };
        let eventsel = eventsel & !(EventSel::OS | EventSel::INV) | modes | EventSel::EN;
        pmu.wrmsr(IA32_PERFEVTSEL0, eventsel).unwrap();
        pmu.wrmsr(IA32_A_PMC0, (1 << 48) - until_overflow).unwrap();
        let mut steps = 0;
        while pmu.counting() && pmu.rdmsr(IA32_PERF_GLOBAL_STATUS) == Ok(0) {
            let [instructions, _] = pmu.budget(Mode::User);
            let branches = instructions / branch_every;
            pmu.retire(&[Retired { instructions, branches, ..Retired::default() }, Retired::default()]);
            // Near the overflow a budget is one instruction. Stop there: without a branch
            // an event that needs one never occurs.
            if branches == 0 {
                break;
            }
            steps += 1;
            prop_assert!(steps < 300, "{:#x}: {:?}", eventsel, pmu);
        }
    }

    /// Any whole number of patterns counts the same, wherever it starts.
    #[test]
    fn patterns_count_the_same(
        eventsel in eventsel(),
        start in (0..10_000u64, 0..10_000u64),
        patterns in 1..100u64,
        branches in 1..16u64,
    ) {
        let count = |instructions, branches| {
            let mut pmu = Pmu::new(Config::new(Vendor::Intel, 6).unwrap()).unwrap();
            let eventsel = eventsel | EventSel::EN | EventSel::USR;
            pmu.wrmsr(IA32_PERFEVTSEL0, eventsel).unwrap();
            let gain = |pmu: &mut Pmu, instructions, branches| {
                pmu.retire(&[Retired { instructions, branches, ..Retired::default() }, Retired::default()]);
                pmu.rdpmc(0, true, false).unwrap()
            };
            let before = gain(&mut pmu, start.0.max(start.1), start.1);
            let from_start = gain(&mut pmu, instructions, branches) - before;
            pmu.reset();
            pmu.wrmsr(IA32_PERFEVTSEL0, eventsel).unwrap();
            (from_start, gain(&mut pmu, instructions, branches))
        };
        let (from_start, from_reset) =
            count(patterns * PATTERN_INSTRUCTIONS, patterns * branches * 256);
        prop_assert_eq!(from_start, from_reset);
    }

    /// A counter can wrap any number of times in one report. No total overflows.
    #[test]
    fn counters_wrap(
        width in 32..=48u8,
        value in any::<u32>(),
        amounts in prop::collection::vec(any::<[u64; 2]>(), 1..5),
    ) {
        let mut config = Config::new(Vendor::Intel, 4).unwrap();
        config.shape.width = width;
        let mut pmu = Pmu::new(config).unwrap();
        pmu.wrmsr(IA32_PERFEVTSEL0, EventSel::EN | EventSel::USR | EventSel::OS | 0xc0).unwrap();
        pmu.wrmsr(IA32_A_PMC0, value.into()).unwrap();
        let mut sum = u128::from(value);
        for amount in amounts {
            pmu.retire(&amount.map(|instructions| Retired {
                instructions,
                branches: instructions,
                ..Retired::default()
            }));
            sum += amount.map(u128::from).iter().sum::<u128>();
        }
        prop_assert_eq!(u128::from(pmu.rdmsr(IA32_PMC0).unwrap()), sum % (1 << width));
        prop_assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok(u64::from(sum >> width != 0)));
    }
}

/// 16 of these references to the last-level cache are in 4,096 instructions.
#[test]
fn budgets_of_whole_patterns() {
    let mut pmu = Pmu::new(Config::new(Vendor::Intel, 4).unwrap()).unwrap();
    let references = EventSel::EN | EventSel::USR | 0x4f2e;
    pmu.wrmsr(IA32_PERFEVTSEL0, references).unwrap();
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 1).unwrap();
    for (left, budget) in [(1, 256), (15, 3_840), (16, 4_096), (17, 4_352), (32, 8_192)] {
        pmu.wrmsr(IA32_A_PMC0, (1 << 48) - left).unwrap();
        assert_eq!(pmu.budget(Mode::User), [budget, Pmu::UNLIMITED], "{left}");
    }
}
