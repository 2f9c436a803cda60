// SPDX-License-Identifier: GPL-2.0

//! Event logging: records say what counters have counted between them.

use super::{branch, intel, GP};
use pmu_model::{
    msr::*, Branch, BranchKind, Config, CoreType, Mode, Pmu, Retired, Signature, Vendor,
};
use proptest::prelude::*;

const SIERRA_FOREST: u8 = 0xaf;
const OS: u64 = 1 << 1;
const USR: u64 = 1 << 2;
const ANY: u64 = 0x7f << 16;
const COND: u64 = 1 << 16;

fn log(event: u64) -> u64 {
    event | EventSel::LBR_LOG | EventSel::EN | EventSel::OS | EventSel::USR
}

/// INFO[39:32] of the youngest record.
fn counts(pmu: &Pmu) -> u64 {
    (pmu.rdmsr(IA32_LBR_0_INFO).unwrap() >> 32) & 0xff
}

/// ECX of leaf 1CH of a core of Meteor Lake.
fn of_meteor_lake(core_type: CoreType) -> u32 {
    let signature = Signature {
        family: 6,
        model: 0xaa,
        stepping: 0,
    };
    let config = Config::of_hybrid(Vendor::Intel, signature, core_type).unwrap();
    Pmu::new(config).unwrap().cpuid(0x1c).unwrap()[2]
}

#[test]
fn cpuid_says_which_counters() {
    let ecx = |model| Pmu::new(intel(model)).unwrap().cpuid(0x1c).unwrap()[2];
    for model in [0x8f, 0xbe] {
        assert_eq!(ecx(model), 7, "{model:#x}");
    }
    for model in [SIERRA_FOREST, 0xb6, 0xbd, 0xc6, 0xcc, 0xdd] {
        assert_eq!(ecx(model), 0xf_0007, "{model:#x}");
    }
    assert_eq!(of_meteor_lake(CoreType::Efficient), 7);
}

#[test]
fn the_bits_exist_where_cpuid_says_so() {
    for (model, logged) in [(SIERRA_FOREST, 4), (0x8f, 0)] {
        let mut pmu = Pmu::new(intel(model)).unwrap();
        for i in 0..8 {
            let expected = if i < logged { Ok(()) } else { GP };
            assert_eq!(pmu.wrmsr(IA32_PERFEVTSEL0 + i, log(0xc0)), expected);
        }
        // A write of undefined bits does not fault.
        pmu.wrmsr(IA32_LBR_0_INFO, 0x1ff << 32).unwrap();
        let expected = if logged > 0 { 0xff << 32 } else { 0 };
        assert_eq!(pmu.rdmsr(IA32_LBR_0_INFO), Ok(expected));
    }
}

/// What counters 0 to 3 log in the test below.
const EVENTS: [u64; 4] = [
    // Instructions.
    0xc0,   // Conditional branches that are taken.
    0xfec4, // Loads.
    0x81d0, // Branches.
    0xc4,
];

#[derive(Clone, Debug)]
enum Step {
    /// A branch of a kind, after instructions and loads in a mode.
    Branch {
        is_conditional: bool,
        mode: Mode,
        instructions: u64,
        loads: u64,
    },
    Report,
    /// Whether each counter is logged.
    Log([bool; 4]),
    Select(u64),
    Enable(bool),
    Restore,
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![3 => Just(Mode::User), 1 => Just(Mode::Kernel)];
    let branch = (any::<bool>(), mode, 0..4u64, 0..4u64);
    prop_oneof![
        12 => branch.prop_map(|(is_conditional, mode, others, loads)| Step::Branch {
            is_conditional,
            mode,
            instructions: others.max(loads) + 1,
            loads,
        }),
        6 => Just(Step::Report),
        1 => any::<[bool; 4]>().prop_map(Step::Log),
        1 => proptest::sample::select(vec![USR | ANY, OS | USR | ANY, OS | USR | COND]).prop_map(Step::Select),
        1 => any::<bool>().prop_map(Step::Enable),
        1 => Just(Step::Restore),
    ]
}

/// What has been counted since the last record, counter by counter.
#[derive(Default)]
struct Reference {
    logged: [bool; 4],
    select: u64,
    enabled: bool,
    counted: [u64; 4],
    newest: u64,
}

impl Reference {
    fn branch(&mut self, is_conditional: bool, mode: Mode, instructions: u64, loads: u64) {
        if !self.enabled {
            return;
        }
        let gained = [instructions, is_conditional.into(), loads, 1];
        let logged = self.counted.iter_mut().zip(gained).zip(self.logged);
        for ((counted, gained), is_logged) in logged {
            *counted += if is_logged { gained } else { 0 };
        }
        let is_of_mode = self.select & if mode == Mode::User { USR } else { OS } != 0;
        let is_of_kind = is_conditional || self.select & ANY == ANY;
        if is_of_mode && is_of_kind {
            let fields = (0..4).map(|i| self.counted[i].min(3) << (2 * i));
            self.newest = fields.sum();
            self.counted = [0; 4];
        }
    }

    fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
        if !enabled {
            self.counted = [0; 4];
        }
    }
}

/// A PMU, and what it has not been told of.
struct Told {
    pmu: Pmu,
    retired: [Retired; 2],
}

impl Told {
    fn report(&mut self) {
        self.pmu.retire(&std::mem::take(&mut self.retired));
    }

    fn write(&mut self, msr: u32, value: u64) {
        self.report();
        self.pmu.wrmsr(msr, value).unwrap();
    }

    fn step(&mut self, reference: &mut Reference, step: &Step) {
        match *step {
            Step::Branch {
                is_conditional,
                mode,
                instructions,
                loads,
            } => {
                let retired = &mut self.retired[mode as usize];
                retired.instructions += instructions;
                retired.loads += loads;
                retired.branches += 1;
                retired.conditional += u64::from(is_conditional);
                retired.conditional_taken += u64::from(is_conditional);
                let kind = match is_conditional {
                    true => BranchKind::Conditional,
                    false => BranchKind::RelativeJump,
                };
                self.pmu.branch(&Branch {
                    modes: [mode; 2],
                    retired: self.retired,
                    ..branch(kind, 1, 2)
                });
                reference.branch(is_conditional, mode, instructions, loads);
            }
            Step::Report => self.report(),
            Step::Log(logged) => {
                for (i, event) in (0..).zip(EVENTS) {
                    let value = match logged[i as usize] {
                        true => log(event),
                        false => log(event) & !EventSel::LBR_LOG,
                    };
                    self.write(IA32_PERFEVTSEL0 + i, value);
                }
                reference.logged = logged;
            }
            Step::Select(select) => {
                reference.select = select;
                self.write(IA32_LBR_CTL, select | u64::from(reference.enabled));
            }
            Step::Enable(enabled) => {
                reference.enable(enabled);
                self.write(IA32_LBR_CTL, reference.select | u64::from(enabled));
            }
            Step::Restore => {
                self.report();
                let text = serde_json::to_string(&self.pmu.save()).unwrap();
                self.pmu = Pmu::new(intel(SIERRA_FOREST)).unwrap();
                self.pmu
                    .restore(&serde_json::from_str(&text).unwrap())
                    .unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn a_record_has_what_was_counted_since_the_one_before(
        steps in proptest::collection::vec(step(), 1..100),
    ) {
        let mut reference = Reference::default();
        let mut told = Told {
            pmu: Pmu::new(intel(SIERRA_FOREST)).unwrap(),
            retired: [Retired::default(); 2],
        };
        told.write(IA32_PERF_GLOBAL_CTRL, 0xf);
        let start = [Step::Log([true; 4]), Step::Select(USR | ANY), Step::Enable(true)];
        for step in start.iter().chain(&steps) {
            told.step(&mut reference, step);
            prop_assert_eq!(counts(&told.pmu), reference.newest, "after {:?}", step);
        }
    }
}
