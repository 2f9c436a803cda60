// SPDX-License-Identifier: GPL-2.0

//! BOLT, which lays out a program anew by a profile of its branches. `make demo BOLT=1` and the suite
//! `branch-tools` run it in a guest.

use anyhow::Result;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::cache::{Entry, Key};
use crate::context::Context;
use crate::packages;

/// Debian's package. What it depends on is in the build root.
const PACKAGE: &str = "bolt-19";
/// Its source package, which has the version.
const SOURCE: &str = "llvm-toolchain-19";

/// The one program of BOLT, and its other name. It looks at the name it is started by, and does not know
/// `perf2bolt-19`, as Debian calls it.
const PROGRAM: &str = "llvm-bolt";
const CONVERTER: &str = "perf2bolt";

/// Downloads BOLT. It is apart from the build root, so that only those who ask for it download its 37 MB.
/// Returns a directory for [`provide`].
pub fn get(ctx: &Context) -> Result<PathBuf> {
    let version = packages::source_version(ctx, SOURCE)?;
    Entry {
        name: "bolt",
        key: Key::new(ctx).recipe(1).text(&version).finish(),
        title: format!("BOLT {version}, Debian's"),
        megabytes: 400,
    }
    .get(ctx, |step, dir| {
        let unpacked = tempfile::tempdir_in(dir)?;
        packages::unpack_with_dependencies(ctx, step, PACKAGE, unpacked.path())?;
        let program = unpacked.path().join("usr/lib/llvm-19/bin/llvm-bolt");
        Ok(fs::rename(program, dir.join(PROGRAM))?)
    })
}

/// Puts its programs into a directory, by their names in /usr/lib/llvm-19/bin.
pub fn provide(bolt: &Path, bin: &Path) -> Result<()> {
    fs::copy(bolt.join(PROGRAM), bin.join(PROGRAM))?;
    Ok(symlink(PROGRAM, bin.join(CONVERTER))?)
}
