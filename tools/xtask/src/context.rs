// SPDX-License-Identifier: GPL-2.0

//! The directories that xtask works with, as `tools/bootstrap` names them.

use anyhow::{ensure, Context as _, Result};
use std::env;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The directories.
#[derive(Clone)]
pub struct Context {
    /// The checkout.
    pub top: PathBuf,
    /// The cache, which all checkouts of a user share.
    pub cache: PathBuf,
    /// The build root, an entry of the cache.
    pub root: PathBuf,
    /// A Debian with nothing else, an entry of the cache that is there for `make install-test`.
    pub fresh: PathBuf,
    /// Another release of Debian, an entry of the cache that is there for `make tarball`.
    pub other: PathBuf,
    /// What this checkout builds.
    pub out: PathBuf,
    /// The logs of this run. No other run writes there.
    pub logs: PathBuf,
    /// Whether suites run beside: then one guest runs at a time, of all that is aside.
    pub is_aside: bool,
    /// Whether only whole lines are written, because others write, too.
    pub in_lines: bool,
}

impl Context {
    /// A file that no other run sees: /tmp belongs to this mount namespace.
    pub fn private(&self, name: &str) -> PathBuf {
        Path::new("/tmp").join(name)
    }

    /// Reads the environment that `tools/bootstrap` sets.
    pub fn from_env() -> Result<Self> {
        // A signal ends every process of the PID namespace, so it must be ours.
        ensure!(
            std::process::id() == 1,
            "run xtask by tools/bootstrap: it must be process 1 of its own PID namespace"
        );
        let dir = |name| {
            env::var_os(name)
                .map(PathBuf::from)
                .with_context(|| format!("{name} is not set"))
        };
        let top = dir("RUST_PERF_TOP")?;
        Ok(Self {
            cache: dir("RUST_PERF_CACHE")?,
            root: dir("RUST_PERF_ROOT")?,
            fresh: dir("RUST_PERF_FRESH")?,
            other: dir("RUST_PERF_OTHER")?,
            logs: dir("RUST_PERF_LOGS")?,
            out: top.join("out"),
            top,
            is_aside: false,
            in_lines: false,
        })
    }

    /// The context of what runs beside suites. Its logs do not replace others of the same name.
    pub fn aside(&self, name: &str) -> Self {
        Self {
            logs: self.logs.join(name),
            is_aside: true,
            in_lines: true,
            ..self.clone()
        }
    }

    /// The context of a run while others write, too.
    pub fn in_lines(&self) -> Self {
        Self {
            in_lines: true,
            ..self.clone()
        }
    }

    /// Reserves the logs of a guest.
    pub fn guest_logs(&self, name: &str) -> Result<GuestLogs> {
        GuestLogs::reserve(&self.logs, name)
    }
}

/// The logs of one guest: files of one name with different ends.
pub struct GuestLogs {
    dir: PathBuf,
    name: String,
}

impl GuestLogs {
    /// The logs of a guest in an older run.
    pub fn of(dir: &Path, name: &str) -> Self {
        Self {
            dir: dir.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Finds a name that no guest of this run has had, and creates the console's log.
    fn reserve(dir: &Path, name: &str) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let later = (2..).map(|n| format!("{name}-{n}"));
        for name in [name.to_owned()].into_iter().chain(later) {
            let logs = Self::of(dir, &name);
            match File::create_new(logs.console()) {
                Ok(_) => return Ok(logs),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e).with_context(|| logs.console().display().to_string()),
            }
        }
        unreachable!("the names do not end")
    }

    fn file(&self, end: &str) -> PathBuf {
        self.dir.join(format!("{}.{end}", self.name))
    }

    /// The kernel's console.
    pub fn console(&self) -> PathBuf {
        self.file("console.log")
    }

    /// QEMU's messages.
    pub fn qemu(&self) -> PathBuf {
        self.file("qemu.log")
    }

    /// The report of the guest tests.
    pub fn ktap(&self) -> PathBuf {
        self.file("ktap")
    }

    /// The standard error of the command.
    pub fn stderr(&self) -> PathBuf {
        self.file("stderr.log")
    }

    /// Where the time of the guest went.
    pub fn times(&self) -> PathBuf {
        self.file("times")
    }

    /// The registers and local APICs of a guest that timed out.
    pub fn registers(&self) -> PathBuf {
        self.file("registers.log")
    }

    /// What the kernel of a guest that timed out said of its tasks, CPUs and timers.
    pub fn sysrq(&self) -> PathBuf {
        self.file("sysrq.log")
    }

    /// The backtraces of QEMU's threads when a guest timed out.
    pub fn threads(&self) -> PathBuf {
        self.file("threads.log")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_guests_of_a_name_have_different_logs() {
        let dir = tempfile::tempdir().unwrap();
        let first = GuestLogs::reserve(dir.path(), "bench").unwrap();
        let second = GuestLogs::reserve(dir.path(), "bench").unwrap();
        assert_eq!(first.console(), dir.path().join("bench.console.log"));
        assert_eq!(second.ktap(), dir.path().join("bench-2.ktap"));
    }
}
