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
//! | page walks            | `I / 4096`                                          |
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
//! whatever else each instruction does once. A page walk is a miss in a second-level TLB, to which each miss
//! in a first-level TLB is a reference. `processor/` has the events that are misses.
//!
//! Responses are the events that a register describes, such as MSR_OFFCORE_RSP_0 that of
//! OFFCORE_RESPONSE_0. `processor/intel/msrs.rs` has the registers. They have one bit for each request
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

mod filter;
mod kind;
mod totals;

pub(crate) use self::{
    filter::{Filter, FilteredEvent},
    kind::{Event, SLOTS_PER_CYCLE},
    totals::Totals,
};
pub use self::{
    kind::PATTERN_INSTRUCTIONS,
    totals::{Mode, Retired},
};
