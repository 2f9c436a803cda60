// SPDX-License-Identifier: GPL-2.0

//! Any sequence of accesses and reports to the PMU model.
//!
//! Nothing panics. An access that fails changes nothing. Each counter fits its width. A budget is
//! not exceeded by an overflow or a PMI before its end. A PMU that was restored behaves as the one
//! that was saved.

use arbitrary::{Arbitrary, Result, Unstructured};
use pmu_model::{msr::*, Branch, BranchKind, Config, Defect, Mode, PmiFault, Pmu, Retired};
use std::ops::RangeInclusive;

/// Where the registers of all PMUs are.
const ADDRESSES: [RangeInclusive<u32>; 28] = [
    IA32_PMC0..=IA32_PMC0 + 8,
    IA32_PERFEVTSEL0..=IA32_PERFEVTSEL0 + 8,
    MSR_OFFCORE_RSP_0..=MSR_OFFCORE_RSP_1,
    IA32_DEBUGCTL..=IA32_DEBUGCTL,
    IA32_FIXED_CTR0..=IA32_FIXED_CTR0 + 4,
    MSR_PERF_METRICS..=MSR_PERF_METRICS,
    IA32_PERF_CAPABILITIES..=IA32_PERF_CAPABILITIES,
    IA32_FIXED_CTR_CTRL..=IA32_PERF_GLOBAL_INUSE + 1,
    MSR_OMR_0..=MSR_OMR_3,
    MSR_PEBS_LD_LAT..=MSR_PEBS_FRONTEND,
    IA32_A_PMC0..=IA32_A_PMC0 + 8,
    MSR_SNOOP_RSP_0..=MSR_SNOOP_RSP_1,
    IA32_PMC_GP0_CTR..=IA32_PMC_GP0_CTR + 40,
    IA32_PMC_FX0_CTR..=IA32_PMC_FX0_CTR + 20,
    K7_PERF_CTL0..=K7_PERF_CTR0 + 4,
    PERF_CTL0..=PERF_CTL0 + 31,
    PERF_CNTR_GLOBAL_STATUS..=PERF_CNTR_GLOBAL_STATUS_SET + 1,
    MSR_LASTBRANCH_0_FROM_IP_LOW..=MSR_LASTBRANCH_0_FROM_IP_LOW + 8,
    MSR_LASTBRANCH_0_TO_IP_LOW..=MSR_LASTBRANCH_0_TO_IP_LOW + 8,
    MSR_LBR_SELECT..=MSR_LASTBRANCH_TOS,
    MSR_LASTBRANCH_0_FROM_IP..=MSR_LASTBRANCH_0_TO_IP + 32,
    MSR_LBR_INFO_0..=MSR_LBR_INFO_0 + 32,
    IA32_LBR_0_INFO..=IA32_LBR_0_INFO + 32,
    IA32_LBR_CTL..=IA32_LBR_DEPTH,
    IA32_LBR_0_FROM_IP..=IA32_LBR_0_FROM_IP + 32,
    LAST_BRANCH_STACK_SELECT..=DEBUG_EXTN_CTL,
    LAST_BRANCH_STACK_FROM_IP_0..=LAST_BRANCH_STACK_FROM_IP_0 + 64,
    0..=u32::MAX,
];

#[derive(Debug, Arbitrary)]
enum Operation {
    Cpuid(u32, u32),
    Read,
    Write(Value),
    ReadPmc(Ecx, bool, bool),
    Retire([u16; 2]),
    RetireMany([u64; 2], [u32; 2]),
    RetireBudget(bool, u8),
    TakePmi,
    Inject(Fault),
    InjectStatus(u64),
    Svm(bool, bool),
    Branch(u8, [u64; 2], [bool; 2]),
    SkipBranches(i64),
    DropRecords(usize, usize),
    BranchWasRecorded,
    DebugException,
    Interrupt,
    Reset,
    SaveAndRestore,
}

#[derive(Debug, Arbitrary)]
enum Value {
    Any(u64),
    Bits(u64, u64),
    Bit(u8),
    Ones(u8),
    /// A counter that is about to overflow.
    Minus(u8),
    /// An event that counts.
    Counting(u16, bool),
}

impl Value {
    fn get(&self) -> u64 {
        const COUNTING: u64 = EventSel::EN | EventSel::OS | EventSel::USR;
        match *self {
            Value::Any(value) => value,
            Value::Bits(a, b) => a & b,
            Value::Bit(bit) => 1 << (bit % 64),
            Value::Ones(bits) => (1 << (bits % 64)) - 1,
            Value::Minus(value) => u64::from(value).wrapping_neg(),
            Value::Counting(code, int) => {
                let code = [0xc0, 0x3c, 0xc4, 0xc2, 0x76][usize::from(code % 5)];
                COUNTING | code | if int { EventSel::INT } else { 0 }
            }
        }
    }
}

#[derive(Debug, Arbitrary)]
enum Ecx {
    General(u8),
    Fixed(u8),
    Metrics,
    Any(u32),
}

impl Ecx {
    fn get(&self) -> u32 {
        match *self {
            Ecx::General(i) => u32::from(i % 16),
            Ecx::Fixed(i) => (1 << 30) | u32::from(i % 8),
            Ecx::Metrics => RDPMC_METRICS,
            Ecx::Any(ecx) => ecx,
        }
    }
}

#[derive(Debug, Arbitrary)]
enum Fault {
    Lose,
    Delay(u8),
    Repeat(u8),
    Spurious(u8),
}

pub(crate) fn address(u: &mut Unstructured<'_>) -> Result<u32> {
    let range = u.choose(&ADDRESSES)?.clone();
    u.int_in_range(range)
}

/// A PMU, and sometimes another one with its state.
struct Twins {
    config: Config,
    defect: Defect,
    pmus: Vec<Pmu>,
}

impl Twins {
    fn new(config: Config, defect: Defect) -> Option<Twins> {
        let pmus = vec![Pmu::with_defect(config, defect).ok()?];
        Some(Twins {
            config,
            defect,
            pmus,
        })
    }

    /// Calls `f` with each of the PMUs. They must return the same, which this returns.
    fn each<T: PartialEq + std::fmt::Debug>(&mut self, mut f: impl FnMut(&mut Pmu) -> T) -> T {
        let mut results = self.pmus.iter_mut().map(&mut f);
        let first = results.next().unwrap();
        for other in results {
            assert_eq!(other, first, "after it was restored");
        }
        first
    }

    fn restore(&mut self) {
        let saved = self.pmus[0].save();
        let mut twin = Pmu::with_defect(self.config, self.defect).unwrap();
        twin.restore(&saved).unwrap();
        assert_eq!(twin.save(), saved);
        self.pmus.truncate(1);
        self.pmus.push(twin);
    }
}

/// The bits of GLOBAL_STATUS, if there is such a register, and it does not fault.
fn status(pmu: &Pmu) -> Option<u64> {
    let read = [IA32_PERF_GLOBAL_STATUS, PERF_CNTR_GLOBAL_STATUS].map(|msr| pmu.rdmsr(msr).ok());
    read.into_iter().flatten().next()
}

/// Retires less than the budget of a mode, of it all but `left`, and then nothing has happened.
fn retire_budget(pmu: &mut Pmu, mode: Mode, left: u64) -> Option<u64> {
    let budget = pmu.budget(mode)[mode as usize];
    assert!(budget >= 1);
    // What is far away is not waited for.
    let instructions = budget.min(100_000).checked_sub(left + 1)?;
    pmu.take_pmi();
    let before = status(pmu);
    let mut retired = [Retired::default(); 2];
    retired[mode as usize].instructions = instructions;
    pmu.retire(&retired);
    // It may fault from the second access on.
    if let Some(after) = status(pmu) {
        assert_eq!(Some(after), before, "within the budget");
    }
    assert!(!pmu.take_pmi(), "within the budget");
    Some(budget)
}

/// A defect that does not make the registers themselves fail.
fn defect(u: &mut Unstructured<'_>) -> Result<Defect> {
    Ok(match u.int_in_range(0..=9)? {
        0 => Defect::Spurious(u.arbitrary()?),
        1 => Defect::Pmi {
            every: u.arbitrary()?,
            fault: PmiFault::Delay(u.arbitrary()?),
        },
        2 => Defect::Status(u.arbitrary()?),
        3 => Defect::MaskLvtpc,
        4 => Defect::GeneralProtection {
            msr: address(u)?,
            after: u.int_in_range(0..=20)?,
        },
        _ => Defect::None,
    })
}

/// The target.
pub fn check(u: &mut Unstructured<'_>) -> Result<()> {
    let mut config = crate::config(u)?;
    if u.ratio(1, 4)? {
        config.shape.general = u.int_in_range(0..=16)?;
        config.shape.missing = u.arbitrary()?;
        config.shape.fixed = u.int_in_range(0..=5)?;
        config.shape.width = u.int_in_range(31..=49)?;
        config.shape.full_width = u.arbitrary()?;
    }
    if u.ratio(1, 4)? {
        config.lbrs = config.lbrs_with_depth(u.int_in_range(0..=33)?);
    }
    let Some(mut twins) = Twins::new(config, defect(u)?) else {
        return Ok(());
    };
    while !u.is_empty() {
        apply(u, &mut twins)?;
        let width = config.shape.width;
        let general = 0..config.shape.general.into();
        let fixed = (0..config.shape.fixed.into()).map(|i| (1 << 30) | i);
        for ecx in general.chain(fixed) {
            let value = twins.each(|pmu| pmu.rdpmc(ecx, true, true));
            assert!(value.unwrap_or(0) >> width == 0, "{ecx:#x}");
        }
        twins.each(|pmu| {
            let budgets = Mode::ALL.map(|mode| pmu.budget(mode));
            assert!(budgets[0][0] >= 1 && budgets[1][1] >= 1);
            let branches = Mode::ALL.map(|mode| pmu.branch_filter(mode));
            let seen = (
                pmu.counting(),
                pmu.counts_details(),
                branches,
                pmu.last_branches(),
            );
            (budgets, seen, pmu.tsc_until_overflow())
        });
    }
    Ok(())
}

fn apply(u: &mut Unstructured<'_>, twins: &mut Twins) -> Result<()> {
    match u.arbitrary::<Operation>()? {
        Operation::Cpuid(leaf, subleaf) => {
            twins.each(|pmu| (pmu.cpuid_count(leaf, subleaf), pmu.perf_capabilities()));
        }
        Operation::Read => {
            let msr = address(u)?;
            let _ = twins.each(|pmu| pmu.rdmsr(msr));
        }
        Operation::Write(value) => {
            let msr = address(u)?;
            let _ = twins.each(|pmu| {
                let before = pmu.save();
                let result = pmu.wrmsr(msr, value.get());
                if result.is_err() {
                    assert_eq!(pmu.save(), before, "{msr:#x}: a write that fails");
                }
                result
            });
        }
        Operation::ReadPmc(ecx, cpl0, pce) => {
            let _ = twins.each(|pmu| {
                let before = pmu.save();
                let result = pmu.rdpmc(ecx.get(), cpl0, pce);
                if result.is_err() {
                    assert_eq!(pmu.save(), before, "a read that fails");
                }
                result
            });
        }
        Operation::Retire(instructions) => {
            let [user, kernel] = instructions;
            let retired = [
                crate::retired(u, user.into())?,
                crate::retired(u, kernel.into())?,
            ];
            twins.each(|pmu| pmu.retire(&retired));
        }
        Operation::RetireMany(instructions, tsc) => {
            let [user, kernel] = instructions;
            let retired = [crate::retired(u, user)?, crate::retired(u, kernel)?];
            twins.each(|pmu| pmu.report(&retired, tsc.map(u64::from)));
        }
        Operation::RetireBudget(user, left) => {
            let mode = if user { Mode::User } else { Mode::Kernel };
            twins.each(|pmu| retire_budget(pmu, mode, left.into()));
        }
        Operation::TakePmi => {
            twins.each(Pmu::take_pmi);
        }
        Operation::Inject(Fault::Spurious(after)) => {
            twins.each(|pmu| pmu.inject_spurious_pmi(after.into()));
        }
        Operation::Inject(fault) => {
            let fault = match fault {
                Fault::Delay(n) => PmiFault::Delay(n.into()),
                Fault::Repeat(n) => PmiFault::Repeat(n.into()),
                Fault::Lose | Fault::Spurious(_) => PmiFault::Lose,
            };
            twins.each(|pmu| pmu.inject(fault));
        }
        Operation::InjectStatus(bits) => twins.each(|pmu| pmu.inject_status(bits)),
        Operation::Svm(enabled, guest) => twins.each(|pmu| pmu.set_svm(enabled, guest)),
        Operation::Branch(kind, [from, to], kernel) => {
            let branch = Branch {
                kind: BranchKind::ALL[usize::from(kind) % BranchKind::ALL.len()],
                from,
                to,
                modes: kernel.map(|it| if it { Mode::Kernel } else { Mode::User }),
                retires: true,
                retired: [Retired::default(); 2],
            };
            twins.each(|pmu| pmu.branch(&branch));
        }
        Operation::SkipBranches(branches) => twins.each(|pmu| pmu.skip_branches(branches)),
        Operation::DropRecords(oldest, youngest) => {
            twins.each(|pmu| pmu.drop_records(oldest, youngest));
        }
        Operation::BranchWasRecorded => {
            twins.each(|pmu| pmu.branch_was_recorded([Retired::default(); 2]));
        }
        Operation::DebugException => twins.each(Pmu::debug_exception),
        Operation::Interrupt => twins.each(Pmu::interrupt),
        Operation::Reset => {
            let new = Pmu::with_defect(twins.config, twins.defect).unwrap();
            twins.each(|pmu| {
                pmu.reset();
                assert_eq!(pmu.save(), new.save(), "after RESET");
            });
        }
        Operation::SaveAndRestore => twins.restore(),
    }
    Ok(())
}
