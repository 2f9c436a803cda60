// SPDX-License-Identifier: GPL-2.0
//! Which branches a CPU records.

use std::fs;

use crate::pmu::{cpuid, CpuPmu, Pmu};
use crate::workload::{Branch, BranchKind};
use anyhow::{Context, Result};

/// What users ask for (`PERF_SAMPLE_BRANCH_*`).
pub mod request {
    use perf_event::SampleBranchFlag;

    pub const USER: u64 = SampleBranchFlag::USER.bits();
    pub const ANY: u64 = SampleBranchFlag::ANY.bits();
    pub const ANY_CALL: u64 = SampleBranchFlag::ANY_CALL.bits();
    pub const ANY_RETURN: u64 = SampleBranchFlag::ANY_RETURN.bits();
    pub const COND: u64 = SampleBranchFlag::COND.bits();
    pub const CALL_STACK: u64 = SampleBranchFlag::CALL_STACK.bits();
    pub const CALL: u64 = SampleBranchFlag::CALL.bits();
    pub const IND_CALL: u64 = SampleBranchFlag::IND_CALL.bits();
    pub const IND_JUMP: u64 = SampleBranchFlag::IND_JUMP.bits();
    /// PERF_SAMPLE_BRANCH_COUNTERS, which the crate does not have.
    pub const COUNTERS: u64 = 1 << 19;
}

/// Which branches the CPU records.
#[derive(Clone, Copy)]
pub struct Hardware {
    /// The number of records.
    pub depth: usize,
    pub selects: Selects,
    pub has_call_stack: bool,
    /// Whether records say how often events have occurred between them.
    pub logs: bool,
}

/// How a CPU selects kinds of branches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Selects {
    /// It records all of them.
    Nothing,
    /// Calls and returns are recorded together with jumps.
    WithJumps,
    Kinds,
}

impl Hardware {
    /// That of this CPU. In-tree: `intel_pmu_init()` and `amd_pmu_lbr_init()`.
    pub fn of(pmu: &Pmu) -> Result<Self> {
        let file = pmu.dir().join("caps/branches");
        let depth = fs::read_to_string(file).context("caps/branches")?;
        let is_amd = CpuPmu::probe().is_amd();
        let [signature, ..] = cpuid(1, 0);
        let model = ((signature >> 12) & 0xf0) | ((signature >> 4) & 0xf);
        let [_, threads, ..] = cpuid(0xb, 0);
        let selects = match model {
            _ if is_amd => Selects::Kinds,
            0x0f | 0x16 | 0x17 | 0x1d | 0x1c | 0x26 | 0x27 | 0x35 | 0x36 => Selects::Nothing,
            // Nehalem, Westmere. If the threads of a core share the register, rust_pmu has it select nothing.
            // The in-tree driver does not.
            0x1a | 0x1e | 0x2e | 0x25 | 0x2c | 0x2f if threads > 1 => Selects::Nothing,
            0x1a | 0x1e | 0x2e | 0x25 | 0x2c | 0x2f => Selects::WithJumps,
            // Silvermont.
            0x37 | 0x4a | 0x4c | 0x4d | 0x5a | 0x75 => Selects::WithJumps,
            _ => Selects::Kinds,
        };
        // Sandy Bridge, Ivy Bridge; Knights Landing.
        let is_older = matches!(model, 0x2a | 0x2d | 0x3a | 0x3e | 0x57 | 0x85);
        let [.., ecx, _] = cpuid(0x1c, 0);
        Ok(Hardware {
            depth: depth.trim().parse().context("caps/branches")?,
            selects,
            has_call_stack: !is_amd && !is_older && selects == Selects::Kinds,
            logs: !is_amd && ecx & 0xf_0000 != 0,
        })
    }

    /// What an event that asks for this shows of the last branches, the newest of which comes first.
    pub fn shown(
        self,
        flags: u64,
        last: impl Iterator<Item = Branch>,
    ) -> impl Iterator<Item = Branch> {
        last.filter(move |branch| self.records(flags, branch))
            .take(self.depth)
            .filter(move |branch| is_asked_for(flags, branch))
    }

    /// Whether the CPU records a branch for an event that asks for this. The driver drops what the event has
    /// not asked for.
    fn records(self, flags: u64, branch: &Branch) -> bool {
        let needs_jumps = request::ANY_CALL | request::ANY_RETURN | request::CALL;
        let needs_indirect_jumps = needs_jumps | request::IND_CALL;
        let for_others = match branch.kind {
            BranchKind::Jump => needs_jumps,
            BranchKind::IndirectJump => needs_indirect_jumps,
            _ => 0,
        };
        // Far branches of all kinds are one kind for the CPU.
        let far = request::ANY | request::ANY_CALL | request::ANY_RETURN;
        match (self.selects, branch.kind) {
            (Selects::Nothing, _) => true,
            (_, BranchKind::FromKernel) => flags & far != 0,
            (Selects::WithJumps, _) => flags & for_others != 0 || is_asked_for(flags, branch),
            (Selects::Kinds, _) => is_asked_for(flags, branch),
        }
    }
}

/// Whether an event asks for a branch, and may show it.
fn is_asked_for(flags: u64, branch: &Branch) -> bool {
    let kinds = match branch.kind {
        BranchKind::Conditional => request::COND,
        BranchKind::Jump => 0,
        BranchKind::IndirectJump => request::IND_JUMP,
        BranchKind::Call => request::CALL | request::ANY_CALL,
        BranchKind::IndirectCall => request::IND_CALL | request::ANY_CALL,
        BranchKind::Return => request::ANY_RETURN,
        BranchKind::FromKernel => return false,
    };
    flags & (kinds | request::ANY) != 0
}
