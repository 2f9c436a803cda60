// SPDX-License-Identifier: GPL-2.0

//! Runs the program as a user does.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use tempfile::TempDir;

/// The saved guests of all tests.
static CACHE: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run make test-counted"))
}

/// The program with options, and a directory for temporary files of its own.
pub struct Counted {
    command: Command,
    temporary: TempDir,
}

impl Counted {
    /// With these options. Saved guests are shared with the other tests.
    pub fn new(options: &[&str]) -> Self {
        Self::with_cache(options, CACHE.path())
    }

    /// With these options, and a directory for saved guests.
    pub fn with_cache(options: &[&str], cache: &Path) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = Command::new(variable("COUNTED"));
        command
            .args(["--qemu", &variable("COUNTED_QEMU")])
            .args(["--kernel", &variable("COUNTED_KERNEL")])
            .args(options)
            .arg("--")
            .env("XDG_CACHE_HOME", cache)
            .env("TMPDIR", temporary.path());
        Self { command, temporary }
    }

    /// What is to run.
    pub fn command(mut self, words: &[&str]) -> Self {
        self.command.args(words);
        self
    }

    /// A script for the shell.
    pub fn script(self, script: &str) -> Self {
        self.command(&["sh", "-c", script])
    }

    /// Changes how it is started.
    pub fn with(mut self, change: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        change(&mut self.command);
        self
    }

    /// Runs it. Nothing may be left behind.
    pub fn run(mut self) -> Output {
        let output = self.command.stdin(Stdio::null()).output().unwrap();
        self.expect_nothing_left();
        output
    }

    /// Starts it with pipes.
    pub fn start(mut self) -> Started {
        let child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Started {
            child,
            counted: self,
        }
    }

    /// Starts it with the standard streams that it has.
    pub fn start_as_it_is(mut self) -> Started {
        let child = self.command.spawn().unwrap();
        Started {
            child,
            counted: self,
        }
    }

    /// Neither files nor processes.
    fn expect_nothing_left(&self) {
        let left: Vec<_> = fs::read_dir(self.temporary.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(processes_of(self.temporary.path()), [""; 0]);
    }

    /// The directory for temporary files.
    pub fn temporary(&self) -> PathBuf {
        self.temporary.path().to_owned()
    }
}

/// The program while it runs.
pub struct Started {
    /// The process.
    pub child: Child,
    counted: Counted,
}

impl Started {
    /// Waits for its end. Nothing may be left behind. Returns the exit status.
    pub fn end(mut self) -> Option<i32> {
        let status = self.child.wait().unwrap();
        self.counted.expect_nothing_left();
        status.code()
    }

    /// The directory for temporary files.
    pub fn temporary(&self) -> PathBuf {
        self.counted.temporary()
    }
}

/// The command lines of the processes that name a directory: a guest's QEMU names its sockets.
pub fn processes_of(directory: &Path) -> Vec<String> {
    let directory = directory.to_str().unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let line = fs::read(entry.unwrap().path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(directory) {
            found.push(line);
        }
    }
    found
}

/// A text that must be UTF-8.
pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Expects that a command printed this and nothing else, and exited with this status.
pub fn expect(output: &Output, code: i32, stdout: &str, stderr: &str) {
    let seen = (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    );
    assert_eq!(seen, (Some(code), stdout, stderr));
}
