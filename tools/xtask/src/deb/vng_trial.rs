// SPDX-License-Identifier: GPL-2.0

//! virtme-ng with the package of QEMU, on the Debian of the installation test: the command that
//! `docs/install.md` shows, by an ordinary user.

use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::path::Path;

use super::machine::Machine;
use super::qemu;
use super::qemu_trial::{Example, LOOP};
use crate::context::Context;
use crate::kernel::Kernel;
use crate::step::Step;

/// What the page installs besides the package of QEMU and perf.
pub const PACKAGES: [&str; 2] = ["virtme-ng", "busybox-static"];

/// The home of the user.
const HOME: &str = "/home/vng";

/// Counts the program of QEMU's manual page in a guest with this kernel.
pub fn run(ctx: &Context, machine: &Machine<'_>, kernel: &Kernel) -> Result<()> {
    let step = Step::start(ctx, "install-vng", "virtme-ng with QEMU's package")?;
    let home = machine.path(Path::new(HOME));
    fs::create_dir_all(&home)?;
    let example = Example::read(&fs::read_to_string(qemu::page(ctx))?);
    let example = example.context("the manual page of QEMU has no example")?;
    example.build(&step, &home)?;
    machine.output("chown", &["--recursive", "1000:1000", HOME])?;

    let page = fs::read_to_string(ctx.top.join("docs/install.md"))?;
    let shown = Shown::read(&page).context(step.failure("docs/install.md shows no vng"))?;
    for package in PACKAGES {
        ensure!(
            shown.install.contains(package),
            step.failure(&format!("docs/install.md does not install {package}"))
        );
    }
    let command = shown.command.replace("RELEASE", &kernel.release);
    ensure!(
        command.ends_with(&format!("./{LOOP}")),
        step.failure(&format!("{command}: does not run ./{LOOP}"))
    );
    // vng opens its output by name, so it cannot be a pipe of another user.
    let script = format!(
        "cd ~\n\
         timeout 600 {command} </dev/null >out 2>err || {{ echo status $?; cat out err; exit 1; }}\n\
         cat err"
    );
    let printed = machine.as_user(&step, HOME, &script)?;
    let count = &example.counts.first().context("no counts")?.0;
    ensure!(
        counts(&printed) == [count],
        step.failure(&format!("not {count} instructions: {printed}"))
    );
    fs::remove_dir_all(home)?;
    step.done();
    Ok(())
}

/// What the page shows.
#[derive(Debug, PartialEq)]
struct Shown<'a> {
    /// The installation.
    install: &'a str,
    /// The command, for the kernel `RELEASE`.
    command: &'a str,
}

impl<'a> Shown<'a> {
    /// Reads the block whose second command is vng.
    fn read(page: &'a str) -> Option<Self> {
        let (before, rest) = page.split_once("\nvng ")?;
        let install = before.rsplit_once("```\n")?.1;
        let end = rest.find("\n```")?;
        let start = before.len() + 1;
        let command = page.get(start..start + "vng ".len() + end)?;
        Some(Self { install, command })
    }
}

/// The numbers of perf's lines with instructions of user mode.
fn counts(printed: &str) -> Vec<&str> {
    let lines = printed.lines();
    lines
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let count = words.next()?;
            (words.next()? == "instructions:u").then_some(count)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_a_command() {
        let page = include_str!("../../../../docs/install.md");
        let shown = Shown::read(page).unwrap();
        assert!(shown.install.starts_with("apt install "), "{shown:?}");
        assert!(shown.command.starts_with("vng "), "{shown:?}");
        assert!(!shown.command.contains("```"), "{shown:?}");
        assert!(shown.command.contains(" --run RELEASE "), "{shown:?}");
    }

    #[test]
    fn the_block_with_vng_is_read() {
        let page = "```\nx\n```\na\n```\napt install b\nvng c \\\n    d\n```\nvng\n";
        let expected = Shown {
            install: "apt install b",
            command: "vng c \\\n    d",
        };
        assert_eq!(Shown::read(page), Some(expected));
    }

    #[test]
    fn counts_of_perf() {
        let printed = "\n Performance counter stats for './loop':\n\n  12  instructions:u  \n\n 0.1 seconds\n";
        assert_eq!(counts(printed), ["12"]);
    }
}
