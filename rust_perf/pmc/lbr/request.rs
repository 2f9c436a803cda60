// SPDX-License-Identifier: GPL-2.0

//! Which branches a user asks for, and what the CPU records for that.

use super::{
    super::bitfield::Field,
    control::LbrCtl,
    layout::{
        Format,
        Layout,
        Lbr,
        Legacy, //
    }, //
};

bitfield! {
    /// `attr.branch_sample_type` (`enum perf_branch_sample_type_shift` in
    /// `include/uapi/linux/perf_event.h`).
    pub struct BranchRequest(u64) {
        /// How often the group's events have occurred between the records.
        19:19 COUNTERS;
        /// The privilege level of a branch.
        18:18 PRIV_SAVE;
        /// Where the newest record is in the registers.
        17:17 HW_INDEX;
        /// The kind of a branch.
        16:16 TYPE_SAVE;
        /// No cycles.
        15:15 NO_CYCLES;
        /// Not whether a branch was mispredicted.
        14:14 NO_FLAGS;
        /// Direct calls.
        13:13 CALL;
        /// Indirect jumps.
        12:12 IND_JUMP;
        /// The calls that have not returned.
        11:11 CALL_STACK;
        /// Conditional branches.
        10:10 COND;
        /// Branches that are in no transaction.
        9:9 NO_TX;
        /// Branches in transactions.
        8:8 IN_TX;
        /// Aborts of transactions.
        7:7 ABORT_TX;
        /// Indirect calls.
        6:6 IND_CALL;
        /// Returns of every kind.
        5:5 ANY_RETURN;
        /// Calls of every kind.
        4:4 ANY_CALL;
        /// Branches of every kind.
        3:3 ANY;
        /// Branches to a hypervisor, of which there are none here.
        2:2 HV;
        /// Branches to the kernel.
        1:1 KERNEL;
        /// Branches to user mode.
        0:0 USER;
    }
}

/// Why a CPU cannot record what a user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The CPU cannot do it.
    Unsupported,
    /// It contradicts itself, or asks for counts between branches that cannot be had.
    Invalid,
}

/// What to set in LBR_CTL for each privilege level that a user can ask for.
const LEVELS: [(Field<BranchRequest>, u64); 2] = [
    (BranchRequest::USER, LbrCtl::USR.mask()),
    (BranchRequest::KERNEL, LbrCtl::OS.mask()),
];

/// What to set in LBR_CTL for each kind of branch that a user can ask for. In-tree:
/// `arch_lbr_ctl_map`.
const KINDS: [(Field<BranchRequest>, u64); 9] = [
    (BranchRequest::ANY, LbrCtl::KINDS.mask()),
    (
        BranchRequest::ANY_CALL,
        LbrCtl::REL_CALL.mask() | LbrCtl::IND_CALL.mask() | LbrCtl::OTHER.mask(),
    ),
    (
        BranchRequest::ANY_RETURN,
        LbrCtl::RETURN.mask() | LbrCtl::OTHER.mask(),
    ),
    (BranchRequest::ABORT_TX, LbrCtl::OTHER.mask()),
    (BranchRequest::IND_CALL, LbrCtl::IND_CALL.mask()),
    (BranchRequest::COND, LbrCtl::COND.mask()),
    (BranchRequest::IND_JUMP, LbrCtl::IND_JUMP.mask()),
    (BranchRequest::CALL, LbrCtl::REL_CALL.mask()),
    (
        BranchRequest::CALL_STACK,
        LbrCtl::REL_CALL.mask()
            | LbrCtl::IND_CALL.mask()
            | LbrCtl::RETURN.mask()
            | LbrCtl::CALL_STACK.mask(),
    ),
];

/// What has to be recorded besides where calls are recorded only if jumps are. In-tree: `nhm_lbr_sel_map`,
/// which leaves out direct calls.
const JUMPS: [(Field<BranchRequest>, u64); 4] = {
    let all = LbrCtl::REL_JUMP.mask() | LbrCtl::IND_JUMP.mask();
    [
        (BranchRequest::ANY_CALL, all),
        (BranchRequest::ANY_RETURN, all),
        (BranchRequest::CALL, all),
        (BranchRequest::IND_CALL, LbrCtl::IND_JUMP.mask()),
    ]
};

/// What AMD's CPUs cannot do. In-tree: `lbr_select_map` in `arch/x86/events/amd/lbr.c`.
const NOT_ON_AMD: [Field<BranchRequest>; 6] = [
    BranchRequest::ABORT_TX,
    BranchRequest::IN_TX,
    BranchRequest::NO_TX,
    BranchRequest::CALL_STACK,
    BranchRequest::NO_FLAGS,
    BranchRequest::NO_CYCLES,
];

/// What nobody can ask for together with call stacks. In-tree: `intel_pmu_setup_sw_lbr_filter()`.
const NOT_IN_CALL_STACKS: [Field<BranchRequest>; 8] = [
    BranchRequest::ANY,
    BranchRequest::ANY_CALL,
    BranchRequest::ANY_RETURN,
    BranchRequest::IND_CALL,
    BranchRequest::ABORT_TX,
    BranchRequest::IN_TX,
    BranchRequest::NO_TX,
    BranchRequest::COND,
];

/// What says nothing of the kinds of branches.
const LEVELS_AND_COUNTERS: u64 = BranchRequest::USER.mask()
    | BranchRequest::KERNEL.mask()
    | BranchRequest::HV.mask()
    | BranchRequest::COUNTERS.mask();

impl BranchRequest {
    /// Whether only counts are asked for. They are in the records that another event of the group needs.
    pub const fn is_of_counts_only(self) -> bool {
        self.has(Self::COUNTERS) && self.into_raw() & !LEVELS_AND_COUNTERS == 0
    }

    /// This request at the privilege levels that both ask for.
    #[must_use]
    pub const fn limited_to_levels_of(self, other: Self) -> Self {
        self.with(Self::USER, self.get(Self::USER) & other.get(Self::USER))
            .with(
                Self::KERNEL,
                self.get(Self::KERNEL) & other.get(Self::KERNEL),
            )
    }
}

impl Lbr {
    /// Whether a user asks for counts that cannot be had. AMD's in-tree driver accepts and ignores that.
    pub fn cannot_count(&self, request: BranchRequest) -> bool {
        request.has(BranchRequest::COUNTERS)
            && !matches!(self.layout, Layout::Amd(_))
            && (!self.logs() || request.has(BranchRequest::CALL_STACK))
    }

    /// What to record for what a user asks for: a value of LBR_CTL, on every CPU. It is 0 only if nothing need
    /// be recorded for that: [`BranchRequest::is_of_counts_only`].
    ///
    /// A CPU that cannot select privilege levels, or kinds of branches, records all of them.
    /// [`Selection`](super::Selection) selects among those. As in the in-tree driver, a level cannot be
    /// asked for then, nor can a kind if levels can be selected but kinds cannot.
    pub fn control(&self, request: BranchRequest) -> Result<u64, RequestError> {
        let is_amd = matches!(self.layout, Layout::Amd(_));
        if is_amd && NOT_ON_AMD.iter().any(|it| request.has(*it)) {
            return Err(RequestError::Unsupported);
        }
        if self.cannot_count(request) {
            return Err(RequestError::Invalid);
        }
        if self.logs() && request.is_of_counts_only() {
            return Ok(0);
        }
        if request.has(BranchRequest::CALL_STACK) {
            if !self.selects_levels || !self.selects_kinds || !self.has_call_stack {
                return Err(RequestError::Unsupported);
            }
            if NOT_IN_CALL_STACKS.iter().any(|kind| request.has(*kind)) {
                return Err(RequestError::Invalid);
            }
        }
        let mut control = LbrCtl::default().with(LbrCtl::EN, 1).into_raw();
        if !self.selects_levels && !self.selects_kinds {
            // The other bits are reserved then.
            return Ok(control);
        }
        for (rows, can_be_selected) in [
            (&LEVELS[..], self.selects_levels),
            (&KINDS, self.selects_kinds),
        ] {
            for (_, bits) in rows.iter().filter(|(asked, _)| request.has(*asked)) {
                if !can_be_selected {
                    return Err(RequestError::Unsupported);
                }
                control |= bits;
            }
        }
        if let Layout::Legacy(legacy) = self.layout {
            control |= legacy.further_control(request);
        }
        Ok(control)
    }
}

impl Legacy {
    /// What to set besides in LBR_CTL.
    fn further_control(&self, request: BranchRequest) -> u64 {
        let jumps = JUMPS.iter().filter(|(kind, _)| request.has(*kind));
        let jumps = match self.calls_need_jumps {
            true => jumps.fold(0, |all, (_, bits)| all | bits),
            false => 0,
        };
        let has_info = matches!(self.format, Format::Info { .. });
        let is_unwanted =
            request.has(BranchRequest::NO_FLAGS) && request.has(BranchRequest::NO_CYCLES);
        match has_info && is_unwanted {
            true => jumps | LbrCtl::NO_INFO.mask(),
            false => jumps,
        }
    }
}
