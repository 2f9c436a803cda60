// SPDX-License-Identifier: GPL-2.0

//! What files a root has, to see what the removal of packages leaves behind.

use anyhow::{Context as _, Result};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What may change when a package is installed and purged: the records of dpkg and apt, caches that
/// are made anew, and what is gone with the next boot.
const MAY_DIFFER: &[&str] = &[
    "etc/ld.so.cache",
    "run",
    "var/cache",
    "var/lib/apt",
    "var/lib/dpkg",
    "var/log",
];

/// The files of a root by their names, with all that counts about each.
pub struct Listing(BTreeMap<PathBuf, String>);

impl Listing {
    /// Reads a root.
    pub fn read(root: &Path) -> Result<Self> {
        let mut listing = BTreeMap::new();
        let mut directories = vec![root.to_owned()];
        while let Some(directory) = directories.pop() {
            for file in fs::read_dir(&directory)? {
                let file = file?;
                let path = file.path();
                let name = path.strip_prefix(root)?.to_owned();
                if MAY_DIFFER.iter().any(|it| name == Path::new(it)) {
                    continue;
                }
                let metadata = file.metadata()?;
                let kind = file.file_type()?;
                let contents = if kind.is_symlink() {
                    fs::read_link(&path)?.display().to_string()
                } else if kind.is_file() {
                    let contents = fs::read(&path).with_context(|| path.display().to_string())?;
                    format!("{:x}", Sha256::digest(contents))
                } else {
                    String::new()
                };
                if kind.is_dir() {
                    directories.push(path);
                }
                listing.insert(name, format!("{:o} {contents}", metadata.mode()));
            }
        }
        Ok(Self(listing))
    }

    /// What `later` has that this has not, or has with other contents, and what it lacks.
    pub fn differences(&self, later: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        for (name, file) in &later.0 {
            match self.0.get(name) {
                None => differences.push((name, "is new")),
                Some(before) if before != file => differences.push((name, "has changed")),
                Some(_) => {}
            }
        }
        let gone = self.0.keys().filter(|name| !later.0.contains_key(*name));
        differences.extend(gone.map(|name| (name, "is gone")));
        let text = |(name, what): (&PathBuf, &str)| format!("/{} {what}", name.display());
        differences.into_iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_behind_is_seen() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("etc/a", "1");
        write("etc/b", "1");
        write("var/log/dpkg.log", "1");
        write("var/lib/dpkg/status", "1");
        let before = Listing::read(root.path()).unwrap();
        write("etc/a", "2");
        fs::remove_file(root.path().join("etc/b")).unwrap();
        write("usr/c", "1");
        write("var/log/dpkg.log", "2");
        write("var/lib/dpkg/status", "2");
        let after = Listing::read(root.path()).unwrap();
        assert_eq!(
            before.differences(&after),
            [
                "/etc/a has changed",
                "/usr is new",
                "/usr/c is new",
                "/etc/b is gone"
            ]
        );
        assert!(before.differences(&before).is_empty());
    }
}
