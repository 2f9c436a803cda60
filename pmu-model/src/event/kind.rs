// SPDX-License-Identifier: GPL-2.0

//! The events, and their totals.

use super::Totals;

/// One branch in this many is mispredicted.
const BRANCHES_PER_MISS: u128 = 64;
/// One reference in this many misses, of those that have no rule of their own.
const REFERENCES_PER_MISS: u128 = 64;
/// One instruction in this many references the last-level cache.
const INSTRUCTIONS_PER_LLC_REFERENCE: u128 = 256;
/// One reference to the last-level cache in this many misses.
const LLC_REFERENCES_PER_MISS: u128 = 16;
/// The cycles that a mispredicted branch stalls.
const BRANCH_MISS_CYCLES: u128 = 15;
/// The cycles that a miss in the last-level cache stalls.
const LLC_MISS_CYCLES: u128 = 100;
/// The issue slots of a cycle.
pub(crate) const SLOTS_PER_CYCLE: u8 = 4;

/// The number of instructions after which the pattern of all events repeats, if all
/// instructions are conditional branches or a multiple of 256 of them are.
///
/// It is a multiple of every divisor in the table of this module, and the core cycles of
/// that many instructions are a multiple of 4, so that the reference cycles have no
/// remainder.
pub const PATTERN_INSTRUCTIONS: u64 = 4096;

/// Something that a counter can count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Instructions retired.
    Instructions,
    /// Branch instructions retired.
    Branches,
    /// Conditional branch instructions retired.
    ConditionalBranches,
    /// Conditional branch instructions retired that were taken.
    ConditionalTaken,
    /// Conditional branch instructions retired that were not taken.
    NotTaken,
    /// Branch instructions retired that were taken: all that are not conditional, and some of those
    /// that are.
    Taken,
    /// Branch instructions retired that were taken and stay in the code segment.
    NearTaken,
    /// Instructions retired that load from memory.
    Loads,
    /// Instructions retired that store to memory.
    Stores,
    /// Mispredicted branch instructions retired.
    BranchMisses,
    /// Loads that miss in a cache.
    LoadMisses,
    /// Stores that miss in a cache.
    StoreMisses,
    /// Misses of what each instruction does once.
    Misses,
    /// Misses in the second-level TLB, which are page walks. Each follows a miss in the first level.
    PageWalks,
    /// References to the last-level cache.
    LlcReferences,
    /// Misses in the last-level cache.
    LlcMisses,
    /// Cycles while not halted.
    Cycles,
    /// Cycles of a fixed-rate clock while not halted, as a function of the core cycles.
    RefCycles,
    /// Cycles of the time-stamp counter while not halted, which reference cycles are with
    /// [`RefCycles::Tsc`](crate::RefCycles).
    Tsc,
    /// Issue slots.
    Slots,
    /// Floating-point operations, so many in each instruction.
    Flops(u8),
    /// Responses to requests.
    Responses {
        /// How many an instruction has that has any.
        each: u8,
        /// From how far away they come: one instruction in 2 to this power has any. At most
        /// [`Event::FURTHEST`].
        distance: u8,
    },
}

impl Event {
    /// The highest distance of responses: their pattern repeats with all others.
    pub(crate) const FURTHEST: u8 = 12;

    pub(super) fn total(self, totals: Totals) -> u128 {
        let Totals {
            instructions,
            branches,
            conditional,
            conditional_taken,
            near_unconditional,
            loads,
            stores,
            tsc,
        } = totals;
        match self {
            Event::Instructions => instructions,
            Event::Branches => branches,
            Event::ConditionalBranches => conditional,
            Event::ConditionalTaken => conditional_taken,
            Event::NotTaken => conditional - conditional_taken,
            Event::Taken => branches - conditional + conditional_taken,
            Event::NearTaken => near_unconditional + conditional_taken,
            Event::Loads => loads,
            Event::Stores => stores,
            Event::BranchMisses => branches / BRANCHES_PER_MISS,
            Event::LoadMisses => loads / REFERENCES_PER_MISS,
            Event::StoreMisses => stores / REFERENCES_PER_MISS,
            Event::Misses => instructions / REFERENCES_PER_MISS,
            Event::PageWalks => Event::Misses.total(totals) / REFERENCES_PER_MISS,
            Event::LlcReferences => instructions / INSTRUCTIONS_PER_LLC_REFERENCE,
            Event::LlcMisses => Event::LlcReferences.total(totals) / LLC_REFERENCES_PER_MISS,
            Event::Cycles => {
                instructions
                    + BRANCH_MISS_CYCLES * Event::BranchMisses.total(totals)
                    + LLC_MISS_CYCLES * Event::LlcMisses.total(totals)
            }
            Event::RefCycles => Event::Cycles.total(totals) * 3 / 4,
            Event::Tsc => tsc,
            Event::Slots => u128::from(SLOTS_PER_CYCLE) * Event::Cycles.total(totals),
            Event::Flops(n) => u128::from(n) * instructions,
            Event::Responses { each, distance } => u128::from(each) * (instructions >> distance),
        }
    }

    /// Whether it occurs at most once in an instruction, and what the instruction is and does says
    /// whether it does.
    pub(super) fn is_of_kind(self) -> bool {
        matches!(
            self,
            Event::Instructions | Event::Branches | Event::ConditionalBranches
        ) || self.is_detailed_kind()
    }

    fn is_detailed_kind(self) -> bool {
        use Event::{ConditionalTaken, Loads, NearTaken, NotTaken, Stores, Taken};
        matches!(
            self,
            ConditionalTaken | NotTaken | Taken | NearTaken | Loads | Stores
        )
    }

    /// Whether it depends on more than the numbers of instructions, branches and conditional
    /// branches.
    pub(super) fn is_detail(self) -> bool {
        matches!(self, Event::LoadMisses | Event::StoreMisses) || self.is_detailed_kind()
    }

    /// The number of times that the event occurs in every cycle, `None` for a pulse.
    pub(super) fn per_cycle(self) -> Option<u8> {
        match self {
            Event::Cycles | Event::Tsc => Some(1),
            Event::Slots => Some(SLOTS_PER_CYCLE),
            _ => None,
        }
    }
}

impl Totals {
    /// The core cycles.
    pub(crate) fn core_cycles(&self) -> u128 {
        Event::Cycles.total(*self)
    }

    /// Whether the branch that has retired last was mispredicted.
    pub(crate) fn last_branch_is_mispredicted(&self) -> bool {
        self.branches > 0 && self.branches % BRANCHES_PER_MISS == 0
    }

    /// The slots.
    pub(crate) fn slots(self) -> u128 {
        Event::Slots.total(self)
    }

    /// The slots of each field of PERF_METRICS.
    pub(crate) fn slot_uses(self) -> [u128; 8] {
        let slots = u128::from(SLOTS_PER_CYCLE);
        let retiring = self.instructions;
        let bad_speculation = slots * BRANCH_MISS_CYCLES * Event::BranchMisses.total(self);
        let front_end = (slots - 1) * self.instructions;
        let back_end = slots * LLC_MISS_CYCLES * Event::LlcMisses.total(self);
        [
            retiring,
            bad_speculation,
            front_end,
            back_end,
            self.branches,
            bad_speculation,
            self.instructions,
            back_end,
        ]
    }
}
