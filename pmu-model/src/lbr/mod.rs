// SPDX-License-Identifier: GPL-2.0

//! Last branch records (LBRs): the branches that a processor has taken last.
//!
//! | file     | has                                                        |
//! |----------|------------------------------------------------------------|
//! | `branch` | a branch                                                   |
//! | `ring`   | the records                                                |
//! | `kind`   | in what the kinds of LBRs differ                           |
//! | `arch`   | Intel's architectural LBRs                                 |
//! | `legacy` | Intel's legacy LBRs, which depend on the processor         |
//! | `amd`    | AMD's LBR stack                                            |
//! | `select` | the filters of the legacy LBRs and of AMD's                |
//! | `log`    | what is counted between branches                           |
//!
//! A record has the linear addresses of the branch and of its target, whether it was mispredicted, and on
//! some processors the core cycles since the last record, at most 65535, and the kind of the branch.
//!
//! A branch was mispredicted if it is one that the event of [`event`](crate::event) counts: each 64th of its
//! mode. Real processors never mispredict a direct jump; here a record that says so and a count of the event
//! belong together. Cycles are those of the event core cycles, in both modes. The first record after
//! recording was enabled has none. So a program always has the same records.
//!
//! A filter of CPLs looks at the CPL after the branch. A return that the filters do not let through removes
//! nothing in call-stack mode.
//!
//! Intel's LBRs have a last event record (LER): the last branch before an interrupt or an exception. It depends
//! on what enables and filters the LBRs (SDM vol. 3B, "Last Branch Records"). The manual leaves three questions
//! open. Here
//!
//! - a filter of the event itself does not matter;
//! - a debug exception does not count, as in the P6 family;
//! - in call-stack mode, where returns have no record, the LER has the innermost call.

mod amd;
mod arch;
mod branch;
mod kind;
mod legacy;
mod log;
mod ring;
mod select;

pub use amd::AmdLbrs;
pub use arch::ArchLbrs;
pub use branch::{Branch, BranchKind};
pub use legacy::{LbrAddresses, LbrFormat, LbrSelect, LegacyLbrs};

use serde::{Deserialize, Serialize};

use crate::{
    event::Mode,
    msr::{LbrField, LbrRegister},
};
use kind::{intel_register, Taken};
use log::Log;
use ring::{Record, Ring, MAX_DEPTH};

pub(crate) use kind::Kind;
pub(crate) use log::Gains;

/// The LBRs of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lbrs {
    /// Intel's architectural LBRs, which CPUID describes.
    Architectural(ArchLbrs),
    /// Intel's legacy LBRs, of which software must know.
    Legacy(LegacyLbrs),
    /// AMD's LBR stack, LbrExtV2.
    Amd(AmdLbrs),
}

impl Lbrs {
    /// These LBRs with another number of records.
    #[must_use]
    pub fn with_depth(self, depth: u8) -> Lbrs {
        match self {
            Lbrs::Architectural(it) => Lbrs::Architectural(ArchLbrs { depth, ..it }),
            Lbrs::Legacy(it) => Lbrs::Legacy(LegacyLbrs { depth, ..it }),
            Lbrs::Amd(it) => Lbrs::Amd(AmdLbrs { depth, ..it }),
        }
    }

    /// The highest number of records.
    pub fn depth(&self) -> u8 {
        self.kind().depth()
    }

    /// The rules of this kind.
    pub(crate) fn kind(&self) -> &dyn Kind {
        match self {
            Lbrs::Architectural(it) => it,
            Lbrs::Legacy(it) => it,
            Lbrs::Amd(it) => it,
        }
    }
}

/// Whether an address belongs to the LBRs of some processor. One that has no register there raises #GP. The
/// last event record is left out: other processors have, or had, other registers at its addresses.
pub(crate) fn is_lbr_address(msr: u32) -> bool {
    /// All registers that there are, together.
    const ALL: [Lbrs; 4] = {
        const HIGH: LegacyLbrs = LegacyLbrs {
            depth: 32,
            format: LbrFormat::Info,
            addresses: LbrAddresses::High,
            select: LbrSelect::CallStack,
        };
        const LOW: LegacyLbrs = LegacyLbrs {
            depth: 8,
            addresses: LbrAddresses::Low,
            ..HIGH
        };
        const AMD: AmdLbrs = AmdLbrs {
            depth: MAX_DEPTH,
            freeze: true,
        };
        [
            Lbrs::Architectural(ArchLbrs {
                depth: MAX_DEPTH,
                logged: 0,
            }),
            Lbrs::Legacy(HIGH),
            Lbrs::Legacy(LOW),
            Lbrs::Amd(AMD),
        ]
    };
    ALL.iter()
        .filter_map(|it| it.kind().register(msr, it.depth()))
        .any(|register| !matches!(register, LbrRegister::LastEvent(_)))
}

/// The registers that say what is recorded, but for DEBUGCTL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Controls {
    /// LBR_CTL, LBR_SELECT or LastBranchStackSelect.
    select: u64,
    /// AMD's DebugExtnCtl.
    debug_extn_ctl: u64,
}

/// The registers of the LBRs. A processor without LBRs has the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LbrState {
    pub(crate) controls: Controls,
    ring: Ring,
    /// The youngest record before the last interrupt or exception.
    last_event: Record,
    /// The core cycles at the last record, in both modes, since reset. `None` if there has been no record
    /// since recording was enabled.
    last: Option<u128>,
    log: Log,
}

impl LbrState {
    /// The registers after RESET, if there are `depth` records.
    pub(crate) fn new(depth: u8) -> Self {
        Self {
            ring: Ring::new(depth),
            ..Self::default()
        }
    }

    /// The number of records in use.
    pub(crate) fn depth(&self) -> u8 {
        self.ring.depth()
    }

    /// The kinds of branches to `mode` that are recorded while recording is enabled.
    pub(crate) fn filter(&self, kind: &dyn Kind, mode: Mode) -> u8 {
        kind.filter(self.controls.select, mode)
    }

    /// Whether a near return removes the record of the call.
    pub(crate) fn is_call_stack(&self, kind: &dyn Kind) -> bool {
        kind.is_call_stack(self.controls.select)
    }

    /// The value of a register.
    pub(crate) fn read(&self, kind: &dyn Kind, register: LbrRegister) -> u64 {
        match register {
            LbrRegister::Select => self.controls.select,
            LbrRegister::DebugExtnCtl => self.controls.debug_extn_ctl,
            LbrRegister::Depth => self.ring.depth().into(),
            LbrRegister::Tos => self.ring.newest().into(),
            LbrRegister::Record(field, i) => self.ring.record(self.place(kind, i)).field(field),
            LbrRegister::LastEvent(field) => self.last_event.field(field),
        }
    }

    /// Writes a register that can have this value. A write of LBR_DEPTH clears all records.
    pub(crate) fn write(&mut self, kind: &dyn Kind, register: LbrRegister, value: u64) {
        match register {
            LbrRegister::Select => self.controls.select = value,
            LbrRegister::DebugExtnCtl => self.controls.debug_extn_ctl = value,
            LbrRegister::Depth => self.ring = Ring::new(value as u8),
            LbrRegister::Tos => self.ring.set_newest(value as u8),
            LbrRegister::Record(field, i) => {
                let place = self.place(kind, i);
                if let Some(record) = self.ring.record_mut(place) {
                    record.set_field(field, value);
                }
            }
            LbrRegister::LastEvent(field) => self.last_event.set_field(field, value),
        }
    }

    /// Where the record of a register is.
    fn place(&self, kind: &dyn Kind, index: usize) -> usize {
        match kind.has_tos() {
            true => index,
            false => self.ring.place_of_age(index),
        }
    }

    /// Recording is not enabled: the first record after that has no cycles, nor what was counted before.
    pub(crate) fn stopped(&mut self) {
        self.last = None;
        self.log = Log::default();
    }

    /// An interrupt or an exception is delivered while branches are recorded.
    pub(crate) fn event(&mut self, kind: &dyn Kind) {
        let youngest = self.ring.record(self.ring.newest().into());
        self.last_event = kind.last_event(youngest);
    }

    /// While branches are recorded, the logged counters have gained so much.
    pub(crate) fn report(&mut self, gains: Gains) {
        self.log.report(gains);
    }

    /// So many branches were taken whose records are gone: newer ones replaced them, or returns removed them.
    /// Below 0: so many returns removed nothing.
    pub(crate) fn skip(&mut self, branches: i64) {
        self.ring.skip(branches);
    }

    /// Clears the oldest records and removes the youngest.
    pub(crate) fn drop_records(&mut self, oldest: usize, youngest: usize) {
        self.ring.drop_records(oldest, youngest);
    }

    /// The core cycles at the last record.
    pub(crate) fn set_last(&mut self, cycles: u128) {
        self.last = Some(cycles);
    }

    /// Records a branch that the filters let through. `cycles` are the core cycles since reset, and `gains`
    /// what the logged counters have gained since the last report.
    pub(crate) fn push(
        &mut self,
        kind: &dyn Kind,
        branch: &Branch,
        mispredicted: bool,
        cycles: u128,
        gains: Gains,
    ) {
        if self.is_call_stack(kind) && branch.kind == BranchKind::Return {
            self.ring.pop();
            return;
        }
        let last = self.last.replace(cycles);
        let taken = Taken {
            branch,
            mispredicted,
            cycles: last.map(|last| (cycles - last).min(u16::MAX.into()) as u16),
            counts: self.log.record(gains),
        };
        self.ring.push(kind.record(self.controls.select, &taken));
    }

    /// Whether there can be such registers after `cycles` core cycles since reset.
    pub(crate) fn are_possible(&self, kind: Option<&dyn Kind>, cycles: u128) -> bool {
        let Some(kind) = kind else {
            return *self == Self::default();
        };
        let can_be = |register, value| value & !kind.writable_bits(register) == 0;
        let Controls {
            select,
            debug_extn_ctl,
        } = self.controls;
        let has_fields = |record: &Record, register: fn(LbrField) -> LbrRegister| {
            let mut fields = LbrField::ALL.into_iter();
            fields.all(|field| can_be(register(field), record.field(field)))
        };
        let is_record = |record: &Record| has_fields(record, |it| LbrRegister::Record(it, 0));
        kind.can_be_used(self.ring.depth())
            && can_be(LbrRegister::Select, select)
            && can_be(LbrRegister::DebugExtnCtl, debug_extn_ctl)
            && self.ring.is_possible(is_record)
            && has_fields(&self.last_event, LbrRegister::LastEvent)
            && self.last.is_none_or(|last| last <= cycles)
            && self.log.is_possible()
    }
}
