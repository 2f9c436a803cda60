// SPDX-License-Identifier: GPL-2.0

//! The modules and the files of the guest.

use anyhow::{Context as _, Result};
use nix::kmod::{finit_module, ModuleInitFlags};
use nix::mount::{mount, umount2, MntFlags, MsFlags};
use nix::unistd::{chdir, chroot};
use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

use super::MODULES;
use crate::talk::{writable_tag, Job, HOST_FILES};

/// The options of all mounts of files of the host.
const P9: &str = "trans=virtio,version=9p2000.L,msize=262144";

const NONE: MsFlags = MsFlags::empty();

fn mount_on(source: &str, target: &str, kind: &str, flags: MsFlags, options: &str) -> Result<()> {
    fs::create_dir_all(target).with_context(|| target.to_owned())?;
    mount(Some(source), target, Some(kind), flags, Some(options))
        .with_context(|| format!("cannot mount {target}"))
}

/// Mounts what is needed to find the host.
pub fn early() -> Result<()> {
    for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        mount_on(kind, target, kind, NONE, "")?;
    }
    Ok(())
}

/// Loads the modules of the initramfs.
pub fn load_modules() -> Result<()> {
    let mut modules = fs::read_dir(MODULES)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    modules.sort();
    for path in modules {
        load_module(&File::open(&path)?, "")
            .with_context(|| format!("cannot load {}", path.display()))?;
    }
    Ok(())
}

/// Loads a module that is not compressed.
pub fn load_module(file: &File, parameters: &str) -> Result<()> {
    let parameters = CString::new(parameters)?;
    Ok(finit_module(file, &parameters, ModuleInitFlags::empty())?)
}

/// Mounts the files of the host below an overlay, and makes that the root.
pub fn host_files(job: &Job) -> Result<()> {
    const NEW: &str = "/new";
    let read_only = MsFlags::MS_RDONLY;
    mount_on(
        HOST_FILES,
        "/host",
        "9p",
        read_only,
        &format!("{P9},cache=loose"),
    )?;
    mount_on("tmpfs", "/layers", "tmpfs", NONE, "mode=755")?;
    for layer in ["/layers/upper", "/layers/work"] {
        fs::create_dir(layer)?;
    }
    let layers = "lowerdir=/host,upperdir=/layers/upper,workdir=/layers/work";
    mount_on("overlay", NEW, "overlay", NONE, layers)?;
    umount2("/host", MntFlags::MNT_DETACH)?;
    for target in ["/proc", "/sys", "/dev"] {
        let new = format!("{NEW}{target}");
        fs::create_dir_all(&new)?;
        mount(
            Some(target),
            new.as_str(),
            None::<&str>,
            MsFlags::MS_MOVE,
            None::<&str>,
        )
        .with_context(|| format!("cannot move {target}"))?;
    }
    // By default they are root's alone.
    let of_user = format!("uid={},gid={},mode=755", job.user, job.group);
    for (source, target, kind, options) in [
        (
            "tracefs",
            "/sys/kernel/tracing",
            "tracefs",
            of_user.as_str(),
        ),
        ("debugfs", "/sys/kernel/debug", "debugfs", &of_user),
        ("cgroup2", "/sys/fs/cgroup", "cgroup2", ""),
        ("bpf", "/sys/fs/bpf", "bpf", "mode=700"),
        ("devpts", "/dev/pts", "devpts", "ptmxmode=666,mode=620"),
        ("tmpfs", "/dev/shm", "tmpfs", "mode=1777"),
    ] {
        let target = format!("{NEW}{target}");
        // Not every kernel has all of them.
        if let Err(error) = mount_on(source, &target, kind, NONE, options) {
            eprintln!("counted: {error:#}");
        }
    }
    chdir(NEW)?;
    mount(Some(NEW), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>).context("the new root")?;
    chroot(".")?;
    chdir("/")?;
    // devtmpfs lacks them.
    for (name, target) in [
        ("fd", "fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
    ] {
        symlink(
            Path::new("/proc/self").join(target),
            Path::new("/dev").join(name),
        )?;
    }
    Ok(())
}

/// Mounts the directories of the host that the command may write.
pub fn writable(job: &Job) -> Result<()> {
    for (index, directory) in job.writable.iter().enumerate() {
        let target = directory
            .to_str()
            .context("a directory's name is no UTF-8")?;
        let options = format!("{P9},cache=mmap");
        mount_on(&writable_tag(index), target, "9p", NONE, &options)?;
    }
    Ok(())
}
