// SPDX-License-Identifier: GPL-2.0

//! Threads of a core that disturb each other's counters.

use std::{
    sync::{Arc, Barrier},
    thread,
};

use crate::nehalem::clear_if_needed;
use pmu_model::{msr::*, Config, Mode, Pmu, Retired, Signature, SmtCore, Vendor};

/// What a counter of 48 bits has too much.
const ERROR: u64 = 1 << 40;

const EXCLUSIVE: u64 = 0x11d0;
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
        ..Retired::default()
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

/// The event of MSR_OFFCORE_RSP_0.
const RESPONSES: u64 = 0x01b7;

/// On Nehalem, Westmere and the Atoms, a thread changes what another one counts.
#[test]
fn registers_of_a_core() {
    for model in [0x1a, 0x2c, 0x37, 0x5c, 0x86, 0xbe, 0xaf, 0xdd] {
        let [mut own, mut other] = threads(model);
        own.wrmsr(MSR_OFFCORE_RSP_0, 0x1).unwrap();
        clear_if_needed(&mut own, model);
        program(&mut own, 0, RESPONSES);
        program(&mut own, 1, INSTRUCTIONS);
        run(&mut own, 0b11);
        retire(&mut own, 10);
        assert_eq!(read(&own, 0), 20, "{model:#x}");
        other.wrmsr(MSR_OFFCORE_RSP_0, 0x7).unwrap();
        assert_eq!(own.rdmsr(MSR_OFFCORE_RSP_0), Ok(0x7), "{model:#x}");
        retire(&mut own, 10);
        assert_eq!(read(&own, 0), 20 + 40, "{model:#x}");
        // A reserved bit changes nothing, and RESET clears it for both.
        let _ = other.wrmsr(MSR_OFFCORE_RSP_0, 1 << 62).unwrap_err();
        other.reset();
        retire(&mut own, 10);
        assert_eq!([read(&own, 0), read(&own, 1)], [20 + 40 + 10, 30]);
        assert_eq!(own.rdmsr(MSR_OFFCORE_RSP_0), Ok(0));
    }
}

/// From Sandy Bridge on each thread has its own, also on Knights Landing. The latency of loads
/// is a thread's everywhere.
#[test]
fn registers_of_a_thread() {
    for (model, msr) in [
        (0x2a, MSR_OFFCORE_RSP_0),
        (0x3c, MSR_OFFCORE_RSP_1),
        (0x5e, MSR_OFFCORE_RSP_0),
        (0x8f, MSR_OFFCORE_RSP_1),
        (0x57, MSR_OFFCORE_RSP_1),
        (0x1a, MSR_PEBS_LD_LAT),
        (0xaf, MSR_PEBS_LD_LAT),
    ] {
        let [mut own, mut other] = threads(model);
        own.wrmsr(msr, 3).unwrap();
        other.wrmsr(msr, 4).unwrap();
        assert_eq!([own.rdmsr(msr), other.rdmsr(msr)], [Ok(3), Ok(4)]);
        other.reset();
        assert_eq!(own.rdmsr(msr), Ok(3));
    }
}

/// The codes of the events, and their registers.
#[test]
fn events_of_registers() {
    let [rsp_0, rsp_1] = [MSR_OFFCORE_RSP_0, MSR_OFFCORE_RSP_1];
    for (model, code, msr) in [
        (0x1a, 0x01b7, rsp_0),
        (0x2c, 0x01bb, rsp_1),
        (0x5e, 0x01b7, rsp_0),
        (0x7e, 0x01bb, rsp_1),
        (0x8f, 0x012a, rsp_0),
        (0xbd, 0x012b, rsp_1),
        (0x5c, 0x02b7, rsp_1),
        (0x57, 0x02b7, rsp_1),
        (0xaf, 0x0127, MSR_SNOOP_RSP_0),
        (0xdd, 0x0227, MSR_SNOOP_RSP_1),
    ] {
        let [mut pmu] = threads(model);
        let count = |pmu: &mut Pmu, modifier| {
            run(pmu, 0);
            clear_if_needed(pmu, model);
            program(pmu, 0, code | modifier);
            run(pmu, 1);
            retire(pmu, 10);
            read(pmu, 0)
        };
        let what = format!("{model:#x} {code:#x}");
        assert_eq!(count(&mut pmu, 0), 10, "{what}");
        pmu.wrmsr(msr, 0b11).unwrap();
        assert_eq!(count(&mut pmu, 0), 30, "{what}");
        // The responses of an instruction are one pulse.
        assert_eq!(count(&mut pmu, EventSel::EDGE), 10, "{what}");
        assert_eq!(count(&mut pmu, 3 << 24), 10, "{what}");
        assert_eq!(count(&mut pmu, 4 << 24), 0, "{what}");
    }
}

/// An unplugged vCPU leaves nothing behind.
#[test]
fn a_thread_goes() {
    let core = Arc::new(SmtCore::new(2));
    let create = |thread| {
        let mut pmu = Pmu::new(config(0x2a)).unwrap();
        pmu.set_thread(core.clone(), thread);
        run(&mut pmu, 0);
        pmu
    };
    let [mut own, mut other] = [create(0), create(1)];
    program(&mut other, 0, EXCLUSIVE);
    run(&mut other, 1);
    drop(other);
    program(&mut own, 0, INSTRUCTIONS);
    run(&mut own, 1);
    retire(&mut own, 10);
    assert_eq!(read(&own, 0), 10);

    // It neither disturbs others nor has been disturbed when it comes back.
    program(&mut own, 0, EXCLUSIVE);
    let mut other = create(1);
    program(&mut other, 0, INSTRUCTIONS);
    run(&mut other, 1);
    drop(other);
    run(&mut own, 0);
    let mut other = create(1);
    program(&mut other, 0, INSTRUCTIONS);
    run(&mut other, 1);
    retire(&mut other, 10);
    assert_eq!(read(&other, 0), 10);
}
