// SPDX-License-Identifier: GPL-2.0
//! Loading and unloading the module.

use std::ffi::CStr;
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::kmod::{delete_module, finit_module, DeleteModuleFlags, ModuleInitFlags};

use crate::ctx::Ctx;

/// As insmod does.
pub fn insert(ctx: &Ctx) -> Result<Result<(), Errno>> {
    insert_with(ctx, c"")
}

/// As insmod does, with parameters.
pub fn insert_with(ctx: &Ctx, parameters: &CStr) -> Result<Result<(), Errno>> {
    let path = ctx.module_file()?;
    let file = File::open(&path).with_context(|| format!("{}", path.display()))?;
    Ok(finit_module(&file, parameters, ModuleInitFlags::empty()))
}

/// As rmmod does: it does not wait for users to go.
pub fn remove() -> Result<(), Errno> {
    delete_module(c"rust_perf", DeleteModuleFlags::O_NONBLOCK)
}

/// Is it loaded?
pub fn is_loaded() -> bool {
    Path::new("/sys/module/rust_perf/initstate").exists()
}
