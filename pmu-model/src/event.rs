// SPDX-License-Identifier: GPL-2.0

//! What the events count: every event as a function of what has retired.
//!
//! An emulator that translates code knows which instructions retired, and which
//! of them were branches. It knows no pipeline and no cache. So every event is
//! defined here as a function of two totals, kept for each [`Mode`] by itself
//! since reset: `I` instructions and `B` branches.
//!
//! | event                 | total, all divisions rounded down                |
//! |-----------------------|--------------------------------------------------|
//! | instructions          | `I`                                              |
//! | branches              | `B`                                              |
//! | mispredicted branches | `B / 64`                                         |
//! | LLC references        | `I / 256`                                        |
//! | LLC misses            | `I / 4096`                                       |
//! | core cycles           | `I + 15 * mispredicted branches + 100 * LLC misses` |
//! | reference cycles      | `core cycles * 3 / 4`                            |
//! | slots                 | `core cycles * 4`                                |
//!
//! A counter that counts in both modes counts the sum of the two. What a counter
//! gains over a stretch of a program is the difference of the totals at its ends.
//! So nothing here is random, and all of it can be predicted: a stretch of
//! [`PERIOD`] instructions with a multiple of 256 branches adds to every event
//! the same number wherever it starts.
//!
//! # EDGE, INV and CMASK
//!
//! These look at single cycles (SDM vol. 3B, "Performance Monitoring", layout of
//! IA32_PERFEVTSELx). The cycles that the totals stand for are: one for each
//! instruction, in which its events happen, followed by the cycles it stalls.
//! Core cycles and slots happen in every cycle, once and four times. Every other
//! event is a pulse: it happens at most once in a cycle, and is shorter than the
//! cycle, so that pulses in successive cycles are told apart.
//!
//! | CMASK   | INV     | pulse: counts            | with EDGE | core cycles, slots: count |
//! |---------|---------|--------------------------|-----------|---------------------------|
//! | 0       | ignored | pulses                   | pulses    | core cycles, slots        |
//! | reached | 0       | cycles with the pulse    | pulses    | core cycles               |
//! | reached | 1       | cycles without the pulse | pulses    | nothing                   |
//! | beyond  | 0       | nothing                  | nothing   | nothing                   |
//! | beyond  | 1       | core cycles              | nothing   | core cycles               |
//!
//! A CMASK is reached if a cycle can have that many: 1, or up to 4 slots. Core
//! cycles and slots never begin and never end: with EDGE they count nothing.
//!
//! With EQ, which version 6 has, a CMASK is reached if a cycle has just that many: for
//! slots 4, and 1 otherwise. What stays below it is then as what is beyond it, and INV
//! makes of "equal" "not equal". Without a CMASK, EQ is ignored.

/// The privilege levels that counters tell apart (SDM vol. 3B, "Performance
/// Monitoring", USR and OS flags of IA32_PERFEVTSELx).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// CPL 1 to 3, counted with EVENTSEL.USR.
    User = 0,
    /// CPL 0, counted with EVENTSEL.OS.
    Kernel = 1,
}

impl Mode {
    /// Both, in the order of their indices.
    pub const ALL: [Mode; 2] = [Mode::User, Mode::Kernel];

    /// The mode that this one is not.
    pub const fn other(self) -> Mode {
        match self {
            Mode::User => Mode::Kernel,
            Mode::Kernel => Mode::User,
        }
    }
}

/// What retired in one mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retired {
    /// Instructions, branches among them.
    pub instructions: u64,
    /// Branches.
    pub branches: u64,
}

/// What has retired in one mode since reset.
///
/// Wide enough that no sum of [`Retired`] and no event's total overflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    instructions: u128,
    branches: u128,
}

impl Totals {
    pub(crate) fn after(self, retired: Retired) -> Totals {
        Totals {
            instructions: self.instructions + u128::from(retired.instructions),
            branches: self.branches + u128::from(retired.branches),
        }
    }

    /// The totals after `n` more instructions, all of them branches.
    fn after_branches(self, n: u64) -> Totals {
        self.after(Retired {
            instructions: n,
            branches: n,
        })
    }
}

/// Branches for each that is mispredicted.
const BRANCHES_PER_MISS: u128 = 64;
/// Instructions for each reference to the last-level cache.
const INSTRUCTIONS_PER_LLC_REFERENCE: u128 = 256;
/// References to the last-level cache for each that misses.
const LLC_REFERENCES_PER_MISS: u128 = 16;
/// Cycles that a mispredicted branch stalls.
const BRANCH_MISS_CYCLES: u128 = 15;
/// Cycles that a miss in the last-level cache stalls.
const LLC_MISS_CYCLES: u128 = 100;
/// Issue slots in a cycle.
pub(crate) const SLOTS_PER_CYCLE: u8 = 4;

/// After this many instructions with as many branches every event has come round
/// to where it was: all it depends on is a remainder of a division that divides
/// this, and it takes a whole number of reference cycles.
pub const PERIOD: u64 = 4096;

/// Something that can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Instructions retired.
    Instructions,
    /// Branch instructions retired.
    Branches,
    /// Mispredicted branch instructions retired.
    BranchMisses,
    /// References to the last-level cache.
    LlcReferences,
    /// Misses in the last-level cache.
    LlcMisses,
    /// Cycles while not halted.
    Cycles,
    /// Cycles of a fixed-rate clock while not halted.
    RefCycles,
    /// Issue slots.
    Slots,
}

impl Event {
    fn total(self, totals: Totals) -> u128 {
        let Totals {
            instructions,
            branches,
        } = totals;
        match self {
            Event::Instructions => instructions,
            Event::Branches => branches,
            Event::BranchMisses => branches / BRANCHES_PER_MISS,
            Event::LlcReferences => instructions / INSTRUCTIONS_PER_LLC_REFERENCE,
            Event::LlcMisses => Event::LlcReferences.total(totals) / LLC_REFERENCES_PER_MISS,
            Event::Cycles => {
                instructions
                    + BRANCH_MISS_CYCLES * Event::BranchMisses.total(totals)
                    + LLC_MISS_CYCLES * Event::LlcMisses.total(totals)
            }
            Event::RefCycles => Event::Cycles.total(totals) * 3 / 4,
            Event::Slots => u128::from(SLOTS_PER_CYCLE) * Event::Cycles.total(totals),
        }
    }

    /// How often it happens in each and every cycle; `None` for a pulse.
    fn per_cycle(self) -> Option<u8> {
        match self {
            Event::Cycles => Some(1),
            Event::Slots => Some(SLOTS_PER_CYCLE),
            _ => None,
        }
    }
}

/// The fields of EVENTSEL that say how an event is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) edge: bool,
    pub(crate) inv: bool,
    pub(crate) eq: bool,
    pub(crate) cmask: u8,
}

/// An event, looked at through EDGE, INV and CMASK: what a counter adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    Events(Event),
    CyclesWithout(Event),
}

impl Quantity {
    /// What `filter` makes of `event`, by the table in this module's
    /// documentation; `None` if that never counts.
    pub(crate) fn new(event: Event, filter: Filter) -> Option<Quantity> {
        let Filter {
            edge,
            inv,
            eq,
            cmask,
        } = filter;
        let always = event.per_cycle();
        let in_a_cycle = always.unwrap_or(1);
        let reached = cmask == in_a_cycle || cmask < in_a_cycle && !eq;
        if edge && (always.is_some() || cmask > 1) {
            return None;
        }
        match cmask {
            0 => Some(Quantity::Events(event)),
            _ if !reached => inv.then_some(Quantity::Events(Event::Cycles)),
            _ if always.is_some() => (!inv).then_some(Quantity::Events(Event::Cycles)),
            _ if inv && !edge => Some(Quantity::CyclesWithout(event)),
            _ => Some(Quantity::Events(event)),
        }
    }

    fn total(self, totals: Totals) -> u128 {
        match self {
            Quantity::Events(event) => event.total(totals),
            Quantity::CyclesWithout(event) => Event::Cycles.total(totals) - event.total(totals),
        }
    }

    /// What is added between two totals.
    pub(crate) fn between(self, before: Totals, after: Totals) -> u128 {
        self.total(after) - self.total(before)
    }

    /// A quantity that grows no slower, and the fastest if all instructions are
    /// branches: this one itself, but for the cycles without a branch.
    fn bound(self) -> Quantity {
        match self {
            Quantity::CyclesWithout(Event::Branches) => Quantity::Events(Event::Cycles),
            _ => self,
        }
    }

    /// The most that `n` instructions can add.
    pub(crate) fn most(self, totals: Totals, n: u64) -> u128 {
        self.bound().between(totals, totals.after_branches(n))
    }

    /// The fewest instructions that can add `count`, which is not 0.
    pub(crate) fn fewest(self, totals: Totals, count: u64) -> u64 {
        if let Quantity::Events(Event::Instructions | Event::Branches) = self {
            return count;
        }
        // A period always adds the same, so only the last, broken one is searched.
        let per_period = self.most(totals, PERIOD) as u64;
        let periods = (count - 1) / per_period;
        let rest = u128::from(count - periods * per_period);
        let (mut few, mut enough) = (0, PERIOD);
        while enough - few > 1 {
            let n = few + (enough - few) / 2;
            if self.most(totals, n) < rest {
                few = n;
            } else {
                enough = n;
            }
        }
        periods * PERIOD + enough
    }
}
