// SPDX-License-Identifier: GPL-2.0

//! Programs that tests run, built from Debian's source of the guest's kernel, unchanged.

mod perf;
mod selftests;

use anyhow::{ensure, Result};
use std::fs;
use std::path::{Path, PathBuf};
use suites::KernelPrograms;

use crate::context::Context;
use crate::kernel::Kernel;

/// Builds programs. Returns a directory that has them.
pub fn build(ctx: &Context, kernel: &Kernel, programs: KernelPrograms) -> Result<PathBuf> {
    match programs {
        KernelPrograms::Selftests => selftests::build(ctx, kernel),
        KernelPrograms::Perf => perf::build(ctx, kernel),
    }
}

/// Copies what was built.
fn copy(from: &Path, files: &[&str], into: &Path) -> Result<()> {
    for file in files {
        let built = from.join(file);
        ensure!(built.is_file(), "the build made no {file}");
        fs::copy(built, into.join(file))?;
    }
    Ok(())
}
