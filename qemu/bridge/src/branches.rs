// SPDX-License-Identifier: GPL-2.0

//! Branch records.

use std::mem::MaybeUninit;

use pmu_model::{Branch, BranchKind, Mode, Retired};

use crate::{mode, PmuBridge, PmuCounts};

/// A branch that was taken.
#[repr(C)]
pub struct PmuBranch {
    /// The linear address of the branch, or of the instruction before which an interrupt or an
    /// exception came.
    pub from: u64,
    /// The linear address of the next instruction.
    pub to: u64,
    /// What has retired since pmu_retire(), the branch included. All but instructions and branches matter only
    /// if pmu_logs_events().
    pub retired: PmuCounts,
    /// PMU_KIND_.
    pub kind: u8,
    /// The mode before and after the branch: 0 user, 1 kernel.
    pub from_mode: u8,
    #[expect(missing_docs, reason = "described with `from_mode`")]
    pub to_mode: u8,
    /// Whether an instruction retires with it: not with an interrupt or an exception.
    pub retires: bool,
}

/// A conditional branch.
pub const PMU_KIND_CONDITIONAL: u8 = 0;
/// A near jump to an address in a register or in memory.
pub const PMU_KIND_INDIRECT_JUMP: u8 = 1;
/// A near jump by a displacement.
pub const PMU_KIND_RELATIVE_JUMP: u8 = 2;
/// A near call of an address in a register or in memory.
pub const PMU_KIND_INDIRECT_CALL: u8 = 3;
/// A near call by a displacement, but for a call of the next instruction.
pub const PMU_KIND_RELATIVE_CALL: u8 = 4;
/// A near return.
pub const PMU_KIND_RETURN: u8 = 5;
/// Everything else that changes RIP, but for debug exceptions, which are not reported.
pub const PMU_KIND_OTHER: u8 = 6;
/// A near call of the next instruction.
pub const PMU_KIND_CALL_OF_NEXT: u8 = 7;

const _: () = {
    use BranchKind::*;
    assert!(PMU_KIND_CONDITIONAL == Conditional as u8);
    assert!(PMU_KIND_INDIRECT_JUMP == IndirectJump as u8);
    assert!(PMU_KIND_RELATIVE_JUMP == RelativeJump as u8);
    assert!(PMU_KIND_INDIRECT_CALL == IndirectCall as u8);
    assert!(PMU_KIND_RELATIVE_CALL == RelativeCall as u8);
    assert!(PMU_KIND_RETURN == Return as u8);
    assert!(PMU_KIND_OTHER == Other as u8);
    assert!(PMU_KIND_CALL_OF_NEXT == CallOfNext as u8);
};

/// Whether there are architectural LBRs: CPUID.(7,0):EDX.ARCH_LBR.
#[no_mangle]
pub extern "C" fn pmu_has_arch_lbrs(pmu: &PmuBridge) -> bool {
    pmu.0.has_arch_lbrs()
}

/// Whether there are LBRs of any kind: pmu_debug_exception() must be called.
#[no_mangle]
pub extern "C" fn pmu_has_lbrs(pmu: &PmuBridge) -> bool {
    pmu.0.has_lbrs()
}

/// Sets *filter to the kinds of branches that pmu_branch() must be told of, by the mode after the
/// branch: bit PMU_KIND_. It may change with each access to a register and each pmu_retire().
#[no_mangle]
pub extern "C" fn pmu_branch_filter(pmu: &PmuBridge, filter: &mut MaybeUninit<[u8; 2]>) {
    filter.write(Mode::ALL.map(|mode| pmu.0.branch_filter(mode)));
}

/// Whether records say what counters have counted: pmu_branch() must be told of all branches that
/// pmu_branch_filter() has, and of all that has retired. It may change as the filter may.
#[no_mangle]
pub extern "C" fn pmu_logs_events(pmu: &PmuBridge) -> bool {
    pmu.0.logs_events()
}

/// How many of the last branches matter that pmu_branch_filter() has: of those between two calls of
/// pmu_retire() or pmu_interrupt(), pmu_branch() need not be told of earlier ones, but pmu_skip_branches() of
/// their number. At most PMU_LAST_BRANCHES, or 0 if a return removes the record of its call. It may change as
/// the filter may.
#[no_mangle]
pub extern "C" fn pmu_last_branches(pmu: &PmuBridge) -> u32 {
    pmu.0.last_branches().unwrap_or(0) as u32
}

/// The largest result of pmu_last_branches().
pub const PMU_LAST_BRANCHES: u32 = 33;

/// So many branches that pmu_branch_filter() has were taken, and do not matter. Call it before pmu_branch() is
/// told of those that do.
#[no_mangle]
pub extern "C" fn pmu_skip_branches(pmu: &mut PmuBridge, branches: i64) {
    pmu.0.skip_branches(branches);
}

/// Records a branch that was taken since the last pmu_retire(), if pmu_branch_filter() has it. Branches
/// are told in the order in which they were taken.
#[no_mangle]
pub extern "C" fn pmu_branch(pmu: &mut PmuBridge, branch: &PmuBranch) {
    let Some(&kind) = BranchKind::ALL.get(usize::from(branch.kind)) else {
        return;
    };
    pmu.0.branch(&Branch {
        kind,
        from: branch.from,
        to: branch.to,
        modes: [branch.from_mode, branch.to_mode].map(|it| mode(it.into())),
        retires: branch.retires,
        retired: branch.retired.retired(),
    });
}

/// The number of records if a return removes the one of its call, otherwise 0. It may change as the filter
/// may. If it is not 0, pmu_branch() need not be told of branches whose records are gone before the next
/// pmu_retire() or pmu_interrupt(). Tell this instead, in this order:
///
/// - pmu_drop_records();
/// - pmu_skip_branches() of the branches that leave no record after this, less the returns that found no
///   record;
/// - pmu_branch() for each record that is left, the oldest first. Before each: pmu_branch_was_recorded() for
///   the branch before it that was no return, even if its record is gone, unless that branch came before the
///   last pmu_retire() or pmu_interrupt();
/// - pmu_branch_was_recorded() for the last one that was no return, if there was any.
#[no_mangle]
pub extern "C" fn pmu_call_stack_depth(pmu: &PmuBridge) -> u32 {
    pmu.0.call_stack_depth().unwrap_or(0) as u32
}

/// Of the records at the last pmu_retire() or pmu_interrupt(), newer ones have moved out the `oldest`, and
/// returns have removed the `youngest`.
#[no_mangle]
pub extern "C" fn pmu_drop_records(pmu: &mut PmuBridge, oldest: u64, youngest: u64) {
    pmu.0.drop_records(oldest as usize, youngest as usize);
}

/// A branch has been recorded when so many instructions and branches of each mode had retired since
/// pmu_retire().
#[no_mangle]
pub extern "C" fn pmu_branch_was_recorded(
    pmu: &mut PmuBridge,
    instructions: &[u64; 2],
    branches: &[u64; 2],
) {
    pmu.0.branch_was_recorded(Mode::ALL.map(|mode| Retired {
        instructions: instructions[mode as usize],
        branches: branches[mode as usize],
        ..Retired::default()
    }));
}

/// Whether pmu_interrupt() must be called.
#[no_mangle]
pub extern "C" fn pmu_has_last_event(pmu: &PmuBridge) -> bool {
    pmu.0.has_last_event()
}

/// An interrupt is delivered, or an exception that is no debug exception. Tell of the branches before it as
/// before pmu_retire(), and of the branch to its handler after it. It need not be told while
/// pmu_branch_filter() is 0 in both modes.
#[no_mangle]
pub extern "C" fn pmu_interrupt(pmu: &mut PmuBridge) {
    pmu.0.interrupt();
}

/// A debug exception is delivered, which stops the recording of branches. Call pmu_retire() before.
#[no_mangle]
pub extern "C" fn pmu_debug_exception(pmu: &mut PmuBridge) {
    pmu.0.debug_exception();
}
