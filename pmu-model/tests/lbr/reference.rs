// SPDX-License-Identifier: GPL-2.0

//! A reference that replays what happens to the LBRs of one processor on a list of records, the youngest
//! first. It shares no code with the model.

use super::{intel, processor};
use pmu_model::{
    msr::*, AmdLbrs, ArchLbrs, Branch, BranchKind, Config, Lbrs, Mode, Pmu, Retired, Vendor,
};

/// Which registers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Arch,
    Legacy(&'static Legacy),
    Amd,
}

/// The legacy LBRs of a model of family 6.
#[derive(Debug, PartialEq, Eq)]
pub struct Legacy {
    pub model: u8,
    pub depth: u8,
    /// What PERF_CAPABILITIES says, and what the records have.
    pub formats: [u8; 2],
    pub from: u32,
    pub to: u32,
    pub has_info: bool,
    /// The bits of LBR_SELECT, 0 if there is none.
    pub select: u64,
    /// Whether GLOBAL_STATUS has a bit that freezes them.
    pub streamlined: bool,
}

const fn legacy(model: u8, depth: u8, format: u8, from: u32, select: u64) -> Legacy {
    Legacy {
        model,
        depth,
        formats: [format; 2],
        from,
        to: if from == 0x40 { 0x60 } else { 0x6c0 },
        has_info: matches!(format, 5 | 7),
        select,
        streamlined: format >= 5,
    }
}

/// A model of each kind.
pub static LEGACY: [Legacy; 13] = [
    legacy(0x17, 4, 2, 0x40, 0),
    legacy(0x1c, 8, 2, 0x40, 0),
    legacy(0x37, 8, 1, 0x40, 0x1ff),
    Legacy {
        formats: [1, 3],
        ..legacy(0x57, 8, 1, 0x680, 0x1ff)
    },
    legacy(0x1a, 16, 3, 0x680, 0x1ff),
    legacy(0x2c, 16, 3, 0x680, 0x1ff),
    legacy(0x2a, 16, 3, 0x680, 0x1ff),
    legacy(0x3c, 16, 4, 0x680, 0x3ff),
    legacy(0x5e, 32, 5, 0x680, 0x3ff),
    legacy(0x7e, 32, 5, 0x680, 0x3ff),
    legacy(0x5c, 32, 6, 0x680, 0x3ff),
    legacy(0x7a, 32, 7, 0x680, 0x3ff),
    legacy(0x86, 32, 7, 0x680, 0x3ff),
];

/// A processor with LBRs.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    pub config: Config,
    pub kind: Kind,
}

pub fn machines() -> Vec<Machine> {
    let v5 = Config {
        lbrs: Some(Lbrs::Architectural(ArchLbrs {
            depth: 32,
            logged: 0,
        })),
        ..Config::new(Vendor::Intel, 5).unwrap()
    };
    let arch = [v5, intel(0x8f), intel(0xbe)].map(|it| (it, Kind::Arch));
    let five = Config {
        lbrs: Some(Lbrs::Amd(AmdLbrs {
            depth: 5,
            freeze: true,
        })),
        ..Config::new(Vendor::Amd, 3).unwrap()
    };
    let amd = [five, processor(Vendor::Amd, 0x19, 0x11)].map(|it| (it, Kind::Amd));
    let legacy = LEGACY.iter().map(|it| (intel(it.model), Kind::Legacy(it)));
    let all = arch.into_iter().chain(amd).chain(legacy);
    all.map(|(config, kind)| Machine { config, kind }).collect()
}

impl Machine {
    pub fn pmu(&self) -> Pmu {
        Pmu::new(self.config).unwrap()
    }

    pub fn depth(&self) -> usize {
        self.config.lbrs.unwrap().depth().into()
    }

    /// The addresses of FROM, TO and INFO of a record.
    pub fn addresses(&self, i: usize) -> Vec<u32> {
        let i = i as u32;
        match self.kind {
            Kind::Arch => vec![0x1500 + i, 0x1600 + i, 0x1200 + i],
            Kind::Amd => vec![0xc001_0300 + 2 * i, 0xc001_0301 + 2 * i],
            Kind::Legacy(it) => {
                let info = it.has_info.then_some(0xdc0 + i);
                [it.from + i, it.to + i].into_iter().chain(info).collect()
            }
        }
    }

    /// The register that selects branches, and its bits.
    pub fn select(&self) -> Option<(u32, u64)> {
        match self.kind {
            Kind::Arch => Some((0x14ce, 0x7f_000e)),
            Kind::Amd => Some((0xc000_010e, 0x1ff)),
            Kind::Legacy(it) => (it.select != 0).then_some((0x1c8, it.select)),
        }
    }

    /// A value of this register with which near returns remove records.
    pub fn call_stack(&self) -> Option<u64> {
        match self.kind {
            Kind::Arch => Some(0x38_000c),
            Kind::Legacy(it) if it.select & (1 << 9) != 0 => Some(0x3c5),
            _ => None,
        }
    }

    /// A value of this register with which every branch is recorded.
    pub fn everything(&self) -> u64 {
        match self.kind {
            Kind::Arch => 0x7f_0006,
            _ => 0,
        }
    }

    /// The registers that set and clear the bit that freezes the LBRs.
    fn freeze(&self) -> Option<[u32; 2]> {
        match self.kind {
            Kind::Legacy(it) if !it.streamlined => None,
            Kind::Amd => Some([PERF_CNTR_GLOBAL_STATUS_SET, PERF_CNTR_GLOBAL_STATUS_CLR]),
            _ => Some([IA32_PERF_GLOBAL_STATUS_SET, IA32_PERF_GLOBAL_STATUS_RESET]),
        }
    }

    /// Whether the kind records a call of the next instruction.
    fn select_bit(&self, kind: usize) -> u64 {
        let (_, arch, _, suppress) = KINDS[kind];
        match self.kind {
            Kind::Arch => arch,
            _ => suppress,
        }
    }

    pub fn enable(&self, pmu: &mut Pmu, enabled: bool) {
        let (msr, bit) = match self.kind {
            Kind::Arch => (0x14ce, 1),
            Kind::Amd => (0xc000_010f, 1 << 6),
            Kind::Legacy(_) => (0x1d9, 1),
        };
        let others = pmu.rdmsr(msr).unwrap() & !bit;
        pmu.wrmsr(msr, others | if enabled { bit } else { 0 })
            .unwrap();
    }

    /// Writes the register that selects branches, if it exists.
    pub fn write_select(&self, pmu: &mut Pmu, value: u64) {
        if let Some((msr, _)) = self.select() {
            let enabled = match self.kind {
                Kind::Arch => pmu.rdmsr(msr).unwrap() & 1,
                _ => 0,
            };
            pmu.wrmsr(msr, value | enabled).unwrap();
        }
    }

    /// The addresses of the last event record.
    pub fn last_event(&self) -> &'static [u32] {
        match self.kind {
            Kind::Arch => &[0x1dd, 0x1de, 0x1e0],
            Kind::Legacy(_) => &[0x1dd, 0x1de],
            Kind::Amd => &[],
        }
    }

    /// All registers of the records that are in use, by address, those of the last event record, and TOS.
    pub fn read(&self, pmu: &Pmu, used: usize) -> (Vec<Vec<u64>>, Vec<u64>, Option<u64>) {
        let read = |msr| pmu.rdmsr(msr).unwrap();
        let records = (0..used).map(|i| self.addresses(i).into_iter().map(read).collect());
        let tos = matches!(self.kind, Kind::Legacy(_)).then(|| read(0x1c9));
        let last_event = self.last_event().iter().copied().map(read);
        (records.collect(), last_event.collect(), tos)
    }
}

/// Each kind of branches: its bit in LBR_CTL, its BR_TYPE, and its bit in the registers that suppress
/// branches.
pub const KINDS: [(BranchKind, u64, u64, u64); 8] = [
    (BranchKind::Conditional, 1 << 16, 0, 1 << 2),
    (BranchKind::RelativeJump, 1 << 17, 2, 1 << 7),
    (BranchKind::IndirectJump, 1 << 18, 1, 1 << 6),
    (BranchKind::RelativeCall, 1 << 19, 4, 1 << 3),
    (BranchKind::IndirectCall, 1 << 20, 3, 1 << 4),
    (BranchKind::Return, 1 << 21, 5, 1 << 5),
    (BranchKind::Other, 1 << 22, 8, 1 << 8),
    (BranchKind::CallOfNext, 0, 0, 1 << 3),
];

/// What happens to the LBRs.
#[derive(Clone, Debug)]
pub enum Step {
    /// The kind, FROM and TO, the modes, and the instructions since the branch before.
    Branch(usize, [u64; 2], [Mode; 2], u64),
    Select(u64),
    Enable(bool),
    /// A debug exception.
    Debug,
    /// An interrupt.
    Interrupt,
    Freeze(bool),
    Depth(u8),
    Tos(u8),
    /// A register of a record is written.
    Write(usize, usize, u64),
    Restore,
}

/// What has retired with a branch.
pub fn retired(mode: Mode, instructions: u64) -> [Retired; 2] {
    let mut all = [Retired::default(); 2];
    all[mode as usize] = Retired {
        instructions,
        branches: 1,
        ..Retired::default()
    };
    all
}

impl Step {
    /// Does it to a PMU.
    pub fn apply(&self, machine: &Machine, pmu: &mut Pmu) {
        match *self {
            Step::Branch(kind, [from, to], modes, instructions) => {
                let retired = retired(modes[0], instructions);
                pmu.branch(&Branch {
                    kind: KINDS[kind].0,
                    from,
                    to,
                    modes,
                    retires: true,
                    retired,
                });
                pmu.retire(&retired);
            }
            Step::Select(value) => machine.write_select(pmu, value),
            Step::Enable(enabled) => machine.enable(pmu, enabled),
            Step::Debug => pmu.debug_exception(),
            Step::Interrupt => pmu.interrupt(),
            Step::Freeze(frozen) => {
                if let Some([set, clear]) = machine.freeze() {
                    let msr = if frozen { set } else { clear };
                    pmu.wrmsr(msr, 1 << 58).unwrap();
                }
            }
            Step::Depth(depth) => {
                if machine.kind == Kind::Arch {
                    pmu.wrmsr(0x14cf, depth.into()).unwrap();
                }
            }
            Step::Tos(tos) => {
                if matches!(machine.kind, Kind::Legacy(_)) {
                    pmu.wrmsr(0x1c9, tos.into()).unwrap();
                }
            }
            Step::Write(i, field, value) => {
                // LBR_DEPTH may exclude it.
                let msr = machine.addresses(i).get(field).copied();
                let msr = msr.filter(|&msr| pmu.rdmsr(msr).is_ok());
                if let Some(msr) = msr {
                    pmu.wrmsr(msr, value).unwrap();
                }
            }
            Step::Restore => {
                let text = serde_json::to_string(&pmu.save()).unwrap();
                *pmu = machine.pmu();
                pmu.restore(&serde_json::from_str(&text).unwrap()).unwrap();
            }
        }
    }
}

#[derive(Debug)]
pub struct Reference {
    machine: Machine,
    select: u64,
    enabled: bool,
    frozen: bool,
    /// FROM, TO and INFO, the youngest first. An empty one is 0.
    records: Vec<[u64; 3]>,
    /// FROM, TO and INFO of the last event record.
    last_event: [u64; 3],
    tos: usize,
    /// Instructions and branches of each mode.
    totals: [[u64; 2]; 2],
    /// The cycles at the last record.
    last: Option<u64>,
}

impl Reference {
    pub fn new(machine: Machine) -> Self {
        Self {
            machine,
            select: 0,
            enabled: false,
            frozen: false,
            records: vec![[0; 3]; machine.depth()],
            last_event: [0; 3],
            tos: 0,
            totals: [[0; 2]; 2],
            last: None,
        }
    }

    /// How many records are in use.
    pub fn used(&self) -> usize {
        self.records.len()
    }

    /// What [`Machine::read`] reads.
    pub fn read(&self) -> (Vec<Vec<u64>>, Vec<u64>, Option<u64>) {
        let age = |i| match self.machine.kind {
            Kind::Legacy(_) => (self.tos + self.used() - i) % self.used(),
            _ => i,
        };
        let fields = self.machine.addresses(0).len();
        let records = (0..self.used()).map(|i| self.records[age(i)][..fields].to_vec());
        let tos = matches!(self.machine.kind, Kind::Legacy(_)).then_some(self.tos as u64);
        let last_event = self.last_event[..self.machine.last_event().len()].to_vec();
        (records.collect(), last_event, tos)
    }

    fn cycles(&self) -> u64 {
        let of_mode = |[instructions, branches]: [u64; 2]| {
            instructions + 15 * (branches / 64) + 100 * (instructions / 4096)
        };
        self.totals.into_iter().map(of_mode).sum()
    }

    /// Whether branches to a mode are recorded, or in the case of the architectural LBRs seen.
    fn sees(&self, mode: Mode) -> bool {
        match (self.machine.kind, mode) {
            (Kind::Arch, Mode::User) => self.select & (1 << 2) != 0,
            (Kind::Arch, Mode::Kernel) => self.select & (1 << 1) != 0,
            (_, Mode::User) => self.select & (1 << 1) == 0,
            (_, Mode::Kernel) => self.select & (1 << 0) == 0,
        }
    }

    fn records(&self, kind: usize, after: Mode) -> bool {
        let bit = self.machine.select_bit(kind);
        let selected = match self.machine.kind {
            Kind::Arch => self.select & bit != 0,
            _ => self.select & bit == 0,
        };
        self.enabled && !self.frozen && selected && self.sees(after)
    }

    fn pops(&self, kind: usize) -> bool {
        let bit = match self.machine.kind {
            Kind::Arch => 1 << 3,
            Kind::Legacy(_) => 1 << 9,
            Kind::Amd => 0,
        };
        KINDS[kind].0 == BranchKind::Return && self.select & bit != 0
    }

    fn push(&mut self, record: [u64; 3]) {
        self.records.insert(0, record);
        self.records.pop();
        self.tos = (self.tos + 1) % self.used();
    }

    fn pop(&mut self) {
        self.records.remove(0);
        self.records.push([0; 3]);
        self.tos = (self.tos + self.used() - 1) % self.used();
    }

    fn record(&self, kind: usize, ips: [u64; 2], hidden: bool, miss: bool) -> [u64; 3] {
        let cycles = self.last.map(|last| (self.cycles() - last).min(0xffff));
        let [from, to] = ips;
        let flag = u64::from(miss) << 63;
        let below_63 = from & (u64::MAX >> 1);
        let time = cycles.unwrap_or(0);
        match self.machine.kind {
            Kind::Arch => {
                let valid = u64::from(cycles.is_some()) << 60;
                let from = if hidden { u64::MAX } else { from };
                [from, to, flag | (KINDS[kind].2 << 56) | valid | time]
            }
            Kind::Amd => {
                let ip = |it| it & ((1 << 57) - 1);
                [flag | ip(from), (1 << 63) | ip(to), 0]
            }
            Kind::Legacy(it) => match it.formats[1] {
                1 | 2 => [from, to, 0],
                3 => [flag | below_63, to, 0],
                4 => [flag | (from & !(0b111 << 61)), to, 0],
                5 | 7 => [from, to, flag | time],
                6 => [flag | below_63, (to & 0xffff_ffff_ffff) | (time << 48), 0],
                other => panic!("format {other}"),
            },
        }
    }

    pub fn step(&mut self, step: &Step) {
        match *step {
            Step::Branch(kind, ips, [before, after], instructions) => {
                let [all, branches] = &mut self.totals[before as usize];
                *all += instructions;
                *branches += 1;
                let miss = *branches % 64 == 0;
                if !self.records(kind, after) {
                    return;
                }
                if self.pops(kind) {
                    self.pop();
                } else {
                    let record = self.record(kind, ips, !self.sees(before), miss);
                    self.last = Some(self.cycles());
                    self.push(record);
                }
            }
            Step::Select(value) => {
                if self.machine.select().is_some() {
                    self.select = value;
                }
            }
            Step::Enable(true) => self.enabled = true,
            Step::Enable(false) | Step::Debug => {
                self.enabled = false;
                self.last = None;
            }
            Step::Interrupt => {
                let modes = [Mode::User, Mode::Kernel];
                let is_recorded = |kind| modes.iter().any(|&mode| self.records(kind, mode));
                if (0..KINDS.len()).any(is_recorded) {
                    let [from, to, info] = self.records[0];
                    let to = match self.machine.kind {
                        Kind::Legacy(it) if it.formats[1] == 6 => match to & (1 << 47) {
                            0 => to & 0x7fff_ffff_ffff,
                            _ => to | 0xffff_8000_0000_0000,
                        },
                        _ => to,
                    };
                    // Neither the cycles nor their flag.
                    self.last_event = [from, to, info & 0xef00_0000_0000_0000];
                }
            }
            Step::Freeze(frozen) => self.frozen = frozen && self.machine.freeze().is_some(),
            Step::Depth(depth) => {
                if self.machine.kind == Kind::Arch {
                    self.records = vec![[0; 3]; depth.into()];
                }
            }
            Step::Tos(tos) => {
                if matches!(self.machine.kind, Kind::Legacy(_)) {
                    let moved = (usize::from(tos) + self.used() - self.tos) % self.used();
                    self.records.rotate_right(moved);
                    self.tos = tos.into();
                }
            }
            Step::Write(i, field, value) => {
                let age = match self.machine.kind {
                    Kind::Legacy(_) => (self.tos + self.used() - i % self.used()) % self.used(),
                    _ => i,
                };
                if field < self.machine.addresses(i).len() && i < self.used() {
                    self.records[age][field] = value;
                }
            }
            Step::Restore => {}
        }
    }
}
