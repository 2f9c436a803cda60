// SPDX-License-Identifier: GPL-2.0

//! The events and what they count.
//!
//! An emulator that translates code knows which instructions retire, and what each is and does.
//! It simulates neither a pipeline nor a cache. Every event is therefore a
//! function of totals since reset, kept separately for each [`Mode`]: `I`
//! instructions, `B` branches and those of [`Retired`].
//!
//! | event                 | total, all divisions rounded down                   |
//! |-----------------------|-----------------------------------------------------|
//! | instructions          | `I`                                                 |
//! | branches              | `B`                                                 |
//! | kinds of branches     | see [`Event`]; the processors in `processor/` have them |
//! | loads, stores         | those of [`Retired`]; likewise                      |
//! | mispredicted branches | `B / 64`                                            |
//! | misses of loads       | loads / 64                                          |
//! | misses of stores      | stores / 64                                         |
//! | other misses          | `I / 64`                                            |
//! | LLC references        | `I / 256`                                           |
//! | LLC misses            | `I / 4096`                                          |
//! | core cycles           | `I + 15 * mispredicted branches + 100 * LLC misses` |
//! | reference cycles      | `core cycles * 3 / 4`                               |
//! | slots                 | `core cycles * 4`                                   |
//! | AMD: FLOPs            | `7 * I` for each bit that is set in the unit mask   |
//! | Intel: responses      | see below                                           |
//!
//! With [`RefCycles::Tsc`](crate::RefCycles) the reference cycles follow no formula: they are
//! the cycles of the time-stamp counter that pass while the processor is in a mode and not
//! halted, as [`Pmu::report`](crate::Pmu::report) is told.
//!
//! FLOPs are floating-point operations, event 003H of AMD from family 17H on. Without a unit
//! mask it counts nothing. From three bits on, more than 15 occur in the cycle of an
//! instruction. A counter adds at most 15 in a cycle, so that it counts `15 * I` then. All are
//! counted by two counters that are merged: an even one with the event, and the next one with
//! event FFFH, which counts nothing itself. See `pair.rs`.
//!
//! Misses are a part of the references that they belong to: those of the loads, of the stores, and of
//! whatever else each instruction does once. `processor/` has the events that are misses.
//!
//! Responses are the events that a register describes, such as MSR_OFFCORE_RSP_0 that of
//! OFFCORE_RESPONSE_0. `processor/intel.rs` has the registers. They have one bit for each request
//! and each response that counts: a higher bit is a response from further away. An instruction
//! makes one request, and one more for each request that is set. All of them have a response if the
//! register has the bit of any response, or none. Otherwise the instructions that have one are
//! `I / 2^n`, where `n`, at most 12, is the distance of the lowest response that is set from the
//! lowest one that there is. So the misses in a cache, which come from further away, are a part of
//! the references. Where the threads of a core share a register, a write by one
//! thread changes what the others count, and also the count of what has retired on those since
//! their last report.
//!
//! A counter that counts in both modes adds up the totals of both. While a program runs
//! from one point to another, a counter gains the difference between the totals at these
//! points.
//!
//! PERF_METRICS says how the slots were used that fixed-function counter 3 has counted since
//! both were written. Each instruction takes one cycle, in which the front end delivers one
//! slot only; the slots of the cycles that it stalls belong to what stalls it:
//!
//! | field                       | slots                                |
//! |-----------------------------|--------------------------------------|
//! | 0: retiring                 | `I`                                  |
//! | 1: bad speculation          | `4 * 15 * mispredicted branches`     |
//! | 2: front-end bound          | `3 * I`                              |
//! | 3: back-end bound           | `4 * 100 * LLC misses`               |
//! | 4: heavy operations         | `B`, a part of field 0               |
//! | 5: branch mispredictions    | as field 1                           |
//! | 6: fetch latency            | `I`, a part of field 2               |
//! | 7: memory bound             | as field 3                           |
//!
//! A field has 8 bits and is its part of the slots in 255ths. Those of level 1, 0 to 3, add
//! up to 255: field 0 is rounded to the nearest value, and so are the sums of fields 0 and
//! 1, and of fields 0 to 2. The fields of level 2, 4 to 7, are rounded to the nearest value
//! as well, but are never more than the field that they are a part of. All are 0 while no
//! slot has been counted.
//!
//! An event that only some counters of a processor count, according to the tables in
//! `processor/`, counts instructions there unless it is one of the above, and nothing on the
//! others.
//!
//! Counts are therefore predictable. In particular, [`PATTERN_INSTRUCTIONS`] instructions
//! with a multiple of 256 branches add the same number to an event wherever they start, apart from
//! what the other numbers of [`Retired`] are.
//!
//! # EDGE, INV and CMASK
//!
//! These fields apply to single cycles (SDM vol. 3B, "Performance Monitoring", layout of
//! IA32_PERFEVTSELx). The totals above correspond to this sequence of cycles: each
//! instruction takes one cycle, in which its events occur, and then the cycles that it
//! stalls.
//!
//! In each cycle, core cycles occur once and slots occur four times. Every other event is
//! a pulse: it occurs at most once in a cycle and ends before the cycle does. Pulses in
//! successive cycles therefore have separate edges. The FLOPs or the responses of an instruction
//! are one pulse, which is counted as often as there are of them if CMASK and EDGE are 0.
//!
//! | CMASK   | INV     | a pulse counts           | with EDGE | core cycles and slots count |
//! |---------|---------|--------------------------|-----------|-----------------------------|
//! | 0       | ignored | pulses                   | pulses    | core cycles, slots          |
//! | reached | 0       | cycles with the pulse    | pulses    | core cycles                 |
//! | reached | 1       | cycles without the pulse | pulses    | nothing                     |
//! | beyond  | 0       | nothing                  | nothing   | nothing                     |
//! | beyond  | 1       | core cycles              | nothing   | core cycles                 |
//!
//! CMASK is reached if it is at most the number of times that the event can occur in a
//! cycle, which is 4 for slots, the number that the counter can add for FLOPs, that of the
//! responses of an instruction, and 1 for all other events. Core cycles and slots have no
//! edges, so with EDGE they count nothing.
//!
//! With EQ, which version 6 adds, CMASK is reached if it equals that number; every other
//! value is in the rows "beyond". With INV, a cycle then counts if the numbers differ. If
//! CMASK is 0, EQ is ignored.
//!
//! With [`RefCycles::Tsc`](crate::RefCycles), reference cycles are in the last column. If CMASK
//! is reached and INV is clear, they count themselves.

use serde::{Deserialize, Serialize};

/// The privilege levels that counters distinguish (SDM vol. 3B, "Performance Monitoring",
/// USR and OS flags of IA32_PERFEVTSELx).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// CPL 1 to 3, counted with EVENTSEL.USR.
    User = 0,
    /// CPL 0, counted with EVENTSEL.OS.
    Kernel = 1,
}

impl Mode {
    /// Both modes. Arrays indexed by mode have this order.
    pub const ALL: [Mode; 2] = [Mode::User, Mode::Kernel];

    /// The other mode.
    pub const fn other(self) -> Mode {
        match self {
            Mode::User => Mode::Kernel,
            Mode::Kernel => Mode::User,
        }
    }
}

/// The instructions that retired in one mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retired {
    /// The number of instructions, branches included.
    pub instructions: u64,
    /// The number of branches.
    pub branches: u64,
    /// The number of these that are conditional, taken or not.
    pub conditional: u64,
    /// The number of these that were taken. This and what follows count only if
    /// [`Pmu::counts_details`](crate::Pmu::counts_details) says so.
    pub conditional_taken: u64,
    /// The number of branches within the code segment that are not conditional.
    pub near_unconditional: u64,
    /// The number of instructions that load from memory.
    pub loads: u64,
    /// The number of instructions that store to memory.
    pub stores: u64,
}

/// The instructions that have retired in one mode since reset.
///
/// 128 bits are enough that neither a sum of [`Retired`] nor the total of an event
/// overflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Totals {
    instructions: u128,
    branches: u128,
    conditional: u128,
    conditional_taken: u128,
    near_unconditional: u128,
    loads: u128,
    stores: u128,
    /// The cycles of the time-stamp counter.
    tsc: u128,
}

impl Totals {
    pub(crate) fn after(self, retired: Retired, tsc: u64) -> Totals {
        debug_assert!(retired.conditional_taken <= retired.conditional);
        Totals {
            instructions: self.instructions + u128::from(retired.instructions),
            branches: self.branches + u128::from(retired.branches),
            conditional: self.conditional + u128::from(retired.conditional),
            conditional_taken: self.conditional_taken + u128::from(retired.conditional_taken),
            near_unconditional: self.near_unconditional + u128::from(retired.near_unconditional),
            loads: self.loads + u128::from(retired.loads),
            stores: self.stores + u128::from(retired.stores),
            tsc: self.tsc + u128::from(tsc),
        }
    }

    /// Whether there can be such totals. If so, the total of no event is negative, and there is
    /// room for more.
    pub(crate) fn are_possible(&self) -> bool {
        const MAX: u128 = 1 << 100;
        let near = self.conditional.saturating_add(self.near_unconditional);
        self.instructions.max(self.tsc) < MAX
            && self.branches.max(self.loads).max(self.stores) <= self.instructions
            && near <= self.branches
            && self.conditional_taken <= self.conditional
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

    /// The totals after `n` more instructions, all of them conditional branches that are taken,
    /// and that load and store.
    fn after_branches(self, n: u64) -> Totals {
        let retired = Retired {
            instructions: n,
            branches: n,
            conditional: n,
            conditional_taken: n,
            near_unconditional: 0,
            loads: n,
            stores: n,
        };
        self.after(retired, 0)
    }
}

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
    /// The same without branches to another code segment.
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
    /// References to the last-level cache.
    LlcReferences,
    /// Misses in the last-level cache.
    LlcMisses,
    /// Cycles while not halted.
    Cycles,
    /// Cycles of a fixed-rate clock while not halted, as a function of the core cycles.
    RefCycles,
    /// The same with [`RefCycles::Tsc`](crate::RefCycles).
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

    fn total(self, totals: Totals) -> u128 {
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
    fn is_of_kind(self) -> bool {
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
    fn is_detail(self) -> bool {
        matches!(self, Event::LoadMisses | Event::StoreMisses) || self.is_detailed_kind()
    }

    /// The number of times that the event occurs in every cycle, `None` for a pulse.
    fn per_cycle(self) -> Option<u8> {
        match self {
            Event::Cycles | Event::Tsc => Some(1),
            Event::Slots => Some(SLOTS_PER_CYCLE),
            _ => None,
        }
    }
}

/// The fields of EVENTSEL that modify how an event is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) edge: bool,
    pub(crate) inv: bool,
    pub(crate) eq: bool,
    pub(crate) cmask: u8,
}

/// What a counter adds up after EDGE, INV and CMASK were applied to its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilteredEvent {
    /// Occurrences of the event.
    Occurrences(Event),
    /// Cycles in which the event does not occur.
    CyclesWithout(Event),
}

impl FilteredEvent {
    /// Applies `filter` to `event` as described in this module's documentation. `None` if
    /// the result never counts.
    pub(crate) fn new(event: Event, filter: Filter) -> Option<FilteredEvent> {
        let Filter {
            edge,
            inv,
            eq,
            cmask,
        } = filter;
        // These pulses are those of instructions.
        let (pulse, max_of_pulse) = match event {
            Event::Flops(n) => (Event::Instructions, n),
            Event::Responses { each, distance } => (Event::Responses { each: 1, distance }, each),
            _ => (event, 1),
        };
        let per_cycle = event.per_cycle();
        let max_per_cycle = per_cycle.unwrap_or(max_of_pulse);
        let reached = cmask == max_per_cycle || cmask < max_per_cycle && !eq;
        let cycles = FilteredEvent::Occurrences(Event::Cycles);
        if edge && (per_cycle.is_some() || cmask > max_per_cycle) {
            return None;
        }
        match cmask {
            0 if max_per_cycle == 0 => None,
            0 if edge => Some(FilteredEvent::Occurrences(pulse)),
            0 => Some(FilteredEvent::Occurrences(event)),
            _ if !reached => inv.then_some(cycles),
            _ if event == Event::Tsc => (!inv).then_some(FilteredEvent::Occurrences(event)),
            _ if per_cycle.is_some() => (!inv).then_some(cycles),
            _ if inv && !edge => Some(FilteredEvent::CyclesWithout(pulse)),
            _ => Some(FilteredEvent::Occurrences(pulse)),
        }
    }

    /// Whether it depends on what [`Retired`] has in detail.
    pub(crate) fn is_detail(self) -> bool {
        let (FilteredEvent::Occurrences(event) | FilteredEvent::CyclesWithout(event)) = self;
        event.is_detail()
    }

    /// Whether it depends on time, and not on the instructions.
    pub(crate) fn is_tsc(self) -> bool {
        self == FilteredEvent::Occurrences(Event::Tsc)
    }

    fn total(self, totals: Totals) -> u128 {
        match self {
            FilteredEvent::Occurrences(event) => event.total(totals),
            FilteredEvent::CyclesWithout(event) => {
                Event::Cycles.total(totals) - event.total(totals)
            }
        }
    }

    /// What a counter gains between two totals.
    pub(crate) fn between(self, before: Totals, after: Totals) -> u128 {
        self.total(after) - self.total(before)
    }

    /// An event that occurs at least as often and that occurs most often if all instructions are
    /// those of [`Totals::after_branches`]. All events are such events themselves, but for branches
    /// that are not taken and cycles without one kind of instruction.
    fn upper_bound(self) -> FilteredEvent {
        match self {
            FilteredEvent::Occurrences(Event::NotTaken) => {
                FilteredEvent::Occurrences(Event::ConditionalBranches)
            }
            FilteredEvent::CyclesWithout(event)
                if event.is_detail() || event.is_of_kind() && event != Event::Instructions =>
            {
                FilteredEvent::Occurrences(Event::Cycles)
            }
            _ => self,
        }
    }

    /// The most that a counter can gain while `n` instructions retire.
    pub(crate) fn max_gain(self, totals: Totals, n: u64) -> u128 {
        self.upper_bound().between(totals, totals.after_branches(n))
    }

    /// The fewest instructions in which a counter can gain `gain`, which is not 0.
    pub(crate) fn min_instructions(self, totals: Totals, gain: u64) -> u64 {
        if matches!(self, FilteredEvent::Occurrences(event) if event.is_of_kind()) {
            return gain;
        }
        // Every full pattern adds the same. Search in the last, incomplete one only.
        let per_pattern = self.max_gain(totals, PATTERN_INSTRUCTIONS) as u64;
        let patterns = (gain - 1) / per_pattern;
        let rest = u128::from(gain - patterns * per_pattern);
        let (mut too_few, mut enough) = (0, PATTERN_INSTRUCTIONS);
        while enough - too_few > 1 {
            let n = too_few + (enough - too_few) / 2;
            if self.max_gain(totals, n) < rest {
                too_few = n;
            } else {
                enough = n;
            }
        }
        patterns * PATTERN_INSTRUCTIONS + enough
    }
}
