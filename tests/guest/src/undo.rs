// SPDX-License-Identifier: GPL-2.0
//! What has to be written to files of /proc/sys and /sys if the tests are killed.
//!
//! A [`Setting`](crate::setting::Setting) is undone when it is dropped, but a signal drops
//! nothing. So each is recorded in a file before it is changed. The process that started the
//! tests reads it, see [`keeper`](crate::keeper).

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, Result};

/// The journal. In a guest of a suite there is none.
static JOURNAL: OnceLock<File> = OnceLock::new();

/// Has [`record`] write to this file.
pub fn open(journal: &Path) -> Result<()> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(journal)
        .with_context(|| format!("{}", journal.display()))?;
    // Called once.
    let _ = JOURNAL.set(file);
    Ok(())
}

/// Records that a file is to have this value in the end.
pub fn record(file: &Path, value: impl Display) -> Result<()> {
    if let Some(mut journal) = JOURNAL.get() {
        // One write, so that a record is there as a whole or not at all.
        let record = format!("{}\0{value}\0", file.display());
        journal.write_all(record.as_bytes()).context("journal")?;
    }
    Ok(())
}

/// Writes what is recorded, the last record first. Returns what could not be written.
pub fn replay(journal: &Path) -> Vec<String> {
    let text = fs::read_to_string(journal).unwrap_or_default();
    let fields: Vec<_> = text.split_terminator('\0').collect();
    let mut failures = Vec::new();
    for record in fields.chunks_exact(2).rev() {
        if let Err(error) = fs::write(record[0], record[1]) {
            failures.push(format!(
                "cannot write {} to {}: {error}",
                record[1], record[0]
            ));
        }
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_is_written_last() {
        let dir = tempfile::tempdir().unwrap();
        let (journal, file) = (dir.path().join("journal"), dir.path().join("setting"));
        fs::write(&file, "9").unwrap();
        let gone = dir.path().join("none/setting");
        let record = |file: &Path, value| format!("{}\0{value}\0", file.display());
        fs::write(
            &journal,
            [record(&file, 1), record(&gone, 2), record(&file, 3)].concat(),
        )
        .unwrap();
        let failures = replay(&journal);
        assert_eq!(fs::read_to_string(&file).unwrap(), "1");
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(replay(&dir.path().join("no journal")).is_empty());
    }
}
