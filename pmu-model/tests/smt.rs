// SPDX-License-Identifier: GPL-2.0

//! Threads of a core that disturb each other's counters.

use std::{
    sync::{Arc, Barrier},
    thread,
};

use pmu_model::{msr::*, Config, Mode, Pmu, Retired, Signature, SmtCore, Vendor};

/// What a counter of 48 bits has too much.
const ERROR: u64 = 1 << 40;

const EXCLUSIVE: u64 = 0x81d0;
const INSTRUCTIONS: u64 = 0x00c0;

fn config(model: u8) -> Config {
    let signature = Signature {
        family: 6,
        model,
        stepping: 1,
    };
    Config::of_processor(Vendor::Intel, signature, true).unwrap()
}

/// The threads of a core.
fn threads<const N: usize>(model: u8) -> [Pmu; N] {
    let core = Arc::new(SmtCore::new(N));
    let mut thread = 0..;
    [(); N].map(|()| {
        let mut pmu = Pmu::new(config(model)).unwrap();
        pmu.set_thread(core.clone(), thread.next().unwrap());
        // All of its bits are set after RESET.
        run(&mut pmu, 0);
        pmu
    })
}

fn program(pmu: &mut Pmu, counter: u32, code: u64) {
    let eventsel = EventSel::EN | EventSel::USR | code;
    pmu.wrmsr(IA32_PERFEVTSEL0 + counter, eventsel).unwrap();
    pmu.wrmsr(IA32_PMC0 + counter, 0).unwrap();
}

fn run(pmu: &mut Pmu, counters: u64) {
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, counters).unwrap();
}

fn retire(pmu: &mut Pmu, instructions: u64) {
    let user = Retired {
        instructions,
        branches: 0,
    };
    pmu.retire(&[Mode::User, Mode::Kernel].map(|mode| match mode {
        Mode::User => user,
        Mode::Kernel => Retired::default(),
    }));
}

fn read(pmu: &Pmu, counter: u32) -> u64 {
    pmu.rdmsr(IA32_PMC0 + counter).unwrap()
}

/// Counts 100 instructions with a counter of one thread while the other thread counts `code`
/// with another one.
fn count_beside(model: u8, code: u64, counters: [u32; 2]) -> [u64; 2] {
    let [mut own, mut other] = threads(model);
    program(&mut own, counters[0], INSTRUCTIONS);
    program(&mut other, counters[1], code);
    run(&mut own, 1 << counters[0]);
    run(&mut other, 1 << counters[1]);
    retire(&mut own, 100);
    retire(&mut other, 50);
    [read(&own, counters[0]), read(&other, counters[1])]
}

#[test]
fn the_counter_of_the_same_number_is_wrong() {
    // Sandy Bridge, Ivy Bridge and Haswell.
    for model in [0x2a, 0x2d, 0x3a, 0x3e, 0x3c, 0x3f, 0x45, 0x46] {
        for code in [0x00d0, EXCLUSIVE, 0x01d1, 0xffd2, 0x01d3] {
            let counts = count_beside(model, code, [2, 2]);
            assert_eq!(counts, [100 + ERROR, 50], "{model:#x} {code:#x}");
            assert_eq!(count_beside(model, code, [1, 2]), [100, 50]);
        }
        for code in [INSTRUCTIONS, 0x01cf, 0x01d4] {
            assert_eq!(count_beside(model, code, [2, 2])[0], 100, "{code:#x}");
        }
    }
    // Broadwell and Skylake.
    for model in [0x3d, 0x4f, 0x5e] {
        assert_eq!(count_beside(model, EXCLUSIVE, [2, 2])[0], 100);
    }
}

#[test]
fn both_are_wrong_if_both_count_such_an_event() {
    let [mut own, mut other] = threads(0x2a);
    for pmu in [&mut own, &mut other] {
        program(pmu, 0, EXCLUSIVE);
        run(pmu, 1);
    }
    for pmu in [&mut own, &mut other] {
        retire(pmu, 10);
        assert_eq!(read(pmu, 0), 10 + ERROR);
    }
}

/// However short it was, and whichever begins first.
#[test]
fn a_short_overlap_is_enough() {
    for disturbing_first in [true, false] {
        let [mut own, mut other] = threads(0x2a);
        program(&mut own, 3, INSTRUCTIONS);
        program(&mut other, 3, EXCLUSIVE);
        if disturbing_first {
            run(&mut other, 1 << 3);
            run(&mut own, 1 << 3);
        } else {
            run(&mut own, 1 << 3);
            run(&mut other, 1 << 3);
        }
        run(&mut other, 0);
        retire(&mut own, 10);
        run(&mut own, 0);
        assert_eq!(read(&own, 3), 10 + ERROR);
    }
}

#[test]
fn in_turns_all_counts_are_right() {
    let [mut own, mut other] = threads(0x3c);
    program(&mut own, 0, INSTRUCTIONS);
    program(&mut other, 0, EXCLUSIVE);
    for _ in 0..3 {
        run(&mut own, 1);
        retire(&mut own, 10);
        run(&mut own, 0);
        run(&mut other, 1);
        retire(&mut other, 10);
        run(&mut other, 0);
    }
    assert_eq!([read(&own, 0), read(&other, 0)], [30, 30]);
    // Nor do disabled counters, nor fixed ones, nor those of a thread that is reset.
    run(&mut other, 1);
    other.reset();
    run(&mut own, 1);
    retire(&mut own, 10);
    assert_eq!(read(&own, 0), 40);
    program(&mut own, 1, 0);
    own.wrmsr(IA32_FIXED_CTR_CTRL, 0x333).unwrap();
    run(&mut own, 0x7_0000_0000);
    program(&mut other, 0, EXCLUSIVE);
    run(&mut other, 1);
    retire(&mut own, 10);
    assert_eq!(own.rdmsr(IA32_FIXED_CTR0), Ok(10));
}

#[test]
fn a_core_may_have_more_threads() {
    let [mut first, mut second, mut third] = threads(0x2a);
    for pmu in [&mut first, &mut third] {
        program(pmu, 1, INSTRUCTIONS);
        run(pmu, 1 << 1);
    }
    program(&mut second, 1, EXCLUSIVE);
    run(&mut second, 1 << 1);
    for pmu in [&mut first, &mut third] {
        retire(pmu, 10);
        assert_eq!(read(pmu, 1), 10 + ERROR);
    }
}

/// The threads of a core run at the same time, as QEMU's vCPUs do.
#[test]
fn threads_of_the_host_see_each_other() {
    const ROUNDS: usize = 1_000;
    let together = Barrier::new(2);
    let count = |mut pmu: Pmu, code| -> Vec<u64> {
        let round = |_| {
            program(&mut pmu, 0, code);
            together.wait();
            run(&mut pmu, 1);
            together.wait();
            retire(&mut pmu, 10);
            let value = read(&pmu, 0);
            together.wait();
            run(&mut pmu, 0);
            value
        };
        (0..ROUNDS).map(round).collect()
    };
    let [own, other] = threads(0x2a);
    let [own, other] = thread::scope(|scope| {
        let own = scope.spawn(|| count(own, INSTRUCTIONS));
        let other = scope.spawn(|| count(other, EXCLUSIVE));
        [own, other].map(|thread| thread.join().unwrap())
    });
    assert_eq!(own, [10 + ERROR; ROUNDS]);
    assert_eq!(other, [10; ROUNDS]);
}
