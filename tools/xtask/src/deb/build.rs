// SPDX-License-Identifier: GPL-2.0

//! Builds the packages. `packaging/debian` has what is the same for all kernels.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::licences;
use super::version::{module_sources, Version};
use super::{metadata_package, Packages, COUNTED, DKMS, TESTS};
use crate::context::Context;
use crate::counted;
use crate::kernel::Kernel;
use crate::kselftest::Collection;
use crate::module::Tree;
use crate::step::Step;

/// The manual page of the module.
const PAGE: &str = "rust_pmu.4";
/// The manual page of the tests.
const TESTS_PAGE: &str = "rust-perf-tests.1";
/// The manual page of counted.
const COUNTED_PAGE: &str = "counted.1";

/// How much time the compression of packages may take.
#[derive(Clone, Copy, PartialEq)]
pub enum Compression {
    /// As dpkg does it.
    Usual,
    /// Little, for packages that are installed once.
    Fast,
}

/// Builds the packages, and has lintian and mandoc check them. A warning is an error.
pub fn build(
    ctx: &Context,
    kernel: &Kernel,
    kdir: &Path,
    version: &Version,
    compression: Compression,
) -> Result<Packages> {
    let tests = Collection::build(ctx, kernel)?;
    let program = counted::build(ctx)?;
    let title = format!("Debian packages for {}", kernel.release);
    let step = Step::start(ctx, &format!("deb-{}", kernel.release), &title)?;
    for page in [PAGE, TESTS_PAGE, COUNTED_PAGE] {
        check_page(&step, &ctx.top.join("packaging").join(page))?;
    }

    let work = tempfile::tempdir()?;
    let source = work.path().join("source");
    // With the whole version, lintian would find the file's name too long.
    let of_metadata = format!("{}+{}", kernel.version, version.commits);
    let tree = SourceTree {
        ctx,
        step: &step,
        kernel,
        path: &source,
    };
    tree.fill(kdir, version)?;
    tree.tests(&tests)?;
    tree.counted(&program)?;
    let environment = [
        ("RELEASE", kernel.release.as_str()),
        ("HEADERS_VERSION", of_metadata.as_str()),
    ];
    let debs = self::packages(&step, &source, version, compression, &environment)?;
    // The packages of another kernel have the same names, in part.
    let kept = ctx.private(&format!("deb-{}", kernel.release));
    fs::create_dir_all(&kept)?;
    let package = |name: &str| {
        let start = format!("{name}_");
        let file = |deb: &&PathBuf| {
            let file = deb.file_name().unwrap_or_default();
            file.to_string_lossy().starts_with(&start)
        };
        let deb = debs.iter().find(file);
        let deb = deb.with_context(|| step.failure(&format!("no package {name} was made")))?;
        let copy = kept.join(deb.file_name().unwrap_or_default());
        fs::copy(deb, &copy)?;
        Ok::<_, anyhow::Error>(copy)
    };
    let packages = Packages {
        dkms: package(DKMS)?,
        metadata: package(&metadata_package(kernel))?,
        tests: package(TESTS)?,
        counted: package(COUNTED)?,
    };
    step.done();
    Ok(packages)
}

/// Has mandoc check a manual page. A warning is an error.
pub fn check_page(step: &Step, page: &Path) -> Result<()> {
    step.run(
        Command::new("mandoc")
            .args(["-T", "lint", "-W", "warning"])
            .arg(page),
    )
}

/// Writes the changelog of a source package.
pub fn changelog(source: &str, of_packages: &str, version: &Version, debian: &Path) -> Result<()> {
    fs::write(
        debian.join("changelog"),
        format!(
            "{source} ({of_packages}) unstable; urgency=medium\n\n  \
             * Made from the source tree.\n\n \
             -- The rust_perf developers <rust-perf@users.noreply.example>  {}\n",
            version.date
        ),
    )?;
    Ok(())
}

/// Builds the packages of a source tree, beside it, and has lintian check them. A warning is an
/// error.
pub fn packages(
    step: &Step,
    source: &Path,
    version: &Version,
    compression: Compression,
    environment: &[(&str, &str)],
) -> Result<Vec<PathBuf>> {
    let mut build = Command::new("dpkg-buildpackage");
    build
        .args(["--build=binary", "--no-sign", "--no-check-builddeps"])
        .envs(environment.iter().copied())
        .env("SOURCE_DATE_EPOCH", &version.seconds)
        .current_dir(source);
    if compression == Compression::Fast {
        build.env("DPKG_DEB_COMPRESSOR_LEVEL", "0");
    }
    step.run(&mut build)?;
    let beside = source.parent().unwrap_or(source);
    for changes in files(beside, "changes")? {
        step.run(
            Command::new("lintian")
                .args(["--allow-root", "--fail-on", "error,warning"])
                .arg(changes),
        )?;
    }
    files(beside, "deb")
}

/// The tree that dpkg-buildpackage builds.
struct SourceTree<'a> {
    ctx: &'a Context,
    step: &'a Step,
    kernel: &'a Kernel,
    path: &'a Path,
}

impl SourceTree<'_> {
    fn fill(&self, kdir: &Path, version: &Version) -> Result<()> {
        self.rules(&Tree::read(kdir)?.rustc()?)?;
        let of_packages = version.of_packages();
        changelog("rust-perf", &of_packages, version, &self.debian(""))?;
        self.module(&of_packages)?;
        self.metadata(kdir)
    }

    fn debian(&self, file: &str) -> PathBuf {
        self.path.join("debian").join(file)
    }

    /// Fills in what `packaging/debian` leaves open.
    fn rules(&self, rustc: &str) -> Result<()> {
        fs::create_dir_all(self.debian(""))?;
        let kernel = self.kernel;
        for file in fs::read_dir(self.ctx.top.join("packaging/debian"))? {
            let file = file?;
            let name = file.file_name().to_string_lossy().into_owned();
            let name = match name.as_str() {
                "control.in" => "control".to_owned(),
                "linux-headers-rust.postinst" => format!("{}.postinst", metadata_package(kernel)),
                _ => name,
            };
            let text = fs::read_to_string(file.path())?
                .replace("@RELEASE@", &kernel.release)
                .replace("@KERNEL_VERSION@", &kernel.version.to_string())
                .replace("@RUSTC@", rustc)
                .replace("@RUSTC_NEXT@", &next_patch(rustc));
            fs::write(self.debian(&name), text)?;
            fs::set_permissions(self.debian(&name), file.metadata()?.permissions())?;
        }
        let copyright = licences::of_programs(self.ctx)?;
        Ok(fs::write(self.debian("copyright"), copyright)?)
    }

    /// The source of the module, and its manual page.
    fn module(&self, version: &str) -> Result<()> {
        let module = self.path.join("stage/module");
        for file in module_sources(self.ctx)? {
            let to = module.join(&file);
            fs::create_dir_all(to.parent().unwrap_or(&module))?;
            fs::copy(self.ctx.top.join(&file), to)?;
        }
        fs::write(
            self.debian(&format!("{DKMS}.install")),
            format!("stage/module/* usr/src/rust-perf-{version}\n"),
        )?;
        self.page(PAGE)?;
        fs::write(
            self.debian(&format!("{DKMS}.manpages")),
            format!("{PAGE}\n"),
        )?;
        Ok(())
    }

    /// The tests, and their manual page.
    fn tests(&self, collection: &Collection) -> Result<()> {
        let stage = self.path.join("stage/kselftest");
        collection.lay_out(&stage)?;
        let program = Collection::program_in(&stage);
        self.step.run(Command::new("strip").arg(program))?;
        self.page(TESTS_PAGE)
    }

    /// The program counted, and its manual page.
    fn counted(&self, program: &Path) -> Result<()> {
        let stage = self.path.join("stage/counted");
        fs::create_dir_all(&stage)?;
        let stripped = stage.join("counted");
        self.step
            .run(Command::new("strip").arg("-o").arg(stripped).arg(program))?;
        self.page(COUNTED_PAGE)
    }

    /// A manual page.
    fn page(&self, name: &str) -> Result<()> {
        let page = self.ctx.top.join("packaging").join(name);
        fs::copy(page, self.path.join(name))?;
        Ok(())
    }

    /// The Rust metadata of the kernel's headers.
    fn metadata(&self, kdir: &Path) -> Result<()> {
        let rust = self.path.join("stage/rust");
        fs::create_dir_all(&rust)?;
        let copy_of = |file: &Path| rust.join(file.file_name().unwrap_or_default());
        for metadata in files(&kdir.join("rust"), "rmeta")? {
            fs::copy(&metadata, copy_of(&metadata))?;
        }
        for macros in files(&kdir.join("rust"), "so")? {
            let to = copy_of(&macros);
            let mut strip = Command::new("strip");
            strip.arg("--strip-unneeded").arg("-o").arg(&to);
            self.step.run(strip.arg(&macros))?;
            self.step.run(Command::new("chmod").arg("644").arg(&to))?;
        }
        fs::copy(
            kdir.join("scripts/target.json"),
            self.path.join("stage/target.json"),
        )?;
        // The headers' `scripts` is a link to this folder, which is the same for all flavours.
        let release = &self.kernel.release;
        let kbuild = release.trim_end_matches("-amd64");
        fs::write(
            self.debian(&format!("{}.install", metadata_package(self.kernel))),
            format!(
                "stage/rust/* usr/src/linux-headers-{release}/rust\n\
                 stage/target.json usr/lib/linux-kbuild-{kbuild}/scripts\n"
            ),
        )?;
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_rustc() {
        assert_eq!(next_patch("1.85.1"), "1.85.2");
        assert_eq!(next_patch("1.99.0"), "1.99.1");
    }
}
