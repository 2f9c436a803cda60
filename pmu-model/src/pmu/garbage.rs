// SPDX-License-Identifier: GPL-2.0

//! Registers that hold what no driver has written: [`Defect::Garbage`] and [`Defect::Foreign`].

use super::Pmu;
use crate::{
    fields::FixedCtrCtrl,
    msr::{fixed_ctrl, global_status, EventSel, Register},
    pair,
    pmi::{Defect, Foreign},
    shape::{Counter, MAX_FIXED, MAX_GENERAL},
};

/// Numbers that follow from a seed: SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True once in so many times.
    fn one_in(&mut self, n: u64) -> bool {
        self.next() % n == 0
    }

    /// Any of these.
    fn choose<T>(&mut self, all: &[T]) -> Option<usize> {
        let len = all.len() as u64;
        (len > 0).then(|| (self.next() % len) as usize)
    }
}

impl Pmu {
    /// Fills all registers that can be written.
    pub(super) fn fill(&mut self, seed: u64) {
        let mut numbers = Numbers(seed);
        let shape = self.shape;
        for i in (0..MAX_GENERAL).filter(|&i| shape.has_general(i)) {
            let eventsel = self.garbage_eventsel(i, &mut numbers);
            self.write(Register::EventSel(i), eventsel);
            self.state.general[i] = self.garbage_count(&mut numbers);
        }
        for i in 0..usize::from(shape.fixed).min(MAX_FIXED) {
            self.state.fixed[i] = self.garbage_count(&mut numbers);
        }
        let models = self.processor.map_or(0, |it| it.msr_count());
        let models = (0..models).map(Register::Model);
        let others = [Register::FixedCtrCtrl, Register::DebugCtl];
        for register in models.chain(others) {
            let value = numbers.next();
            // AMD's DebugCtl, which comes with the LBRs, stays 0: Linux warns of counters that are frozen.
            if register != Register::DebugCtl || self.lbr_debugctl().is_none() {
                self.write_garbage(register, value);
            }
        }
        if self.metrics_fields() > 0 {
            self.write_garbage(Register::PerfMetrics, numbers.next());
        }
        for register in self.lbr_registers() {
            let value = numbers.next() & self.writable_bits(register).unwrap_or(0);
            if self.lbrs_accept(register, value) {
                self.write(register, value);
            }
        }
        // No driver stops the recording of branches that it does not use, and a guest would be slow all the
        // time.
        self.debug_exception();
        self.write_garbage(Register::GlobalCtrl, numbers.next());
        self.inject_status(numbers.next());
        let status = Register::GlobalStatusSet;
        let settable = self.generation.writable_bits(&shape, status).unwrap_or(0);
        if settable & global_status::CTR_FRZ != 0 && numbers.one_in(2) {
            self.state.global_status.freeze_counters();
        }
        self.update_active();
    }

    /// Accounts for instructions that have retired while a counter counted, and changes a
    /// register if it is time.
    pub(super) fn retire_towards_change(&mut self, instructions: u64) {
        let Defect::Foreign { what, every, seed } = self.defect else {
            return;
        };
        let since = u128::from(self.state.since_change) + u128::from(instructions);
        let every = u128::from(every.get());
        self.state.since_change = (since % every) as u64;
        if since >= every {
            let number = self.state.changes;
            self.state.changes = number.wrapping_add(1);
            self.change(what, seed.wrapping_add(number << 32));
        }
    }

    /// The number of instructions until a register is changed.
    pub(super) fn until_change(&self) -> Option<u64> {
        match self.defect {
            Defect::Foreign { every, .. } if !self.active.is_empty() => {
                Some(every.get() - self.state.since_change)
            }
            _ => None,
        }
    }

    fn change(&mut self, what: Foreign, seed: u64) {
        let mut numbers = Numbers(seed);
        let active: Vec<Counter> = self.active.iter().map(|it| it.counter).collect();
        match what {
            Foreign::Zero => self.zero(),
            Foreign::EventSel => {
                let general = |counter: &Counter| match *counter {
                    Counter::General(i) => Some(i),
                    Counter::Fixed(_) => None,
                };
                let general: Vec<usize> = active.iter().filter_map(general).collect();
                if let Some(chosen) = numbers.choose(&general) {
                    let i = general[chosen];
                    // It must be another value.
                    let cmask = self.state.eventsel[i].0 & EventSel::CMASK;
                    let eventsel = self.garbage_eventsel(i, &mut numbers);
                    let other = (eventsel & !EventSel::CMASK) | (cmask ^ (1 << 24));
                    self.write(Register::EventSel(i), other);
                }
            }
            Foreign::FixedCtrCtrl => {
                // All counters with an event change their modes.
                let modes = fixed_ctrl::OS | fixed_ctrl::USR;
                let all = FixedCtrCtrl::of_all(self.shape.fixed, modes);
                self.write(Register::FixedCtrCtrl, self.state.fixed_ctr_ctrl.0 ^ all.0);
            }
            Foreign::Counter => {
                if let Some(chosen) = numbers.choose(&active) {
                    match active[chosen] {
                        Counter::General(i) => self.state.general[i] = 0,
                        Counter::Fixed(i) => self.state.fixed[i] = 0,
                    }
                }
            }
            Foreign::GlobalCtrl => {
                // None of the counters that count goes on.
                let counting = active.iter().fold(0, |all, it| all | it.bit());
                let writable = self.writable_bits(Register::GlobalCtrl).unwrap_or(0);
                let value = numbers.next() & writable & !counting;
                self.write(Register::GlobalCtrl, value);
            }
        }
        self.update_active();
    }

    /// Leaves what KVM's mediated vPMU leaves behind.
    fn zero(&mut self) {
        let shape = self.shape;
        for i in (0..MAX_GENERAL).filter(|&i| shape.has_general(i)) {
            self.write(Register::EventSel(i), 0);
        }
        self.state.general = Default::default();
        self.state.fixed = Default::default();
        for register in [Register::FixedCtrCtrl, Register::GlobalCtrl] {
            self.write_garbage(register, 0);
        }
    }

    /// Whether the PMU has what would change.
    pub(super) fn has_foreign(&self, what: Foreign) -> bool {
        match what {
            Foreign::Zero | Foreign::EventSel | Foreign::Counter => true,
            Foreign::FixedCtrCtrl => self.shape.fixed > 0,
            Foreign::GlobalCtrl => self.writable_bits(Register::GlobalCtrl).is_some(),
        }
    }

    /// Writes those bits of `value` that can be written, if the register exists.
    fn write_garbage(&mut self, register: Register, value: u64) {
        if let Some(writable) = self.writable_bits(register) {
            self.write(register, value & writable);
        }
    }

    /// Every other one counts an event that the model knows, in both modes and with PMIs.
    fn garbage_eventsel(&self, i: usize, numbers: &mut Numbers) -> u64 {
        const INSTRUCTIONS: u64 =
            EventSel::EN | EventSel::INT | EventSel::OS | EventSel::USR | 0xc0;
        let any = numbers.next();
        let value = match numbers.next() % 4 {
            0 | 1 => INSTRUCTIONS,
            2 if self.config.has_pairs() && i % 2 == 1 => pair::MERGE_EVENTSEL,
            _ => any,
        };
        value & self.writable_bits(Register::EventSel(i)).unwrap_or(0)
    }

    /// Every other one overflows soon.
    fn garbage_count(&self, numbers: &mut Numbers) -> u64 {
        let mask = self.shape.counter_mask();
        let any = numbers.next();
        match numbers.one_in(2) {
            true => mask - (any & 0xf_ffff),
            false => any & mask,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A failing run can be repeated, with any later version, by its seed.
    #[test]
    fn numbers_are_those_of_splitmix64() {
        let mut numbers = Numbers(1_234_567);
        assert_eq!(numbers.next(), 6_457_827_717_110_365_317);
        assert_eq!(numbers.next(), 3_203_168_211_198_807_973);
        assert_eq!(numbers.next(), 9_817_491_932_198_370_423);
    }

    #[test]
    fn numbers_choose_evenly() {
        let mut numbers = Numbers(1);
        assert_eq!(numbers.choose::<u8>(&[]), None);
        let mut chosen = [0; 3];
        for _ in 0..300 {
            chosen[numbers.choose(&[0, 0, 0]).unwrap()] += 1;
        }
        assert!(chosen.iter().all(|&n| n > 70), "{chosen:?}");
        let once_in_4 = (0..400).filter(|_| numbers.one_in(4)).count();
        assert!((60..140).contains(&once_in_4), "{once_in_4}");
    }
}
