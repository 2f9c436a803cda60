// SPDX-License-Identifier: GPL-2.0

//! Debian packages: the module by DKMS, and the Rust metadata that Debian's headers of a kernel
//! lack.
//!
//! `packaging/debian` has what is the same for all kernels. The packages are tried at once: the
//! build root that this process sees is thrown away when it ends, so they can be installed in it.

use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::cache::{Entry, Key};
use crate::context::Context;
use crate::kernel::{self, Kernel};
use crate::packages;
use crate::step::Step;

/// What makes and checks packages. The build root does not have it.
const TOOLS: &[&str] = &["debhelper", "dh-dkms", "dkms", "lintian", "mandoc"];

const DKMS: &str = "rust-perf-dkms";

/// `make deb`.
pub fn deb(ctx: &Context, options: &kernel::Options) -> Result<ExitCode> {
    let kernel = kernel::resolve_debian(ctx, options)?;
    let kdir = kernel::kdir(ctx, &kernel)?;
    let tools = tools(ctx, &kernel)?;
    let built = build(ctx, &kernel, &kdir, &tools)?;
    install(ctx, &kernel, &built)?;
    let out = ctx.out.join("deb");
    fs::create_dir_all(&out)?;
    for deb in &built {
        let copy = out.join(deb.file_name().unwrap_or_default());
        fs::copy(deb, &copy).with_context(|| format!("cannot write {}", copy.display()))?;
        println!("{}", copy.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Installs [`TOOLS`] and the kernel's headers in the build root that this process sees.
fn install_tools(ctx: &Context, step: &Step, kernel: &Kernel, debs: &Path) -> Result<()> {
    let headers = headers(kernel);
    let names: Vec<&str> = TOOLS.iter().copied().chain([headers.as_str()]).collect();
    packages::install(ctx, step, &names, debs)
}

/// The kernel's headers, as apt names a version.
fn headers(kernel: &Kernel) -> String {
    format!("{}={}", kernel.package("headers"), kernel.version)
}

/// Downloads the packages of [`TOOLS`] and the kernel's headers, with what they need.
fn tools(ctx: &Context, kernel: &Kernel) -> Result<PathBuf> {
    let headers = headers(kernel);
    Entry {
        name: "deb-tools",
        key: Key::new(ctx).recipe(1).texts(TOOLS).text(&headers).finish(),
        title: "tools for packages".to_owned(),
        megabytes: 100,
    }
    .get(ctx, |step, dir| {
        let names: Vec<&str> = TOOLS.iter().copied().chain([headers.as_str()]).collect();
        packages::download(ctx, step, &names, dir)
    })
}

/// The number of commits, by which versions grow.
fn commits(ctx: &Context) -> Result<String> {
    let commits = git(ctx, &["rev-list", "--count", "HEAD"])?;
    Ok(commits.trim().to_owned())
}

/// The version of this source.
fn version(ctx: &Context) -> Result<String> {
    Ok(format!("{}+{}", env!("CARGO_PKG_VERSION"), commits(ctx)?))
}

fn git(ctx: &Context, arguments: &[&str]) -> Result<String> {
    // In a user namespace, the checkout may be another user's.
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "-C"])
        .arg(&ctx.top)
        .args(arguments)
        .output()
        .context("cannot run git")?;
    ensure!(
        output.status.success(),
        "git {}: {} (packages are made from a git checkout)",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// The source of the module: what git tracks, without the tests. The documentation includes an
/// example.
fn module_sources(ctx: &Context) -> Result<Vec<String>> {
    let files = git(ctx, &["ls-files", "Kbuild", "rust_perf"])?;
    let is_other =
        |file: &str| file.starts_with("rust_perf/pmc/tests/") || file.ends_with("Cargo.toml");
    let files = files.lines().filter(|file| !is_other(file));
    Ok(files.map(str::to_owned).collect())
}

/// Builds the packages, and has lintian and mandoc check them. A warning is an error.
fn build(ctx: &Context, kernel: &Kernel, kdir: &Path, tools: &Path) -> Result<Vec<PathBuf>> {
    let step = Step::start(ctx, "deb", "Debian packages")?;
    install_tools(ctx, &step, kernel, tools)?;
    let page = ctx.top.join("packaging/rust_pmu.4");
    step.run(
        Command::new("mandoc")
            .args(["-T", "lint", "-W", "warning"])
            .arg(&page),
    )?;

    let work = tempfile::tempdir()?;
    let source = work.path().join("source");
    let version = version(ctx)?;
    // With the whole version, lintian would find the file's name too long.
    let headers_version = format!("{}+{}", kernel.version, commits(ctx)?);
    prepare(ctx, &step, kernel, kdir, &source, &version)?;
    let epoch = git(ctx, &["log", "-1", "--format=%ct"])?;
    step.run(
        Command::new("dpkg-buildpackage")
            .args(["--build=binary", "--no-sign", "--no-check-builddeps"])
            .env("RELEASE", &kernel.release)
            .env("HEADERS_VERSION", &headers_version)
            .env("SOURCE_DATE_EPOCH", epoch.trim())
            .current_dir(&source),
    )?;
    for changes in files(work.path(), "changes")? {
        step.run(
            Command::new("lintian")
                .args(["--allow-root", "--fail-on", "error,warning"])
                .arg(changes),
        )?;
    }
    let mut built = Vec::new();
    for deb in files(work.path(), "deb")? {
        let copy = ctx.private(&deb.file_name().unwrap_or_default().to_string_lossy());
        fs::copy(&deb, &copy)?;
        built.push(copy);
    }
    step.done();
    Ok(built)
}

/// The files of a directory that end like this.
fn files(dir: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir)?
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|path| path.extension() == Some(extension.as_ref()))
        .collect();
    files.sort();
    Ok(files)
}

/// Makes the tree that dpkg-buildpackage builds.
fn prepare(
    ctx: &Context,
    step: &Step,
    kernel: &Kernel,
    kdir: &Path,
    source: &Path,
    version: &str,
) -> Result<()> {
    let debian = source.join("debian");
    fs::create_dir_all(&debian)?;
    let rustc = rustc_version(kdir)?;
    let fill = |text: &str| {
        text.replace("@RELEASE@", &kernel.release)
            .replace("@KERNEL_VERSION@", &kernel.version.to_string())
            .replace("@RUSTC@", &rustc)
            .replace("@RUSTC_NEXT@", &next_patch(&rustc))
    };
    let headers = format!("linux-headers-{}-rust", kernel.release);
    for file in fs::read_dir(ctx.top.join("packaging/debian"))? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        let name = match name.as_str() {
            "control.in" => "control".to_owned(),
            "linux-headers-rust.postinst" => format!("{headers}.postinst"),
            _ => name,
        };
        let text = fs::read_to_string(file.path())?;
        fs::write(debian.join(&name), fill(&text))?;
        fs::set_permissions(debian.join(&name), file.metadata()?.permissions())?;
    }
    let date = git(ctx, &["log", "-1", "--format=%cD"])?;
    fs::write(
        debian.join("changelog"),
        format!(
            "rust-perf ({version}) unstable; urgency=medium\n\n  * Made from the source tree.\n\n \
             -- The rust_perf developers <rust-perf@users.noreply.example>  {}\n",
            date.trim()
        ),
    )?;

    let module = source.join("stage/module");
    for file in module_sources(ctx)? {
        let to = module.join(&file);
        fs::create_dir_all(to.parent().unwrap_or(&module))?;
        fs::copy(ctx.top.join(&file), to)?;
    }
    fs::write(
        debian.join(format!("{DKMS}.install")),
        format!("stage/module/* usr/src/rust-perf-{version}\n"),
    )?;
    let page = "rust_pmu.4";
    fs::copy(ctx.top.join("packaging").join(page), source.join(page))?;
    fs::write(debian.join(format!("{DKMS}.manpages")), format!("{page}\n"))?;

    let rust = source.join("stage/rust");
    fs::create_dir_all(&rust)?;
    for metadata in files(&kdir.join("rust"), "rmeta")? {
        fs::copy(
            &metadata,
            rust.join(metadata.file_name().unwrap_or_default()),
        )?;
    }
    for macros in files(&kdir.join("rust"), "so")? {
        let to = rust.join(macros.file_name().unwrap_or_default());
        let mut strip = Command::new("strip");
        step.run(
            strip
                .arg("--strip-unneeded")
                .arg("-o")
                .arg(&to)
                .arg(&macros),
        )?;
        step.run(Command::new("chmod").arg("644").arg(&to))?;
    }
    fs::copy(
        kdir.join("scripts/target.json"),
        source.join("stage/target.json"),
    )?;
    // The headers' `scripts` is a link to this folder, which is the same for all flavours.
    let kbuild = kernel.release.trim_end_matches("-amd64");
    fs::write(
        debian.join(format!("{headers}.install")),
        format!(
            "stage/rust/* usr/src/linux-headers-{}/rust\n\
             stage/target.json usr/lib/linux-kbuild-{kbuild}/scripts\n",
            kernel.release
        ),
    )?;
    Ok(())
}

/// The version of the rustc that made the metadata. No other can read it.
fn rustc_version(kdir: &Path) -> Result<String> {
    let config = fs::read_to_string(kdir.join("include/config/auto.conf"))?;
    let text = config
        .lines()
        .find_map(|line| line.strip_prefix("CONFIG_RUSTC_VERSION_TEXT=rustc "))
        .context("the kernel's configuration names no rustc")?;
    Ok(text.split(' ').next().unwrap_or(text).to_owned())
}

/// The next release after `version`, such as 1.85.2 after 1.85.1.
fn next_patch(version: &str) -> String {
    match version.rsplit_once('.') {
        Some((series, patch)) => {
            let next = patch.parse::<u32>().map_or(0, |patch| patch + 1);
            format!("{series}.{next}")
        }
        None => version.to_owned(),
    }
}

/// Installs the packages, one after the other, and purges them.
fn install(ctx: &Context, kernel: &Kernel, built: &[PathBuf]) -> Result<()> {
    let step = Step::start(ctx, "deb-install", "Debian packages, installed")?;
    let is_dkms = |deb: &&PathBuf| deb.to_string_lossy().contains(DKMS);
    let dkms: Vec<_> = built.iter().filter(is_dkms).cloned().collect();
    let headers: Vec<_> = built.iter().filter(|it| !is_dkms(it)).cloned().collect();
    let modules = Path::new("/usr/lib/modules").join(&kernel.release);
    let module = modules.join("updates/dkms/rust_perf.ko");

    step.run(Command::new("dpkg").arg("--install").args(dkms))?;
    let log = fs::read_to_string(step.log())?;
    ensure!(
        !module.exists() && log.contains("have no Rust metadata"),
        step.failure("without metadata, DKMS built the module or did not say why it cannot")
    );
    step.run(Command::new("dpkg").arg("--install").args(headers))?;
    ensure!(module.exists(), step.failure("DKMS built no module"));
    let output = Command::new("modinfo")
        .args(["--field", "vermagic"])
        .arg(&module)
        .output()
        .context("cannot run modinfo")?;
    let vermagic = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        vermagic.split(' ').next() == Some(&kernel.release),
        step.failure(&format!("the module is for {vermagic}"))
    );
    fs::create_dir_all(ctx.out.join("deb"))?;
    fs::copy(&module, ctx.out.join("deb/rust_perf.ko"))?;

    let names = [
        DKMS.to_owned(),
        format!("linux-headers-{}-rust", kernel.release),
    ];
    packages::purge(ctx, &step, &names)?;
    let left: Vec<PathBuf> = [
        module,
        "/var/lib/dkms/rust-perf".into(),
        format!("/usr/src/rust-perf-{}", version(ctx)?).into(),
        format!("/usr/src/linux-headers-{}/rust", kernel.release).into(),
        format!(
            "/usr/src/linux-headers-{}/scripts/target.json",
            kernel.release
        )
        .into(),
        "/usr/share/man/man4/rust_pmu.4.gz".into(),
    ]
    .into_iter()
    .filter(|path: &PathBuf| path.exists())
    .collect();
    ensure!(
        left.is_empty(),
        step.failure(&format!("left behind: {left:?}"))
    );
    step.done();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_rustc() {
        assert_eq!(next_patch("1.85.1"), "1.85.2");
        assert_eq!(next_patch("1.99.0"), "1.99.1");
    }
}
