// SPDX-License-Identifier: GPL-2.0
//! The emulator: a CPU accesses a device while another CPU changes the memory map.
//!
//! An access that went to the wrong device, such as the EOI of a timer's interrupt, has hung guests
//! while they booted. See "The patches" in `qemu/README.md`.

use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Barrier;
use std::thread;

use anyhow::{bail, ensure, Context, Result};
use nix::mount::{mount, umount, MsFlags};
use nix::sys::mman::{mmap, munmap, MapFlags, ProtFlags};

use crate::ctx::{Ctx, Test};
use crate::setting::Affinity;
use crate::tests;
use crate::waiting;

pub const TESTS: &[Test] = tests![
    all need [Root, Cpus(2)];
    accesses_reach_their_device,
];

/// A directory that the guest has by 9p and that tests do not need.
const DIRECTORY: &str = "/mnt/checkout";
/// Its mount tag.
const TAG: &str = "checkout";

const PCI_DEVICES: &str = "/sys/bus/pci/devices";
const DRIVER: &str = "/sys/bus/pci/drivers/virtio-pci";

/// The register COMMAND of a PCI device, and its bit Memory Space Enable (PCI Local Bus
/// Specification 3.0, section 6.2.2).
const COMMAND: u64 = 4;
const MEMORY_SPACE: u16 = 1 << 1;

/// A PCI device that is taken from its driver.
struct Unused {
    address: String,
    config: File,
    command: u16,
}

impl Unused {
    /// Unmounts the directory, and takes its device from the driver.
    fn take() -> Result<Self> {
        let address = address_of(TAG)?;
        let config = Path::new(PCI_DEVICES).join(&address).join("config");
        let config = File::options().read(true).write(true).open(config)?;
        let mut command = [0; 2];
        config.read_exact_at(&mut command, COMMAND)?;
        umount(DIRECTORY).context(DIRECTORY)?;
        if let Err(error) = fs::write(Path::new(DRIVER).join("unbind"), &address) {
            Self::mount()?;
            return Err(error).context("unbind");
        }
        Ok(Self {
            address,
            config,
            command: u16::from_le_bytes(command),
        })
    }

    /// Removes the device's memory from the memory map, and adds it again.
    fn change_memory_map(&self) -> Result<()> {
        for command in [self.command & !MEMORY_SPACE, self.command | MEMORY_SPACE] {
            self.config.write_all_at(&command.to_le_bytes(), COMMAND)?;
        }
        Ok(())
    }

    /// As the initramfs had it.
    fn mount() -> Result<()> {
        let options = Some("trans=virtio,version=9p2000.L,msize=262144");
        let read_only = MsFlags::MS_RDONLY;
        mount(Some(TAG), DIRECTORY, Some("9p"), read_only, options).context(DIRECTORY)
    }

    /// Gives it back to the driver, and mounts the directory. Each step is tried.
    fn give_back(&self) -> Result<()> {
        let command = self.command.to_le_bytes();
        let enabled = self.config.write_all_at(&command, COMMAND);
        let bound = fs::write(Path::new(DRIVER).join("bind"), &self.address);
        let mounted = Self::mount();
        enabled.context("config")?;
        bound.context("bind")?;
        mounted
    }
}

/// The PCI address of the device with a mount tag, such as `0000:00:07.0`.
fn address_of(tag: &str) -> Result<String> {
    for device in fs::read_dir("/sys/bus/virtio/devices")? {
        let device = device?.path();
        let found = fs::read_to_string(device.join("mount_tag")).unwrap_or_default();
        if found.trim_end_matches(['\0', '\n']) == tag {
            let device = fs::canonicalize(device)?;
            let address = device.parent().and_then(Path::file_name);
            let address = address.and_then(|name| name.to_str());
            return Ok(address
                .context("a virtio device without a parent")?
                .to_owned());
        }
    }
    bail!("no virtio device has the mount tag {tag}")
}

/// The table of MSI-X vectors of another virtio device.
fn other_memory(address: &str) -> Result<PathBuf> {
    for device in fs::read_dir(DRIVER)? {
        let name = device?.file_name();
        let table = Path::new(PCI_DEVICES).join(&name).join("resource1");
        if name != *address && table.is_file() {
            return Ok(table);
        }
    }
    bail!("no other virtio device")
}

/// The page with a table of MSI-X vectors. It is unmapped on drop.
struct Page(NonNull<u32>);

// SAFETY: the page is only read.
unsafe impl Sync for Page {}

impl Page {
    const SIZE: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

    fn map(memory: &Path) -> Result<Self> {
        let file = File::open(memory)?;
        // SAFETY: a new mapping is made. It is read by `vector` alone.
        let page = unsafe {
            mmap(
                None,
                Self::SIZE,
                ProtFlags::PROT_READ,
                MapFlags::MAP_SHARED,
                &file,
                0,
            )
        };
        Ok(Self(
            page.with_context(|| format!("{}", memory.display()))?
                .cast(),
        ))
    }

    /// The message data of the first vector, which does not change and is another one in other
    /// devices' tables (PCI Local Bus Specification 3.0, section 6.8.2.9).
    fn vector(&self) -> u32 {
        // SAFETY: the third word is in the page, which is mapped, readable and aligned. The device
        // may change what is there, hence it is volatile.
        unsafe { self.0.add(2).read_volatile() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` has made, and nothing refers to it any more.
        let _ = unsafe { munmap(self.0.cast(), Self::SIZE.get()) };
    }
}

/// CPU 1 reads the same word of a device again and again.
fn accesses_reach_their_device(_: &Ctx) -> Result<()> {
    let unused = Unused::take()?;
    let result = read_while_changing(&unused);
    unused.give_back()?;
    result
}

fn read_while_changing(unused: &Unused) -> Result<()> {
    const CHANGES: u32 = 5_000;
    let page = Page::map(&other_memory(&unused.address)?)?;
    let right = page.vector();
    let (started, done) = (Barrier::new(2), AtomicBool::new(false));
    let (reads, wrong) = thread::scope(|scope| {
        let page = &page;
        let reader = scope.spawn(|| {
            let affinity = Affinity::pinned_to(1);
            waiting::meet(&started, "the thread that changes the memory map");
            let (mut reads, mut wrong) = (0u64, None);
            while !done.load(Ordering::Relaxed) {
                let word = page.vector();
                reads += 1;
                wrong = wrong.or((word != right).then_some(word));
            }
            affinity.map(|_| (reads, wrong))
        });
        let affinity = Affinity::pinned_to(0);
        waiting::meet(&started, "the reader");
        let changed = (0..CHANGES).try_for_each(|_| unused.change_memory_map());
        done.store(true, Ordering::Relaxed);
        let read = reader.join().expect("the reader panicked");
        changed.and(affinity).and(read)
    })?;
    println!("# {reads} reads during {CHANGES} changes");
    ensure!(wrong.is_none(), "read {wrong:#x?} instead of {right:#x}");
    Ok(())
}
