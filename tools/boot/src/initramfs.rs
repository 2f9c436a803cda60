// SPDX-License-Identifier: GPL-2.0

//! An initramfs.

use anyhow::Result;
use cpio::newc::ModeFileType;
use cpio::{write_cpio, NewcBuilder};
use std::fs::File;
use std::io::Cursor;
use std::path::Path;

/// Writes an initramfs with these directories and files. Files are programs. Paths are relative to the root.
pub fn write(directories: &[&str], files: Vec<(String, Vec<u8>)>, path: &Path) -> Result<()> {
    let entry = |name: &str, file_type, mode| {
        NewcBuilder::new(name)
            .set_mode_file_type(file_type)
            .mode(mode)
    };
    let directories = directories.iter().map(|name| {
        let entry = entry(name, ModeFileType::Directory, 0o40755);
        (entry, Cursor::new(Vec::new()))
    });
    let files = files.into_iter().map(|(name, contents)| {
        let entry = entry(&name, ModeFileType::Regular, 0o100755);
        (entry, Cursor::new(contents))
    });
    write_cpio(directories.chain(files), File::create(path)?)?;
    Ok(())
}
