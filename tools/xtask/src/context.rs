// SPDX-License-Identifier: GPL-2.0

//! Where things are, as `tools/bootstrap` says.

use anyhow::{ensure, Context as _, Result};
use std::env;
use std::path::{Path, PathBuf};

/// The directories that everything works with.
pub struct Context {
    /// The checkout.
    pub top: PathBuf,
    /// The cache, shared by all checkouts of a user.
    pub cache: PathBuf,
    /// The build root, an entry of the cache.
    pub root: PathBuf,
    /// What is built in this checkout.
    pub out: PathBuf,
    /// The logs of steps and guests.
    pub logs: PathBuf,
}

impl Context {
    /// A file that no other run sees: /tmp is of our mount namespace.
    pub fn private(&self, name: &str) -> PathBuf {
        Path::new("/tmp").join(name)
    }

    /// Reads the environment that `tools/bootstrap` sets.
    pub fn from_env() -> Result<Self> {
        // On a signal all processes of the PID namespace are killed: it must be ours.
        ensure!(
            std::process::id() == 1,
            "run me as tools/bootstrap: I must be process 1 of my own PID namespace"
        );
        let dir = |name| {
            env::var_os(name)
                .map(PathBuf::from)
                .with_context(|| format!("{name} is not set"))
        };
        let top = dir("RUST_PERF_TOP")?;
        let out = top.join("out");
        Ok(Self {
            cache: dir("RUST_PERF_CACHE")?,
            root: dir("RUST_PERF_ROOT")?,
            logs: out.join("log"),
            out,
            top,
        })
    }
}
