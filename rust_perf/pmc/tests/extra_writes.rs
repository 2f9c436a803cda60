// SPDX-License-Identifier: GPL-2.0

//! When a register that holds a part of an event is written, and who shares it.

use crate::common::Cpuid;
use pmc::{
    core_number, Capabilities, Counters, CpuidLeaf, Extra,
    ExtraRegister::{self, Frontend, LoadLatency, OffcoreRsp0, OffcoreRsp1},
    Msr, Registers, Shadow,
};
use std::cell::RefCell;

/// A CPU of family 6.
fn caps(model: u8) -> Capabilities {
    Cpuid::new(b"GenuineIntel", 6, model, 0)
        .with(0xa, 0, [0x0830_0805, 0, 0b1111, 0x8604])
        .detect()
        .unwrap()
}

/// Records what is written.
#[derive(Default)]
struct Recorder(RefCell<Vec<(u32, u64)>>);

impl Recorder {
    fn take(&self) -> Vec<(u32, u64)> {
        self.0.take()
    }
}

impl Registers for &Recorder {
    fn rdmsr(self, _: Msr) -> u64 {
        0
    }

    fn wrmsr(self, msr: Msr, value: u64) {
        self.0.borrow_mut().push((msr.address(), value));
    }

    fn rdpmc(self, _: u32) -> u64 {
        0
    }
}

#[test]
fn a_register_is_written_if_its_value_changes() {
    let (caps, shadow, regs) = (caps(0x5e), Shadow::default(), Recorder::default());
    let counters = Counters::new(&shadow, &caps, &regs);
    counters.take_over();
    regs.take();
    let program = |register: ExtraRegister, value| {
        counters.program_extra(Extra { register, value });
        regs.take()
    };
    // Nobody has cleared it before.
    assert_eq!(program(OffcoreRsp0, 0), [(0x1a6, 0)]);
    assert_eq!(program(OffcoreRsp0, 0), []);
    assert_eq!(program(OffcoreRsp1, u64::MAX), [(0x1a7, u64::MAX)]);
    assert_eq!(program(OffcoreRsp1, u64::MAX), []);
    assert_eq!(program(OffcoreRsp0, 7), [(0x1a6, 7)]);
    assert_eq!(program(Frontend, 7), [(0x3f7, 7)]);
    assert_eq!(program(LoadLatency, 3), [(0x3f6, 3)]);
    // Others may have had the counters meanwhile.
    counters.give_back();
    counters.take_over();
    regs.take();
    assert_eq!(program(OffcoreRsp0, 7), [(0x1a6, 7)]);
    // Likewise while no event of ours was on the CPU.
    assert_eq!(program(OffcoreRsp0, 7), []);
    counters.forget();
    assert_eq!(program(OffcoreRsp0, 7), [(0x1a6, 7)]);
}

#[test]
fn a_register_that_threads_share_is_always_written() {
    let (caps, shadow, regs) = (caps(0x1a), Shadow::default(), Recorder::default());
    assert!(caps.shares_extra());
    let counters = Counters::new(&shadow, &caps, &regs);
    counters.take_over();
    regs.take();
    for _ in 0..2 {
        counters.program_extra(Extra {
            register: OffcoreRsp0,
            value: 7,
        });
        assert_eq!(regs.take(), [(0x1a6, 7)]);
    }
}

#[test]
fn threads_of_a_core_have_its_number() {
    let number = |leaf_0b: [u32; 4], leaf_1: u32| {
        core_number(|leaf, _| match leaf {
            0xb => CpuidLeaf {
                eax: leaf_0b[0],
                ebx: leaf_0b[1],
                ecx: leaf_0b[2],
                edx: leaf_0b[3],
            },
            1 => CpuidLeaf {
                ebx: leaf_1,
                ..CpuidLeaf::default()
            },
            _ => CpuidLeaf::default(),
        })
    };
    // Two threads: bit 0 of the ID tells them apart.
    assert_eq!(number([1, 2, 0x100, 6], 0), 3);
    assert_eq!(number([1, 2, 0x100, 7], 0), 3);
    assert_eq!(number([1, 2, 0x100, 8], 0), 4);
    // One thread.
    assert_eq!(number([0, 1, 0x100, 7], 0), 7);
    // No leaf 0BH.
    assert_eq!(number([0; 4], 0x0500_0000), 5);
}
