// SPDX-License-Identifier: GPL-2.0

//! Which of Debian's kernels to use.

use anyhow::{bail, ensure, Context as _, Result};
use std::path::PathBuf;
use std::process::ExitCode;

use super::{Kernel, Options, FLAVOUR, SUPPORTED};
use crate::context::Context;
use crate::debug_kernel::Flavour;
use crate::packages::{self, Index};

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
        Some(flavour) => recorded(ctx, None)?.with_flavour(flavour),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

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
}
