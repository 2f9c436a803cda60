// SPDX-License-Identifier: GPL-2.0

//! What this project changes in QEMU's source.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::Key;
use crate::step::Step;

/// Where QEMU has this project's files of `qemu/pmu`.
const PMU_IN_SOURCE: &str = "target/i386/tcg/pmu";

/// What this project changes in QEMU's source.
pub struct Changes {
    /// The files of the PMU, of which QEMU has none.
    files: Vec<PathBuf>,
    /// The patches that hook them in, in order.
    patches: Vec<PathBuf>,
}

impl Changes {
    /// Those of the project at `top`.
    pub fn find(top: &Path) -> Result<Self> {
        let folder = top.join("qemu");
        let mut patches = files(&folder)?;
        patches.retain(|path| path.extension() == Some("patch".as_ref()));
        Ok(Self {
            files: files(&folder.join("pmu"))?,
            patches,
        })
    }

    /// Adds them to the key of what is built.
    pub fn add_to(&self, key: Key) -> Result<Key> {
        let key = self.patches.iter().try_fold(key, |key, it| key.file(it))?;
        let mut files = self.files.iter();
        files.try_fold(key, |key, it| key.text(name(it)?).file(it))
    }

    /// Applies them to QEMU's source.
    pub fn apply(&self, step: &Step, source: &Path) -> Result<()> {
        let folder = source.join(PMU_IN_SOURCE);
        fs::create_dir(&folder)?;
        for file in &self.files {
            fs::copy(file, folder.join(name(file)?))?;
        }
        for patch in &self.patches {
            step.run(
                Command::new("patch")
                    .args(["-p1", "-i"])
                    .arg(patch)
                    .current_dir(source),
            )?;
        }
        Ok(())
    }
}

/// The files of a folder, by their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn name(file: &Path) -> Result<&str> {
    let name = file.file_name().and_then(|name| name.to_str());
    name.with_context(|| format!("{} has no name", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of a project with these files.
    fn key_of(files: &[(&str, &str)]) -> Result<String> {
        let top = tempfile::tempdir()?;
        fs::create_dir_all(top.path().join("qemu/pmu"))?;
        for (name, text) in files {
            fs::write(top.path().join("qemu").join(name), text)?;
        }
        let changes = Changes::find(top.path())?;
        Ok(changes.add_to(Key::empty())?.finish())
    }

    #[test]
    fn each_file_of_the_pmu_and_each_patch_is_in_the_key() {
        let all = [
            &[("pmu/a.c", "1"), ("0001.patch", "2")][..],
            &[("pmu/a.c", "3"), ("0001.patch", "2")],
            &[("pmu/b.c", "1"), ("0001.patch", "2")],
            &[("pmu/a.c", "1"), ("0001.patch", "4")],
            &[("pmu/a.c", "1"), ("pmu/b.h", ""), ("0001.patch", "2")],
            &[("pmu/a.c", "1")],
        ];
        let mut keys: Vec<_> = all.iter().map(|files| key_of(files).unwrap()).collect();
        assert_eq!(keys[0], key_of(all[0]).unwrap());
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), all.len());
    }

    #[test]
    fn other_files_beside_the_patches_are_not_in_the_key() {
        let patch = ("0001.patch", "1");
        let key = key_of(&[patch]).unwrap();
        assert_eq!(key_of(&[patch, ("README.md", "2")]).unwrap(), key);
    }
}
