// SPDX-License-Identifier: GPL-2.0

//! perf with its symbols. Some of perf's tests of itself look for functions of perf, and Debian's perf has no
//! symbols. The tests are those of Debian's package.

use anyhow::Result;
use std::path::PathBuf;

use super::copy;
use crate::cache::{Entry, Key};
use crate::context::Context;
use crate::kernel::{self, Kernel};
use crate::source::{self, Part};

/// perf, and what its build reads.
const PART: Part<'_> = Part {
    directory: "",
    needed: &[
        "Makefile",
        "arch/arm64/tools",
        "arch/x86",
        "include",
        "kernel/bpf",
        "scripts",
        "tools",
    ],
    not_needed: &["tools/testing"],
};

/// Where it is in the source.
const DIRECTORY: &str = "tools/perf";

/// What the tests do not need.
const MAKE_ARGS: &[&str] = &[
    "WERROR=0",
    "BUILD_BPF_SKEL=0",
    "NO_JEVENTS=1",
    "NO_LIBBPF=1",
    "NO_LIBPERL=1",
    "NO_LIBPYTHON=1",
    "NO_LIBTRACEEVENT=1",
    "NO_RUST=1",
];

/// Builds it.
pub fn build(ctx: &Context, kernel: &Kernel) -> Result<PathBuf> {
    let entry = Entry {
        name: "perf",
        key: Key::new(ctx)
            .recipe(0)
            .text(&kernel.source_package())
            .text(&kernel.version.to_string())
            .texts(PART.needed)
            .texts(PART.not_needed)
            .texts(MAKE_ARGS)
            .texts(kernel::MAKE_ARGS)
            .finish(),
        title: format!("perf of {}, with symbols", kernel.source_package()),
        megabytes: 1500,
    };
    entry.get_from(
        ctx,
        || source::get(ctx, kernel),
        |step, dir, source| {
            let tree = tempfile::tempdir_in(dir)?;
            source.unpack(step, &PART, tree.path())?;
            let directory = tree.path().join(DIRECTORY);
            step.run(
                kernel::make(&directory)
                    .arg(format!("-j{}", kernel::jobs()))
                    .args(MAKE_ARGS),
            )?;
            copy(&directory, &["perf"], dir)
        },
    )
}
