// SPDX-License-Identifier: GPL-2.0

//! Fuzz targets: functions that take any bytes as a case to try, and panic if something is wrong.
//!
//! `cargo test` calls each with some thousand inputs that follow from a seed, so they are always
//! the same (`tests/seeded.rs`). `make fuzz` has libFuzzer look for inputs that reach more code
//! (`fuzz_targets/`). It needs no nightly compiler: rustc has LLVM's coverage pass.

pub mod attributes;
pub mod branches;
pub mod bridge;
pub mod counts;
pub mod registers;

#[path = "../../../rust_perf/pmc/tests/common/mod.rs"]
mod common;

use arbitrary::{Result, Unstructured};
use pmu_model::{Config, RefCycles, Retired, Vendor};
use std::sync::LazyLock;
use suites::CPUS;

/// A target. It fails only if the bytes do not suffice for a case.
pub type Check = fn(&mut Unstructured<'_>) -> Result<()>;

/// The targets, and their names.
pub const TARGETS: [(&str, Check); 5] = [
    ("attributes", attributes::check),
    ("branches", branches::check),
    ("registers", registers::check),
    ("counts", counts::check),
    ("bridge", bridge::check),
];

/// Tries the case that `data` is.
pub fn run(check: Check, data: &[u8]) {
    // Too few bytes are not an error.
    let _ = check(&mut Unstructured::new(data));
}

/// Every generation with the fewest and the most counters, and the CPUs of the guest tests.
static CONFIGS: LazyLock<Vec<Config>> = LazyLock::new(|| {
    let cpus = CPUS.iter().flat_map(|suite| {
        let core_types = common::emulated::core_types(suite).into_iter();
        core_types.filter_map(|core_type| common::emulated::emulated(suite, core_type))
    });
    let others = [
        Config::new(Vendor::Intel, 6).unwrap(),
        Config::new(Vendor::Zhaoxin, 2).unwrap(),
        common::amd_family(0x17, 2, 6),
        common::amd_family(0x1a, 3, 15),
    ];
    let generations = common::generations().into_iter();
    generations.chain(others).chain(cpus).collect()
});

fn config(u: &mut Unstructured<'_>) -> Result<Config> {
    let config = *u.choose(&CONFIGS)?;
    let ref_cycles = match u.ratio(1, 8)? {
        true => RefCycles::Tsc,
        false => RefCycles::Instructions,
    };
    Ok(Config {
        ref_cycles,
        ..config
    })
}

/// What so many instructions can do.
fn retired(u: &mut Unstructured<'_>, instructions: u64) -> Result<Retired> {
    let branches = u.int_in_range(0..=instructions)?;
    let conditional = u.int_in_range(0..=branches)?;
    Ok(Retired {
        instructions,
        branches,
        conditional,
        conditional_taken: u.int_in_range(0..=conditional)?,
        near_unconditional: u.int_in_range(0..=branches - conditional)?,
        loads: u.int_in_range(0..=instructions)?,
        stores: u.int_in_range(0..=instructions)?,
    })
}
