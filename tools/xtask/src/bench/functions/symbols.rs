// SPDX-License-Identifier: GPL-2.0

//! The functions of the guest's kernel, and whose they are.

use anyhow::{Context as _, Result};
use rustc_demangle::demangle;
use std::collections::BTreeMap;

/// The function that begins and ends a window.
const MARK: &str = "__x64_sys_getppid";

/// The lowest address of the kernel.
const KERNEL: u64 = 1 << 63;

/// Whose code a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    RustPerf,
    InTree,
    PerfCore,
    Kernel,
    User,
}

impl Owner {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::RustPerf,
        Self::InTree,
        Self::PerfCore,
        Self::Kernel,
        Self::User,
    ];

    /// How the names of the in-tree driver's functions begin, in arch/x86/events.
    const IN_TREE: &'static [&'static str] = &[
        "__amd_",
        "__intel_",
        "_x86_pmu_",
        "amd_get_event",
        "amd_pmu_",
        "amd_put_event",
        "collect_event",
        "handle_pmi_common",
        "hw_perf_event_",
        "intel_",
        "is_x86_event",
        "p4_",
        "perf_event_nmi_handler",
        "x86_",
        "zhaoxin_",
    ];

    /// How the names of functions in kernel/events begin, and of what x86 does there for any PMU.
    const PERF_CORE: &'static [&'static str] = &[
        "__event_",
        "__free_event",
        "__group_",
        "__perf_",
        "__pmu_",
        "__output_",
        "_free_event",
        "_perf_",
        "arch_perf_",
        "calc_timer_",
        "ctx_",
        "event_",
        "group_",
        "mediated_pmu_",
        "merge_sched_in",
        "perf_",
        "put_ctx",
        "put_pmu_ctx",
        "update_context_time",
        "visit_groups_",
    ];

    /// The owner of a function of the kernel itself, by its name.
    fn of(name: &str) -> Self {
        let begins = |with: &[&str]| with.iter().any(|it| name.starts_with(it));
        if begins(Self::IN_TREE) {
            Self::InTree
        } else if begins(Self::PERF_CORE) {
            Self::PerfCore
        } else {
            Self::Kernel
        }
    }

    /// What the table calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::RustPerf => "rust_perf",
            Self::InTree => "in-tree driver",
            Self::PerfCore => "perf core",
            Self::Kernel => "rest of the kernel",
            Self::User => "user mode",
        }
    }
}

/// A function, and whose it is.
pub type Function = (Owner, String);

/// The functions of the running kernel.
pub struct Symbols {
    functions: BTreeMap<u64, Function>,
    /// Where [`MARK`] is.
    pub mark: u64,
}

impl Symbols {
    /// Reads /proc/kallsyms.
    pub fn parse(text: &str) -> Result<Self> {
        let mut functions = BTreeMap::new();
        let mut mark = None;
        for line in text.lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            let [address, "t" | "T" | "w" | "W", name, ref module @ ..] = words[..] else {
                continue;
            };
            let address = u64::from_str_radix(address, 16)?;
            if name == MARK {
                mark = Some(address);
            }
            let name = format!("{:#}", demangle(name));
            let owner = match module {
                ["[rust_perf]"] => Owner::RustPerf,
                _ => Owner::of(&name),
            };
            // Of several names the first one.
            functions.entry(address).or_insert((owner, name));
        }
        Ok(Self {
            functions,
            mark: mark.with_context(|| format!("the kernel has no {MARK}"))?,
        })
    }

    /// The function of an address.
    pub fn at(&self, address: u64) -> Function {
        if address < KERNEL {
            return (Owner::User, "(all)".to_owned());
        }
        let before = self.functions.range(..=address).next_back();
        let unknown = || (Owner::Kernel, "(unknown)".to_owned());
        before.map_or_else(unknown, |(_, function)| function.clone())
    }
}
