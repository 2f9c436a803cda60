// SPDX-License-Identifier: GPL-2.0
//! Loading and unloading the module.

use std::env;
use std::ffi::CStr;
use std::fs::File;
use std::path::Path;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use nix::kmod::{delete_module, finit_module, DeleteModuleFlags, ModuleInitFlags};

use crate::ctx::Ctx;

/// Loads the module, as insmod does. The inner error is that of the system call.
pub fn insert(ctx: &Ctx) -> Result<Result<(), Errno>> {
    insert_with(ctx, c"")
}

/// Loads the module with parameters.
pub fn insert_with(ctx: &Ctx, parameters: &CStr) -> Result<Result<(), Errno>> {
    insert_file_with(&ctx.module_file()?, parameters)
}

/// Expects that the module does not load with these parameters.
pub fn expect_refused(ctx: &Ctx, parameters: &CStr, errno: Errno) -> Result<()> {
    let result = insert_with(ctx, parameters)?;
    if result.is_ok() {
        remove().context("rmmod")?;
    }
    ensure!(
        result == Err(errno),
        "insmod {parameters:?}: {result:?}, expected {errno}"
    );
    Ok(())
}

/// Loads any module.
pub fn insert_file(path: &Path) -> Result<Result<(), Errno>> {
    insert_file_with(path, c"")
}

fn insert_file_with(path: &Path, parameters: &CStr) -> Result<Result<(), Errno>> {
    let file = File::open(path).with_context(|| format!("{}", path.display()))?;
    Ok(finit_module(&file, parameters, ModuleInitFlags::empty()))
}

/// The environment variable with the path of the module that is for the tests of the suite alone.
pub const OF_TESTS: &str = "RUST_PERF_TEST_KO";

/// Loads that module.
pub fn insert_of_tests(parameters: &CStr) -> Result<Result<(), Errno>> {
    let path = env::var_os(OF_TESTS).with_context(|| format!("{OF_TESTS} is not set"))?;
    insert_file_with(Path::new(&path), parameters)
}

/// Unloads the module, as rmmod does. Fails if the module is in use.
pub fn remove() -> Result<(), Errno> {
    remove_named(c"rust_perf")
}

/// Unloads a module.
pub fn remove_named(name: &CStr) -> Result<(), Errno> {
    delete_module(name, DeleteModuleFlags::O_NONBLOCK)
}

/// Whether the module is loaded.
pub fn is_loaded() -> bool {
    Path::new("/sys/module/rust_perf/initstate").exists()
}
