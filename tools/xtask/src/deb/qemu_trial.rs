// SPDX-License-Identifier: GPL-2.0

//! Installs the package of QEMU in the build root that this process sees, runs guests, and purges
//! it.

use anyhow::{ensure, Context as _, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::counting::Counting;
use super::qemu::{self, PACKAGE, PROGRAM};
use crate::context::Context;
use crate::guest::{self, Parts};
use crate::guest_tests;
use crate::initramfs;
use crate::kernel::{self, Kernel};
use crate::packages;
use crate::qemu::Qemu;
use crate::step::Step;

/// The first process of the guest that is started as a user does it.
const INIT: &str = "\
#!/bin/busybox sh
busybox mkdir -p /dev
busybox mount -t devtmpfs devtmpfs /dev
echo the guest has booted >/dev/console
busybox poweroff -f
";

/// What the console of this guest shows: the driver of Intel's PMU, the network card and the display
/// that QEMU has by default, and that the first process has run.
const CONSOLE: &[&str] = &[
    "Intel PMU driver.",
    "[8086:100e]",
    "[1234:1111]",
    "the guest has booted",
];

/// What the disk of the other guest begins with.
const DISK: &str = "a disk";

/// Tries the package, with a module for this kernel.
pub fn run(ctx: &Context, kernel: &Kernel, deb: &Path, module: &Path) -> Result<()> {
    let image = kernel::image(ctx, kernel)?;
    let program = guest_tests::build(ctx)?;

    let step = Step::start(ctx, "deb-qemu-install", "QEMU's package, installed")?;
    qemu::check_files(&step, deb)?;
    step.run(Command::new("dpkg").arg("--install").arg(deb))?;
    let initramfs = ctx.private("initramfs-of-qemu");
    initramfs::with_init(INIT, &initramfs)?;
    step.run(
        Command::new("timeout")
            .args(["600", PROGRAM, "-nographic", "-m", "1G", "-cpu"])
            .args(["max,vendor=GenuineIntel,pmu=on", "-kernel"])
            .arg(&image.vmlinuz)
            .arg("-initrd")
            .arg(&initramfs)
            .args(["-append", "console=ttyS0"]),
    )?;
    let log = fs::read(step.log())?;
    let log = String::from_utf8_lossy(&log);
    for text in CONSOLE {
        ensure!(
            log.contains(text),
            step.failure(&format!("the guest's console has no \"{text}\""))
        );
    }
    let share = tempfile::tempdir()?;
    let example = Example::read(&fs::read_to_string(qemu::page(ctx))?);
    let example = example.context("the manual page has no example")?;
    example.build(&step, share.path())?;
    step.done();

    let disk = share.path().join("disk");
    fs::write(&disk, DISK)?;
    File::options().write(true).open(&disk)?.set_len(1 << 20)?;
    let binary = Path::new("/usr/bin").join(PROGRAM);
    let parts = Parts {
        qemu: Qemu::installed(&binary),
        root: ctx.root.clone(),
        initramfs: initramfs::initramfs(ctx, kernel, &image)?,
        kernel: kernel.clone(),
        image,
    };
    let options = guest::Options {
        share: Some(share.path().to_owned()),
        qemu_args: format!(
            "-M q35 -drive if=virtio,format=raw,file={} \
             -netdev user,id=net -device virtio-net-pci,netdev=net -device e1000",
            disk.display()
        ),
        ..guest::Options::default()
    };
    Counting {
        parts: &parts,
        program: &program,
        module: Some(module),
        options: &options,
    }
    .run(
        ctx,
        "deb-qemu-guest",
        "guest with a disk and a network",
        &script(&example),
    )?;

    let step = Step::start(ctx, "deb-qemu-purge", "QEMU's package, purged")?;
    packages::purge(ctx, &step, &[PACKAGE.to_owned()])?;
    let left: Vec<PathBuf> = [
        binary,
        format!("/usr/share/man/man1/{PROGRAM}.1.gz").into(),
        format!("/usr/share/doc/{PACKAGE}").into(),
    ]
    .into_iter()
    .filter(|path| path.exists())
    .collect();
    ensure!(
        left.is_empty(),
        step.failure(&format!("left behind: {left:?}"))
    );
    step.done();
    Ok(())
}

/// Checks disk and network, and that the example of the manual page counts what the page says.
fn script(example: &Example) -> String {
    let checks = format!(
        "modprobe -a virtio_blk virtio_net\n\
         test \"$(busybox head -c {} /dev/vda)\" = '{DISK}'\n\
         busybox ip link set eth0 up\n\
         busybox udhcpc -i eth0 -n -q -s /bin/true 2>&1 | grep 'lease of 10.0.2.15' >&2\n\
         perf stat -x , -o /tmp/counts -e {} ./{LOOP}\n\
         cat /tmp/counts >&2",
        DISK.len(),
        example.events
    );
    let counts = example.counts.iter();
    counts.fold(checks, |script, (count, event)| {
        format!("{script}\ngrep -q '^{count},,{event},' /tmp/counts")
    })
}

/// The program of the example.
pub const LOOP: &str = "loop";

/// The example of the manual page: a program, and what perf counts of it.
#[derive(Debug, PartialEq)]
pub struct Example {
    /// The program, for the assembler.
    source: String,
    /// The events that perf is told to count.
    events: String,
    /// The number of each event.
    pub counts: Vec<(String, String)>,
}

impl Example {
    /// Reads it from the page's source.
    pub fn read(page: &str) -> Option<Self> {
        let (_, rest) = page.split_once("$ cat loop.s\n")?;
        let (source, rest) = rest.split_once("$ gcc ")?;
        let (_, rest) = rest.split_once("$ perf stat -e ")?;
        let (events, rest) = rest.split_once(" ./loop\n")?;
        let (counts, _) = rest.split_once(".Ed\n")?;
        let pair = |line: &str| {
            let mut words = line.split_whitespace().map(str::to_owned);
            Some((words.next()?, words.next()?))
        };
        Some(Self {
            source: source.to_owned(),
            events: events.to_owned(),
            counts: counts.lines().map(pair).collect::<Option<_>>()?,
        })
    }

    /// Builds the program in a directory.
    pub fn build(&self, step: &Step, dir: &Path) -> Result<()> {
        fs::write(dir.join("loop.s"), &self.source)?;
        step.run(
            Command::new("gcc-14")
                .args(["-nostdlib", "-static", "-o", LOOP, "loop.s"])
                .current_dir(dir),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_example() {
        let page = include_str!("../../../../packaging/qemu/qemu-system-x86_64-pmu.1");
        let example = Example::read(page).unwrap();
        assert!(example.source.contains("_start:"));
        assert_eq!(example.events, "instructions:u,branches:u");
        let events: Vec<_> = example.counts.iter().map(|it| it.1.as_str()).collect();
        assert_eq!(events, ["instructions:u", "branches:u"]);
    }
}
