// SPDX-License-Identifier: GPL-2.0

//! The virtio ports of the guest.

use anyhow::{ensure, Context as _, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::talk::ToHost;

/// An open port.
pub struct Port(File);

impl Port {
    /// Opens the port of this name.
    pub fn open(name: &str) -> Result<Self> {
        let path = find(name)?;
        let file = OpenOptions::new().read(true).write(true).open(&path);
        Ok(Self(file.with_context(|| path.display().to_string())?))
    }

    /// Its file.
    pub fn file(&self) -> Result<File> {
        Ok(self.0.try_clone()?)
    }

    /// Sends a message.
    pub fn say(&self, message: &ToHost) -> Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        (&self.0).write_all(&line).context("the host")
    }

    /// Waits until the host has closed the port.
    pub fn wait_until_closed(&self) -> Result<()> {
        while (&self.0).read(&mut [0; 512])? != 0 {}
        Ok(())
    }
}

/// The device of the port.
fn find(name: &str) -> Result<PathBuf> {
    for entry in fs::read_dir("/sys/class/virtio-ports")? {
        let entry = entry?;
        let found = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        if found.trim_end() == name {
            let device = Path::new("/dev").join(entry.file_name());
            ensure!(device.exists(), "{} is missing", device.display());
            return Ok(device);
        }
    }
    anyhow::bail!("there is no virtio port {name}")
}
