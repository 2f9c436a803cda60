// SPDX-License-Identifier: GPL-2.0
//! The smallest guest that KVM can run: one virtual CPU in real mode that runs a loop.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::ptr::NonNull;

use anyhow::{ensure, Context, Result};
use nix::libc::c_void;
use nix::sys::mman::{mmap, mmap_anonymous, munmap, MapFlags, ProtFlags};

use crate::waiting;

// include/uapi/linux/kvm.h
const KVM_CREATE_VM: u64 = 0xae01;
const KVM_GET_VCPU_MMAP_SIZE: u64 = 0xae04;
const KVM_CREATE_VCPU: u64 = 0xae41;
const KVM_SET_USER_MEMORY_REGION: u64 = 0x4020_ae46;
const KVM_RUN: u64 = 0xae80;
const KVM_SET_REGS: u64 = 0x4090_ae82;
const KVM_GET_SREGS: u64 = 0x8138_ae83;
const KVM_SET_SREGS: u64 = 0x4138_ae84;
const KVM_EXIT_HLT: u32 = 5;

/// The indices of registers in `struct kvm_regs`, which has 18 of 64 bits.
const RCX: usize = 2;
const RIP: usize = 16;
const RFLAGS: usize = 17;

/// The module of KVM, which is loaded.
pub struct Kvm;

impl Kvm {
    /// Loads KVM for a CPU of AMD, which sets EFER.SVME on all CPUs.
    pub fn load() -> Result<Self> {
        modprobe(&["kvm_amd"])?;
        Ok(Self)
    }

    /// Unloads KVM, which clears EFER.SVME. No [`Guest`] may be left.
    pub fn unload(self) -> Result<()> {
        mem::forget(self);
        modprobe(&["-r", "kvm_amd"])
    }
}

impl Drop for Kvm {
    fn drop(&mut self) {
        if let Err(error) = modprobe(&["-r", "kvm_amd"]) {
            println!("# {error:#}");
        }
    }
}

fn modprobe(arguments: &[&str]) -> Result<()> {
    let output = waiting::output(Command::new("modprobe").args(arguments));
    let output = output.context("modprobe")?;
    ensure!(
        output.status.success(),
        "modprobe {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(())
}

/// A virtual machine whose CPU runs `LOOP` to itself, and then `HLT`.
pub struct Guest {
    vcpu: OwnedFd,
    /// `struct kvm_run`.
    run: Mapping,
    _vm: OwnedFd,
    _memory: Mapping,
    _kvm: File,
}

/// A mapping of memory that nothing refers to when this is dropped.
struct Mapping {
    address: NonNull<c_void>,
    size: NonZeroUsize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own, and nothing refers to it any more.
        if let Err(error) = unsafe { munmap(self.address, self.size.get()) } {
            println!("# munmap: {error}");
        }
    }
}

/// # Safety
///
/// `argument` is what the request takes: a number, or the address of memory that it may
/// access.
unsafe fn ioctl(fd: &impl AsRawFd, request: u64, argument: usize) -> io::Result<i32> {
    // SAFETY: the caller passes what the request takes.
    match unsafe { libc::ioctl(fd.as_raw_fd(), request as _, argument) } {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

impl Guest {
    /// Needs a loaded [`Kvm`].
    pub fn new() -> Result<Self> {
        const MEMORY: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
        // LOOP $; HLT
        const CODE: [u8; 3] = [0xe2, 0xfe, 0xf4];
        let kvm = OpenOptions::new().read(true).write(true).open("/dev/kvm");
        let kvm = kvm.context("/dev/kvm")?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping changes no other memory.
        let address = unsafe { mmap_anonymous(None, MEMORY, access, MapFlags::MAP_SHARED) }?;
        let memory = Mapping {
            address,
            size: MEMORY,
        };
        // SAFETY: the mapping has room for the code.
        unsafe { address.cast::<[u8; 3]>().write(CODE) };
        // struct kvm_userspace_memory_region: slot and flags, address in the guest, size,
        // address here.
        let region = [0, 0, MEMORY.get() as u64, address.as_ptr() as u64];
        // SAFETY: both requests take a number and return a new file descriptor.
        let vm = unsafe { OwnedFd::from_raw_fd(ioctl(&kvm, KVM_CREATE_VM, 0)?) };
        // SAFETY: it reads the region, whose memory is mapped until the VM is gone.
        unsafe { ioctl(&vm, KVM_SET_USER_MEMORY_REGION, region.as_ptr() as usize) }?;
        // SAFETY: as above.
        let vcpu = unsafe { OwnedFd::from_raw_fd(ioctl(&vm, KVM_CREATE_VCPU, 0)?) };
        // SAFETY: it takes no argument.
        let size = unsafe { ioctl(&kvm, KVM_GET_VCPU_MMAP_SIZE, 0) }?;
        let size = NonZeroUsize::new(size as usize).context("no struct kvm_run")?;
        // SAFETY: a new mapping changes no other memory.
        let address = unsafe { mmap(None, size, access, MapFlags::MAP_SHARED, &vcpu, 0) }?;
        let run = Mapping { address, size };

        // struct kvm_sregs, which begins with CS: the base, and the selector in the word
        // after the limit.
        let mut sregs = [0_u32; 0x138 / 4];
        // SAFETY: it writes all of the array.
        unsafe { ioctl(&vcpu, KVM_GET_SREGS, sregs.as_mut_ptr() as usize) }?;
        sregs[0] = 0;
        sregs[1] = 0;
        sregs[3] &= !0xffff;
        // SAFETY: it reads the array.
        unsafe { ioctl(&vcpu, KVM_SET_SREGS, sregs.as_ptr() as usize) }?;
        Ok(Self {
            vcpu,
            run,
            _vm: vm,
            _memory: memory,
            _kvm: kvm,
        })
    }

    /// Runs the loop. It retires this many branches at CPL 0 of the guest, not more, and
    /// then leaves the guest.
    pub fn run(&self, branches: u16) -> Result<()> {
        let mut regs = [0_u64; 18];
        regs[RCX] = branches.into();
        regs[RIP] = 0;
        // Bit 1 is always set.
        regs[RFLAGS] = 1 << 1;
        // SAFETY: it reads the array.
        unsafe { ioctl(&self.vcpu, KVM_SET_REGS, regs.as_ptr() as usize) }?;
        // SAFETY: it takes no argument.
        unsafe { ioctl(&self.vcpu, KVM_RUN, 0) }.context("KVM_RUN")?;
        // SAFETY: the third word of the mapping is exit_reason.
        let exit_reason = unsafe { self.run.address.cast::<u32>().add(2).read_volatile() };
        ensure!(exit_reason == KVM_EXIT_HLT, "exit reason {exit_reason}");
        Ok(())
    }
}
