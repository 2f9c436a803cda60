// SPDX-License-Identifier: GPL-2.0

//! In what the kinds of LBRs differ.

use super::{Branch, Controls, Record};
use crate::{
    event::Mode,
    fields::DebugCtl,
    msr::{LbrField, LbrRegister, IA32_LER_FROM_IP, IA32_LER_TO_IP},
};

/// A branch that is recorded.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    pub(super) branch: &'a Branch,
    pub(super) mispredicted: bool,
    /// The core cycles since the last record, at most 65535. `None` if it is the first one.
    pub(super) cycles: Option<u16>,
    /// What each logged counter has counted since the last record, see [`Log`](super::Log).
    pub(super) counts: u8,
}

/// One kind of LBRs: the registers, which branches are recorded, and how.
pub(crate) trait Kind {
    /// The highest number of records.
    fn depth(&self) -> u8;

    /// Whether there can be such LBRs.
    fn is_valid(&self) -> bool;

    /// Whether so many records can be in use.
    fn can_be_used(&self, depth: u8) -> bool {
        depth == self.depth()
    }

    /// Whether a record stays in its place, and a register says which one is the youngest. If not, record 0
    /// is the youngest one.
    fn has_tos(&self) -> bool {
        false
    }

    /// The register at an address, if so many records are in use.
    fn register(&self, msr: u32, used: u8) -> Option<LbrRegister>;

    /// The bits of a register that can be written.
    fn writable_bits(&self, register: LbrRegister) -> u64;

    /// The bits of a register that raise #GP if they are set. A write ignores other reserved bits.
    fn must_be_zero(&self, register: LbrRegister) -> u64 {
        !self.writable_bits(register)
    }

    /// Whether a value without reserved bits can be written.
    fn accepts(&self, _: LbrRegister, _: u64) -> bool {
        true
    }

    /// The bits of DEBUGCTL that can be written, and those that raise #GP. `None` if they are those of the
    /// generation.
    fn debugctl(&self) -> Option<[u64; 2]> {
        None
    }

    /// The bits that GLOBAL_STATUS has in addition to those of the generation.
    fn status_bits(&self) -> u64 {
        0
    }

    /// The general-purpose counters that records can log, by number.
    fn logged(&self) -> u8 {
        0
    }

    /// The bits of PERF_CAPABILITIES.
    fn perf_capabilities(&self) -> u64 {
        0
    }

    /// Whether branches are recorded.
    fn is_enabled(&self, controls: &Controls, debugctl: DebugCtl) -> bool;

    /// A debug exception stops recording.
    fn stop(&self, controls: &mut Controls, debugctl: &mut DebugCtl);

    /// The kinds of branches to `mode` that are recorded while recording is enabled, as bits of
    /// [`BranchKind::bit`](super::BranchKind::bit).
    fn filter(&self, select: u64, mode: Mode) -> u8;

    /// Whether a near return removes the record of the call.
    fn is_call_stack(&self, _: u64) -> bool {
        false
    }

    /// The record of a branch.
    fn record(&self, select: u64, taken: &Taken<'_>) -> Record;

    /// The last event record, of the youngest record before the event. It is empty if there are no such
    /// registers.
    fn last_event(&self, _: Record) -> Record {
        Record::default()
    }
}

/// A register that all LBRs of Intel have: one of a record, if so many are in use and the registers of each
/// field are in a row, or FROM or TO of the last event record.
pub(super) fn intel_register(
    fields: &[(LbrField, u32)],
    msr: u32,
    used: u8,
) -> Option<LbrRegister> {
    let of_record = |&(field, first)| {
        let index = msr.checked_sub(first)? as usize;
        (index < used.into()).then_some(LbrRegister::Record(field, index))
    };
    match msr {
        IA32_LER_FROM_IP => Some(LbrRegister::LastEvent(LbrField::From)),
        IA32_LER_TO_IP => Some(LbrRegister::LastEvent(LbrField::To)),
        _ => fields.iter().find_map(of_record),
    }
}
