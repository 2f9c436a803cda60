// SPDX-License-Identifier: GPL-2.0

//! The line from the PMU to the local APIC, and what can go wrong on it.

use std::collections::VecDeque;

/// Something that happens to a PMI on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmiFault {
    /// It does not arrive.
    Lose,
    /// It arrives this many instructions late, retired in whatever mode.
    Delay(u64),
    /// It arrives, and again this many instructions later.
    Repeat(u64),
}

/// The line. PMIs that are due at the same time are one.
#[derive(Debug, Default)]
pub(crate) struct PmiLine {
    due: bool,
    /// Instructions until each PMI that is under way arrives, none of them 0.
    late: Vec<u64>,
    /// What is to happen to the next PMIs, one by one.
    faults: VecDeque<PmiFault>,
}

impl PmiLine {
    /// A counter asks for a PMI.
    pub(crate) fn raise(&mut self) {
        match self.faults.pop_front() {
            None => self.due = true,
            Some(PmiFault::Lose) => {}
            Some(PmiFault::Delay(instructions)) => self.send(instructions),
            Some(PmiFault::Repeat(instructions)) => {
                self.due = true;
                self.send(instructions);
            }
        }
    }

    /// A PMI sets out that no counter need have asked for.
    pub(crate) fn send(&mut self, instructions: u64) {
        match instructions {
            0 => self.due = true,
            _ => self.late.push(instructions),
        }
    }

    pub(crate) fn inject(&mut self, fault: PmiFault) {
        self.faults.push_back(fault);
    }

    /// So many instructions have retired.
    pub(crate) fn retire(&mut self, instructions: u64) {
        let due = &mut self.due;
        self.late.retain_mut(|left| {
            *left = left.saturating_sub(instructions);
            *due |= *left == 0;
            *left != 0
        });
    }

    /// Instructions until the next of the late PMIs.
    pub(crate) fn next(&self) -> Option<u64> {
        self.late.iter().copied().min()
    }

    pub(crate) fn take(&mut self) -> bool {
        std::mem::take(&mut self.due)
    }
}
