// SPDX-License-Identifier: GPL-2.0

//! Registers that others write, and status that is hard to clear.

use crate::common::{amd, config, count_instructions, generations, instructions, Cpuid, Driven};
use pmc::{
    counter::{Counter, CounterSet},
    event::{EventSel, Modes},
    Capabilities, Counters, Msr, Registers, Shadow,
};
use pmu_model::Config;
use std::cell::{Cell, RefCell};

/// Registers that remember what is written to them, and read as 1.
#[derive(Default)]
struct Log(RefCell<Vec<(u32, u64)>>);

impl Registers for &Log {
    fn rdmsr(self, _: Msr) -> u64 {
        1
    }

    fn wrmsr(self, msr: Msr, value: u64) {
        self.0.borrow_mut().push((msr.address(), value));
    }

    fn rdpmc(self, _: u32) -> u64 {
        1
    }
}

/// The ZXC's status can be cleared only while the global control is on. The
/// model knows no such thing.
#[test]
fn the_zxc_clears_its_status_while_on() {
    let writes = |family, model| {
        let leaf = [0x0730_0402, 0, 0, 0x603];
        let cpu = Cpuid::new(b"  Shanghai  ", family, model, 0).with(0xa, 0, leaf);
        let caps = cpu.detect().unwrap();
        let log = Log::default();
        Counters::new(&Shadow::default(), &caps, &log).take_overflows(|_| ());
        log.0.into_inner()
    };
    let all = 0x7_0000_000f;
    assert_eq!(writes(6, 0x19), [(0x38f, all), (0x390, 1), (0x38f, 0)]);
    assert_eq!(writes(7, 0x1b), [(0x390, 1)]);
}

/// Registers of a ZXC: writing a GLOBAL_CTRL other than 0 lets counter 1
/// overflow, once.
struct Zxc {
    status: Cell<u64>,
    overflows: Cell<bool>,
}

impl Registers for &Zxc {
    fn rdmsr(self, msr: Msr) -> u64 {
        assert_eq!(msr.address(), 0x38e);
        self.status.get()
    }

    fn wrmsr(self, msr: Msr, value: u64) {
        match msr.address() {
            0x38f if value != 0 && self.overflows.take() => {
                self.status.set(self.status.get() | 0b10);
            }
            0x390 => self.status.set(self.status.get() & !value),
            _ => {}
        }
    }

    fn rdpmc(self, _: u32) -> u64 {
        unreachable!()
    }
}

/// LVTPC may still be masked when the second counter overflows, so that its PMI is lost.
#[test]
fn an_overflow_while_the_zxc_clears_its_status_is_not_lost() {
    let leaf = [0x0730_0402, 0, 0, 0x603];
    let caps = Cpuid::new(b"  Shanghai  ", 6, 0x19, 0)
        .with(0xa, 0, leaf)
        .detect()
        .unwrap();
    let zxc = Zxc {
        status: Cell::new(0b01),
        overflows: Cell::new(true),
    };
    let shadow = Shadow::default();
    let overflowed = Counters::new(&shadow, &caps, &zxc).take_overflows(|_| ());
    assert_eq!(overflowed.bits(), 0b11);
    assert_eq!(zxc.status.get(), 0);
}

/// The MSRs of EVENTSEL, counters and FIXED_CTR_CTRL.
fn programmed(caps: &Capabilities) -> Vec<u32> {
    let global = if caps.gp_width == 48 && caps.fixed_width == 0 {
        0xc000_0300..=0xc000_0302
    } else {
        0x38e..=0x390
    };
    let msrs = caps.registers().map(Msr::address);
    msrs.filter(|msr| !global.contains(msr)).collect()
}

/// On version 6, where the kernel does not arbitrate, this tells that another user
/// has the counters.
#[test]
fn a_counter_that_counts_is_seen() {
    for config in generations() {
        let driven = Driven::new(config);
        let is_counting = || driven.caps.is_counting(&driven.cpu);
        for counter in count_instructions(&driven) {
            for (user, kernel) in [(true, true), (true, false), (false, true)] {
                let modes = Modes { user, kernel };
                let event = EventSel::from_config(0xc0, EventSel::INTEL, modes).unwrap();
                assert!(!is_counting());
                driven.program(counter, event, 1000);
                assert!(!is_counting());
                driven.run(CounterSet::of(counter));
                assert!(is_counting());
                driven.run(CounterSet::EMPTY);
                driven.counters().give_back();
                driven.counters().take_over();
            }
        }
    }
}

/// An NMI of unknown origin may come while the counters are stopped. They must run
/// again all the same, also where EN in each EVENTSEL runs them.
#[test]
fn counters_run_after_it_was_forgotten_whether_they_do() {
    for config in generations() {
        let driven = Driven::new(config);
        for counter in count_instructions(&driven) {
            let set = CounterSet::of(counter);
            driven.program(counter, instructions(), 1000);
            driven.run(set);
            driven.cpu.run(5);
            driven.run(CounterSet::EMPTY);
            driven.counters().forget_running();
            driven.run(set);
            driven.cpu.run(5);
            driven.counters().forget_running();
            driven.run(CounterSet::EMPTY);
            driven.cpu.run(5);
            assert_eq!(driven.read(counter), 1010);
        }
    }
}

/// KVM's mediated vPMU leaves zeros in all registers when no event is on the CPU.
#[test]
fn registers_that_others_have_zeroed_are_programmed_again() {
    for config in generations() {
        let driven = Driven::new(config);
        for counter in count_instructions(&driven) {
            let set = CounterSet::of(counter);
            for _ in 0..2 {
                driven.program(counter, instructions(), 1000);
                driven.run(set);
                driven.cpu.run(5);
                driven.run(CounterSet::EMPTY);
                assert_eq!(driven.read(counter), 1005);

                driven.counters().forget();
                for msr in programmed(&driven.caps) {
                    driven.cpu.pmu.borrow_mut().wrmsr(msr, 0).unwrap();
                }
            }
        }
        driven.counters().give_back();
        assert!(!driven.cpu.pmu.borrow().counting());
    }
}

/// What the driver programmed before it forgot is disarmed, too.
#[test]
fn forgotten_registers_are_given_back() {
    for config in generations() {
        let driven = Driven::new(config);
        for counter in count_instructions(&driven) {
            driven.program(counter, instructions(), 1000);
        }
        driven.counters().forget();
        driven.counters().give_back();
        for msr in programmed(&driven.caps) {
            assert_eq!(driven.cpu.pmu.borrow().rdmsr(msr), Ok(0), "{msr:#x}");
        }
    }
}

/// A counter may overflow just as it is stopped for the last time. The next user must
/// not find that overflow.
#[test]
fn no_overflow_is_given_back() {
    for config in generations() {
        let driven = Driven::new(config);
        let is_status = |msr: &Msr| [0x38e, 0xc000_0300].contains(&msr.address());
        let Some(msr) = driven.caps.registers().find(is_status) else {
            continue;
        };
        for counter in count_instructions(&driven) {
            let start = (1 << driven.caps.width(counter)) - 1;
            driven.program(counter, instructions(), start);
            driven.run(CounterSet::of(counter));
            driven.cpu.run(5);
            driven.run(CounterSet::EMPTY);
        }
        let status = || {
            let status = driven.cpu.pmu.borrow().rdmsr(msr.address());
            status.unwrap() & driven.caps.counters.bits()
        };
        assert_ne!(status(), 0);
        driven.counters().give_back();
        assert_eq!(status(), 0);
    }
}

/// Machines with global control, and the address of that register.
fn with_global_ctrl() -> [(Config, u32); 3] {
    [
        (config(4, 4, 3, 48), 0x38f),
        (config(2, 2, 0, 32), 0x38f),
        (amd(3, 6), 0xc000_0301),
    ]
}

#[test]
fn the_end_of_an_nmi_runs_counters_and_does_not_rely_on_it() {
    for (config, global_ctrl) in with_global_ctrl() {
        let driven = Driven::new(config);
        let counter = Counter::gp(0).unwrap();
        let set = CounterSet::of(counter);
        let leave_running = |run| driven.cpu.cost(|| driven.counters().leave_running(run));
        driven.program(counter, instructions(), 1000);
        driven.run(set);
        driven.run(CounterSet::EMPTY);
        assert_eq!(leave_running(set), (0, 1));
        driven.cpu.run(5);
        assert_eq!(driven.cpu.cost(|| driven.run(set)), (0, 1));
        driven.run(CounterSet::EMPTY);
        assert_eq!(leave_running(CounterSet::EMPTY), (0, 0));
        driven.cpu.run(5);
        assert_eq!(driven.read(counter), 1005);

        // Others have run the counters during the NMI, and a hook has told so.
        let all = driven.caps.counters.bits();
        driven.cpu.pmu.borrow_mut().wrmsr(global_ctrl, all).unwrap();
        driven.counters().forget_running();
        assert_eq!(leave_running(CounterSet::EMPTY), (0, 1));
        assert!(!driven.cpu.pmu.borrow().counting());
    }
}

#[test]
fn just_these_counters_run() {
    for config in generations() {
        let driven = Driven::new(config);
        let runs_just = |counters| driven.shadow.runs_just(counters);
        for counter in count_instructions(&driven) {
            let set = CounterSet::of(counter);
            driven.program(counter, instructions(), 1000);
            assert!(!runs_just(set), "it is stopped");
            assert!(runs_just(CounterSet::EMPTY));
            driven.run(set);
            assert!(runs_just(set));
            assert!(!runs_just(CounterSet::EMPTY));
            driven.counters().forget_running();
            assert!(!runs_just(set), "it is not known");
            assert!(!runs_just(CounterSet::EMPTY), "it is not known");
            driven.run(CounterSet::EMPTY);
            assert!(runs_just(CounterSet::EMPTY));
        }
    }
}

/// Others write GLOBAL_CTRL without asking. The next start or stop repairs it, with
/// no register access more.
#[test]
fn a_global_control_that_others_wrote_is_repaired() {
    for (config, global_ctrl) in with_global_ctrl() {
        let driven = Driven::new(config);
        let all = driven.caps.counters.bits();
        let counter = Counter::gp(0).unwrap();
        let set = CounterSet::of(counter);
        for foreign in [0, all] {
            driven.program(counter, instructions(), 1000);
            driven
                .cpu
                .pmu
                .borrow_mut()
                .wrmsr(global_ctrl, foreign)
                .unwrap();
            assert_eq!(driven.cpu.cost(|| driven.run(set)), (0, 1));
            driven.cpu.run(7);
            driven
                .cpu
                .pmu
                .borrow_mut()
                .wrmsr(global_ctrl, foreign)
                .unwrap();
            assert_eq!(driven.cpu.cost(|| driven.run(CounterSet::EMPTY)), (0, 1));
            driven.cpu.run(100);
            assert_eq!(driven.read(counter), 1007, "{foreign:#x}");
        }
        // After an NMI of unknown origin even a CPU with nothing to run is repaired.
        driven.cpu.pmu.borrow_mut().wrmsr(global_ctrl, all).unwrap();
        driven.counters().forget_running();
        driven.run(CounterSet::EMPTY);
        assert!(!driven.cpu.pmu.borrow().counting());
    }
}
