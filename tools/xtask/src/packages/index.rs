// SPDX-License-Identifier: GPL-2.0

//! The kernel's packages in Debian's package index.

use anyhow::{Context as _, Result};
use deb822_fast::Deb822;
use std::fmt;
use std::process::Command;

use super::{apt_get, output};
use crate::context::Context;

/// The version of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

impl Version {
    /// Whether it is newer than another one, as dpkg orders them (deb-version(7)).
    pub fn is_newer_than(&self, other: &Self) -> Result<bool> {
        let status = Command::new("dpkg")
            .args(["--compare-versions", &self.0, "gt", &other.0])
            .status()
            .context("cannot run dpkg")?;
        Ok(status.success())
    }
}

impl From<&str> for Version {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A package of the index.
#[derive(Clone, Debug, PartialEq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Version,
}

/// The kernel's binary packages in all suites of the build root.
#[derive(Default)]
pub struct Index(Vec<Package>);

impl Index {
    /// Reads apt's index.
    pub fn read(ctx: &Context) -> Result<Self> {
        let files = output(apt_get(ctx).args([
            "indextargets",
            "--format",
            "$(FILENAME)",
            "Created-By: Packages",
        ]))?;
        let mut index = Self::default();
        for file in files.lines() {
            // The file may be compressed, which apt-helper hides.
            index.add(&output(
                Command::new("/usr/lib/apt/apt-helper").args(["cat-file", file]),
            )?)?;
        }
        Ok(index)
    }

    fn add(&mut self, packages: &str) -> Result<()> {
        // Parsing all 70,000 paragraphs would take a second.
        let kernel = packages
            .split("\n\n")
            .filter(|paragraph| paragraph.trim_start().starts_with("Package: linux-"));
        for paragraph in kernel {
            for fields in paragraph.parse::<Deb822>()?.iter() {
                let (Some(name), Some(version)) = (fields.get("Package"), fields.get("Version"))
                else {
                    continue;
                };
                self.0.push(Package {
                    name: name.to_owned(),
                    version: version.into(),
                });
            }
        }
        Ok(())
    }

    /// The packages whose names start with `prefix`.
    pub fn starting_with<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Package> {
        self.0.iter().filter(move |p| p.name.starts_with(prefix))
    }

    /// Whether there is a package of this name and version.
    pub fn has(&self, name: &str, version: &Version) -> bool {
        self.0
            .iter()
            .any(|p| p.name == name && p.version == *version)
    }
}

impl std::str::FromStr for Index {
    type Err = anyhow::Error;

    fn from_str(packages: &str) -> Result<Self> {
        let mut index = Self::default();
        index.add(packages)?;
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index() {
        let index: Index = "Package: linux-source-7.3\nVersion: 7.3.4-1~bpo13+1\n\
                            Description: kernel source\n for 7.3\n\n\
                            Package: zsh\nVersion: 5\n"
            .parse()
            .unwrap();
        assert!(index.has("linux-source-7.3", &"7.3.4-1~bpo13+1".into()));
        assert!(!index.has("linux-source-7.3", &"7.3.4-1".into()));
        assert_eq!(index.starting_with("linux-").count(), 1);
        assert_eq!(index.starting_with("zsh").count(), 0);
    }

    #[test]
    fn versions_are_ordered_as_by_dpkg() {
        let newer = |a: &str, b: &str| Version::from(a).is_newer_than(&b.into()).unwrap();
        assert!(newer("7.3.12-1~bpo13+1", "7.3.4-1~bpo13+1"));
        assert!(newer("7.3.4-1", "7.3.4-1~bpo13+1"));
        assert!(!newer("7.3.4-1", "7.3.4-1"));
    }
}
