// SPDX-License-Identifier: GPL-2.0

//! The counts of the PMU model, against the reference that goes through every instruction.

use arbitrary::{Result, Unstructured};
use pmu_model::{msr::*, Config, Mode, Pmu, Retired, Vendor};

#[path = "../../../pmu-model/tests/reference/mod.rs"]
mod reference;

use reference::{Counter, Instruction, Reference};

/// The events that the reference knows (`pmu-model/tests/reference`).
const INTEL: [u64; 7] = [0x003c, 0x013c, 0x00c0, 0x00c4, 0x00c5, 0x4f2e, 0x412e];
const AMD: [u64; 10] = [
    0x0076, 0x00c0, 0x00c2, 0x00c3, 0x037d, 0x077d, 0xff60, 0x037e, 0x077e, 0x0964,
];
/// From version 5 on.
const SLOTS: u64 = 0x01a4;

/// The registers of a general-purpose counter: its control, and the counter.
fn registers(config: &Config, i: u32) -> [u32; 2] {
    match (config.vendor, config.version) {
        (Vendor::Amd, 1) => [K7_PERF_CTL0 + i, K7_PERF_CTR0 + i],
        (Vendor::Amd, _) => [PERF_CTL0 + 2 * i, PERF_CTR0 + 2 * i],
        _ => [IA32_PERFEVTSEL0 + i, IA32_PMC0 + i],
    }
}

fn global_ctrl(config: &Config) -> Option<u32> {
    match (config.vendor, config.version) {
        (Vendor::Amd, 3) => Some(PERF_CNTR_GLOBAL_CTL),
        (Vendor::Amd, _) | (_, 1) => None,
        _ => Some(IA32_PERF_GLOBAL_CTRL),
    }
}

fn eventsel(u: &mut Unstructured<'_>, config: &Config) -> Result<u64> {
    let event = match (config.vendor, config.version) {
        (Vendor::Amd, _) => *u.choose(&AMD)?,
        (_, 5..) if u.ratio(1, 8)? => SLOTS,
        _ => *u.choose(&INTEL)?,
    };
    let mut eventsel = event | EventSel::EN;
    let modifiers = [
        (EventSel::USR, 3),
        (EventSel::OS, 2),
        (EventSel::INT, 2),
        (EventSel::EDGE, 1),
        (EventSel::INV, 1),
    ];
    for (bit, quarters) in modifiers {
        if u.ratio(quarters, 4)? {
            eventsel |= bit;
        }
    }
    if u.ratio(1, 3)? {
        eventsel |= u.int_in_range(1..=5)? << 24;
    }
    if config.version == 6 && u.ratio(1, 4)? {
        eventsel |= EventSel::EQ;
    }
    Ok(eventsel)
}

fn program(u: &mut Unstructured<'_>) -> Result<Vec<Instruction>> {
    let mut program = Vec::new();
    for _ in 0..u.int_in_range(1..=6)? {
        let mode = *u.choose(&Mode::ALL)?;
        let branch_every = u.int_in_range(0..=6)?;
        for i in 1..=u.int_in_range(1..=1000)? {
            let branch = branch_every != 0 && i % branch_every == 0;
            program.push(Instruction { mode, branch });
        }
    }
    Ok(program)
}

/// The instructions of a part of the program, by mode.
fn sum(part: &[Instruction]) -> [Retired; 2] {
    Mode::ALL.map(|mode| {
        let in_mode = part.iter().filter(|it| it.mode == mode);
        Retired {
            instructions: in_mode.clone().count() as u64,
            branches: in_mode.filter(|it| it.branch).count() as u64,
            ..Retired::default()
        }
    })
}

/// The target.
pub fn check(u: &mut Unstructured<'_>) -> Result<()> {
    let (vendor, versions) = *u.choose(&[(Vendor::Intel, 6), (Vendor::Amd, 3)])?;
    let mut config = Config::new(vendor, u.int_in_range(1..=versions)?).unwrap();
    if vendor == Vendor::Intel {
        config.shape.width = u.int_in_range(32..=48)?;
    }
    let mut pmu = Pmu::new(config).unwrap();
    let width = config.shape.width;
    let mut counters = Vec::new();
    for i in 0..config.shape.general.into() {
        let eventsel = eventsel(u, &config)?;
        let until_overflow = match u.arbitrary()? {
            true => u.int_in_range(1..=50)?,
            false => u.int_in_range(1..=1 << 31)?,
        };
        let value = (1 << width) - until_overflow;
        let [control, counter] = registers(&config, i);
        pmu.wrmsr(control, eventsel).unwrap();
        pmu.wrmsr(counter, value).unwrap();
        counters.push(Counter::new(vendor, eventsel, i, width, value));
    }
    if let Some(msr) = global_ctrl(&config) {
        pmu.wrmsr(msr, (1 << config.shape.general) - 1).unwrap();
    }
    let mut reference = Reference::new(counters);
    let program = program(u)?;
    let mut rest = &program[..];
    while !rest.is_empty() {
        let (part, after) = rest.split_at(u.int_in_range(1..=rest.len())?);
        rest = after;
        pmu.retire(&sum(part));
        let mut pmi = false;
        for &instruction in part {
            let overflowed = reference.retire(instruction);
            pmi |= reference.raises_pmi(overflowed);
        }
        for counter in &reference.counters {
            let value = pmu.rdpmc(counter.bit, true, false);
            assert_eq!(value, Ok(counter.value), "{counter:?} of {config:?}");
        }
        assert_eq!(pmu.take_pmi(), pmi, "{config:?}");
    }
    Ok(())
}
