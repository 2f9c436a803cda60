// SPDX-License-Identifier: GPL-2.0
//! BPF programs that are attached to events. They are written as instructions and loaded by
//! bpf(2), without a library.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use anyhow::{Context, Result};

// From include/uapi/linux/bpf.h.
const BPF_MAP_CREATE: i32 = 0;
const BPF_MAP_LOOKUP_ELEM: i32 = 1;
const BPF_PROG_LOAD: i32 = 5;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_PSEUDO_MAP_FD: u8 = 1;
const BPF_FUNC_MAP_LOOKUP_ELEM: i32 = 1;

/// The offset of `sample_period` in `struct bpf_perf_event_data`: after 21 registers.
const SAMPLE_PERIOD: i16 = 21 * 8;

/// Encodes an instruction.
const fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> u64 {
    code as u64
        | ((dst as u64) << 8)
        | ((src as u64) << 12)
        | ((off as u16 as u64) << 16)
        | ((imm as u32 as u64) << 32)
}

/// What runs a program.
#[derive(Clone, Copy)]
pub enum Kind {
    /// The hits of a trace point (BPF_PROG_TYPE_TRACEPOINT).
    TracePoint = 5,
    /// The overflows of an event (BPF_PROG_TYPE_PERF_EVENT).
    PerfEvent = 7,
}

/// Loads a program.
fn load(kind: Kind, program: &[u64]) -> Result<OwnedFd> {
    let license = c"GPL";
    let [program_low, program_high] = halves(program.as_ptr() as u64);
    let [license_low, license_high] = halves(license.as_ptr() as u64);
    // prog_type, insn_cnt, insns, license, log_level, log_size, log_buf
    let mut attr = [
        kind as u32,
        program.len() as u32,
        program_low,
        program_high,
        license_low,
        license_high,
        0,
        0,
        0,
        0,
    ];
    bpf_fd(BPF_PROG_LOAD, &mut attr).context("BPF_PROG_LOAD")
}

/// Loads a program that does nothing, and returns 1: whatever it may decide is to go on.
pub fn return_1(kind: Kind) -> Result<OwnedFd> {
    load(
        kind,
        &[
            insn(0xb7, 0, 0, 0, 1), // r0 = 1
            insn(0x95, 0, 0, 0, 0), // return r0
        ],
    )
}

/// A BPF program that counts overflows, and adds up their periods, in a map.
pub struct OverflowCounter {
    map: OwnedFd,
    program: OwnedFd,
}

/// The value in the map of an [`OverflowCounter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Overflows {
    /// How often the program ran.
    pub number: u64,
    /// The sum of the periods.
    pub periods: u64,
}

impl OverflowCounter {
    /// Loads the program. `record` is what it returns: whether perf is to record the
    /// overflow.
    pub fn load(record: bool) -> Result<Self> {
        let size = size_of::<Overflows>() as u32;
        // map_type, key_size, value_size, max_entries
        let map = bpf_fd(BPF_MAP_CREATE, &mut [BPF_MAP_TYPE_ARRAY, 4, size, 1])
            .context("BPF_MAP_CREATE")?;
        let fd = map.as_raw_fd();
        let program = [
            insn(0xbf, 6, 1, 0, 0),                        // r6 = r1
            insn(0x62, 10, 0, -4, 0),                      // *(u32 *)(r10 - 4) = 0
            insn(0xbf, 2, 10, 0, 0),                       // r2 = r10
            insn(0x07, 2, 0, 0, -4),                       // r2 += -4
            insn(0x18, 1, BPF_PSEUDO_MAP_FD, 0, fd),       // r1 = the map
            0,                                             // (upper half of it)
            insn(0x85, 0, 0, 0, BPF_FUNC_MAP_LOOKUP_ELEM), // r0 = lookup(r1, r2)
            insn(0x15, 0, 0, 4, 0),                        // if r0 == 0 goto out
            insn(0xb7, 1, 0, 0, 1),                        // r1 = 1
            insn(0xdb, 0, 1, 0, 0),                        // atomic *(u64 *)r0 += r1
            insn(0x79, 1, 6, SAMPLE_PERIOD, 0),            // r1 = r6->sample_period
            insn(0xdb, 0, 1, 8, 0),                        // atomic *(u64 *)(r0 + 8) += r1
            insn(0xb7, 0, 0, 0, record as i32),            // out: r0 = record
            insn(0x95, 0, 0, 0, 0),                        // return r0
        ];
        let program = load(Kind::PerfEvent, &program)?;
        Ok(Self { map, program })
    }

    /// Reads the map.
    pub fn read(&self) -> Result<Overflows> {
        let key = 0u32;
        let mut value = Overflows::default();
        let [key_low, key_high] = halves((&raw const key) as u64);
        let [value_low, value_high] = halves((&raw mut value) as u64);
        let map = self.map.as_raw_fd() as u32;
        // map_fd, (padding,) key, value, flags
        let mut attr = [map, 0, key_low, key_high, value_low, value_high, 0, 0];
        bpf(BPF_MAP_LOOKUP_ELEM, &mut attr).context("BPF_MAP_LOOKUP_ELEM")?;
        Ok(value)
    }
}

impl AsRawFd for OverflowCounter {
    fn as_raw_fd(&self) -> RawFd {
        self.program.as_raw_fd()
    }
}

/// A pointer as two words of `union bpf_attr`, the lower first.
fn halves(pointer: u64) -> [u32; 2] {
    [pointer as u32, (pointer >> 32) as u32]
}

/// Calls bpf(2) with a command that returns a file descriptor.
fn bpf_fd(command: i32, attr: &mut [u32]) -> io::Result<OwnedFd> {
    let fd = bpf(command, attr)?;
    // SAFETY: the command has just created the file descriptor, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Calls bpf(2).
fn bpf(command: i32, attr: &mut [u32]) -> io::Result<RawFd> {
    // SAFETY: the kernel reads and writes `attr` within the length that it is given. The
    // pointers in it are to locals of the two callers, which outlive the call and have the
    // size that the command expects.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_mut_ptr(), size_of_val(attr)) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result as RawFd)
}
