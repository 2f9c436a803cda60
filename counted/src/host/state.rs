// SPDX-License-Identifier: GPL-2.0

//! Guests that were saved when they had booted. Others like them start from there.

use anyhow::{Context as _, Result};
use boot::monitor::Monitor;
use serde_json::json;
use std::env;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::kernel::Kernel;
use super::machine::hardware;
use super::options::{Options, Place};
use super::tarball;

/// How many saved guests there may be. Each takes 100 to 200 MB.
const MOST: usize = 8;

/// The first part of the names of their directories.
const PREFIX: &str = "guest-";

/// The first part of the names of directories that are not complete.
const STAGING: &str = ".new-";

/// What is not complete after this time never will be.
const HOUR: Duration = Duration::from_secs(3600);

/// The files of a saved guest.
const GUEST: &str = "guest";
const INITRAMFS: &str = "initramfs";

/// A place for a saved guest.
pub struct State {
    /// The directory of all of them.
    all: PathBuf,
    /// The directory of this one.
    directory: PathBuf,
}

impl State {
    /// The place for guests such as these options ask for. `None` if this user has no directory for caches.
    pub fn new(options: &Options, kernel: &Kernel) -> Option<Self> {
        let variable = |name: &str| {
            let path = PathBuf::from(env::var_os(name)?);
            path.is_absolute().then_some(path)
        };
        let home = || Some(variable("HOME")?.join(".cache"));
        let all = variable("XDG_CACHE_HOME").or_else(home)?.join("counted");
        Self::new_in(all, options, kernel)
    }

    /// The place below a directory.
    pub fn new_in(all: PathBuf, options: &Options, kernel: &Kernel) -> Option<Self> {
        let mut hasher = DefaultHasher::new();
        hardware(options).hash(&mut hasher);
        options.rw.len().hash(&mut hasher);
        (options.module == Some(Place::Primary)).hash(&mut hasher);
        // What is in the guest was made of these.
        let program_of_qemu = tarball::find(tarball::QEMU_PROGRAM);
        let qemu = [program(&options.qemu())]
            .into_iter()
            .chain(program_of_qemu);
        let programs = ["/proc/self/exe".into()].into_iter().chain(qemu);
        for file in programs.chain(kernel.files()) {
            let metadata = fs::metadata(file).ok()?;
            (metadata.dev(), metadata.ino(), metadata.len()).hash(&mut hasher);
            (metadata.mtime(), metadata.mtime_nsec()).hash(&mut hasher);
        }
        // The rate of the guest's TSC is that of the host.
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpus.lines().find(|line| line.starts_with("model name"));
        model.hash(&mut hasher);
        let directory = all.join(format!("{PREFIX}{:016x}", hasher.finish()));
        Some(Self { all, directory })
    }

    /// Whether a guest is saved there.
    pub fn is_there(&self) -> bool {
        self.directory.exists()
    }

    /// The initramfs of the saved guest. QEMU wants it although the guest has booted.
    pub fn initramfs(&self) -> PathBuf {
        self.directory.join(INITRAMFS)
    }

    /// The arguments of a QEMU that restores the saved guest.
    pub fn arguments(&self) -> [String; 2] {
        // Those that are used least are removed first.
        let now = File::open(&self.directory).and_then(|it| it.set_modified(SystemTime::now()));
        // Without that it may be removed too early.
        drop(now);
        let guest = self.directory.join(GUEST);
        ["-incoming".to_owned(), format!("file:{}", guest.display())]
    }

    /// Saves a guest, which goes on afterwards. `monitor` is that of its QEMU.
    pub fn save(&self, monitor: &mut Monitor, initramfs: &Path) -> Result<()> {
        fs::create_dir_all(&self.all).with_context(|| self.all.display().to_string())?;
        let staging = tempfile::Builder::new()
            .prefix(STAGING)
            .tempdir_in(&self.all)?;
        let saved = monitor.save(&staging.path().join(GUEST));
        // If it was not saved it may run.
        let _ = monitor.execute(&json!({ "execute": "cont" }));
        saved?;
        fs::copy(initramfs, staging.path().join(INITRAMFS))?;
        // What is there could not be restored, or another process has just saved it.
        let _ = fs::remove_dir_all(&self.directory);
        if fs::rename(staging.path(), &self.directory).is_ok() {
            // It has gone.
            let _ = staging.keep();
        }
        self.limit()
    }

    /// Removes the saved guests that were not used for the longest time.
    fn limit(&self) -> Result<()> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.all)? {
            let entry = entry?;
            // Another process may have removed it.
            let Ok(modified) = entry.metadata().and_then(|it| it.modified()) else {
                continue;
            };
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(PREFIX) {
                found.push((modified, entry.path()));
            } else if name.starts_with(STAGING) && modified.elapsed().is_ok_and(|it| it > HOUR) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        found.sort();
        found.reverse();
        for (_, path) in found.into_iter().skip(MOST) {
            // Another process may do this, too.
            let _ = fs::remove_dir_all(path);
        }
        Ok(())
    }
}

/// The file of a program, which may be found by PATH.
fn program(name: &Path) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path = || {
        env::split_paths(&path)
            .map(|it| it.join(name))
            .find(|it| it.is_file())
    };
    let has_directory = name.parent().is_some_and(|it| it != Path::new(""));
    match has_directory {
        true => name.to_owned(),
        false => in_path().unwrap_or_else(|| name.to_owned()),
    }
}
