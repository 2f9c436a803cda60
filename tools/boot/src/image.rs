// SPDX-License-Identifier: GPL-2.0

//! Images of kernels, by the header of their setup code (Documentation/arch/x86/boot.rst).

use anyhow::{ensure, Context as _, Result};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The compressed kernel within an image.
pub fn payload(vmlinuz: &[u8]) -> Result<&[u8]> {
    let long = |at: usize| {
        let bytes = vmlinuz.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let payload = || {
        let setup_sects = usize::from(*vmlinuz.get(0x1f1)?);
        let start = (setup_sects + 1) * 512 + long(0x248)?;
        // The four bytes behind the compressed kernel say how long it is uncompressed.
        vmlinuz.get(start..start + long(0x24c)? - 4)
    };
    payload().context("the kernel image has no header of the x86 boot protocol")
}

/// The release of the kernel in an image.
pub fn release(vmlinuz: &Path) -> Result<String> {
    let file = File::open(vmlinuz)?;
    let mut magic = [0; 4];
    file.read_exact_at(&mut magic, 0x202)?;
    ensure!(&magic == b"HdrS", "not an image of an x86 kernel");
    let mut offset = [0; 2];
    file.read_exact_at(&mut offset, 0x20e)?;
    let mut text = [0; 128];
    file.read_exact_at(&mut text, 0x200 + u64::from(u16::from_le_bytes(offset)))?;
    let release = text
        .split(|byte| b" \0".contains(byte))
        .next()
        .unwrap_or_default();
    Ok(String::from_utf8(release.to_vec())?)
}
