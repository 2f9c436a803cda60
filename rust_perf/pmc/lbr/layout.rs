// SPDX-License-Identifier: GPL-2.0

//! What a CPU records, and in which registers.

use super::{
    super::{
        counter::CounterSet,
        msr::{
            Msr,
            MsrRange, //
        }, //
    },
    control::LbrCtl,
    registers, //
};

/// What a CPU records of branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lbr {
    /// The number of records, at most [`MAX_DEPTH`](super::MAX_DEPTH).
    pub depth: u8,
    /// The registers that the records are in.
    pub(in super::super) layout: Layout,
    /// Whether privilege levels can be selected.
    pub(in super::super) selects_levels: bool,
    /// Whether kinds of branches can be selected.
    pub(in super::super) selects_kinds: bool,
    /// Whether a return can remove the record of the call.
    pub(in super::super) has_call_stack: bool,
    /// Whether the records are lost in C-states that are deeper than C1.
    pub(in super::super) is_lost_in_deep_c: bool,
    /// Whether a record has the kind of branch.
    pub(in super::super) has_kind: bool,
    /// Whether a record has the cycles since the record before.
    pub(in super::super) has_cycles: bool,
    /// Whether a record says that the branch was mispredicted.
    pub(in super::super) has_prediction: bool,
    /// The counters of which a record can say how much they have counted since the record before. They are
    /// among the first [`LOGGED_COUNTERS`](super::LOGGED_COUNTERS).
    pub logged: CounterSet,
}

/// The registers that the records are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Layout {
    /// Architectural LBRs (SDM vol. 3B, "Last Branch Records").
    Architectural,
    /// The LBRs of older models (SDM vol. 3B, "Last Branch, Interrupt, and Exception Recording").
    Legacy(Legacy),
    /// LbrExtV2 (APM vol. 2, "Last Branch Stack Registers").
    Amd(Amd),
}

/// The LBRs of older models of Intel's: a ring of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Legacy {
    /// Where the branches were.
    pub(in super::super) from: MsrRange,
    /// Where they led to.
    pub(in super::super) to: MsrRange,
    /// What else there is in a record.
    pub(in super::super) format: Format,
    /// LBR_SELECT.
    pub(in super::super) select: SelectRegister,
    /// Whether calls are recorded only if jumps are, too: an erratum of Nehalem. In-tree: `nhm_lbr_sel_map`.
    pub(in super::super) calls_need_jumps: bool,
    /// Whether a PMI clears DEBUGCTL.LBR, as on versions 2 and 3. From version 4 on GLOBAL_STATUS.LBR_FRZ
    /// stops recording.
    pub(in super::super) pmi_clears_lbr: bool,
    /// Whether an abort of a transaction is recorded twice, the second time without saying so. In-tree:
    /// `lbr_double_abort`.
    pub(in super::super) doubles_aborts: bool,
    /// Whether an access raises #GP while Intel PT traces. In-tree: without `lbr_pt_coexist`.
    pub(in super::super) excludes_pt: bool,
}

/// Who has an LBR_SELECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum SelectRegister {
    /// Nobody.
    None,
    /// Each CPU.
    PerCpu,
    /// Each core. It must let through what the events of all threads need.
    PerCore,
}

/// What a record has besides addresses (IA32_PERF_CAPABILITIES.LBR_FMT; SDM vol. 3B, "LBR Stack").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Format {
    /// Nothing.
    Addresses,
    /// Whether the branch was mispredicted, in FROM.
    Flags,
    /// What there is of transactions, too, in FROM. A write must extend the sign over these two bits if the
    /// CPU has no transactions. In-tree: `lbr_from_signext_quirk_wr()`.
    Transactions {
        /// Whether the CPU has transactions.
        exist: bool,
    },
    /// The prediction in FROM, and cycles in TO.
    Cycles,
    /// All of it in registers of its own.
    Info {
        /// The registers.
        registers: MsrRange,
        /// Whether the CPU says what there is of transactions.
        has_transactions: bool,
    },
}

/// LbrExtV2: the newest record is always the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Amd {
    /// Whether a PMI can stop recording.
    pub(in super::super) freezes: bool,
    /// The number of bits of an address.
    pub(in super::super) address_bits: u8,
}

impl Lbr {
    /// Whether a record can say how often events have occurred since the record before.
    pub fn logs(&self) -> bool {
        !self.logged.is_empty()
    }

    /// Whether the registers cannot be accessed while Intel PT traces.
    pub const fn excludes_pt(&self) -> bool {
        matches!(
            self.layout,
            Layout::Legacy(Legacy {
                excludes_pt: true,
                ..
            })
        )
    }

    /// Whether branches to the kernel are recorded if the CPU records as `control` says.
    pub(super) const fn records_kernel(&self, control: u64) -> bool {
        !self.selects_levels || LbrCtl::from_raw(control).has(LbrCtl::OS)
    }

    /// Whether a PMI can stop recording.
    pub(super) const fn can_freeze(&self) -> bool {
        match self.layout {
            Layout::Architectural | Layout::Legacy(_) => true,
            Layout::Amd(amd) => amd.freezes,
        }
    }

    /// The registers that hold addresses. Not every hypervisor provides them.
    pub fn addresses(&self) -> impl Iterator<Item = Msr> {
        registers::addresses(self)
    }

    /// The other registers.
    pub fn other_registers(&self) -> impl Iterator<Item = Msr> {
        registers::others(self)
    }
}
