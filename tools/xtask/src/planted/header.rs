// SPDX-License-Identifier: GPL-2.0

//! The lines above the diff of a patch that puts a fault into code.

use anyhow::{bail, ensure, Context as _, Result};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::context::Context;

/// How a test shows a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It fails.
    Failure,
    /// It does not end.
    Hang,
    /// It passes, but afterwards there is a complaint in the kernel log of the guest.
    KernelLog,
}

impl Sign {
    const ALL: [Self; 3] = [Self::Failure, Self::Hang, Self::KernelLog];
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failure => "failure",
            Self::Hang => "hang",
            Self::KernelLog => "kernel log",
        })
    }
}

/// Reads the patches of a folder, in the order of their names. `parse` is given the path and the text of each.
pub fn read_all<T>(folder: &Path, parse: impl Fn(&Path, &str) -> Result<T>) -> Result<Vec<T>> {
    let mut patches: Vec<PathBuf> = fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|path| path.extension() == Some("patch".as_ref()))
        .collect();
    patches.sort();
    let read = |patch: &PathBuf| {
        let text = fs::read_to_string(patch)?;
        parse(patch, &text).with_context(|| patch.display().to_string())
    };
    patches.iter().map(read).collect()
}

/// Checks that a page has the table that is made of the headers of patches.
pub fn check_table(ctx: &Context, page: &str, what: &str, table: &str) -> Result<()> {
    if !fs::read_to_string(ctx.top.join(page))?.contains(table) {
        let file = ctx
            .logs
            .join(format!("{}-table.md", what.replace(' ', "-")));
        fs::write(&file, table)?;
        bail!(
            "the table of {what} in {page} is not that of the patches' headers.\n  \
             try: put the table of {} there",
            file.display()
        );
    }
    Ok(())
}

/// The lines `Name: text`. A line that begins with a space continues the one before.
pub struct Header<'a>(Vec<(&'a str, String)>);

impl<'a> Header<'a> {
    /// Splits a patch into its header and its diff.
    pub fn parse(text: &'a str) -> Result<(Self, &'a str)> {
        let (header, diff) = text
            .split_once("\n--- ")
            .context("there is no diff after the header")?;
        let mut fields: Vec<(&str, String)> = Vec::new();
        for line in header.lines().filter(|line| !line.is_empty()) {
            match (
                line.strip_prefix(' '),
                line.split_once(": "),
                &mut fields[..],
            ) {
                (Some(more), _, [.., (_, field)]) => *field += &format!(" {}", more.trim()),
                (None, Some((name, field)), _) => fields.push((name, field.trim().to_owned())),
                _ => bail!("a line of the header is not \"Name: text\": {line}"),
            }
        }
        Ok((Self(fields), diff))
    }

    /// The text of a line that must be there.
    pub fn take(&mut self, name: &str) -> Result<String> {
        self.take_if_any(name)
            .with_context(|| format!("the header has no line \"{name}: …\""))
    }

    fn take_if_any(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(it, _)| *it == name)?;
        Some(self.0.remove(at).1)
    }

    /// How the test shows the fault, of a line `Expect:`. Without the line, it fails.
    pub fn signs(&mut self) -> Result<Vec<Sign>> {
        self.take_if_any("Expect")
            .map_or(Ok(vec![Sign::Failure]), |text| signs(&text))
    }

    /// Checks that no other line is left.
    pub fn finish(self) -> Result<()> {
        let left: Vec<_> = self.0.iter().map(|(name, _)| *name).collect();
        ensure!(
            left.is_empty(),
            "the header has a line \"{}:\" that means nothing",
            left.join(":\", \"")
        );
        Ok(())
    }
}

/// The signs of a list such as `failure or kernel log`.
fn signs(text: &str) -> Result<Vec<Sign>> {
    let sign = |text| {
        let mut all = Sign::ALL.into_iter();
        all.find(|sign: &Sign| sign.to_string() == text)
            .with_context(|| format!("Expect: {text}: a sign is {}", list(&Sign::ALL)))
    };
    text.split(" or ").map(sign).collect()
}

/// A list of signs, as a header has it.
pub fn list(signs: &[Sign]) -> String {
    let signs: Vec<_> = signs.iter().map(Sign::to_string).collect();
    signs.join(" or ")
}
