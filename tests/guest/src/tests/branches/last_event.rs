// SPDX-License-Identifier: GPL-2.0
//! The last event record of Intel's CPUs, which no driver reads.

use std::arch::asm;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};
use nix::sys::mman::{mmap_anonymous, munmap, MapFlags, ProtFlags};

use super::super::expect;
use super::hardware::{request, Hardware, Selects};
use super::sampler;
use crate::ctx::{skip, Ctx};
use crate::msr;

/// IA32_LER_FROM_IP or MSR_LER_FROM_LIP, and the register behind it.
const LER_FROM: u32 = 0x1dd;
const LER_TO: u32 = 0x1de;
/// The bits of an address of user space.
const ADDRESS: u64 = (1 << 47) - 1;

/// A page fault copies the last branch that the filter lets through: the only indirect jump of the program.
/// Later interrupts copy that branch again.
pub fn last_event_record(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    if Hardware::of(&pmu)?.selects == Selects::Nothing {
        return skip("the CPU does not select branches");
    }
    msr::load_driver()?;
    let msrs = File::open("/dev/cpu/0/msr").context("/dev/cpu/0/msr")?;
    // The period is longer than the program.
    let mut sampler = sampler(&pmu, request::IND_JUMP, 1 << 30)?;
    sampler.enable()?;
    let ([source, _], from) = jump_fault_and_read(&msrs, LER_FROM)?;
    let ([_, target], to) = jump_fault_and_read(&msrs, LER_TO)?;
    let record = "the last event record";
    // FROM may have flags.
    expect(record, "as its source", from & ADDRESS, source)?;
    expect(record, "as its target", to, target)
}

/// Jumps, touches a page that is not populated, and reads a register. Returns the addresses of the jump and of
/// its target, and the register's value.
fn jump_fault_and_read(msrs: &File, register: u32) -> Result<([u64; 2], u64)> {
    const PAGE: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
    let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_ANONYMOUS;
    // SAFETY: the kernel chooses the address, so that no existing mapping is replaced.
    let page = unsafe { mmap_anonymous(None, PAGE, prot, flags) }.context("mmap")?;
    let (from, to, read): (u64, u64, i64);
    // SAFETY: pread64() writes 8 bytes to the page, which is mapped and which nothing else refers to, and
    // changes RAX, RCX and R11. The jump leads to the next instruction.
    unsafe {
        asm!(
            "lea {from}, [rip + 2f]",
            "lea {to}, [rip + 3f]",
            "2: jmp {to}",
            "3: mov qword ptr [rsi], 0",
            "syscall",
            from = out(reg) from,
            to = out(reg) to,
            inout("rax") libc::SYS_pread64 => read,
            in("rdi") msrs.as_raw_fd(),
            in("rsi") page.as_ptr(),
            in("rdx") 8_u64,
            in("r10") u64::from(register),
            out("rcx") _,
            out("r11") _,
        );
    }
    // SAFETY: the page is mapped, aligned, and has what pread64() has written.
    let value = unsafe { page.cast::<u64>().read() };
    // SAFETY: nothing refers to the page any more.
    unsafe { munmap(page, PAGE.get()) }.context("munmap")?;
    expect("pread64", "as the bytes that it has read", read as u64, 8)?;
    Ok(([from, to], value))
}
