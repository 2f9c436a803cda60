// SPDX-License-Identifier: GPL-2.0

//! When the handler of a PMI unmasks LVTPC.

use crate::common::{generations, Cpu, Cpuid};
use pmc::{
    Counters, LvtpcOrder,
    LvtpcOrder::{Early, Late, Middle},
    Msr, Registers, Shadow,
};
use std::cell::RefCell;

/// The models for which `intel_pmu_init()` in `arch/x86/events/intel/core.c` sets `late_ack`, by the
/// names that it gives them.
const LATE: [&str; 8] = [
    "haswell",
    "broadwell",
    "skylake",
    "icelake",
    "sapphire_rapids",
    "granite_rapids",
    "panthercove",
    "Tremont",
];

/// Those for which it sets `mid_ack`.
const MIDDLE: [&str; 3] = ["gracemont", "crestmont", "darkmont"];

/// The type and native model of a core in leaf 1AH, and its order on a hybrid CPU. In-tree:
/// `intel_pmu_init_hybrid()`.
const CORES: [(u32, u32, LvtpcOrder); 3] = [(0x40, 3, Late), (0x20, 3, Middle), (0x20, 2, Middle)];

fn intel(family: u8, model: u8) -> Cpuid {
    Cpuid::new(b"GenuineIntel", family, model, 0).with(0xa, 0, [0x0830_0805, 0, 0b111, 0x8603])
}

/// Every family and model has the in-tree driver's order: the models that it does not know unmask LVTPC
/// early.
#[test]
fn each_model_has_its_order() {
    let mut seen = Vec::new();
    for family in [5, 6, 7, 15, 18, 19, 20] {
        for model in 0..=0xff {
            let caps = intel(family, model).detect().unwrap();
            let name = caps.pmu_name.unwrap();
            if name.ends_with("_hybrid") {
                continue;
            }
            let order = match name {
                name if LATE.contains(&name) => Late,
                name if MIDDLE.contains(&name) => Middle,
                _ => Early,
            };
            assert_eq!(caps.lvtpc_order(), order, "{name}, {family:#x} {model:#x}");
            seen.push(name);
        }
    }
    for name in LATE.iter().chain(&MIDDLE) {
        assert!(seen.contains(name), "no {name}");
    }
}

/// On a hybrid CPU the order is that of the type of core. If a hypervisor hides the type, it is that of the
/// performance cores.
#[test]
fn each_type_of_core_has_its_order() {
    let mut hybrids = 0;
    for family in [6, 18] {
        for model in 0..=0xff {
            let hidden = intel(family, model).detect().unwrap();
            if !hidden.pmu_name.unwrap().ends_with("_hybrid") {
                continue;
            }
            hybrids += 1;
            assert_eq!(hidden.lvtpc_order(), Late, "{family:#x} {model:#x}");
            for (core_type, native_model, order) in CORES {
                let core = intel(family, model)
                    .with(7, 0, [0, 0, 0, 1 << 15])
                    .with(0x1a, 0, [(core_type << 24) | native_model, 0, 0, 0])
                    .detect()
                    .unwrap();
                let what = format!("{family:#x} {model:#x}, type {core_type:#x} {native_model}");
                assert_eq!(core.lvtpc_order(), order, "{what}");
            }
        }
    }
    assert!(hybrids > 10, "{hybrids}");
}

/// Zhaoxin's driver unmasks LVTPC first (`zhaoxin_pmu_handle_irq()`).
#[test]
fn zhaoxin_unmasks_early() {
    for (family, model) in [(6, 0x19), (7, 0x1b), (7, 0x3b)] {
        let leaf = [0x0730_0402, 0, 0, 0x603];
        let cpu = Cpuid::new(b"  Shanghai  ", family, model, 0).with(0xa, 0, leaf);
        assert_eq!(cpu.detect().unwrap().lvtpc_order(), Early);
    }
}

/// What the handler of a PMI does.
#[derive(Debug, PartialEq)]
enum Step {
    Read(u32),
    Write(u32, u64),
    Found,
}

/// Registers that all read as 1, and remember the accesses.
struct Log<'a>(&'a RefCell<Vec<Step>>);

impl Registers for &Log<'_> {
    fn rdmsr(self, msr: Msr) -> u64 {
        self.0.borrow_mut().push(Step::Read(msr.address()));
        1
    }

    fn wrmsr(self, msr: Msr, value: u64) {
        self.0.borrow_mut().push(Step::Write(msr.address(), value));
    }

    fn rdpmc(self, _: u32) -> u64 {
        unreachable!()
    }
}

/// On each generation with global control, what unmasks LVTPC early is called when the status has been
/// read, and before it is cleared. The status is read once.
#[test]
fn early_is_before_the_status_is_cleared() {
    for config in generations() {
        let caps = Cpu::new(config).detect().unwrap();
        if !caps.has_global_control() {
            continue;
        }
        let steps = RefCell::default();
        let log = Log(&steps);
        let shadow = Shadow::default();
        let taken = Counters::new(&shadow, &caps, &log)
            .take_overflows(|_| steps.borrow_mut().push(Step::Found));
        assert_eq!(taken.bits(), 1);
        let steps = steps.take();
        assert!(
            matches!(steps[..], [Step::Read(_), Step::Found, Step::Write(_, 1)]),
            "{config:?}: {steps:?}"
        );
    }
}
