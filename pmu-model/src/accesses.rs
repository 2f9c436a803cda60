// SPDX-License-Identifier: GPL-2.0

//! Counts of the accesses to each register, for those who measure what a driver costs.

use std::{cell::RefCell, collections::BTreeMap};

/// The leaf of CPUID with the counts. It is in the range that CPUs leave to hypervisors, and
/// away from the leaves of any that Linux looks for (`hypervisor_cpuid_base()`).
///
/// - Subleaf 0: the number of registers in EAX, and the numbers of RDMSRs, WRMSRs and RDPMCs in
///   EBX, ECX and EDX.
/// - Subleaf *n* from 1 on: the *n*th register. EAX is its address, or with EDX 1 the ECX of
///   RDPMC. EBX is the number of reads, ECX that of writes.
///
/// All numbers are modulo 2^32. The registers are those that have been accessed, in the order of
/// their addresses; so the first access to another one moves those behind it.
pub const CPUID_ACCESSES: u32 = 0x4f00_0000;

/// What is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Msr(u32),
    Rdpmc(u32),
}

/// The accesses to one register, whether they succeeded or raised #GP.
#[derive(Clone, Copy, Debug, Default)]
struct Accesses {
    reads: u32,
    writes: u32,
}

/// The accesses to the registers of a PMU. It is a cell because RDMSR, which changes nothing
/// else, is counted, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccessCounts(RefCell<BTreeMap<Target, Accesses>>);

impl AccessCounts {
    fn count(&self, target: Target, count: impl FnOnce(&mut Accesses) -> &mut u32) {
        let mut registers = self.0.borrow_mut();
        let number = count(registers.entry(target).or_default());
        *number = number.wrapping_add(1);
    }

    pub(crate) fn rdmsr(&self, msr: u32) {
        self.count(Target::Msr(msr), |it| &mut it.reads);
    }

    pub(crate) fn wrmsr(&self, msr: u32) {
        self.count(Target::Msr(msr), |it| &mut it.writes);
    }

    pub(crate) fn rdpmc(&self, ecx: u32) {
        self.count(Target::Rdpmc(ecx), |it| &mut it.reads);
    }

    /// A subleaf of [`CPUID_ACCESSES`].
    pub(crate) fn cpuid(&self, subleaf: u32) -> [u32; 4] {
        let registers = self.0.borrow();
        let Some(before) = subleaf.checked_sub(1) else {
            let mut totals = [registers.len() as u32, 0, 0, 0];
            for (target, accesses) in &*registers {
                let read = match target {
                    Target::Msr(_) => 1,
                    Target::Rdpmc(_) => 3,
                };
                totals[read] = totals[read].wrapping_add(accesses.reads);
                totals[2] = totals[2].wrapping_add(accesses.writes);
            }
            return totals;
        };
        match registers.iter().nth(before as usize) {
            Some((Target::Msr(msr), it)) => [*msr, it.reads, it.writes, 0],
            Some((Target::Rdpmc(ecx), it)) => [*ecx, it.reads, it.writes, 1],
            None => [0; 4],
        }
    }
}
