// SPDX-License-Identifier: GPL-2.0

//! `make demo`: perf on a real program, from counters to a flame graph. On a CPU without
//! counters it is the clock that is sampled. With `BOLT=1` it is branches, by which BOLT
//! optimises the program.

use anyhow::{bail, ensure, Context as _, Result};
use clap::builder::FalseyValueParser;
use clap::Args;
use inferno::collapse::perf::{Folder, Options as FolderOptions};
use inferno::collapse::Collapse;
use inferno::flamegraph::{self, Options as GraphOptions};
use std::fs::{self, File};
use std::io::{BufReader, Cursor};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::bolt;
use crate::cache::{self, Entry, Key};
use crate::context::Context;
use crate::guest::{self, Guest, LimitOf, Parts, Pmu};
use crate::kernel;
use crate::module;
use crate::packages;
use crate::qemu::{Choice, Qemu};

/// What to show.
#[derive(Args)]
pub struct Options {
    /// Optimise the program with BOLT, by a profile of its branches.
    #[arg(long, env = "RUST_PERF_BOLT", value_parser = FalseyValueParser::new())]
    bolt: bool,
    #[command(flatten)]
    guest: guest::Options,
}

/// A demonstration.
struct Demo {
    /// What runs in the guest.
    script: &'static str,
    /// The title of the flame graph: the program, and the event that is sampled.
    title: &'static str,
    /// The suite whose machine this is, unless the user names a CPU.
    like: Option<&'static str>,
}

/// The counters of the CPU.
const COUNTERS: Demo = Demo {
    script: include_str!("../guest/demo"),
    title: "xz, by rust_pmu/cycles/u",
    like: None,
};

/// The counters of the CPU, with the module in the place of the kernel's own driver.
const PRIMARY: Demo = Demo {
    title: "xz, by cycles:u",
    ..COUNTERS
};

/// The clock, on a CPU without counters.
const CLOCK: Demo = Demo {
    script: include_str!("../guest/demo-clock"),
    title: "xz, by rust_clock/cpu-clock/",
    like: None,
};

/// The branch records of the CPU.
const BOLT: Demo = Demo {
    script: include_str!("../guest/demo-bolt"),
    title: "xz after BOLT, by cycles in user mode",
    like: Some("branch-tools"),
};

impl Demo {
    /// The one that the user wants.
    fn chosen(options: &Options) -> Result<Self> {
        let guest = &options.guest;
        let choice = guest.qemu(None)?;
        let has_counters = choice == Choice::Patched && guest.pmu != Some(Pmu::Off);
        ensure!(
            has_counters || !options.bolt,
            "BOLT=1 needs a CPU with branch records: neither PMU=off nor QEMU=debian"
        );
        Ok(match has_counters {
            _ if options.bolt => BOLT,
            false => CLOCK,
            true if guest.primary => PRIMARY,
            true => COUNTERS,
        })
    }

    /// QEMU's `-cpu`, unless the user names one.
    fn cpu(&self) -> Option<String> {
        let suite = suites::find(self.like?)?;
        Some(format!("{},{}", suites::BASE_CPU, suite.cpu_properties()))
    }
}

/// How xz is configured: only the program, linked statically, with frame pointers. Debian's
/// is stripped. BOLT moves code that has relocations, and that gcc has not split itself.
const CONFIGURE: &[&str] = &[
    "--disable-shared",
    "--disable-nls",
    "--disable-doc",
    "--disable-scripts",
    "--disable-xzdec",
    "--disable-lzmadec",
    "--disable-lzmainfo",
    "CFLAGS=-O2 -fno-omit-frame-pointer -fno-reorder-blocks-and-partition",
    "LDFLAGS=-Wl,--emit-relocs",
];

/// `make demo`.
pub fn demo(ctx: &Context, kernel: &kernel::Options, options: &Options) -> Result<ExitCode> {
    // Two runs would write into one profile.
    let _lock = cache::lock(&ctx.out.join(".lock-demo"), "make demo")?;
    let demo = Demo::chosen(options)?;
    let bolt = options.bolt.then(|| bolt::get(ctx)).transpose()?;
    let mut options = options.guest.clone();
    let qemu = Qemu::chosen(ctx, options.qemu(None)?)?;
    let parts = Parts::prepare(ctx, kernel, qemu)?;
    let xz = xz(ctx)?;
    let module = module::for_kernel(ctx, &parts.kernel)?;

    let dir = options
        .share
        .clone()
        .unwrap_or_else(|| ctx.out.join("demo"));
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    options.share = Some(dir.clone());
    options.cpu = options.cpu.or_else(|| demo.cpu());
    // Beside perf.data, which refers to it.
    fs::copy(&xz, dir.join("xz"))?;

    let code = Guest {
        logs: &ctx.guest_logs("demo")?,
        module: Some(&module),
        example: None,
        test_module: None,
        kernel_programs: None,
        bolt: bolt.as_deref(),
        command: Some(demo.script),
        suite: None,
        tests: None,
        limit: LimitOf::Guest,
        may_restore: false,
        options: &options,
    }
    .run_for_user(ctx, &parts)?;
    if code != ExitCode::SUCCESS {
        return Ok(code);
    }

    let script = dir.join("perf.script");
    let graph = dir.join("flamegraph.svg");
    flame_graph(&script, &graph, demo.title)?;
    fs::remove_file(&script)?;
    println!("\nThe profile:     {}", dir.join("perf.data").display());
    println!("The flame graph: {}", graph.display());
    Ok(ExitCode::SUCCESS)
}

/// Builds xz from the upstream part of Debian's source package.
fn xz(ctx: &Context) -> Result<PathBuf> {
    let version = packages::source_version(ctx, "xz-utils")?;
    let entry = Entry {
        name: "xz",
        key: Key::new(ctx)
            .recipe(1)
            .text(&version)
            .texts(CONFIGURE)
            .finish(),
        title: format!("xz {version}, with symbols"),
        megabytes: 50,
    }
    .get(ctx, |step, dir| {
        let work = tempfile::tempdir_in(dir)?;
        let source = work.path().join("source");
        packages::unpack_upstream(ctx, step, "xz-utils", &source)?;
        step.run(
            Command::new("./configure")
                .args(CONFIGURE)
                .current_dir(&source),
        )?;
        step.run(
            Command::new("make")
                .arg(format!("-j{}", kernel::jobs()))
                .current_dir(&source),
        )?;
        fs::copy(source.join("src/xz/xz"), dir.join("xz"))?;
        Ok(())
    })?;
    Ok(entry.join("xz"))
}

fn flame_graph(script: &Path, graph: &Path, title: &str) -> Result<()> {
    let samples =
        File::open(script).with_context(|| format!("cannot read {}", script.display()))?;
    let mut stacks = Vec::new();
    Folder::from(FolderOptions::default())
        .collapse(BufReader::new(samples), &mut stacks)
        .context("perf script's output")?;
    if stacks.is_empty() {
        bail!("there are no samples in {}", script.display());
    }
    let mut options = GraphOptions::default();
    options.title = title.to_owned();
    options.count_name = "samples".to_owned();
    flamegraph::from_reader(&mut options, Cursor::new(stacks), File::create(graph)?)?;
    Ok(())
}
