// SPDX-License-Identifier: GPL-2.0

//! Architectural LBRs.
//!
//! SDM vol. 3B, chapter "Last Branch Records". Record 0 is the youngest, and a new one moves all others on.
//! INFO has the kind of the branch, whether it was mispredicted, and the cycles.
//!
//! A filter of CPLs looks at the CPL after the branch. If only the CPL before it is filtered out, FROM has
//! all bits set.

use serde::{Deserialize, Serialize};

use super::{
    log::{COUNT_BITS, LOGGED_COUNTERS, MAX_COUNT},
    BranchKind, Controls, Kind, Record, Taken,
};
use crate::{
    event::Mode,
    fields::DebugCtl,
    msr::{
        LbrField, LbrRegister, IA32_LBR_0_FROM_IP, IA32_LBR_0_INFO, IA32_LBR_0_TO_IP, IA32_LBR_CTL,
        IA32_LBR_DEPTH, IA32_LER_INFO, LBR_FMT_NONE,
    },
};

/// The architectural LBRs of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchLbrs {
    /// The highest number of records: 8, 16 or 32.
    pub depth: u8,
    /// The general-purpose counters that records can log, by number: only the first four can.
    pub logged: u8,
}

/// The values that LBR_DEPTH can have on processors with 32 records. No processor is known on which it can be
/// 24.
const DEPTHS: [u8; 3] = [8, 16, 32];

/// INFO.BR_TYPE begins here.
const BR_TYPE_SHIFT: u32 = 56;
/// INFO.CYC_CNT_VALID.
const CYC_CNT_VALID: u64 = 1 << 60;
/// INFO.MISPRED.
const MISPRED: u64 = 1 << 63;
/// The bits of INFO that exist on all processors: those above, CYC_CNT, TSX_ABORT and IN_TSX.
const INFO: u64 = 0xffff | (0xff << BR_TYPE_SHIFT);
/// The bits of IA32_LER_INFO: BR_TYPE, TSX_ABORT, IN_TSX and MISPRED (SDM vol. 4, "Architectural MSRs").
const LER_INFO: u64 = (0xf << BR_TYPE_SHIFT) | (0b111 << 61);
/// PMC0_CNT, the first of the counts that are logged, begins here.
const COUNTS_SHIFT: u32 = 32;

impl BranchKind {
    /// INFO.BR_TYPE (SDM vol. 3B, table "IA32_LBR_x_INFO and IA32_LER_INFO Branch Type Encodings").
    const fn br_type(self) -> u64 {
        match self {
            BranchKind::Conditional => 0,
            BranchKind::IndirectJump => 1,
            BranchKind::RelativeJump => 2,
            BranchKind::IndirectCall => 3,
            BranchKind::RelativeCall | BranchKind::CallOfNext => 4,
            BranchKind::Return => 5,
            BranchKind::Other => 8,
        }
    }
}

/// LBR_CTL (SDM vol. 3B, "Last Branch Records", figure "IA32_LBR_CTL MSR Layout").
#[derive(Clone, Copy, Debug)]
struct LbrCtl(u64);

impl LbrCtl {
    /// Record branches.
    const EN: u64 = 1 << 0;
    /// Record branches to CPL 0.
    const OS: u64 = 1 << 1;
    /// Record branches to other CPLs.
    const USR: u64 = 1 << 2;
    /// A near return removes the record of the call.
    const CALL_STACK: u64 = 1 << 3;
    /// Record branches of each [`BranchKind`]. No bit is for calls of the next instruction.
    const KINDS: [(BranchKind, u64); 7] = [
        (BranchKind::Conditional, 1 << 16),
        (BranchKind::RelativeJump, 1 << 17),
        (BranchKind::IndirectJump, 1 << 18),
        (BranchKind::RelativeCall, 1 << 19),
        (BranchKind::IndirectCall, 1 << 20),
        (BranchKind::Return, 1 << 21),
        (BranchKind::Other, 1 << 22),
    ];

    /// All bits that exist.
    const ALL: u64 = LbrCtl::EN | LbrCtl::OS | LbrCtl::USR | LbrCtl::CALL_STACK | (0x7f << 16);

    /// Whether a CPL is not filtered out.
    const fn sees(self, mode: Mode) -> bool {
        let of_mode = match mode {
            Mode::User => LbrCtl::USR,
            Mode::Kernel => LbrCtl::OS,
        };
        self.0 & of_mode != 0
    }
}

impl ArchLbrs {
    /// The values that LBR_DEPTH can have.
    fn depths(&self) -> impl Iterator<Item = u8> {
        let most = self.depth;
        DEPTHS.into_iter().filter(move |&depth| depth <= most)
    }

    /// CPUID leaf 1CH (SDM vol. 2A, CPUID, "Last Branch Records Information Leaf").
    ///
    /// ECX[19:16] are the counters that can be logged.
    pub(crate) fn leaf_1ch(&self) -> [u32; 4] {
        /// EAX: MWAIT can clear the records if it asks for a C-state deeper than C1. All processors that are
        /// known say so, but here it does not.
        const DEEP_C_RESET: u32 = 1 << 30;
        /// EBX: filters of CPLs, filters of kinds, and call-stack mode.
        const FILTERS: u32 = 0b111;
        /// ECX: INFO has MISPRED, CYC_CNT and BR_TYPE.
        const INFO: u32 = 0b111;
        let depths = self.depths();
        let depths = depths.fold(0, |all, depth| all | (1 << (depth / 8 - 1)));
        let logged = u32::from(self.logged) << 16;
        [DEEP_C_RESET | depths, FILTERS, INFO | logged, 0]
    }

    /// The bits of INFO that exist.
    fn info(&self) -> u64 {
        let of_counter = |i| u64::from(MAX_COUNT) << (COUNTS_SHIFT + COUNT_BITS * i);
        let logged = (0..LOGGED_COUNTERS as u32).filter(|i| self.logged & (1 << i) != 0);
        logged.fold(INFO, |all, i| all | of_counter(i))
    }
}

impl Kind for ArchLbrs {
    fn depth(&self) -> u8 {
        self.depth
    }

    fn is_valid(&self) -> bool {
        DEPTHS.contains(&self.depth) && self.logged >> LOGGED_COUNTERS == 0
    }

    fn can_be_used(&self, depth: u8) -> bool {
        self.depths().any(|it| it == depth)
    }

    fn register(&self, msr: u32, used: u8) -> Option<LbrRegister> {
        let fields = [
            (LbrField::From, IA32_LBR_0_FROM_IP),
            (LbrField::To, IA32_LBR_0_TO_IP),
            (LbrField::Info, IA32_LBR_0_INFO),
        ];
        match msr {
            IA32_LBR_CTL => Some(LbrRegister::Select),
            IA32_LBR_DEPTH => Some(LbrRegister::Depth),
            IA32_LER_INFO => Some(LbrRegister::LastEvent(LbrField::Info)),
            _ => super::intel_register(&fields, msr, used),
        }
    }

    fn writable_bits(&self, register: LbrRegister) -> u64 {
        match register {
            LbrRegister::Select => LbrCtl::ALL,
            LbrRegister::Record(LbrField::Info, _) => self.info(),
            LbrRegister::LastEvent(LbrField::Info) => LER_INFO,
            LbrRegister::Depth | LbrRegister::Record(..) | LbrRegister::LastEvent(_) => u64::MAX,
            LbrRegister::Tos | LbrRegister::DebugExtnCtl => 0,
        }
    }

    /// Other bits of INFO are undefined: a write does not fault (SDM vol. 4, "Architectural MSRs").
    fn must_be_zero(&self, register: LbrRegister) -> u64 {
        match register {
            LbrRegister::Record(LbrField::Info, _) | LbrRegister::LastEvent(LbrField::Info) => 0,
            _ => !self.writable_bits(register),
        }
    }

    fn accepts(&self, register: LbrRegister, value: u64) -> bool {
        let is_depth = || self.depths().any(|it| u64::from(it) == value);
        register != LbrRegister::Depth || is_depth()
    }

    fn logged(&self) -> u8 {
        self.logged
    }

    fn perf_capabilities(&self) -> u64 {
        LBR_FMT_NONE
    }

    fn is_enabled(&self, controls: &Controls, _: DebugCtl) -> bool {
        controls.select & LbrCtl::EN != 0
    }

    fn stop(&self, controls: &mut Controls, _: &mut DebugCtl) {
        controls.select &= !LbrCtl::EN;
    }

    fn filter(&self, select: u64, mode: Mode) -> u8 {
        let ctl = LbrCtl(select);
        if !ctl.sees(mode) {
            return 0;
        }
        let kinds = LbrCtl::KINDS.iter();
        let recorded = kinds.filter(|(_, bit)| ctl.0 & bit != 0);
        recorded.fold(0, |all, (kind, _)| all | kind.bit())
    }

    fn is_call_stack(&self, select: u64) -> bool {
        select & LbrCtl::CALL_STACK != 0
    }

    fn record(&self, select: u64, taken: &Taken<'_>) -> Record {
        let branch = taken.branch;
        let [before, _] = branch.modes;
        let cycles = taken.cycles.map(|it| CYC_CNT_VALID | u64::from(it));
        let mispredicted = if taken.mispredicted { MISPRED } else { 0 };
        let counts = u64::from(taken.counts) << COUNTS_SHIFT;
        Record {
            from: match LbrCtl(select).sees(before) {
                true => branch.from,
                false => u64::MAX,
            },
            to: branch.to,
            info: (branch.kind.br_type() << BR_TYPE_SHIFT)
                | mispredicted
                | counts
                | cycles.unwrap_or(0),
        }
    }

    /// There are no cycles.
    fn last_event(&self, youngest: Record) -> Record {
        Record {
            info: youngest.info & LER_INFO,
            ..youngest
        }
    }
}
