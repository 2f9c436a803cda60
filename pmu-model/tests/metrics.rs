// SPDX-License-Identifier: GPL-2.0

//! PERF_METRICS: which processors have it, what it reads, and when it overflows.

use pmu_model::{
    msr::*, Config, Defect, GeneralProtection, MsrError, Pmu, Retired, Signature, Vendor,
};
use proptest::prelude::*;

const GP: Result<u64, MsrError> = Err(MsrError::GeneralProtection);

/// Fixed-function counter 3 in GLOBAL_CTRL, and in FIXED_CTR_CTRL for user mode.
const SLOTS: u64 = 1 << 35;
const SLOTS_USER: u64 = fixed_ctrl::USR << 12;
const FIXED_CTR3: u32 = IA32_FIXED_CTR0 + 3;

fn processor(family: u16, model: u8) -> Config {
    let signature = Signature {
        family,
        model,
        stepping: 1,
    };
    Config::of_processor(Vendor::Intel, signature, false).unwrap()
}

fn golden_cove() -> Pmu {
    Pmu::new(processor(6, 0x8f)).unwrap()
}

/// Counts slots in user mode, with these values, in the order that the SDM demands.
fn start(pmu: &mut Pmu, slots: u64, metrics: u64) {
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 0).unwrap();
    pmu.wrmsr(IA32_FIXED_CTR_CTRL, SLOTS_USER).unwrap();
    pmu.wrmsr(FIXED_CTR3, slots).unwrap();
    pmu.wrmsr(MSR_PERF_METRICS, metrics).unwrap();
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, SLOTS | PERF_METRICS_BIT)
        .unwrap();
}

fn user(instructions: u64, branches: u64) -> [Retired; 2] {
    let retired = Retired {
        instructions,
        branches,
        ..Retired::default()
    };
    [retired, Retired::default()]
}

fn fields(pmu: &Pmu) -> [u8; 8] {
    pmu.rdmsr(MSR_PERF_METRICS).unwrap().to_le_bytes()
}

#[test]
fn processors_with_perf_metrics() {
    for (family, model, writable) in [
        (6, 0x5e, None),
        (6, 0x86, None),
        (6, 0xaf, None),
        (6, 0x7e, Some(0xffff_ffff)),
        (6, 0x6a, Some(0xffff_ffff)),
        (6, 0x8f, Some(u64::MAX)),
        (6, 0xad, Some(u64::MAX)),
        (6, 0xbd, Some(u64::MAX)),
        (19, 0x01, Some(u64::MAX)),
    ] {
        let what = format!("{family}-{model:#x}");
        let mut pmu = Pmu::new(processor(family, model)).unwrap();
        let available = pmu.perf_capabilities().unwrap() & PERF_METRICS_AVAILABLE != 0;
        assert_eq!(available, writable.is_some(), "{what}");
        let Some(writable) = writable else {
            assert_eq!(pmu.rdmsr(MSR_PERF_METRICS), GP, "{what}");
            assert_eq!(
                pmu.rdpmc(RDPMC_METRICS, true, false),
                Err(GeneralProtection)
            );
            let ctrl = pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, PERF_METRICS_BIT);
            assert_eq!(ctrl, Err(MsrError::GeneralProtection), "{what}");
            continue;
        };
        for bit in 0..64 {
            let written = pmu.wrmsr(MSR_PERF_METRICS, 1 << bit);
            assert_eq!(written.is_ok(), (writable >> bit) & 1 == 1, "{what} {bit}");
        }
        for msr in [IA32_PERF_GLOBAL_CTRL, IA32_PERF_GLOBAL_STATUS_RESET] {
            pmu.wrmsr(msr, PERF_METRICS_BIT).unwrap();
        }
    }
}

/// A field that is written is the nearest number of slots.
#[test]
fn written_fields_are_rounded() {
    let mut pmu = golden_cove();
    // 128 of 255 parts of 3 slots are 1.5 slots.
    start(&mut pmu, 3, 128);
    pmu.retire(&user(1, 0));
    assert_eq!(pmu.rdmsr(FIXED_CTR3), Ok(3 + 4));
    // The instruction retired in one of its 4 slots.
    assert_eq!(fields(&pmu)[0], (3.0_f64 / 7.0 * 255.0).round() as u8);
}

/// METRICS_CLEAR_EN of FIXED_CTR_CTRL, where there is such a bit.
const CLEAR: u64 = fixed_ctrl::METRICS_CLEAR << 12;

#[test]
fn rdpmc_clears_both_registers() {
    let mut lion_cove = Pmu::new(processor(6, 0xbd)).unwrap();
    let mut before_lion_cove = golden_cove();
    let capabilities = |pmu: &Pmu| pmu.perf_capabilities().unwrap() & RDPMC_METRICS_CLEAR;
    assert_eq!(capabilities(&before_lion_cove), 0);
    assert!(before_lion_cove.wrmsr(IA32_FIXED_CTR_CTRL, CLEAR).is_err());
    assert_ne!(capabilities(&lion_cove), 0);
    // The bit of the other counters is reserved.
    for counter in 0..3 {
        let bit = fixed_ctrl::METRICS_CLEAR << (4 * counter);
        assert!(lion_cove.wrmsr(IA32_FIXED_CTR_CTRL, bit).is_err());
    }

    for (clear, privileged) in [(0, true), (CLEAR, true), (CLEAR, false)] {
        let pmu = &mut lion_cove;
        start(pmu, 0, 0);
        pmu.wrmsr(IA32_FIXED_CTR_CTRL, SLOTS_USER | clear).unwrap();
        pmu.retire(&user(4096, 256));
        let left = fields(pmu);
        assert_eq!(left, [61, 4, 184, 6, 4, 4, 61, 6]);
        // RDPMC of the slots, and RDMSR, only read.
        assert_eq!(pmu.rdpmc((1 << 30) | 3, privileged, true), Ok(17024));
        assert_eq!(fields(pmu), left);
        let read = pmu.rdpmc(RDPMC_METRICS, privileged, true);
        assert_eq!(read, Ok(u64::from_le_bytes(left)));
        let (slots, left) = if clear == 0 {
            (17024, left)
        } else {
            (0, [0; 8])
        };
        assert_eq!(pmu.rdmsr(FIXED_CTR3), Ok(slots));
        assert_eq!(fields(pmu), left);
        // Both count on.
        pmu.retire(&user(4096, 256));
        assert_eq!(pmu.rdmsr(FIXED_CTR3), Ok(slots + 17024));
        assert_eq!(fields(pmu), [61, 4, 184, 6, 4, 4, 61, 6]);
    }
    // What is not allowed clears nothing.
    assert_eq!(
        lion_cove.rdpmc(RDPMC_METRICS, false, false),
        Err(GeneralProtection)
    );
    assert_eq!(lion_cove.rdmsr(FIXED_CTR3), Ok(17024));
}

#[test]
fn no_metrics_without_the_counter_of_slots_or_a_processor() {
    // RDPMC could clear those of the second one.
    for model in [0x8f, 0xbd] {
        let mut config = processor(6, model);
        config.shape.fixed = 3;
        let pmu = Pmu::new(config).unwrap();
        assert_eq!(pmu.perf_capabilities(), Some(FW_WRITE | LBR_FMT_NONE));
        assert_eq!(pmu.rdmsr(MSR_PERF_METRICS), GP);
    }
    let pmu = Pmu::new(Config::new(Vendor::Intel, 5).unwrap()).unwrap();
    assert_eq!(pmu.perf_capabilities(), Some(FW_WRITE));
    assert_eq!(pmu.rdmsr(MSR_PERF_METRICS), Err(MsrError::NotPmu));
}

/// 4096 instructions with 256 branches: 4 mispredictions, and one miss in the last-level
/// cache. These are 4256 cycles, that is, 17024 slots.
#[test]
fn fields_of_a_known_loop() {
    let mut pmu = golden_cove();
    start(&mut pmu, 0, 0);
    assert_eq!(fields(&pmu), [0; 8]);
    pmu.retire(&user(4096, 256));
    assert_eq!(pmu.rdmsr(FIXED_CTR3), Ok(17024));
    // 4096, 240, 12288 and 400 slots; 256, 240, 4096 and 400 of them.
    assert_eq!(fields(&pmu), [61, 4, 184, 6, 4, 4, 61, 6]);
    assert_eq!(
        pmu.rdpmc(RDPMC_METRICS, true, false),
        Ok(u64::from_le_bytes(fields(&pmu)))
    );
    assert_eq!(
        pmu.rdpmc(RDPMC_METRICS, false, false),
        Err(GeneralProtection)
    );
    // What is written counts from then on.
    start(&mut pmu, 0, 0);
    pmu.retire(&user(100, 0));
    assert_eq!(fields(&pmu), [64, 0, 191, 0, 0, 0, 64, 0]);
    // Ice Lake has level 1 only.
    let mut pmu = Pmu::new(processor(6, 0x7e)).unwrap();
    start(&mut pmu, 0, 0);
    pmu.retire(&user(4096, 256));
    assert_eq!(fields(&pmu), [61, 4, 184, 6, 0, 0, 0, 0]);
}

/// Both GLOBAL_CTRL bits and the mode must be enabled.
#[test]
fn metrics_count_with_the_counter_of_slots_only() {
    let mut pmu = golden_cove();
    start(&mut pmu, 0, 0);
    pmu.retire(&[Retired::default(), user(1000, 0)[0]]);
    assert_eq!(fields(&pmu), [0; 8]);
    for ctrl in [SLOTS, PERF_METRICS_BIT, 0] {
        pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, ctrl).unwrap();
        pmu.retire(&user(1000, 0));
        assert_eq!(fields(&pmu), [0; 8], "{ctrl:#x}");
    }
}

#[test]
fn what_is_saved_can_be_restored() {
    let mut pmu = golden_cove();
    start(&mut pmu, 0, 0);
    pmu.retire(&user(40_960, 2560));
    let saved = (
        pmu.rdmsr(FIXED_CTR3).unwrap(),
        pmu.rdmsr(MSR_PERF_METRICS).unwrap(),
    );
    // Something else in between.
    start(&mut pmu, 0, 0);
    pmu.retire(&user(1000, 1000));
    start(&mut pmu, saved.0, saved.1);
    assert_eq!(pmu.rdmsr(MSR_PERF_METRICS), Ok(saved.1));
    pmu.retire(&user(40_960, 2560));
    assert_eq!(pmu.rdmsr(FIXED_CTR3), Ok(2 * saved.0));
    assert_eq!(pmu.rdmsr(MSR_PERF_METRICS), Ok(saved.1));
    pmu.reset();
    assert_eq!(pmu.rdmsr(MSR_PERF_METRICS), Ok(0));
}

/// Fixed-function counter 3 overflows first. PERF_METRICS is right until it overflows
/// itself, when the counter does so for the second time.
#[test]
fn metrics_overflow_after_the_counter() {
    let mut config = processor(6, 0x8f);
    config.shape.width = 32;
    let mut pmu = Pmu::new(config).unwrap();
    start(&mut pmu, 0, 0);
    let half = user(1 << 30, 0);
    // 4 slots an instruction, and 400 for each 4096 instructions.
    pmu.retire(&half);
    assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok(SLOTS));
    let right = fields(&pmu);
    assert_eq!(right.map(u32::from)[..4].iter().sum::<u32>(), 255);
    assert_eq!(right[..4], [62, 0, 187, 6]);
    // Only PERF_METRICS requests a PMI: that of the counter is not enabled.
    assert!(!pmu.take_pmi());
    pmu.retire(&half);
    let both = SLOTS | PERF_METRICS_BIT;
    assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok(both));
    assert!(pmu.take_pmi());
    assert_eq!(fields(&pmu), [0; 8]);
    pmu.wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, PERF_METRICS_BIT)
        .unwrap();
    assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok(SLOTS));
    pmu.wrmsr(IA32_PERF_GLOBAL_STATUS_SET, PERF_METRICS_BIT)
        .unwrap();
    assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok(both));
}

#[test]
fn the_status_bit_can_be_left_over() {
    let left = Defect::Status(PERF_METRICS_BIT);
    let pmu = Pmu::with_defect(processor(6, 0x8f), left).unwrap();
    assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok(PERF_METRICS_BIT));
    assert!(Pmu::with_defect(processor(6, 0x5e), left).is_err());
}

proptest! {
    /// Each field is within one of its part of the slots in 255ths, and those of level 1 add
    /// up to 255.
    #[test]
    fn fields_are_parts_of_the_slots(
        reports in prop::collection::vec((0u64..1 << 40, 0u64..=256), 1..6),
    ) {
        let mut pmu = golden_cove();
        start(&mut pmu, 0, 0);
        let (mut instructions, mut branches) = (0, 0);
        for (n, part) in reports {
            let b = (u128::from(n) * u128::from(part) / 256) as u64;
            pmu.retire(&user(n, b));
            instructions += n;
            branches += b;
        }
        let misses = branches / 64;
        let llc = instructions / 4096;
        let slots = 4 * (instructions + 15 * misses + 100 * llc);
        prop_assert_eq!(pmu.rdmsr(FIXED_CTR3), Ok(slots & ((1 << 48) - 1)));
        prop_assume!(slots > 0 && slots < 1 << 48);
        let parts = [
            instructions, 60 * misses, 3 * instructions, 400 * llc,
            branches, 60 * misses, instructions, 400 * llc,
        ];
        let fields = fields(&pmu);
        for (field, part) in fields.into_iter().zip(parts) {
            let off = i128::from(field) * i128::from(slots) - i128::from(part) * 255;
            prop_assert!(off.abs() <= i128::from(slots), "{field} for {part} of {slots}");
        }
        prop_assert_eq!(fields[..4].iter().copied().map(u32::from).sum::<u32>(), 255);
        for (part, whole) in fields[4..].iter().zip(&fields[..4]) {
            prop_assert!(part <= whole);
        }
    }
}
