// SPDX-License-Identifier: GPL-2.0
//! Which counters can count each of the 65,536 codes of event select and unit mask: rust_pmu
//! and the in-tree driver agree.
//!
//! in_tree_counters.ko (`tests/in_tree`) calls the in-tree driver's own function. What rust_pmu
//! answers is what its crate `pmc` answers, which is linked into this program and is given
//! the same CPUID leaves. That the module puts events on these counters is what
//! `constraints.rs` shows.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{ensure, Context, Result};
use nix::sched::sched_getcpu;
use pmc::event::{EventSel, Modes};
use pmc::{Capabilities, CpuidLeaf, Leaf01Ecx, PERF_CAPABILITIES};

use super::compare::case::eventsel::{ANY, CMASK, CMASK_1, EDGE, EQ, EVENT_UMASK, INV, UMASK2};
use super::compare::report::Report;
use crate::ctx::{skip, Ctx, Test};
use crate::ktap::about;
use crate::module;
use crate::msr::Msrs;
use crate::pmu::cpuid;
use crate::tests;
use crate::trace::has_kcfi;

pub const TESTS: &[Test] = tests![
    all need [InTree, Root, Msrs, TestModule];
    same_counters,
];

const MODULE: &CStr = c"in_tree_counters";
const FOLDER: &str = "/sys/kernel/debug/in_tree_counters";

/// The upper bits of AMD's event selects.
const EVENT_HIGH: u64 = 0xf << 32;

/// Bits that say how an event is counted, or select it besides event select and unit mask.
/// Those that a CPU does not have are left out.
const MODIFIERS: &[u64] = &[
    0,
    EDGE,
    CMASK_1,
    INV | CMASK_1,
    EDGE | INV | CMASK,
    ANY,
    EQ | CMASK_1,
    UMASK2 & (1 << 40),
    UMASK2,
    EVENT_HIGH & (1 << 32),
    EVENT_HIGH & (2 << 32),
    EVENT_HIGH,
];

/// The general counters in a set of counters. The fixed ones follow.
const GENERAL: u64 = 0xffff_ffff;

/// in_tree_counters.ko, while it is loaded.
struct InTree(File);

impl InTree {
    /// Loads it for this PMU of the in-tree driver.
    fn load(pmu: &str) -> Result<Self> {
        if has_kcfi() {
            // It calls functions of which the kernel has no hash, and dies of that.
            return skip("needs a kernel without kCFI");
        }
        module::insert_of_tests(c"")?.context("insmod in_tree_counters.ko")?;
        let file = Path::new(FOLDER).join(pmu);
        match File::open(&file) {
            Ok(file) => Ok(Self(file)),
            Err(error) => {
                module::remove_named(MODULE).context("rmmod")?;
                Err(error).with_context(|| file.display().to_string())
            }
        }
    }

    /// The counters of all codes with these modifiers.
    fn counters(&self, modifiers: u64) -> Result<Vec<u64>> {
        const SIZE: usize = size_of::<u64>();
        let mut bytes = vec![0; (EVENT_UMASK as usize + 1) * SIZE];
        self.0.read_exact_at(&mut bytes, modifiers * SIZE as u64)?;
        let words = bytes.chunks_exact(SIZE);
        let words = words.map(|word| Ok(u64::from_le_bytes(word.try_into()?)));
        words.collect()
    }

    fn unload(self) -> Result<()> {
        drop(self);
        module::remove_named(MODULE).context("rmmod in_tree_counters")
    }
}

/// What the driver finds out about the CPU that this runs on.
pub(super) fn detect() -> Result<Capabilities> {
    let leaf = |leaf, subleaf| {
        let [eax, ebx, ecx, edx] = cpuid(leaf, subleaf);
        CpuidLeaf { eax, ebx, ecx, edx }
    };
    let features = Leaf01Ecx::from_raw(leaf(1, 0).ecx);
    let perf_capabilities = match features.has(Leaf01Ecx::PDCM) {
        true => Some(Msrs::of_cpu(sched_getcpu()?)?.read(PERF_CAPABILITIES.address())?),
        false => None,
    };
    pmc::detect(leaf, perf_capabilities).context("the driver does not know these counters")
}

/// Whether the in-tree driver counts an event, although no counter of this code is known: see
/// "event select 0" in docs/differences.md. It puts the event on every general counter.
fn is_unknown(code: u64, theirs: u64) -> bool {
    let (event, umask) = (code & 0xff, code >> 8);
    event == 0 && umask != 0 && theirs & !GENERAL == 0
}

/// Whether the in-tree driver ignores that these bits select another event, and puts it on the
/// fixed counter of the unmodified one: see docs/differences.md.
fn is_on_fixed_with_umask2(config: u64, ours: u64, theirs: u64) -> bool {
    config & UMASK2 != 0 && ours & !GENERAL == 0 && theirs & GENERAL == ours
}

/// Whether this is a field of PERF_METRICS with modifiers. The in-tree driver's
/// intel_pmu_hw_config() refuses it before it looks for a counter.
fn is_modified_metric(modifiers: u64, theirs: u64) -> bool {
    modifiers != 0 && theirs >> 48 != 0
}

/// For each code of event select and unit mask, rust_pmu allows the counters that the in-tree
/// driver allows.
fn same_counters(ctx: &Ctx) -> Result<()> {
    let capabilities = detect()?;
    let in_tree = InTree::load(&ctx.in_tree()?.name)?;
    let result = compare(ctx, &capabilities, &in_tree);
    in_tree.unload()?;
    result
}

fn compare(ctx: &Ctx, capabilities: &Capabilities, in_tree: &InTree) -> Result<()> {
    let mut report = Report::new(ctx);
    let mut sets: BTreeMap<u64, usize> = BTreeMap::new();
    let [mut unknown, mut on_fixed] = [0; 2];
    let chosen = capabilities.config_mask();
    let modifiers = MODIFIERS.iter().copied();
    for modifiers in modifiers.filter(|modifiers| modifiers & !chosen == 0) {
        for (code, theirs) in in_tree.counters(modifiers)?.into_iter().enumerate() {
            let code = code as u64;
            let event = EventSel::from_config(code | modifiers, chosen, Modes::ALL);
            let event = event.context("a code with a reserved bit")?;
            let ours = capabilities.counters_for(event).bits();
            let config = code | modifiers;
            report.called(0);
            if ours == 0 && is_unknown(code, theirs) {
                unknown += 1;
                continue;
            }
            if is_on_fixed_with_umask2(config, ours, theirs) {
                on_fixed += usize::from(ours != theirs);
                continue;
            }
            if ours == 0 && is_modified_metric(modifiers, theirs) {
                continue;
            }
            if ours != theirs {
                report.wrong(format!("{config:#06x}: {ours:#x}, in-tree {theirs:#x}"));
            }
            if modifiers == 0 {
                *sets.entry(ours).or_default() += 1;
            }
        }
    }
    let bound: usize = sets
        .iter()
        .filter(|(set, _)| **set != 0 && *set & GENERAL != capabilities.counters.bits() & GENERAL)
        .map(|(_, codes)| codes)
        .sum();
    let registers: Vec<_> = capabilities
        .extra_format()
        .map(|field| field.name.to_string_lossy())
        .collect();
    about("generation", capabilities.generation.name);
    about(
        "counters",
        format_args!(
            "{}+{}",
            capabilities.counters.gp_part().len(),
            capabilities.counters.fixed_part().len()
        ),
    );
    about("bits", capabilities.gp_width);
    about("bound codes", bound);
    about("further registers", registers.join(", "));
    println!("# counters: number of unmodified events that they can count: {sets:x?}");
    println!("# {unknown} events of event select 0 that no counter counts");
    println!("# {on_fixed} events with UMASK2 on a fixed counter of the in-tree driver");
    ensure!(!sets.is_empty(), "nothing was compared");
    report.finish()
}
