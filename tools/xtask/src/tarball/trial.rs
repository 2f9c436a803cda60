// SPDX-License-Identifier: GPL-2.0

//! The tarball on another release of Debian, by an ordinary user.

use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cache;
use crate::context::Context;
use crate::deb::{self, Example, Machine, LOOP};
use crate::step::Step;

/// The home of the user.
const HOME: &str = "/home/ci";

/// Where the user unpacks it. The shell splits a name at a space, and QEMU an option at a comma.
const TOOLS: &str = "my tools, 2";

/// Checks that there is another release.
pub fn check(ctx: &Context) -> Result<()> {
    ensure!(
        ctx.other.is_dir(),
        "there is no {}: start this by make tarball, or make test ALL=1",
        ctx.other.display()
    );
    Ok(())
}

/// Unpacks the tarball and runs commands. `name` is its directory, and `release` that of its kernel.
pub fn run(ctx: &Context, tarball: &Path, name: &str, release: &str) -> Result<()> {
    // The machine has the directory of that of the installation test.
    let _lock = cache::lock(&ctx.out.join(".lock-install-test"), "tests of installation")?;
    let step = Step::start(ctx, "tarball-trial", "tarball on another Debian")?;
    let no_packages = tempfile::tempdir()?;
    let machine = Machine::copy_of(ctx, &step, &ctx.other, no_packages.path())?;
    let tools = machine.path(&Path::new(HOME).join(TOOLS));
    fs::create_dir_all(&tools)?;
    step.run(
        Command::new("tar")
            .arg("--extract")
            .arg("--file")
            .arg(tarball)
            .arg("--directory")
            .arg(&tools),
    )?;
    let page = fs::read_to_string(deb::page_of_qemu(ctx))?;
    let example = Example::read(&page).context("the manual page of QEMU has no example")?;
    example.build(&step, &machine.path(Path::new(HOME)))?;
    let count = &example.counts.first().context("no counts")?.0;
    machine.output("chown", &["--recursive", "1000:1000", HOME])?;
    let user = |script: &str| machine.as_user(&step, HOME, script);

    let counted = format!("'{HOME}/{TOOLS}/{name}/bin/counted'");
    let perf = "perf stat -x, -e";
    user(&format!("{counted} --version"))?;
    for (options, event) in [
        ("", "instructions:u"),
        ("--exact", "instructions:u"),
        ("--module", "rust_pmu/instructions/u"),
        ("--module=primary --cpu zen4", "cpu/instructions/u"),
    ] {
        let command = format!("{counted} {options} -- {perf} {event} ~/{LOOP} </dev/null");
        let printed = user(&command)?;
        ensure!(
            printed
                .lines()
                .any(|line| line.starts_with(&format!("{count},"))),
            step.failure(&format!("{command}\n{printed}"))
        );
    }
    // By a link, from another directory, and after the directory has moved.
    user(&format!(
        "cd\n\
         mkdir bin\n\
         mv '{TOOLS}' tools\n\
         ln -s ~/tools/{name}/bin/counted bin/counted\n\
         cd /tmp\n\
         test \"$(~/bin/counted -- uname -r </dev/null)\" = {release}"
    ))?;
    step.done();
    Ok(())
}
