// SPDX-License-Identifier: GPL-2.0
//! What a comparison has found.

use anyhow::{bail, ensure, Result};
use nix::errno::Errno;

use crate::ctx::Ctx;

/// The numbers of calls, and the unexpected results.
pub struct Report {
    seed: u64,
    calls: usize,
    opened: usize,
    pub counted: usize,
    wrong: Vec<String>,
}

impl Report {
    pub fn new(ctx: &Ctx) -> Self {
        Self {
            seed: ctx.seed,
            calls: 0,
            opened: 0,
            counted: 0,
            wrong: Vec::new(),
        }
    }

    /// Records a call that ended with this errno.
    pub fn called(&mut self, errno: i32) {
        self.calls += 1;
        self.opened += usize::from(errno == 0);
    }

    /// Records an unexpected result.
    pub fn wrong(&mut self, what: String) {
        self.wrong.push(what);
    }

    /// Returns an error that lists the first unexpected results, if there are any. It is one
    /// as well if no event was opened.
    pub fn finish(self) -> Result<()> {
        let opened = self.opened;
        self.finish_refused()?;
        ensure!(opened > 0, "no event was opened");
        Ok(())
    }

    /// Returns an error that lists the first unexpected results, if there are any. Every event may have
    /// been refused.
    pub fn finish_refused(self) -> Result<()> {
        const SHOWN: usize = 40;
        let Self {
            calls,
            opened,
            counted,
            wrong,
            seed,
        } = self;
        println!("# {calls} calls, {opened} events opened, {counted} counted");
        if wrong.is_empty() {
            return Ok(());
        }
        bail!(
            "{} unexpected results of {calls} calls with seed {seed}\n{}",
            wrong.len(),
            wrong[..wrong.len().min(SHOWN)].join("\n")
        )
    }
}

/// An errno for messages.
pub fn name(errno: i32) -> String {
    match errno {
        0 => "success".into(),
        errno => format!("{:?}", Errno::from_raw(errno)),
    }
}
