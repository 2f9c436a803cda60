// SPDX-License-Identifier: GPL-2.0

//! The stock Debian kernel, and a build tree of it for Rust modules. [`debug_kernel`] makes others.
//!
//! Debian builds its kernels with `CONFIG_RUST=y`, but its headers packages have no Rust
//! metadata (`rust/*.rmeta`, the proc-macro libraries). The metadata is rebuilt from the
//! same source and `.config` by the same tool chain. Then every symbol that the rebuilt
//! crates export must be in the stock kernel's `Module.symvers`, or the build fails.

use anyhow::{bail, ensure, Context as _, Result};
use clap::Args;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;

use crate::cache::{Entry, Key};
use crate::context::Context;
use crate::debug_kernel::{self, Flavour};
use crate::packages::{self, Index, Version};
use crate::source::{self, Part};

/// The series that rust_perf was built and tested with, newest first.
const SUPPORTED: &[&str] = &["7.3", "7.2"];

/// How the names of Debian's kernels for trixie on x86-64 end. Those of "cloud" and "rt"
/// kernels end differently.
const FLAVOUR: &str = "+deb13-amd64";

/// How Debian builds its kernels. With a plain compiler name the build would warn that
/// the compiler differs.
pub const MAKE_ARGS: &[&str] = &[
    "CC=x86_64-linux-gnu-gcc-14",
    "HOSTCC=gcc-14",
    "HOSTCXX=g++-14",
    "LIBCLANG_PATH=/usr/lib/llvm-19/lib",
];

/// Procedural macros run for a second, but take 20 s to be optimised.
pub const QUICK_MACROS: &str = "HOSTRUSTFLAGS=-Copt-level=0";

/// What saves time when the tree is prepared. It changes nothing in the crates.
const PREPARE_ARGS: &[&str] = &[
    QUICK_MACROS,
    // No resolve_btfids: the BTF of a module needs vmlinux, which is not there.
    "CONFIG_DEBUG_INFO_BTF=",
];

/// The part of the kernel's source that no module build reads. Kconfig files and headers
/// stay.
const NOT_NEEDED: &[&str] = &[
    "Documentation/*.rst",
    "Documentation/*.yaml",
    "Documentation/*.txt",
    "arch/*/boot/dts",
    "drivers/*.c",
    "drivers/*.S",
    "fs/*.c",
    "net/*.c",
    "sound/*.c",
    "tools/perf",
    "tools/testing",
];

/// Which kernel.
#[derive(Args, Default)]
pub struct Options {
    /// A Debian kernel, such as 7.3.4+deb13-amd64, instead of the newest that is supported; or
    /// one that checks itself and is built here: debug or debug-kcsan.
    #[arg(long, env = "RUST_PERF_KERNEL", global = true)]
    kernel: Option<String>,
}

impl Options {
    /// A kernel by its name.
    pub fn named(name: &str) -> Self {
        Self {
            kernel: Some(name.to_owned()),
        }
    }

    /// What is written behind a suite that runs on it.
    pub fn suffix(&self) -> String {
        let name = self.kernel.as_deref();
        name.map_or_else(String::new, |name| format!(" on {name}"))
    }

    /// Whether it is a certain kernel, and not the newest that is supported.
    pub fn is_named(&self) -> bool {
        self.kernel.is_some()
    }

    /// The variable that chooses this kernel again, for a `make` command.
    pub fn variable(&self) -> String {
        match &self.kernel {
            Some(name) => format!(" KERNEL={}", shell_words::quote(name)),
            None => String::new(),
        }
    }
}

/// A kernel of the package index, or one that is built from its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// What `uname -r` says.
    pub release: String,
    /// The version of its packages.
    pub version: Version,
    /// Which debug kernel it is, if it is not Debian's.
    pub flavour: Option<Flavour>,
}

impl Kernel {
    fn series(&self) -> &str {
        let end = self
            .release
            .match_indices('.')
            .nth(1)
            .map_or(self.release.len(), |(at, _)| at);
        &self.release[..end]
    }

    /// Its package of this kind, such as "headers".
    pub fn package(&self, kind: &str) -> String {
        format!("linux-{kind}-{}", self.release)
    }

    /// The package with its source.
    pub fn source_package(&self) -> String {
        format!("linux-source-{}", self.series())
    }

    /// The packages that must all be there in one version.
    fn packages(&self) -> [String; 5] {
        [
            self.package("base"),
            self.package("binary"),
            self.package("modules"),
            self.package("headers"),
            self.source_package(),
        ]
    }

    fn available(&self, index: &Index) -> bool {
        self.packages()
            .iter()
            .all(|name| index.has(name, &self.version))
    }

    /// Whether a recorded kernel can still be used. The list of series may have changed
    /// since, and the mirror does not keep old packages.
    fn usable(&self, ctx: &Context) -> Result<bool> {
        Ok(SUPPORTED.contains(&self.series())
            && (self.is_cached(ctx) || self.available(&Index::read(ctx)?)))
    }

    /// Whether nothing of the kernel has to be downloaded.
    fn is_cached(&self, ctx: &Context) -> bool {
        let entries = [image_entry, kdir_entry, source::entry];
        entries.iter().all(|entry| entry(ctx, self).exists(ctx))
    }

    /// The memory that a guest needs, for QEMU.
    pub fn memory(&self) -> &'static str {
        match self.flavour {
            Some(_) => "3G",
            None => "1G",
        }
    }

    fn announce(&self) {
        let Self {
            release, version, ..
        } = self;
        match self.flavour {
            Some(_) => eprintln!("kernel: {release}, of Debian's source ({version})"),
            None => eprintln!("kernel: Debian's {release} ({version})"),
        }
    }

    /// The debug kernel that is built from this kernel's source.
    fn with_checks(self, flavour: Flavour) -> Self {
        let upstream = self.release.split('+').next().unwrap_or_default();
        Self {
            release: flavour.release(upstream),
            flavour: Some(flavour),
            ..self
        }
    }

    fn recorded(path: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(path).ok()?)
    }

    fn record(&self, path: &Path) -> Result<()> {
        fs::create_dir_all(path.parent().context("a record has a directory")?)?;
        fs::write(path, format!("{} {}\n", self.release, self.version))?;
        Ok(())
    }

    fn parse(record: &str) -> Option<Self> {
        let (release, version) = record.trim().split_once(' ')?;
        Some(Self {
            release: release.to_owned(),
            version: version.into(),
            flavour: None,
        })
    }
}

/// The newest kernel whose packages are all there, of the newest supported series that
/// has one. With `release`, that kernel.
fn newest(index: &Index, release: Option<&str>) -> Result<Option<Kernel>> {
    newest_of(index, SUPPORTED, release)
}

/// The newest kernel whose packages are all there, of the first of these series that has one. With
/// `release`, that kernel.
fn newest_of(index: &Index, series: &[&str], release: Option<&str>) -> Result<Option<Kernel>> {
    let wanted = |kernel: &Kernel, series: &str| match release {
        Some(release) => kernel.release == release,
        None => kernel.series() == series && kernel.release.ends_with(FLAVOUR),
    };
    for series in series {
        let kernels = index
            .starting_with("linux-binary-")
            .map(|package| Kernel {
                release: package.name["linux-binary-".len()..].to_owned(),
                version: package.version.clone(),
                flavour: None,
            })
            .filter(|kernel| wanted(kernel, series))
            // Not linux-binary-unsigned-….
            .filter(|kernel| kernel.release.starts_with(|c: char| c.is_ascii_digit()))
            .filter(|kernel| kernel.available(index));
        let mut newest: Option<Kernel> = None;
        for kernel in kernels {
            let newer = match &newest {
                Some(other) => kernel.version.is_newer_than(&other.version)?,
                None => true,
            };
            if newer {
                newest = Some(kernel);
            }
        }
        if newest.is_some() {
            return Ok(newest);
        }
    }
    Ok(None)
}

/// Finds the kernel to use.
pub fn resolve(ctx: &Context, options: &Options) -> Result<Kernel> {
    let name = options.kernel.as_deref();
    let kernel = match name.and_then(Flavour::named) {
        Some(flavour) => recorded(ctx, None)?.with_checks(flavour),
        None => recorded(ctx, name)?,
    };
    kernel.announce();
    Ok(kernel)
}

/// Finds the kernel to use, which must be one of Debian's.
pub fn resolve_debian(ctx: &Context, options: &Options) -> Result<Kernel> {
    let kernel = resolve(ctx, options)?;
    ensure!(
        kernel.flavour.is_none(),
        "KERNEL= must name a kernel of Debian's here, such as 7.3.4{FLAVOUR}"
    );
    Ok(kernel)
}

/// Finds a kernel of Debian's, and records it. So a later run needs no network, and does not
/// switch to another kernel by itself.
fn recorded(ctx: &Context, release: Option<&str>) -> Result<Kernel> {
    let record = record(ctx, release)?;
    if let Some(kernel) = Kernel::recorded(&record) {
        if kernel.usable(ctx)? {
            return Ok(kernel);
        }
    }
    let kernel = match newest(&Index::read(ctx)?, release)? {
        Some(kernel) => kernel,
        None => {
            packages::update(ctx)?;
            newest(&Index::read(ctx)?, release)?.with_context(|| not_found(release))?
        }
    };
    kernel.record(&record)?;
    Ok(kernel)
}

/// Finds a kernel to upgrade to `kernel` from, as [`older`]. Both must be in the package index, because
/// apt installs them.
pub fn before(ctx: &Context, kernel: &Kernel) -> Result<Kernel> {
    if !kernel.available(&Index::read(ctx)?) {
        packages::update(ctx)?;
    }
    ensure!(
        kernel.available(&Index::read(ctx)?),
        "the mirror no longer has {}, so that apt cannot install it: make update",
        kernel.release
    );
    older(ctx, kernel)
}

/// Finds a kernel of the series before that of `kernel`.
pub fn older(ctx: &Context, kernel: &Kernel) -> Result<Kernel> {
    let older = SUPPORTED.iter().skip_while(|it| **it != kernel.series());
    let Some(series) = older.copied().nth(1) else {
        bail!(
            "no older kernel: {} is of the oldest series that is supported ({})",
            kernel.release,
            SUPPORTED.join(", ")
        );
    };
    let record = record(ctx, Some(&format!("series-{series}")))?;
    let find = |index: &Index| {
        let recorded = Kernel::recorded(&record).filter(|it| it.available(index));
        match recorded {
            Some(kernel) => Ok(Some(kernel)),
            None => newest_of(index, &[series], None),
        }
    };
    let mut found = find(&Index::read(ctx)?)?;
    if found.is_none() {
        packages::update(ctx)?;
        found = find(&Index::read(ctx)?)?;
    }
    let found = found.with_context(|| {
        format!(
            "the mirror has no older kernel. Looked in trixie-backports for \
             VERSION{FLAVOUR} of the series {series}: linux-base, linux-binary, linux-modules, \
             linux-headers and linux-source-{series}, all in one version"
        )
    })?;
    found.record(&record)?;
    Ok(found)
}

fn record(ctx: &Context, release: Option<&str>) -> Result<PathBuf> {
    let name = release.unwrap_or("default");
    ensure!(
        !name.is_empty() && !name.contains('/') && Flavour::named(name).is_none(),
        "KERNEL={name}: not the name of a Debian kernel such as 7.3.4{FLAVOUR}"
    );
    Ok(ctx.cache.join("kernels").join(name))
}

fn not_found(release: Option<&str>) -> String {
    let what = match release {
        Some(release) => format!("{release}, in a series of"),
        None => format!("VERSION{FLAVOUR}, of the series"),
    };
    format!(
        "the mirror has no supported kernel. Looked in trixie-backports for {what} {}: \
         linux-base, linux-binary, linux-modules, linux-headers and linux-source-SERIES, all in one version",
        SUPPORTED.join(", ")
    )
}

/// `make update`.
pub fn update(ctx: &Context, options: &Options) -> Result<ExitCode> {
    let release = options.kernel.as_deref();
    let path = record(ctx, release)?;
    let before = Kernel::recorded(&path);
    packages::update(ctx)?;
    let kernel = newest(&Index::read(ctx)?, release)?.with_context(|| not_found(release))?;
    kernel.record(&path)?;
    match before {
        Some(before) if before == kernel => {
            println!("{} is still the newest supported kernel", kernel.release);
        }
        Some(before) => println!("kernel: {} -> {}", before.release, kernel.release),
        None => println!("kernel: {}", kernel.release),
    }
    Ok(ExitCode::SUCCESS)
}

/// The kernel image and its modules.
#[derive(Clone)]
pub struct Image {
    /// The image as Debian ships it.
    pub vmlinuz: PathBuf,
    /// The kernel within it, which QEMU starts by the PVH entry. The emulated CPU takes 2 s
    /// to decompress an image. But QEMU loads `vmlinux` again when the guest resumes from
    /// suspend, and so overwrites its memory.
    pub vmlinux: PathBuf,
    /// The directory that holds `RELEASE/modules.dep`.
    pub modules: PathBuf,
}

impl Image {
    /// That of a Debian in which the kernel's packages are installed.
    pub fn installed(root: &Path, kernel: &Kernel) -> Self {
        let modules = root.join("usr/lib/modules");
        let vmlinuz = root
            .join("boot")
            .join(format!("vmlinuz-{}", kernel.release));
        Self {
            vmlinux: vmlinuz.clone(),
            vmlinuz,
            modules,
        }
    }
}

/// The packages of an image. depmod needs modules.builtin and modules.order of "base".
fn image_packages(kernel: &Kernel) -> [String; 3] {
    ["binary", "modules", "base"].map(|kind| kernel.package(kind))
}

fn image_entry(ctx: &Context, kernel: &Kernel) -> Entry<'static> {
    Entry {
        name: "kernel",
        key: Key::new(ctx)
            .recipe(1)
            .texts(image_packages(kernel))
            .text(&kernel.version.to_string())
            .finish(),
        title: format!("kernel {}", kernel.release),
        megabytes: 600,
    }
}

/// Gets the image of a kernel.
pub fn image(ctx: &Context, kernel: &Kernel) -> Result<Image> {
    if let Some(flavour) = kernel.flavour {
        return debug_kernel::image(ctx, kernel, flavour);
    }
    let entry = image_entry(ctx, kernel).get(ctx, |step, dir| {
        let names = image_packages(kernel);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        packages::unpack(ctx, step, &names, &kernel.version, dir)?;
        let modules = dir.join("usr/lib/modules");
        remove_devices(&modules.join(&kernel.release).join("kernel"))?;
        step.run(
            Command::new("depmod")
                .arg("--basedir")
                .arg(dir.join("usr"))
                .arg(&kernel.release),
        )?;
        let vmlinuz = modules.join(&kernel.release).join("vmlinuz");
        let vmlinuz = fs::read(vmlinuz).context("the packages hold no kernel image")?;
        let compressed = dir.join("vmlinux.zst");
        fs::write(&compressed, payload(&vmlinuz)?)?;
        step.run(
            Command::new("zstd")
                .args(["--decompress", "--quiet", "--rm"])
                .arg(&compressed),
        )
    })?;
    let modules = entry.join("usr/lib/modules");
    Ok(Image {
        vmlinuz: vmlinuz(&modules, kernel),
        vmlinux: entry.join("vmlinux"),
        modules,
    })
}

fn vmlinuz(modules: &Path, kernel: &Kernel) -> PathBuf {
    modules.join(&kernel.release).join("vmlinuz")
}

/// The compressed kernel within an image, by the header of the setup code
/// (Documentation/arch/x86/boot.rst).
fn payload(vmlinuz: &[u8]) -> Result<&[u8]> {
    let long = |at: usize| {
        let bytes = vmlinuz.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let payload = || {
        let setup_sects = usize::from(*vmlinuz.get(0x1f1)?);
        let start = (setup_sects + 1) * 512 + long(0x248)?;
        // The four bytes behind the compressed kernel say how long it is uncompressed.
        vmlinuz.get(start..start + long(0x24c)? - 4)
    };
    payload().context("the kernel image has no header of the x86 boot protocol")
}

/// Removes the modules of devices that no guest has: sound, and of the drivers those that
/// lie a directory deeper than their class. When perf begins to record, it reads every
/// directory of modules, and by 9p each costs the guest 6 ms.
fn remove_devices(modules: &Path) -> Result<()> {
    fs::remove_dir_all(modules.join("sound"))?;
    for class in fs::read_dir(modules.join("drivers"))? {
        for entry in fs::read_dir(class?.path())? {
            let path = entry?.path();
            // kvm_amd depends on ccp.
            if path.is_dir() && !path.ends_with("crypto/ccp") {
                fs::remove_dir_all(path)?;
            }
        }
    }
    Ok(())
}

fn kdir_entry(ctx: &Context, kernel: &Kernel) -> Entry<'static> {
    Entry {
        name: "kdir",
        key: Key::new(ctx)
            .recipe(0)
            .text(&kernel.release)
            .text(&kernel.version.to_string())
            .texts(MAKE_ARGS)
            .texts(PREPARE_ARGS)
            .texts(NOT_NEEDED)
            .finish(),
        title: format!("Rust metadata for {}", kernel.release),
        megabytes: 3500,
    }
}

/// Makes the build tree of a kernel, with Rust metadata.
pub fn kdir(ctx: &Context, kernel: &Kernel) -> Result<PathBuf> {
    if let Some(flavour) = kernel.flavour {
        return debug_kernel::tree(ctx, kernel, flavour);
    }
    let source = || source::get(ctx, kernel);
    kdir_entry(ctx, kernel).get_from(ctx, source, |step, kdir, source| {
        let part = Part {
            not_needed: NOT_NEEDED,
            ..Part::default()
        };
        source.unpack(step, &part, kdir)?;

        let package = tempfile::tempdir_in(kdir)?;
        let name = kernel.package("headers");
        packages::unpack(ctx, step, &[&name], &kernel.version, package.path())?;
        let headers = package.path().join("usr/src").join(name);
        let config = fs::read_to_string(headers.join(".config"))
            .context("the headers package has no .config")?;
        fs::write(kdir.join(".config"), with_local_version(&config, kernel))?;
        fs::copy(headers.join("Module.symvers"), kdir.join("Module.symvers"))
            .context("the headers package has no Module.symvers")?;

        step.run(
            make(kdir)
                .arg(format!("-j{}", jobs()))
                .args(PREPARE_ARGS)
                .args(["olddefconfig", "prepare", "modules_prepare"]),
        )?;
        let release = fs::read_to_string(kdir.join("include/config/kernel.release"))?;
        ensure!(
            release.trim() == kernel.release,
            step.failure(&format!("the tree says it is {}", release.trim()))
        );
        fs::write(kdir.join("rust/symbols"), check_symbols(kdir)?)?;
        Ok(())
    })
}

/// Sets the end of the release, which Debian's build does not take from `.config`.
fn with_local_version(config: &str, kernel: &Kernel) -> String {
    let suffix = &kernel.release[kernel.release.find('+').unwrap_or(kernel.release.len())..];
    config
        .lines()
        .map(|line| match line.strip_prefix("CONFIG_LOCALVERSION=") {
            Some(_) => format!("CONFIG_LOCALVERSION=\"{suffix}\"\n"),
            None => format!("{line}\n"),
        })
        .collect()
}

/// `make` for a kernel tree.
pub fn make(kdir: &Path) -> Command {
    let mut command = Command::new("make");
    command.arg("-C").arg(kdir).args(MAKE_ARGS);
    command
}

/// How many jobs to build with.
pub fn jobs() -> usize {
    thread::available_parallelism().map_or(1, |n| n.get())
}

/// Checks that the stock kernel exports all symbols of the rebuilt crates: a module is
/// built against these crates and loaded by that kernel. Returns a summary.
fn check_symbols(kdir: &Path) -> Result<String> {
    let symvers = fs::read_to_string(kdir.join("Module.symvers"))?;
    let stock = stock_symbols(&symvers);
    let mut summary = String::new();
    let mut missing = Vec::new();
    for krate in ["core", "kernel", "bindings", "helpers"] {
        let header = kdir.join(format!("rust/exports_{krate}_generated.h"));
        let header = fs::read_to_string(&header)
            .with_context(|| format!("cannot read {}", header.display()))?;
        let exported: Vec<&str> = exported_symbols(&header).collect();
        ensure!(!exported.is_empty(), "the {krate} crate exports nothing");
        let absent: Vec<_> = exported
            .iter()
            .filter(|&&name| !stock.contains(name))
            .collect();
        let found = exported.len() - absent.len();
        missing.extend(absent.into_iter().map(|name| name.to_string()));
        writeln!(summary, "{krate} {found}/{}", exported.len())?;
    }
    if missing.is_empty() {
        return Ok(summary);
    }
    bail!(
        "the rebuilt Rust crates differ from the stock kernel's, so no module would load. \
         Exported symbols found in its Module.symvers:\n{summary}the first that is missing: {}\n\
         The tool chain in the build root may be newer than the kernel's: make clean-cache, \
         or name another kernel with KERNEL=",
        missing[0]
    )
}

/// The names in `EXPORT_SYMBOL_RUST_GPL(name);` lines.
fn exported_symbols(header: &str) -> impl Iterator<Item = &str> {
    header.lines().filter_map(|line| {
        line.strip_prefix("EXPORT_SYMBOL_RUST_GPL(")?
            .strip_suffix(");")
    })
}

/// The names of symbols that vmlinux exports, from Module.symvers.
fn stock_symbols(symvers: &str) -> HashSet<&str> {
    symvers
        .lines()
        .filter_map(|line| {
            let mut fields = line.split('\t').skip(1);
            let name = fields.next()?;
            (fields.next()? == "vmlinux").then_some(name)
        })
        .collect()
}

/// `make rust-headers`.
pub fn rust_headers(ctx: &Context, options: &Options) -> Result<ExitCode> {
    let kernel = resolve_debian(ctx, options)?;
    let kdir = kdir(ctx, &kernel)?;
    let symbols = fs::read_to_string(kdir.join("rust/symbols"))?;
    eprintln!(
        "Rust symbols exported by the rebuilt crates, found in the stock {}: {}.\n\
         Any Rust module for this kernel builds with it and the build root's tools. In the\n\
         module's directory:\n  \
         {}/tools/bootstrap run make -C {} M=$PWD {} modules\n\
         KDIR is",
        kernel.release,
        symbols.trim().replace('\n', ", "),
        ctx.top.display(),
        kdir.display(),
        MAKE_ARGS.join(" ")
    );
    println!("{}", kdir.display());
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(packages: &[(&str, &str)]) -> Index {
        let mut text = String::new();
        for (name, version) in packages {
            writeln!(text, "Package: {name}\nVersion: {version}\n").unwrap();
        }
        text.parse().unwrap()
    }

    fn all(release: &str, series: &str, version: &str) -> Vec<(String, String)> {
        ["base", "binary", "modules", "headers"]
            .iter()
            .map(|kind| format!("linux-{kind}-{release}"))
            .chain([format!("linux-source-{series}")])
            .map(|name| (name, version.to_owned()))
            .collect()
    }

    fn index_of(packages: &[Vec<(String, String)>]) -> Index {
        let flat: Vec<(&str, &str)> = packages
            .iter()
            .flatten()
            .map(|(name, version)| (name.as_str(), version.as_str()))
            .collect();
        index(&flat)
    }

    fn chosen(index: &Index, release: Option<&str>) -> Option<Kernel> {
        newest(index, release).unwrap()
    }

    #[test]
    fn the_newest_supported_series_wins() {
        let index = index_of(&[
            all("7.2.9+deb13-amd64", "7.2", "7.2.9-1~bpo13+1"),
            all("7.2.12+deb13-amd64", "7.2", "7.2.12-1~bpo13+1"),
            all("7.2.12+deb13-cloud-amd64", "7.2", "7.2.12-1~bpo13+1"),
            all("99.1.1+deb13-amd64", "99.1", "99.1.1-1"),
        ]);
        assert_eq!(chosen(&index, None).unwrap().release, "7.2.12+deb13-amd64");
        assert_eq!(
            chosen(&index, Some("7.2.9+deb13-amd64")).unwrap().release,
            "7.2.9+deb13-amd64"
        );
        assert_eq!(chosen(&index, Some("7.2.10+deb13-amd64")), None);
    }

    #[test]
    fn all_packages_must_be_there_in_one_version() {
        let mut packages = all("7.3.4+deb13-amd64", "7.3", "7.3.4-1~bpo13+1");
        packages[4].1 = "7.3.5-1~bpo13+1".to_owned();
        let old = all("7.2.12+deb13-amd64", "7.2", "7.2.12-1~bpo13+1");
        let index = index_of(&[packages.clone(), old]);
        assert_eq!(chosen(&index, None).unwrap().series(), "7.2");
        assert_eq!(chosen(&index_of(&[packages]), None), None);
    }

    #[test]
    fn a_record_is_read_back() {
        let kernel = Kernel::parse("7.3.4+deb13-amd64 7.3.4-1~bpo13+1\n").unwrap();
        assert_eq!(kernel.series(), "7.3");
        assert_eq!(kernel.source_package(), "linux-source-7.3");
        assert_eq!(Kernel::parse("7.3.4"), None);
    }

    #[test]
    fn symbols() {
        let header = "EXPORT_SYMBOL_RUST_GPL(_RNvCs1_6kernel1a);\n/* no */\n";
        assert_eq!(
            exported_symbols(header).collect::<Vec<_>>(),
            ["_RNvCs1_6kernel1a"]
        );
        let stock = stock_symbols(
            "0x00000000\t_RNvCs1_6kernel1a\tvmlinux\tEXPORT_SYMBOL_GPL\t\n\
             0x00000000\tother\tdrivers/x\tEXPORT_SYMBOL\t\n",
        );
        assert!(stock.contains("_RNvCs1_6kernel1a") && !stock.contains("other"));
    }

    #[test]
    fn local_version() {
        let kernel = Kernel::parse("7.3.4+deb13-amd64 7.3.4-1").unwrap();
        assert_eq!(
            with_local_version("A=y\nCONFIG_LOCALVERSION=\"\"\n", &kernel),
            "A=y\nCONFIG_LOCALVERSION=\"+deb13-amd64\"\n"
        );
    }
}
