// SPDX-License-Identifier: GPL-2.0

//! Last branch records (LBRs): the branches that a processor has taken last.
//!
//! Architectural LBRs: SDM vol. 3B, chapter "Last Branch Records". The registers form a stack. Record 0 is
//! the youngest, and a new one moves all others on. They have:
//!
//! - FROM and TO: linear addresses;
//! - INFO: the kind of the branch, whether it was mispredicted, and the core cycles since the last record,
//!   at most 65535.
//!
//! A branch was mispredicted if it is one that the event of [`event`](crate::event) counts: each 64th of its
//! mode. Real processors never mispredict a direct jump; here a record with MISPRED and a count of the event
//! belong together. Cycles are those of the event core cycles, in both modes. The first record after LBR_CTL
//! has enabled recording has none, and CYC_CNT_VALID is clear. So a program always has the same records.
//!
//! In call-stack mode a near return removes record 0 and moves all others; the last one becomes 0. A return that
//! the filters do not let through removes nothing.
//!
//! A filter of CPLs looks at the CPL after the branch. If only the CPL before it is filtered out, FROM has all
//! bits set.

mod branch;
mod control;

pub use branch::{Branch, BranchKind};

use serde::{Deserialize, Serialize};

pub(crate) use control::LbrCtl;

/// The highest number of records.
const MAX_DEPTH: usize = 32;

/// INFO.CYC_CNT: the core cycles since the last record.
const CYC_CNT: u64 = 0xffff;
/// INFO.BR_TYPE begins here.
const BR_TYPE_SHIFT: u32 = 56;
/// INFO.CYC_CNT_VALID.
const CYC_CNT_VALID: u64 = 1 << 60;
/// INFO.MISPRED.
const MISPRED: u64 = 1 << 63;
/// The bits of INFO that exist: those above, TSX_ABORT and IN_TSX.
pub(crate) const INFO: u64 = CYC_CNT | (0xff << BR_TYPE_SHIFT);

/// One record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) info: u64,
}

impl BranchKind {
    /// INFO.BR_TYPE (SDM vol. 3B, table "IA32_LBR_x_INFO and IA32_LER_INFO Branch Type Encodings").
    const fn br_type(self) -> u64 {
        match self {
            BranchKind::Conditional => 0,
            BranchKind::IndirectJump => 1,
            BranchKind::RelativeJump => 2,
            BranchKind::IndirectCall => 3,
            BranchKind::RelativeCall => 4,
            BranchKind::Return => 5,
            BranchKind::Other => 8,
        }
    }
}

/// The registers of the LBRs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lbrs {
    pub(crate) ctl: LbrCtl,
    /// LBR_DEPTH: the records in use. Those behind it are 0.
    depth: u8,
    records: [Record; MAX_DEPTH],
    /// The core cycles at the last record, in both modes, since reset. `None` if there has been no record
    /// since LBR_CTL enabled recording.
    last: Option<u128>,
}

impl Lbrs {
    /// The LBRs after RESET, if there are `depth`.
    pub(crate) fn new(depth: u8) -> Self {
        Self {
            depth,
            ..Self::default()
        }
    }

    /// Writes LBR_CTL.
    pub(crate) fn set_ctl(&mut self, ctl: LbrCtl) {
        if !self.ctl.is_enabled() {
            self.last = None;
        }
        self.ctl = ctl;
    }

    /// The number of records in use.
    pub(crate) fn depth(&self) -> u8 {
        self.depth
    }

    /// Writes LBR_DEPTH, which clears all records.
    pub(crate) fn set_depth(&mut self, depth: u8) {
        self.depth = depth;
        self.records = Default::default();
    }

    /// A record, `None` if LBR_DEPTH excludes it.
    pub(crate) fn record(&self, index: usize) -> Option<Record> {
        self.records[..self.depth.into()].get(index).copied()
    }

    /// A record to write, `None` if LBR_DEPTH excludes it.
    pub(crate) fn record_mut(&mut self, index: usize) -> Option<&mut Record> {
        self.records[..self.depth.into()].get_mut(index)
    }

    /// Records a branch that [`LbrCtl::filter`] lets through. `cycles` are the core cycles since reset.
    pub(crate) fn push(&mut self, branch: &Branch, mispredicted: bool, cycles: u128) {
        if self.ctl.is_call_stack() && branch.kind == BranchKind::Return {
            self.pop();
            return;
        }
        let elapsed = self.last.replace(cycles).map_or(0, |last| {
            CYC_CNT_VALID | (cycles - last).min(CYC_CNT.into()) as u64
        });
        let mispredicted = if mispredicted { MISPRED } else { 0 };
        let [before, _] = branch.modes;
        let sees_source = self.ctl.filter(before) != 0;
        let used = &mut self.records[..self.depth.into()];
        used.rotate_right(1);
        if let Some(youngest) = used.first_mut() {
            *youngest = Record {
                from: if sees_source { branch.from } else { u64::MAX },
                to: branch.to,
                info: (branch.kind.br_type() << BR_TYPE_SHIFT) | mispredicted | elapsed,
            };
        }
    }

    /// Removes the youngest record.
    fn pop(&mut self) {
        let used = &mut self.records[..self.depth.into()];
        if let Some(youngest) = used.first_mut() {
            *youngest = Record::default();
            used.rotate_left(1);
        }
    }

    /// Whether there can be such registers, if there are at most `depth` records, and `cycles` core cycles have
    /// passed since reset.
    pub(crate) fn are_possible(&self, depth: u8, cycles: u128) -> bool {
        let (used, unused) = self
            .records
            .split_at(self.depth.min(MAX_DEPTH as u8).into());
        is_depth(self.depth, depth)
            && self.ctl.0 & !LbrCtl::ALL == 0
            && used.iter().all(|it| it.info & !INFO == 0)
            && unused.iter().all(|it| *it == Record::default())
            && self.last.is_none_or(|last| last <= cycles)
    }
}

/// The values that LBR_DEPTH can have on processors with 32 records. No processor is known on which it can be 24.
pub(crate) const DEPTHS: [u8; 3] = [8, 16, 32];

/// Whether LBR_DEPTH can have this value if there are at most `most` records.
pub(crate) fn is_depth(depth: u8, most: u8) -> bool {
    match most {
        0 => depth == 0,
        _ => depth <= most && DEPTHS.contains(&depth),
    }
}
