// SPDX-License-Identifier: GPL-2.0

//! The branch records of an emulated CPU, and the driver's shadow of them.

use super::{amd, config, intel_model, Cpu, Driven};
use pmc::lbr::{BranchRecords, BranchRequest, Lbr, LbrShadow, Record};
use pmu_model::{Branch, BranchKind, Config, Mode, Retired};
use std::cell::Cell;

/// Branches to user mode (`PERF_SAMPLE_BRANCH_USER`).
pub const USER: u64 = 1 << 0;
/// Branches to the kernel.
pub const KERNEL: u64 = 1 << 1;
/// All branches to user mode.
pub const ANY: u64 = USER | (1 << 3);
/// The calls of user mode that have not returned.
pub const CALL_STACK: u64 = USER | (1 << 11);

/// The kinds of branches of the emulated CPU, and the bit of each in LBR_CTL.
pub const KINDS: [(BranchKind, u64); 7] = [
    (BranchKind::Conditional, 1 << 16),
    (BranchKind::RelativeJump, 1 << 17),
    (BranchKind::IndirectJump, 1 << 18),
    (BranchKind::RelativeCall, 1 << 19),
    (BranchKind::IndirectCall, 1 << 20),
    (BranchKind::Return, 1 << 21),
    (BranchKind::Other, 1 << 22),
];

/// What users ask for, and the kinds that are recorded for that (LBR_CTL).
pub const REQUESTS: [(u64, u64); 7] = [
    (1 << 3, 0x7f << 16),
    (1 << 4, 0b1011 << 19),
    (1 << 5, 0b11 << 21),
    (1 << 6, 1 << 20),
    (1 << 10, 1 << 16),
    (1 << 12, 1 << 18),
    (1 << 13, 1 << 19),
];

/// A CPU with branch records, and the driver's shadow of them.
pub struct Recorder {
    pub driven: Driven,
    shadow: LbrShadow,
    control: Cell<u64>,
}

impl Recorder {
    /// A CPU with this many records.
    pub fn new(config: Config, depth: u8) -> Self {
        Self::of(cpu(config, depth))
    }

    fn of(cpu: Cpu) -> Self {
        Recorder {
            driven: Driven::of(cpu),
            shadow: LbrShadow::default(),
            control: Cell::new(0),
        }
    }

    pub fn lbr(&self) -> &Lbr {
        self.driven.caps.lbr.as_ref().unwrap()
    }

    pub fn records(&self) -> BranchRecords<'_, &Cpu> {
        BranchRecords::new(&self.shadow, self.lbr(), &self.driven.cpu)
    }

    /// What was recorded last.
    pub fn control(&self) -> u64 {
        self.control.get()
    }

    pub fn record(&self, request: u64) {
        let request = BranchRequest::from_raw(request);
        self.control.set(self.lbr().control(request).unwrap());
        self.records().record(self.control());
    }

    pub fn wipe(&self) {
        self.records().wipe(self.control());
    }

    /// The records as they are in the registers, the newest first.
    pub fn registers(&self) -> Vec<Record> {
        let mut read = Vec::new();
        self.records()
            .for_each(self.control(), |record| read.push(record));
        read
    }

    /// From where to where the branches went, the newest first.
    pub fn read(&self) -> Vec<(u64, u64)> {
        let branch = |record| self.lbr().branch(record, self.control());
        let branches = self.registers().into_iter().filter_map(branch);
        branches.map(|branch| (branch.from, branch.to)).collect()
    }

    pub fn branch(&self, kind: BranchKind, mode: Mode, from: u64) {
        self.driven.cpu.pmu.borrow_mut().branch(&Branch {
            kind,
            from,
            to: from + 0x100,
            modes: [mode; 2],
            retires: true,
            retired: [Retired::default(); 2],
        });
    }
}

fn cpu(config: Config, depth: u8) -> Cpu {
    Cpu::new(Config {
        lbrs: config.lbrs_with_depth(depth),
        ..config
    })
}

/// How a CPU selects branches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Selects {
    Nothing,
    WithJumps,
    Kinds,
}

/// A CPU with branch records.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub config: Config,
    /// The number of records.
    pub depth: u8,
    pub selects: Selects,
    /// The number of threads of a core.
    pub threads: u32,
}

impl Row {
    /// The CPU.
    pub fn recorder(&self) -> Recorder {
        Recorder::of(cpu(self.config, self.depth).with_threads(self.threads))
    }
}

/// One CPU of each kind, by its model.
pub fn rows() -> Vec<Row> {
    use Selects::{Kinds, Nothing, WithJumps};
    let models = [
        (0x17, 4, Nothing),
        (0x26, 8, Nothing),
        (0x37, 8, WithJumps),
        (0x57, 8, Kinds),
        (0x1e, 16, WithJumps),
        (0x2c, 16, WithJumps),
        (0x2a, 16, Kinds),
        (0x3a, 16, Kinds),
        (0x3c, 16, Kinds),
        (0x4f, 16, Kinds),
        (0x55, 32, Kinds),
        (0x6a, 32, Kinds),
        (0x5c, 32, Kinds),
        (0x7a, 32, Kinds),
        (0x86, 32, Kinds),
    ];
    let models = models.map(|(model, depth, selects)| (intel_model(model), depth, selects));
    let others = [
        (amd(3, 6), 16, Kinds),
        (config(5, 8, 4, 48), 32, Kinds),
        (config(6, 8, 4, 48), 8, Kinds),
        (config(4, 8, 3, 48), 16, Kinds),
    ];
    let row = |(config, depth, selects)| Row {
        config,
        depth,
        selects,
        threads: 1,
    };
    // The threads share the register that selects branches.
    let shared = Row {
        threads: 2,
        ..row((intel_model(0x1e), 16, Nothing))
    };
    let alone = models.into_iter().chain(others).map(row);
    alone.chain([shared]).collect()
}
