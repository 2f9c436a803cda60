// SPDX-License-Identifier: GPL-2.0

//! Debian's source of a kernel. Several entries of the cache are made of a part of it, so the
//! archive is an entry of its own.

use anyhow::{ensure, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{Entry, Key};
use crate::context::Context;
use crate::kernel::Kernel;
use crate::packages;
use crate::step::Step;

/// What is unpacked of the source. All paths are below `directory`.
#[derive(Default)]
pub struct Part<'a> {
    /// The directory of the source, or "" for all of it.
    pub directory: &'a str,
    /// What is unpacked of it, or nothing for all of it.
    pub needed: &'a [&'a str],
    /// What is not unpacked of that.
    pub not_needed: &'a [&'a str],
}

/// The archive with the source of a kernel.
pub struct Source {
    archive: PathBuf,
    /// The archive's top directory.
    top: String,
}

/// The entry of the archive.
pub fn entry(ctx: &Context, kernel: &Kernel) -> Entry<'static> {
    let package = kernel.source_package();
    Entry {
        name: "source",
        key: Key::new(ctx)
            .recipe(0)
            .text(&package)
            .text(&kernel.version.to_string())
            .finish(),
        title: format!("source of {package}"),
        megabytes: 500,
    }
}

/// Gets the source of a kernel.
pub fn get(ctx: &Context, kernel: &Kernel) -> Result<Source> {
    let top = kernel.source_package();
    let file = format!("{top}.tar.xz");
    let entry = entry(ctx, kernel).get(ctx, |step, dir| {
        let package = tempfile::tempdir_in(dir)?;
        packages::unpack(ctx, step, &[&top], &kernel.version, package.path())?;
        let archive = package.path().join("usr/src").join(&file);
        ensure!(
            archive.is_file(),
            step.failure(&format!("the package holds no {file}"))
        );
        fs::rename(archive, dir.join(&file))?;
        Ok(())
    })?;
    Ok(Source {
        archive: entry.join(file),
        top,
    })
}

impl Source {
    /// Unpacks a part into a directory.
    pub fn unpack(&self, step: &Step, part: &Part<'_>, into: &Path) -> Result<()> {
        step.run(
            Command::new("tar")
                .arg("-xf")
                .arg(&self.archive)
                .arg("-C")
                .arg(into)
                .args(["--no-same-owner", "--anchored"])
                .args(members(&self.top, part)),
        )
    }
}

/// The arguments of tar that choose a part.
fn members(top: &str, part: &Part<'_>) -> Vec<String> {
    let directory = match part.directory {
        "" => top.to_owned(),
        directory => format!("{top}/{directory}"),
    };
    let below = |path: &&str| format!("{directory}/{path}");
    let strip = directory.split('/').count();
    let mut arguments = vec![format!("--strip-components={strip}")];
    let not_needed = part.not_needed.iter();
    arguments.extend(not_needed.map(|path| format!("--exclude={}", below(path))));
    match part.needed {
        [] => arguments.push(directory),
        needed => arguments.extend(needed.iter().map(below)),
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let whole = Part {
            not_needed: &["Documentation"],
            ..Part::default()
        };
        assert_eq!(
            members("linux", &whole),
            [
                "--strip-components=1",
                "--exclude=linux/Documentation",
                "linux"
            ]
        );
        let part = Part {
            directory: "tools/perf",
            needed: &["util", "tests"],
            not_needed: &["tests/shell"],
        };
        assert_eq!(
            members("linux", &part),
            [
                "--strip-components=3",
                "--exclude=linux/tools/perf/tests/shell",
                "linux/tools/perf/util",
                "linux/tools/perf/tests"
            ]
        );
    }
}
