// SPDX-License-Identifier: GPL-2.0

//! AMD's floating-point operations, and the counters that are merged for them.

use pmu_model::{msr::*, Config, Mode, Pmu, Retired, Signature, Vendor};
use proptest::prelude::*;

const CORE: u8 = 2;
const V2: u8 = 3;

/// Event 003H in user mode, with a PMI.
const FLOPS: u64 = EventSel::EN | EventSel::INT | EventSel::USR | 0x03;
/// The merge event.
const MERGE: u64 = EventSel::EN | EventSel::EVENT_HIGH | 0xff;
/// Unit masks with three and eight bits.
const THREE: u64 = 0x07 << 8;
const EIGHT: u64 = 0xff << 8;

fn pmu_of(family: u16, version: u8) -> Pmu {
    let mut config = Config::new(Vendor::Amd, version).unwrap();
    config.signature = Some(Signature {
        family,
        model: 1,
        stepping: 0,
    });
    let mut pmu = Pmu::new(config).unwrap();
    if version == V2 {
        pmu.wrmsr(PERF_CNTR_GLOBAL_CTL, 0x3f).unwrap();
    }
    pmu
}

fn select(pmu: &mut Pmu, counter: u32, perf_ctl: u64) {
    pmu.wrmsr(PERF_CTL0 + 2 * counter, perf_ctl).unwrap();
}

fn write(pmu: &mut Pmu, counter: u32, value: u64) {
    pmu.wrmsr(PERF_CTR0 + 2 * counter, value).unwrap();
}

fn read(pmu: &mut Pmu, counter: u32) -> u64 {
    let value = pmu.rdmsr(PERF_CTR0 + 2 * counter).unwrap();
    assert_eq!(pmu.rdpmc(counter, true, true), Ok(value));
    value
}

fn run(pmu: &mut Pmu, instructions: u64) {
    pmu.retire(&[
        Retired {
            instructions,
            branches: 0,
            ..Retired::default()
        },
        Retired::default(),
    ]);
}

#[test]
fn one_counter_adds_15_at_most_and_a_pair_all() {
    for version in [CORE, V2] {
        for family in [0x17, 0x18, 0x19, 0x1a] {
            for umask in 0..=0xffu64 {
                let all = 7 * u64::from(umask.count_ones());
                let mut pmu = pmu_of(family, version);
                // 0 and 1 are a pair, 3 and 4 are none.
                select(&mut pmu, 0, FLOPS | (umask << 8));
                select(&mut pmu, 1, MERGE);
                select(&mut pmu, 2, FLOPS | (umask << 8));
                select(&mut pmu, 3, FLOPS | (umask << 8));
                select(&mut pmu, 4, MERGE);
                run(&mut pmu, 1000);
                let counts = [0, 1, 2, 3, 4].map(|counter| read(&mut pmu, counter));
                let one = 1000 * all.min(15);
                assert_eq!(counts, [1000 * all, 0, one, one, 0], "{umask:#x}");
            }
        }
    }
}

#[test]
fn older_processors_have_neither() {
    let mut pmu = pmu_of(0x15, CORE);
    select(&mut pmu, 0, FLOPS | EIGHT);
    select(&mut pmu, 1, MERGE);
    select(&mut pmu, 2, EventSel::EN | EventSel::USR | 0xc0);
    select(&mut pmu, 3, MERGE);
    write(&mut pmu, 1, 5);
    write(&mut pmu, 2, (1 << 48) - 1);
    write(&mut pmu, 3, 5);
    run(&mut pmu, 100);
    assert_eq!([0, 1, 2, 3].map(|i| read(&mut pmu, i)), [0, 5, 99, 5]);
}

#[test]
fn counters_are_merged_while_both_are_enabled() {
    let mut pmu = pmu_of(0x1a, V2);
    select(&mut pmu, 2, FLOPS | EIGHT);
    let mut expect = |merge, global: u64, gain| {
        pmu.wrmsr(PERF_CNTR_GLOBAL_CTL, global).unwrap();
        select(&mut pmu, 3, merge);
        let before = read(&mut pmu, 2);
        run(&mut pmu, 10);
        assert_eq!(read(&mut pmu, 2) - before, gain);
    };
    expect(MERGE, 0b1100, 560);
    expect(MERGE, 0b0100, 150);
    expect(MERGE, 0b1000, 0);
    expect(MERGE & !EventSel::EN, 0b1100, 150);
    expect(MERGE & !EventSel::EVENT_HIGH, 0b1100, 150);
    // Other bits do not matter.
    expect(MERGE | EIGHT | EventSel::USR, 0b1100, 560);
}

#[test]
fn a_pair_has_64_bits() {
    for (version, flops) in [(CORE, FLOPS | EIGHT), (V2, FLOPS | THREE)] {
        let gain = 7 * ((flops >> 8) & 0xff).count_ones() as u64;
        let mut pmu = pmu_of(0x19, version);
        select(&mut pmu, 4, flops);
        select(&mut pmu, 5, MERGE);
        // The bits from 16 on belong to no one.
        write(&mut pmu, 5, 0xabcd_1234_0007);
        write(&mut pmu, 4, (1 << 48) - 1);
        run(&mut pmu, 1);
        assert_eq!(read(&mut pmu, 4), (8 << 48) + gain - 1);
        assert_eq!(read(&mut pmu, 5), 0xabcd_1234_0008);
        assert!(!pmu.take_pmi());

        write(&mut pmu, 5, 0xffff);
        write(&mut pmu, 4, (1 << 48) - 1);
        run(&mut pmu, 1);
        assert_eq!([4, 5].map(|i| read(&mut pmu, i)), [gain - 1, 0]);
        assert!(pmu.take_pmi());
        if version == V2 {
            assert_eq!(pmu.rdmsr(PERF_CNTR_GLOBAL_STATUS), Ok(1 << 4));
        }

        // As single counters again.
        write(&mut pmu, 5, 0x12_ffff);
        assert_eq!(read(&mut pmu, 4), (0xffff << 48) + gain - 1);
        select(&mut pmu, 5, 0);
        assert_eq!([4, 5].map(|i| read(&mut pmu, i)), [gain - 1, 0x12_ffff]);
    }
}

#[test]
fn a_pair_overflows_when_it_wraps() {
    let mut pmu = pmu_of(0x19, V2);
    select(&mut pmu, 0, FLOPS | EIGHT);
    select(&mut pmu, 1, MERGE);
    write(&mut pmu, 1, 0xffff);
    write(&mut pmu, 0, (1 << 48) - 1 - 56);
    run(&mut pmu, 1);
    assert_eq!(read(&mut pmu, 0), u64::MAX);
    assert!(!pmu.take_pmi());
    run(&mut pmu, 1);
    assert_eq!(read(&mut pmu, 0), 55);
    assert!(pmu.take_pmi());
}

/// So a merge event that is left behind is seen.
#[test]
fn any_event_is_counted_with_64_bits() {
    let mut pmu = pmu_of(0x17, CORE);
    let instructions = EventSel::EN | EventSel::INT | EventSel::USR | 0xc0;
    select(&mut pmu, 0, instructions);
    select(&mut pmu, 1, MERGE);
    write(&mut pmu, 0, (1 << 48) - 10);
    assert_eq!(pmu.budget(Mode::User), [1 << 48, Pmu::UNLIMITED]);
    run(&mut pmu, 10);
    assert!(!pmu.take_pmi());
    assert_eq!(read(&mut pmu, 0), 1 << 48);
}

#[test]
fn cycles_with_so_many_operations() {
    let edge = EventSel::EDGE;
    let inv = EventSel::INV;
    let cmask = |n: u64| n << 24;
    // 4096 instructions take 4196 cycles.
    let cases = [
        (THREE, true, edge, 4096),
        (THREE, true, cmask(21), 4096),
        (THREE, true, cmask(21) | edge, 4096),
        (THREE, true, cmask(22), 0),
        (THREE, true, cmask(22) | edge, 0),
        (THREE, true, cmask(21) | inv, 100),
        (THREE, true, cmask(22) | inv, 4196),
        (THREE, false, cmask(15), 4096),
        (THREE, false, cmask(16), 0),
        (0, true, 0, 0),
        (0, true, edge, 0),
        (0, true, cmask(1) | inv, 4196),
    ];
    for (umask, merged, filter, expected) in cases {
        let mut pmu = pmu_of(0x17, CORE);
        select(&mut pmu, 0, FLOPS | umask | filter);
        select(&mut pmu, 1, if merged { MERGE } else { 0 });
        run(&mut pmu, 4096);
        assert_eq!(
            read(&mut pmu, 0),
            expected,
            "{umask:#x} {merged} {filter:#x}"
        );
    }
}

proptest! {
    /// A budget ends at the instruction that makes a pair overflow, and none is too large.
    #[test]
    fn a_pair_overflows_at_the_right_instruction(
        distance in prop_oneof![1u64..200_000, (1u64 << 47)..(1 << 48)],
        bits in 1u32..=8,
        version in CORE..=V2,
    ) {
        let per_instruction = u64::from(7 * bits);
        let mut pmu = pmu_of(0x19, version);
        select(&mut pmu, 0, FLOPS | (((1 << bits) - 1) << 8));
        select(&mut pmu, 1, MERGE);
        write(&mut pmu, 1, 0xffff);
        write(&mut pmu, 0, (1 << 48) - distance);
        let mut done = 0;
        while !pmu.take_pmi() {
            let [budget, _] = pmu.budget(Mode::User);
            prop_assert!(budget >= 1 && budget <= distance.div_ceil(per_instruction) - done);
            run(&mut pmu, budget);
            done += budget;
        }
        prop_assert_eq!(done, distance.div_ceil(per_instruction));
        prop_assert_eq!(read(&mut pmu, 0), done * per_instruction - distance);
    }

    /// Any registers, with any counts: nothing overflows in the model, and there is a budget.
    #[test]
    fn every_pair_has_a_budget(
        selects in prop::array::uniform6(any::<u64>()),
        values in prop::array::uniform6(any::<u64>()),
        merge in 0u8..64,
        flops in 0u8..64,
        retired in prop::collection::vec(0u64..1 << 50, 1..5),
    ) {
        let mut pmu = pmu_of(0x19, V2);
        for i in 0..6 {
            let event = match ((merge >> i) & 1, (flops >> i) & 1) {
                (1, _) => MERGE,
                (_, 1) => (selects[i as usize] & !(EventSel::EVENT | EventSel::EVENT_HIGH)) | 0x03,
                _ => selects[i as usize],
            };
            select(&mut pmu, i, event);
            write(&mut pmu, i, values[i as usize]);
        }
        for instructions in retired {
            for mode in Mode::ALL {
                prop_assert!(pmu.budget(mode)[mode as usize] >= 1);
            }
            run(&mut pmu, instructions);
        }
    }
}
