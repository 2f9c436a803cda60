// SPDX-License-Identifier: GPL-2.0

//! Intel's event lists, as perf's source has them. A host test compares the driver's tables
//! with them (`rust_perf/pmc/tests/event_lists`).
//!
//! The build tree of the kernel does not have these files, and making them takes seconds. So
//! they are an entry of their own.

use anyhow::{ensure, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::cache::{Entry, Key};
use crate::context::Context;
use crate::kernel::{self, Kernel};
use crate::source::{self, Part};

/// Where they are in the kernel's source.
const DIRECTORY: &str = "tools/perf/pmu-events/arch/x86";

/// The link in `out` that the test follows.
const LINK: &str = "event-lists";

fn entry(ctx: &Context, kernel: &Kernel) -> Entry<'static> {
    Entry {
        name: LINK,
        key: Key::new(ctx)
            .recipe(0)
            .text(&kernel.source_package())
            .text(&kernel.version.to_string())
            .text(DIRECTORY)
            .finish(),
        title: format!("event lists of {}", kernel.source_package()),
        megabytes: 400,
    }
}

/// Unpacks the lists, and links them where the test finds them.
pub fn link(ctx: &Context, kernel: &Kernel) -> Result<PathBuf> {
    let source = || source::get(ctx, kernel);
    let lists = entry(ctx, kernel).get_from(ctx, source, |step, dir, source| {
        let part = Part {
            directory: DIRECTORY,
            ..Part::default()
        };
        source.unpack(step, &part, dir)?;
        ensure!(
            dir.join("mapfile.csv").is_file(),
            step.failure("the kernel's source has no event lists")
        );
        Ok(())
    })?;
    // A test that runs meanwhile sees the old link or the new one.
    let new = tempfile::tempdir_in(&ctx.out)?;
    symlink(&lists, new.path().join(LINK))?;
    fs::rename(new.path().join(LINK), ctx.out.join(LINK))?;
    Ok(lists)
}

/// `make event-lists`.
pub fn event_lists(ctx: &Context, options: &kernel::Options) -> Result<ExitCode> {
    println!(
        "{}",
        link(ctx, &kernel::resolve_debian(ctx, options)?)?.display()
    );
    Ok(ExitCode::SUCCESS)
}
