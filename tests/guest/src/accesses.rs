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

/// Whether the PMU counts accesses.
fn are_counted() -> bool {
    // Other CPUs answer with the highest leaf below: no PMU has so many registers.
    matches!(subleaf(0), [1..=1000, ..]) && subleaf(1)[3] <= 1
}

/// All accesses to the registers of the CPU that this runs on, as CPUID has them. The thread must
/// stay on it. This is quick, so that little is counted meanwhile.
fn raw() -> Vec<[u32; 4]> {
    let mut raw = Vec::with_capacity(1000);
    loop {
        let before = subleaf(0);
        raw.clear();
        raw.extend((1..=before[0]).map(subleaf));
        // An interrupt may have accessed registers meanwhile.
        if subleaf(0) == before {
            return raw;
        }
    }
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
        ensure!(are_counted(), "the PMU does not count accesses");
        Ok(Self(raw()))
    }

    /// The accesses until now.
    pub fn until_now(&self) -> Accesses {
        let now = raw();
        let before = decode(&self.0);
        let before = |access: &Access| before.get(access).copied().unwrap_or(0);
        let difference = |(access, now): (Access, u32)| (access, now.wrapping_sub(before(&access)));
        let all = decode(&now).into_iter().map(difference);
        all.filter(|(_, n)| *n != 0).collect()
    }
}
