// SPDX-License-Identifier: GPL-2.0

//! A reference implementation of counting, as simple as possible: it goes through every
//! instruction, every cycle and every level of a signal. It shares no code with the
//! model and follows the documentation of `pmu_model::event` only.

use pmu_model::{msr::*, Mode, Vendor};

/// An instruction that retires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub mode: Mode,
    pub branch: bool,
}

/// The events that occur in one cycle.
#[derive(Clone, Copy, Default)]
struct Cycle {
    instruction: bool,
    branch: bool,
    branch_miss: bool,
    llc_reference: bool,
    llc_miss: bool,
    reference_tick: bool,
}

/// The totals of one mode since reset.
#[derive(Clone, Copy, Default)]
struct Clock {
    instructions: u64,
    branches: u64,
    cycles: u64,
}

impl Clock {
    /// Retires an instruction. Returns its own cycle and then the cycles that it stalls.
    fn retire(&mut self, branch: bool) -> Vec<Cycle> {
        self.instructions += 1;
        self.branches += u64::from(branch);
        let first = Cycle {
            instruction: true,
            branch,
            branch_miss: branch && self.branches % 64 == 0,
            llc_reference: self.instructions % 256 == 0,
            llc_miss: self.instructions % 4096 == 0,
            reference_tick: false,
        };
        let stalls = usize::from(first.branch_miss) * 15 + usize::from(first.llc_miss) * 100;
        let mut cycles = vec![Cycle::default(); 1 + stalls];
        cycles[0] = first;
        for cycle in &mut cycles {
            // There are three ticks in four cycles, and none in the first of them.
            cycle.reference_tick = self.cycles % 4 != 0;
            self.cycles += 1;
        }
        cycles
    }
}

/// The level of a condition in each half of a cycle.
type Levels = [bool; 2];

/// A counter.
#[derive(Clone, Debug)]
pub struct Counter {
    vendor: Vendor,
    /// The event select or PERF_CTL. For a fixed-function counter, the event select that
    /// makes a general-purpose counter do the same.
    eventsel: u64,
    /// The number of its bit in GLOBAL_CTRL.
    pub bit: u32,
    width: u32,
    pub value: u64,
    pub overflowed: bool,
}

impl Counter {
    pub fn new(vendor: Vendor, eventsel: u64, bit: u32, width: u8, value: u64) -> Counter {
        Counter {
            vendor,
            eventsel,
            bit,
            width: width.into(),
            value,
            overflowed: false,
        }
    }

    fn counts_in(&self, mode: Mode) -> bool {
        let bit = match mode {
            Mode::User => EventSel::USR,
            Mode::Kernel => EventSel::OS,
        };
        let guest_or_host = EventSel::GUEST_ONLY | EventSel::HOST_ONLY;
        self.eventsel & bit != 0
            && self.eventsel & EventSel::EN != 0
            && self.eventsel & guest_or_host == 0
    }

    fn raises_pmi(&self) -> bool {
        self.eventsel & EventSel::INT != 0
    }

    /// How often the event occurs in a cycle, and whether it lasts for the whole cycle.
    fn occurs(&self, cycle: Cycle) -> Option<(u64, bool)> {
        use Vendor::{Amd, Intel};
        let pulse = |occurs: bool| (u64::from(occurs), false);
        Some(match (self.vendor, self.eventsel & 0xf_0000_ffff) {
            (Intel, 0x003c) | (Amd, 0x0076) => (1, true),
            (Intel, 0x01a4) => (4, true),
            (Intel | Amd, 0x00c0) => pulse(cycle.instruction),
            (Intel, 0x00c4) | (Amd, 0x00c2) => pulse(cycle.branch),
            (Intel, 0x00c5) | (Amd, 0x00c3) => pulse(cycle.branch_miss),
            (Intel, 0x4f2e) | (Amd, 0x037d | 0x077d | 0xff60) => pulse(cycle.llc_reference),
            (Intel, 0x412e) | (Amd, 0x037e | 0x077e | 0x0964) => pulse(cycle.llc_miss),
            (Intel, 0x013c) | (Amd, 0x1_0000_0120) => pulse(cycle.reference_tick),
            _ => return None,
        })
    }

    fn count(&self, cycle: Cycle) -> u64 {
        let Some((n, lasting)) = self.occurs(cycle) else {
            return 0;
        };
        let cmask = (self.eventsel >> 24) & 0xff;
        let inv = cmask != 0 && self.eventsel & EventSel::INV != 0;
        let eq = cmask != 0 && self.eventsel & EventSel::EQ != 0;
        let reached = if eq { n == cmask } else { n >= cmask.max(1) };
        if self.eventsel & EventSel::EDGE != 0 {
            // The level before the cycle. For a pulse it is that of a cycle without one.
            let idle = inv ^ (lasting && reached);
            let levels: Levels = if lasting {
                [reached ^ inv; 2]
            } else {
                [reached ^ inv, inv]
            };
            let before = [idle, levels[0]];
            let rises = |(a, b): (&bool, &bool)| u64::from(!a & b);
            return before.iter().zip(&levels).map(rises).sum();
        }
        if cmask == 0 {
            n
        } else {
            u64::from(reached ^ inv)
        }
    }
}

/// All counters, and the totals of both modes.
#[derive(Clone)]
pub struct Reference {
    pub counters: Vec<Counter>,
    clocks: [Clock; 2],
}

impl Reference {
    pub fn new(counters: Vec<Counter>) -> Reference {
        Reference {
            counters,
            clocks: Default::default(),
        }
    }

    /// Retires one instruction. Returns the bits of the counters that overflow.
    pub fn retire(&mut self, instruction: Instruction) -> u64 {
        let mut overflowed = 0;
        for cycle in self.clocks[instruction.mode as usize].retire(instruction.branch) {
            for counter in &mut self.counters {
                if !counter.counts_in(instruction.mode) {
                    continue;
                }
                for _ in 0..counter.count(cycle) {
                    counter.value += 1;
                    if counter.value >> counter.width != 0 {
                        counter.value = 0;
                        counter.overflowed = true;
                        overflowed |= 1 << counter.bit;
                    }
                }
            }
        }
        overflowed
    }

    /// Whether at least one of the counters that overflowed requests a PMI.
    pub fn raises_pmi(&self, overflowed: u64) -> bool {
        self.counters
            .iter()
            .any(|counter| (overflowed >> counter.bit) & 1 != 0 && counter.raises_pmi())
    }
}
