// SPDX-License-Identifier: GPL-2.0

//! The modules that a guest loads before it can use the files of the host.

use anyhow::{bail, ensure, Context as _, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// What a guest needs to use the files of the host by 9p below an overlay, and to talk to the host by virtio
/// ports and by files of the firmware.
pub const FOR_HOST_FILES: [&str; 6] = [
    "virtio_pci",
    "virtio_console",
    "9pnet_virtio",
    "9p",
    "overlay",
    "qemu_fw_cfg",
];

/// Gets modules and those they depend on, in the order to load them: names, and contents that are not
/// compressed. Modules that are built in are left out. `directory` has modules.dep.
pub fn read(directory: &Path, needed: &[&str]) -> Result<Vec<(String, Vec<u8>)>> {
    let dependencies = fs::read_to_string(directory.join("modules.dep"))
        .with_context(|| format!("{} has no modules.dep", directory.display()))?;
    let builtin = fs::read_to_string(directory.join("modules.builtin")).unwrap_or_default();
    let mut modules = Vec::new();
    for path in load_order(&dependencies, &builtin, needed)? {
        let (name, contents) = uncompressed(&directory.join(path))?;
        modules.push((name, contents));
    }
    Ok(modules)
}

/// The paths of modules and of those they depend on, in the order to load them.
fn load_order<'a>(dependencies: &'a str, builtin: &str, needed: &[&str]) -> Result<Vec<&'a str>> {
    let is = |path: &str, module: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.split('.').next() == Some(module)
    };
    let mut order = Vec::new();
    for module in needed {
        let mut rows = dependencies.lines().filter_map(|line| line.split_once(':'));
        let Some((path, needs)) = rows.find(|(path, _)| is(path, module)) else {
            if builtin.lines().any(|path| is(path, module)) {
                continue;
            }
            bail!("the kernel has no module {module}");
        };
        // modules.dep lists a dependency behind what needs it.
        for path in needs.split_whitespace().rev().chain([path]) {
            if !order.contains(&path) {
                order.push(path);
            }
        }
    }
    Ok(order)
}

/// The name and the contents of a module, without compression.
fn uncompressed(path: &Path) -> Result<(String, Vec<u8>)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for (suffix, program) in [(".xz", "xz"), (".zst", "zstd"), (".gz", "gzip")] {
        if let Some(name) = name.strip_suffix(suffix) {
            let output = Command::new(program).arg("-dcq").arg(path).output();
            let output = output.with_context(|| format!("cannot run {program}"))?;
            ensure!(
                output.status.success(),
                "{program} cannot decompress {}",
                path.display()
            );
            return Ok((name.to_owned(), output.stdout));
        }
    }
    let contents = fs::read(path).with_context(|| path.display().to_string())?;
    Ok((name.into_owned(), contents))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPENDENCIES: &str =
        "kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz\n\
                                kernel/net/9p/9pnet.ko.xz: kernel/fs/netfs/netfs.ko.xz\n\
                                kernel/fs/netfs/netfs.ko.xz:\n";

    #[test]
    fn dependencies_are_loaded_first() {
        assert_eq!(
            load_order(DEPENDENCIES, "", &["9pnet", "9p"]).unwrap(),
            [
                "kernel/fs/netfs/netfs.ko.xz",
                "kernel/net/9p/9pnet.ko.xz",
                "kernel/fs/9p/9p.ko.xz"
            ]
        );
        assert!(load_order(DEPENDENCIES, "", &["p"]).is_err());
    }

    #[test]
    fn what_is_built_in_is_not_loaded() {
        let builtin = "kernel/drivers/virtio/virtio_pci.ko\n";
        let order = load_order(DEPENDENCIES, builtin, &["virtio_pci", "netfs"]).unwrap();
        assert_eq!(order, ["kernel/fs/netfs/netfs.ko.xz"]);
        assert!(load_order(DEPENDENCIES, "", &["virtio_pci"]).is_err());
    }
}
