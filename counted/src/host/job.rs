// SPDX-License-Identifier: GPL-2.0

//! What the guest has to do.

use anyhow::{ensure, Context as _, Result};
use nix::unistd::{getgroups, Gid, Uid};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::options::{Options, Place};
use super::terminal::size;
use crate::talk::{Job, JOB_LENGTH};

/// What the clock says when a command begins with `--exact`: 2026-01-01, in seconds since 1970.
const EXACT_TIME: u64 = 1_767_225_600;

/// The job of these options. `input` is a file that the command gets instead of standard input.
pub fn job(options: &Options, has_terminal: bool, input: Option<&Path>) -> Result<Job> {
    let bytes = |text: &OsStr| text.as_bytes().to_vec();
    let id = |user: u32| if options.root { 0 } else { user };
    let directory = env::current_dir().context("the current directory")?;
    ensure!(
        directory.to_str().is_some(),
        "the name of the current directory is not UTF-8"
    );
    Ok(Job {
        command: options.command.iter().map(|it| bytes(it)).collect(),
        environment: env::vars_os()
            .map(|(name, value)| (name.into_vec(), value.into_vec()))
            .collect(),
        directory,
        user: id(Uid::effective().as_raw()),
        group: id(Gid::effective().as_raw()),
        groups: getgroups()?.into_iter().map(Gid::as_raw).collect(),
        umask: own_umask()?,
        writable: options.rw.clone(),
        terminal: has_terminal.then(size),
        module: options.module.map(|place| match place {
            Place::Beside => Vec::new(),
            Place::Primary => vec!["primary=1".to_owned()],
        }),
        input: input.map(Path::to_owned),
        exact: options.exact,
        time: match options.exact {
            true => Duration::from_secs(EXACT_TIME),
            false => SystemTime::UNIX_EPOCH.elapsed()?,
        },
    })
}

/// The mask of the modes of new files. The system call that reads it would change it.
fn own_umask() -> Result<u32> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let mask = line.context("/proc/self/status has no Umask")?;
    Ok(u32::from_str_radix(mask.trim(), 8)?)
}

/// A job as the guest reads it from the firmware's files.
pub fn padded(job: &Job) -> Result<Vec<u8>> {
    let mut padded = serde_json::to_vec(job)?;
    ensure!(
        padded.len() < JOB_LENGTH,
        "the command and its environment are too long for --exact"
    );
    padded.resize(JOB_LENGTH, 0);
    Ok(padded)
}
