// SPDX-License-Identifier: GPL-2.0
//! How often the registers of this CPU's PMU have been accessed. The emulated PMU counts that
//! (`qemu/README.md`, "Counts of accesses").

use std::arch::x86_64::{CpuidResult, __cpuid_count};
use std::collections::BTreeMap;
use std::fmt;

use anyhow::{ensure, Result};
use pmu_model::CPUID_ACCESSES;

/// A way to access a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// RDMSR of an address.
    Rdmsr(u32),
    /// WRMSR of an address.
    Wrmsr(u32),
    /// RDPMC with an ECX.
    Rdpmc(u32),
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rdmsr(address) => write!(f, "rdmsr {address:#x}"),
            Self::Wrmsr(address) => write!(f, "wrmsr {address:#x}"),
            Self::Rdpmc(ecx) => write!(f, "rdpmc {ecx:#x}"),
        }
    }
}

/// Numbers of accesses, without those that are 0.
pub type Accesses = BTreeMap<Access, u32>;

fn subleaf(n: u32) -> [u32; 4] {
    // SAFETY: every x86-64 CPU has CPUID. One without this leaf answers with its highest one.
    let CpuidResult { eax, ebx, ecx, edx } = unsafe { __cpuid_count(CPUID_ACCESSES, n) };
    [eax, ebx, ecx, edx]
}

/// All accesses to the registers of the CPU that this runs on, as CPUID has them. An error if the
/// PMU does not count them. The thread must stay on the CPU. This is quick, so that little is counted
/// meanwhile.
fn raw() -> Result<Vec<[u32; 4]>> {
    const NOT_COUNTED: &str = "the PMU does not count accesses";
    let mut raw = Vec::with_capacity(1000);
    loop {
        let before = subleaf(0);
        // A CPU without the leaf answers with its highest one, which does not add up.
        ensure!((1..=1000).contains(&before[0]), NOT_COUNTED);
        raw.clear();
        raw.extend((1..=before[0]).map(subleaf));
        // An interrupt may have accessed registers meanwhile.
        if subleaf(0) == before {
            ensure!(totals(&raw) == before, NOT_COUNTED);
            return Ok(raw);
        }
    }
}

/// What subleaf 0 has if these are the others.
fn totals(raw: &[[u32; 4]]) -> [u32; 4] {
    let mut totals = [raw.len() as u32, 0, 0, 0];
    for &[_, reads, writes, is_rdpmc] in raw {
        let all_reads = if is_rdpmc == 0 { 1 } else { 3 };
        totals[all_reads] = totals[all_reads].wrapping_add(reads);
        totals[2] = totals[2].wrapping_add(writes);
    }
    totals
}

fn decode(raw: &[[u32; 4]]) -> Accesses {
    let mut accesses = Accesses::new();
    for &[register, reads, writes, is_rdpmc] in raw {
        let read = match is_rdpmc {
            0 => Access::Rdmsr(register),
            _ => Access::Rdpmc(register),
        };
        accesses.insert(read, reads);
        accesses.insert(Access::Wrmsr(register), writes);
    }
    accesses
}

/// The accesses to the registers of the CPU that this runs on, from one call to another. The thread
/// must stay on this CPU.
pub struct Since(Vec<[u32; 4]>);

impl Since {
    /// From now on. An error if the PMU does not count accesses.
    pub fn now() -> Result<Self> {
        Ok(Self(raw()?))
    }

    /// The accesses until now.
    pub fn until_now(&self) -> Result<Accesses> {
        let now = raw()?;
        let before = decode(&self.0);
        let before = |access: &Access| before.get(access).copied().unwrap_or(0);
        let difference = |(access, now): (Access, u32)| (access, now.wrapping_sub(before(&access)));
        let all = decode(&now).into_iter().map(difference);
        Ok(all.filter(|(_, n)| *n != 0).collect())
    }
}
