// SPDX-License-Identifier: GPL-2.0

//! Architectural LBRs, against a reference that keeps a list of everything that was recorded.

use pmu_model::{
    msr::*, ArchLbrs, Branch, BranchKind, Config, ConfigError, Lbrs, Mode, MsrError, Pmu, Retired,
    Vendor,
};
use proptest::prelude::*;

const EN: u64 = 1 << 0;
const OS: u64 = 1 << 1;
const USR: u64 = 1 << 2;
const CALL_STACK: u64 = 1 << 3;
const ANY: u64 = 0x7f << 16;
const CALLS_AND_RETURNS: u64 = 0b111 << 19;

/// The bit of each kind in LBR_CTL, and its BR_TYPE.
const KINDS: [(BranchKind, u64, u64); 7] = [
    (BranchKind::Conditional, 1 << 16, 0),
    (BranchKind::RelativeJump, 1 << 17, 2),
    (BranchKind::IndirectJump, 1 << 18, 1),
    (BranchKind::RelativeCall, 1 << 19, 4),
    (BranchKind::IndirectCall, 1 << 20, 3),
    (BranchKind::Return, 1 << 21, 5),
    (BranchKind::Other, 1 << 22, 8),
];

fn architectural(depth: u8) -> Option<Lbrs> {
    (depth > 0).then_some(Lbrs::Architectural(ArchLbrs { depth }))
}

fn pmu(depth: u8) -> Pmu {
    Pmu::new(Config {
        lbrs: architectural(depth),
        ..Config::new(Vendor::Intel, 5).unwrap()
    })
    .unwrap()
}

fn branch(kind: BranchKind, from: u64, to: u64) -> Branch {
    Branch {
        kind,
        from,
        to,
        modes: [Mode::User; 2],
        retires: true,
        retired: [Retired::default(); 2],
    }
}

/// FROM, TO and INFO of all records.
fn records(pmu: &Pmu) -> Vec<[u64; 3]> {
    let depth = pmu.rdmsr(IA32_LBR_DEPTH).unwrap() as u32;
    let read = |msr| pmu.rdmsr(msr).unwrap();
    (0..depth)
        .map(|i| [IA32_LBR_0_FROM_IP, IA32_LBR_0_TO_IP, IA32_LBR_0_INFO].map(|msr| read(msr + i)))
        .collect()
}

/// FROM of the records that there are.
fn sources(pmu: &Pmu) -> Vec<u64> {
    let all = records(pmu).into_iter().map(|[from, ..]| from);
    all.take_while(|&from| from != 0).collect()
}

#[test]
fn cpuid_describes_them() {
    let expected = [(8, 0x4000_0001), (16, 0x4000_0003), (32, 0x4000_000b)];
    for (depth, eax) in expected {
        let pmu = pmu(depth);
        assert_eq!(pmu.cpuid(0x1c), Some([eax, 7, 7, 0]));
        assert_eq!(pmu.rdmsr(IA32_LBR_DEPTH), Ok(depth.into()));
        assert_eq!(pmu.perf_capabilities().unwrap() & 0x3f, 0x3f);
    }
    let without = pmu(0);
    assert_eq!(without.cpuid(0x1c), None);
    assert_eq!(without.perf_capabilities().unwrap() & 0x3f, 0);
    assert_eq!(without.rdmsr(IA32_LBR_CTL), Err(MsrError::NotPmu));
}

#[test]
fn only_some_processors_can_have_them() {
    let config = |vendor, version, depth| Config {
        lbrs: architectural(depth),
        ..Config::new(vendor, version).unwrap()
    };
    let error = |config| Pmu::new(config).unwrap_err();
    assert_eq!(error(config(Vendor::Intel, 5, 24)), ConfigError::LbrDepth);
    assert_eq!(error(config(Vendor::Intel, 5, 64)), ConfigError::LbrDepth);
    assert_eq!(error(config(Vendor::Intel, 3, 32)), ConfigError::LbrVersion);
    assert_eq!(error(config(Vendor::Amd, 3, 16)), ConfigError::LbrVersion);
}

#[test]
fn reserved_bits_and_depths_raise_gp() {
    let mut pmu = pmu(16);
    let gp = Err(MsrError::GeneralProtection);
    for bit in (4..16).chain(23..64) {
        assert_eq!(pmu.wrmsr(IA32_LBR_CTL, 1 << bit), gp, "{bit}");
    }
    for depth in [0, 1, 24, 32, 64, 0x100 + 8, 1 << 63] {
        assert_eq!(pmu.wrmsr(IA32_LBR_DEPTH, depth), gp, "{depth}");
    }
    pmu.wrmsr(IA32_LBR_DEPTH, 8).unwrap();
    for first in [IA32_LBR_0_FROM_IP, IA32_LBR_0_TO_IP, IA32_LBR_0_INFO] {
        assert_eq!(pmu.rdmsr(first + 7), Ok(0));
        pmu.wrmsr(first + 7, 1).unwrap();
        assert_eq!(pmu.rdmsr(first + 7), Ok(1));
        assert_eq!(pmu.rdmsr(first + 8).map(drop), gp);
        assert_eq!(pmu.wrmsr(first + 8, 1), gp);
    }
}

#[test]
fn a_write_of_the_depth_clears_all() {
    let mut pmu = pmu(32);
    pmu.wrmsr(IA32_LBR_CTL, EN | USR | ANY).unwrap();
    for i in 1..=40 {
        pmu.branch(&branch(BranchKind::RelativeJump, i, i + 100));
    }
    assert_eq!(sources(&pmu), (9..=40).rev().collect::<Vec<_>>());
    pmu.wrmsr(IA32_LBR_DEPTH, 32).unwrap();
    assert_eq!(records(&pmu), vec![[0; 3]; 32]);
}

#[test]
fn the_source_of_another_cpl_is_hidden() {
    let to_user = Branch {
        modes: [Mode::Kernel, Mode::User],
        ..branch(BranchKind::Other, 0xffff_ffff_8100_0000, 0x40_0000)
    };
    let to_kernel = Branch {
        modes: [Mode::User, Mode::Kernel],
        ..branch(BranchKind::Other, 0x40_0002, 0xffff_ffff_8200_0000)
    };
    for (cpls, expected) in [
        (USR, vec![[u64::MAX, to_user.to]]),
        (OS, vec![[u64::MAX, to_kernel.to]]),
        (
            OS | USR,
            vec![[to_kernel.from, to_kernel.to], [to_user.from, to_user.to]],
        ),
    ] {
        let mut pmu = pmu(8);
        pmu.wrmsr(IA32_LBR_CTL, EN | cpls | ANY).unwrap();
        pmu.branch(&to_user);
        pmu.branch(&to_kernel);
        let recorded = records(&pmu).into_iter().map(|[from, to, _]| [from, to]);
        let recorded: Vec<_> = recorded.take_while(|it| *it != [0; 2]).collect();
        assert_eq!(recorded, expected);
    }
}

#[test]
fn a_return_removes_its_call() {
    use BranchKind::{IndirectCall, RelativeCall, Return};
    let mut pmu = pmu(8);
    let ctl = EN | USR | CALL_STACK | CALLS_AND_RETURNS;
    pmu.wrmsr(IA32_LBR_CTL, ctl).unwrap();
    for (kind, from) in [
        (RelativeCall, 1),
        (IndirectCall, 2),
        (Return, 3),
        (RelativeCall, 4),
    ] {
        pmu.branch(&branch(kind, from, 100));
    }
    assert_eq!(sources(&pmu), [4, 1]);
    for from in 5..=7 {
        pmu.branch(&branch(Return, from, 100));
    }
    assert_eq!(records(&pmu), vec![[0; 3]; 8]);
}

/// The 64th branch of a mode is mispredicted, and takes 15 cycles more.
#[test]
fn info_has_prediction_and_cycles() {
    const MISPRED: u64 = 1 << 63;
    const VALID: u64 = 1 << 60;
    let mut pmu = pmu(8);
    pmu.wrmsr(IA32_LBR_CTL, EN | USR | ANY).unwrap();
    let at = |instructions, branches| Branch {
        retired: [
            Retired {
                instructions,
                branches,
                ..Retired::default()
            },
            Retired::default(),
        ],
        ..branch(BranchKind::Conditional, 1, 2)
    };
    pmu.branch(&at(620, 62));
    pmu.branch(&at(630, 63));
    pmu.branch(&at(640, 64));
    pmu.branch(&at(100_000, 65));
    let info: Vec<_> = records(&pmu)[..4].iter().map(|[.., info]| *info).collect();
    assert_eq!(info, [VALID | 0xffff, VALID | MISPRED | 25, VALID | 10, 0]);
}

#[test]
fn a_pmi_freezes_them() {
    let mut pmu = pmu(8);
    pmu.wrmsr(IA32_DEBUGCTL, debugctl::FREEZE_LBRS_ON_PMI)
        .unwrap();
    pmu.wrmsr(IA32_LBR_CTL, EN | USR | ANY).unwrap();
    pmu.wrmsr(
        IA32_PERFEVTSEL0,
        EventSel::EN | EventSel::INT | EventSel::USR | 0xc0,
    )
    .unwrap();
    pmu.wrmsr(IA32_PMC0, -10_i64 as u64).unwrap();
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 1).unwrap();
    pmu.branch(&branch(BranchKind::Conditional, 1, 2));
    let ten = Retired {
        instructions: 10,
        branches: 1,
        ..Retired::default()
    };
    pmu.retire(&[ten, Retired::default()]);
    assert!(pmu.take_pmi());
    assert_eq!(pmu.branch_filter(Mode::User), 0);
    pmu.branch(&branch(BranchKind::Conditional, 3, 4));
    assert_eq!(sources(&pmu), [1]);
    let status = pmu.rdmsr(IA32_PERF_GLOBAL_STATUS).unwrap();
    assert_eq!(status, global_status::LBR_FRZ | 1);
    pmu.wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, status).unwrap();
    pmu.branch(&branch(BranchKind::Conditional, 5, 6));
    assert_eq!(sources(&pmu), [5, 1]);
}

#[test]
fn a_debug_exception_stops_recording() {
    let mut pmu = pmu(8);
    pmu.wrmsr(IA32_LBR_CTL, EN | USR | ANY).unwrap();
    assert!(pmu.counting());
    pmu.debug_exception();
    assert_eq!(pmu.rdmsr(IA32_LBR_CTL), Ok(USR | ANY));
    assert!(!pmu.counting());
}

/// What happens to the LBRs.
#[derive(Clone, Debug)]
enum Step {
    Branch(usize, u64, u64, [Mode; 2]),
    Control(u64),
    Depth(u64),
    Freeze(bool),
    Restore,
}

fn step() -> impl Strategy<Value = Step> {
    let mode = || prop_oneof![3 => Just(Mode::User), 1 => Just(Mode::Kernel)];
    let address = || 1..1_000_000_u64;
    let ctl = prop_oneof![
        Just(EN | USR | ANY),
        Just(EN | USR | CALL_STACK | CALLS_AND_RETURNS),
        any::<u64>().prop_map(|it| it & 0x7f_000f),
    ];
    prop_oneof![
        20 => (0..KINDS.len(), address(), address(), mode(), mode())
            .prop_map(|(kind, from, to, before, after)| Step::Branch(kind, from, to, [before, after])),
        1 => ctl.prop_map(Step::Control),
        1 => prop_oneof![Just(8), Just(16), Just(32)].prop_map(Step::Depth),
        1 => any::<bool>().prop_map(Step::Freeze),
        1 => Just(Step::Restore),
    ]
}

/// All that was recorded since the last clearing, the oldest first: FROM, TO and BR_TYPE.
#[derive(Default)]
struct Reference {
    ctl: u64,
    frozen: bool,
    depth: usize,
    recorded: Vec<[u64; 3]>,
}

impl Reference {
    fn is_seen(&self, mode: Mode) -> bool {
        self.ctl & if mode == Mode::User { USR } else { OS } != 0
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Branch(kind, from, to, [before, after]) => {
                let (kind, bit, br_type) = KINDS[kind];
                if self.ctl & EN == 0 || self.frozen || self.ctl & bit == 0 || !self.is_seen(after)
                {
                    return;
                }
                if self.ctl & CALL_STACK != 0 && kind == BranchKind::Return {
                    self.recorded.pop();
                    return;
                }
                let from = if self.is_seen(before) { from } else { u64::MAX };
                self.recorded.push([from, to, br_type]);
                // What has left the registers does not come back.
                let excess = self.recorded.len().saturating_sub(self.depth);
                self.recorded.drain(..excess);
            }
            Step::Control(ctl) => self.ctl = ctl,
            Step::Depth(depth) => {
                self.depth = depth as usize;
                self.recorded.clear();
            }
            Step::Freeze(frozen) => self.frozen = frozen,
            Step::Restore => {}
        }
    }
}

fn apply(pmu: &mut Pmu, step: &Step) {
    match *step {
        Step::Branch(kind, from, to, modes) => pmu.branch(&Branch {
            modes,
            ..branch(KINDS[kind].0, from, to)
        }),
        Step::Control(ctl) => pmu.wrmsr(IA32_LBR_CTL, ctl).unwrap(),
        Step::Depth(depth) => pmu.wrmsr(IA32_LBR_DEPTH, depth).unwrap(),
        Step::Freeze(true) => pmu
            .wrmsr(IA32_PERF_GLOBAL_STATUS_SET, global_status::LBR_FRZ)
            .unwrap(),
        Step::Freeze(false) => pmu
            .wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, global_status::LBR_FRZ)
            .unwrap(),
        Step::Restore => {
            let text = serde_json::to_string(&pmu.save()).unwrap();
            *pmu = self::pmu(32);
            pmu.restore(&serde_json::from_str(&text).unwrap()).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn records_are_those_of_the_reference(steps in proptest::collection::vec(step(), 1..60)) {
        let mut pmu = pmu(32);
        let mut reference = Reference { depth: 32, ..Reference::default() };
        for step in &steps {
            apply(&mut pmu, step);
            reference.step(step);
        }
        let mut expected: Vec<_> = reference.recorded.into_iter().rev().collect();
        expected.resize(reference.depth, [0; 3]);
        let recorded: Vec<_> = records(&pmu)
            .into_iter()
            .map(|[from, to, info]| [from, to, (info >> 56) & 0xf])
            .collect();
        prop_assert_eq!(recorded, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// Of the branches between two reports the model need not be told of those that no register shows.
    #[test]
    fn early_branches_do_not_matter(
        control in prop_oneof![
            Just(EN | USR | ANY),
            Just(EN | OS | USR | ANY),
            Just(EN | USR | CALL_STACK | CALLS_AND_RETURNS),
        ],
        depth in prop_oneof![Just(8u64), Just(16), Just(32)],
        intervals in proptest::collection::vec(
            proptest::collection::vec((0..KINDS.len(), 1..100u64), 0..120),
            1..5,
        ),
    ) {
        let recording = || {
            let mut pmu = pmu(32);
            pmu.wrmsr(IA32_LBR_DEPTH, depth).unwrap();
            pmu.wrmsr(IA32_LBR_CTL, control).unwrap();
            pmu
        };
        let (mut all, mut last) = (recording(), recording());
        for interval in intervals {
            let mut instructions = 0;
            let branches: Vec<_> = (1..).zip(interval).map(|(count, (kind, run))| {
                instructions += run;
                let user = Retired { instructions, branches: count, ..Retired::default() };
                Branch {
                    retired: [user, Retired::default()],
                    ..branch(KINDS[kind].0, count, instructions)
                }
            }).collect();
            branches.iter().for_each(|it| all.branch(it));
            let matter = last.last_branches().unwrap_or(usize::MAX).min(branches.len());
            let (_, told) = branches.split_at(branches.len() - matter);
            told.iter().for_each(|it| last.branch(it));
            let retired = [
                Retired { instructions, branches: branches.len() as u64, ..Retired::default() },
                Retired::default(),
            ];
            for pmu in [&mut all, &mut last] {
                pmu.retire(&retired);
            }
            prop_assert_eq!(records(&last), records(&all));
        }
    }
}
