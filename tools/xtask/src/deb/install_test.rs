// SPDX-License-Identifier: GPL-2.0

//! The installation test: a Debian 13 with a stock kernel gets the packages, and another kernel.
//!
//! The packages are installed by chroot, on the machine's own kernel, because rustc would take too
//! long on an emulated CPU. What DKMS has built is tested in guests that boot from this Debian, with
//! its kernel; one of them has Secure Boot.

use anyhow::{ensure, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use super::build::{self, Compression};
use super::counting::Counting;
use super::listing::Listing;
use super::machine::Machine;
use super::version::Version;
use super::{
    counted_trial, metadata_package, qemu, secure_boot, vng_trial, COUNTED, DKMS,
    TESTS as TESTS_PACKAGE,
};
use crate::cache::{self, Entry, Key};
use crate::context::Context;
use crate::guest::{self, Parts};
use crate::guest_tests;
use crate::initramfs::initramfs;
use crate::install;
use crate::kernel::{self, Image, Kernel};
use crate::module;
use crate::packages;
use crate::qemu::{Built, Qemu};
use crate::step::{indent, Step};

/// Runs some of what the package of tests has, as a user does: without a suite.
const PACKAGED_TESTS: &str =
    "env -u RUST_PERF_SUITE rust-perf-tests 'counting::*' 'sysfs::*' >&2\n";

const STABLE: &str = "trixie";
const BACKPORTS: &str = "trixie-backports";

/// `make install-test`.
pub fn install_test(ctx: &Context, options: &kernel::Options) -> Result<ExitCode> {
    let kernel = kernel::resolve(ctx, options)?;
    run(ctx, &kernel)?;
    println!("PASS");
    Ok(ExitCode::SUCCESS)
}

/// Runs the test, which ends with this kernel.
pub fn run(ctx: &Context, kernel: &Kernel) -> Result<()> {
    ensure!(
        ctx.fresh.is_dir(),
        "there is no {}: start the test by make install-test, or make test ALL=1",
        ctx.fresh.display()
    );
    let _lock = cache::lock(&ctx.out.join(".lock-install-test"), "the installation test")?;
    let old = kernel::before(ctx, kernel)?;
    let kernels = [&old, kernel];
    let kdirs = [kernel::kdir(ctx, &old)?, kernel::kdir(ctx, kernel)?];
    let program = guest_tests::build(ctx)?;
    super::install_tools(ctx)?;
    let version = Version::read(ctx)?;
    let built = Built::get(ctx)?;
    let of_qemu = qemu::package(ctx, &built, &version, Compression::Fast)?;
    let of_old = build::build(ctx, &old, &kdirs[0], &version, Compression::Fast)?;
    let of_new = build::build(ctx, kernel, &kdirs[1], &version, Compression::Fast)?;
    let test = Test {
        ctx,
        qemu: Qemu::built(&built),
        program: &program,
    };

    let debs = [
        &of_old.dkms,
        &of_old.metadata,
        &of_old.tests,
        &of_old.counted,
        &of_new.metadata,
        &of_qemu,
    ];
    let debs = downloads(ctx, kernels, &debs)?;
    let stock = stock(ctx, &old, &debs)?;

    let title = format!("packages for {}, installed", old.release);
    let step = Step::start(ctx, "install-packages", &title)?;
    let machine = Machine::copy_of(ctx, &step, &stock, &debs)?;
    let before = Listing::read(machine.root())?;
    let files = [
        &of_old.dkms,
        &of_old.metadata,
        &of_old.tests,
        &of_old.counted,
        &of_qemu,
    ];
    let files = files.map(|deb| machine.copy(deb)).into_iter();
    let files = files.collect::<Result<Vec<_>>>()?;
    machine.install(&step, STABLE, &files)?;
    check_module(&machine, &step, &old)?;
    let version = machine.output(qemu::PROGRAM, &["--version"])?;
    ensure!(
        version.contains("with an x86 PMU"),
        step.failure(&format!("{} is {version}", qemu::PROGRAM))
    );
    machine.install(&step, STABLE, counted_trial::PACKAGES)?;
    machine.install(&step, STABLE, vng_trial::PACKAGES)?;
    step.done();
    test.boot(&machine, &old, PACKAGED_TESTS)?;
    counted_trial::run(ctx, &machine)?;
    vng_trial::run(ctx, &machine, &old)?;

    let title = format!("kernel {}, upgraded to", kernel.release);
    let step = Step::start(ctx, "install-kernel", &title)?;
    machine.install(&step, BACKPORTS, kernel_packages(kernel))?;
    let file = machine.copy(&of_new.metadata)?;
    machine.install(&step, STABLE, [&file])?;
    check_module(&machine, &step, kernel)?;
    step.done();
    test.boot(&machine, kernel, PACKAGED_TESTS)?;
    secure_boot::test(
        ctx,
        &machine,
        &test.parts(&machine, kernel)?,
        &program,
        &module::for_kernel(ctx, kernel)?,
    )?;

    let step = Step::start(ctx, "install-purge", "packages, purged")?;
    let mut ours = vec![
        COUNTED.to_owned(),
        DKMS.to_owned(),
        TESTS_PACKAGE.to_owned(),
        metadata_package(&old),
        metadata_package(kernel),
        qemu::PACKAGE.to_owned(),
    ];
    let others = counted_trial::PACKAGES.iter().chain(&vng_trial::PACKAGES);
    let were_there = ["linux-perf", "busybox-static"];
    ours.extend(
        others
            .filter(|it| !were_there.contains(it))
            .map(|it| it.to_string()),
    );
    machine.purge(&step, &ours)?;
    // What would be left in the folders of the new kernel goes with it.
    for kernel in kernels {
        let module = module_file(kernel);
        ensure!(
            !machine.path(Path::new(&module)).exists(),
            step.failure(&format!("{module} is left behind"))
        );
    }
    // apt does not remove parts of a kernel by itself.
    let parts = ["image", "headers", "binary", "modules", "base"];
    machine.purge(&step, parts.map(|part| kernel.package(part)))?;
    for file in files.iter().chain([&file]) {
        fs::remove_file(machine.path(file))?;
    }
    secure_boot::remove_key(&machine)?;
    check_nothing_left(&machine, &step, &before)?;
    step.done();

    // What make install does, which needs no packages.
    let target = install::Target::below(machine.root(), &old.release);
    target.install(ctx, &module::for_kernel(ctx, &old)?)?;
    test.boot(&machine, &old, "")?;
    target.uninstall(ctx)?;
    let step = Step::start(ctx, "install-uninstalled", "files left behind")?;
    check_nothing_left(&machine, &step, &before)?;
    step.done();
    Ok(())
}

/// Checks that the machine has the files that it had.
fn check_nothing_left(machine: &Machine, step: &Step, before: &Listing) -> Result<()> {
    let left = before.differences(&Listing::read(machine.root())?);
    let some = left.iter().take(20).map(String::as_str).collect::<Vec<_>>();
    ensure!(
        left.is_empty(),
        step.failure(&format!(
            "{} files differ from before:\n{}",
            left.len(),
            indent(&some.join("\n"))
        ))
    );
    Ok(())
}

/// The packages of a kernel that a user installs.
fn kernel_packages(kernel: &Kernel) -> [String; 2] {
    ["image", "headers"].map(|kind| kernel.package(kind))
}

/// Downloads what apt is going to install.
fn downloads(ctx: &Context, kernels: [&Kernel; 2], ours: &[&PathBuf]) -> Result<PathBuf> {
    let mut names: Vec<String> = kernels.into_iter().flat_map(kernel_packages).collect();
    names.extend(counted_trial::PACKAGES.map(str::to_owned));
    names.extend(vng_trial::PACKAGES.map(str::to_owned));
    let mut key = Key::new(ctx)
        .text(&ctx.fresh.to_string_lossy())
        .texts(&names);
    for deb in ours {
        key = key.text(&dependencies(deb)?);
    }
    Entry {
        name: "install-debs",
        key: packages::add_index(ctx, key)?.finish(),
        title: "packages of the installation test".to_owned(),
        megabytes: 1000,
    }
    .get(ctx, |step, dir| {
        packages::download_for(ctx, step, &names, (&ctx.fresh, BACKPORTS), dir)?;
        packages::download_for(ctx, step, ours, (&ctx.fresh, STABLE), dir)
    })
}

/// Makes a Debian with a stock kernel, its headers and perf.
fn stock(ctx: &Context, kernel: &Kernel, debs: &Path) -> Result<PathBuf> {
    let entry = Entry {
        name: "install-stock",
        key: Key::new(ctx)
            .text(&debs.to_string_lossy())
            .text(&kernel.release)
            .finish(),
        title: format!("Debian 13 with {}", kernel.release),
        megabytes: 1500,
    }
    .get(ctx, |step, dir| {
        let machine = Machine::made_in(ctx, step, &ctx.fresh, dir, debs)?;
        let names = kernel_packages(kernel).into_iter();
        machine.install(step, BACKPORTS, names.chain(["linux-perf".to_owned()]))
    })?;
    Ok(entry.join("root"))
}

/// What a package depends on.
fn dependencies(deb: &Path) -> Result<String> {
    let output = Command::new("dpkg-deb")
        .arg("--field")
        .arg(deb)
        .arg("Depends")
        .output()?;
    ensure!(
        output.status.success(),
        "dpkg-deb cannot read {}",
        deb.display()
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// The file that DKMS makes.
fn module_file(kernel: &Kernel) -> String {
    format!(
        "/usr/lib/modules/{}/updates/dkms/rust_perf.ko.xz",
        kernel.release
    )
}

/// Checks that DKMS has built the module for a kernel.
fn check_module(machine: &Machine, step: &Step, kernel: &Kernel) -> Result<()> {
    let path = module_file(kernel);
    ensure!(
        machine.path(Path::new(&path)).is_file(),
        step.failure(&format!("DKMS built no {path}"))
    );
    let arguments = [
        "--set-version",
        &kernel.release,
        "--field",
        "vermagic",
        "rust_perf",
    ];
    let vermagic = machine.output("modinfo", &arguments)?;
    ensure!(
        vermagic.split(' ').next() == Some(&kernel.release),
        step.failure(&format!("the module is for {vermagic}"))
    );
    Ok(())
}

/// What all guests of the test have in common.
struct Test<'a> {
    ctx: &'a Context,
    qemu: Qemu,
    program: &'a Path,
}

impl Test<'_> {
    fn parts(&self, machine: &Machine, kernel: &Kernel) -> Result<Parts> {
        let image = Image::installed(machine.root(), kernel);
        Ok(Parts {
            qemu: self.qemu.clone(),
            root: machine.root().to_owned(),
            kernel: kernel.clone(),
            initramfs: initramfs(self.ctx, kernel, &image)?,
            image,
        })
    }

    /// Boots the machine with a kernel, loads the module, runs further commands and counts.
    fn boot(&self, machine: &Machine, kernel: &Kernel, commands: &str) -> Result<()> {
        let parts = self.parts(machine, kernel)?;
        let script = format!(
            "test \"$(uname -r)\" = {}\n\
             modprobe rust_perf\n\
             perf stat -e rust_pmu/instructions/u true >&2\n\
             {commands}",
            kernel.release
        );
        Counting {
            parts: &parts,
            program: self.program,
            // The machine has its own.
            module: None,
            options: &guest::Options::default(),
        }
        .run(
            self.ctx,
            &format!("install-guest-{}", kernel.release),
            &format!("guest with {}", kernel.release),
            &script,
        )
    }
}
