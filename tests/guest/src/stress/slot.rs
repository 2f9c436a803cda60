// SPDX-License-Identifier: GPL-2.0
//! An open event of a worker, its mappings, and what is known of its count.

use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{fence, Ordering::SeqCst};

use nix::errno::Errno;
use nix::sys::mman::{mmap, munmap, MapFlags, ProtFlags};
use perf_event_open_sys::bindings::{perf_event_header, perf_event_mmap_page};

use super::op::{Open, Request};
use super::world::Counts;
use crate::tests::compare::attr::Attr;

const PAGE: usize = 4096;

/// What is known of an event's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Nothing.
    Unknown,
    /// It was enabled for these instructions or branches only.
    Known(u64),
}

/// An open event.
pub struct Slot {
    pub file: OwnedFd,
    pub open: Open,
    /// [`Plug::pulls`](super::lanes::Plug::pulls) when it was opened.
    pub pulls: u64,
    pub counts: Counts,
    pub model: Model,
    pub mapping: Option<Mapping>,
    /// Further mappings of the same.
    pub others: Vec<Mapping>,
    /// Whether its records go to the ring buffer of another event.
    pub is_redirected: bool,
    /// Whether the kernel waits for records to be read before it overwrites them: so it is if the
    /// first mapping is for writing.
    pub keeps_records: bool,
}

/// Calls perf_event_open().
pub fn perf_event_open(
    attr: Attr,
    pid: i32,
    cpu: i32,
    group: RawFd,
    flags: u64,
) -> Result<OwnedFd, Errno> {
    let mut buffer = attr.to_buffer();
    // SAFETY: the buffer has two pages, and the kernel reads and writes at most one.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            buffer.as_mut_ptr(),
            pid,
            cpu,
            group,
            flags,
        )
    };
    let fd = Errno::result(fd)?;
    // SAFETY: the kernel has just created this descriptor, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Makes an ioctl of an event. `output` and `program` are the descriptors that some refer to.
pub fn ioctl(
    event: &OwnedFd,
    request: Request,
    group: bool,
    output: RawFd,
    program: RawFd,
) -> Result<(), Errno> {
    use perf_event_open_sys::bindings as b;
    let mut words = [0u64; 8];
    let pointer = words.as_mut_ptr() as u64;
    let flag = u64::from(group) * u64::from(b::PERF_IOC_FLAG_GROUP);
    let (number, arg) = match request {
        Request::Enable => (b::ENABLE, flag),
        Request::Disable => (b::DISABLE, flag),
        Request::Reset => (b::RESET, flag),
        Request::Refresh(n) => (b::REFRESH, n.into()),
        Request::Period(period) => {
            words[0] = period;
            (b::PERIOD, pointer)
        }
        Request::SetOutput(_) => (b::SET_OUTPUT, output as u64),
        Request::PauseOutput(pause) => (b::PAUSE_OUTPUT, pause.into()),
        Request::Id => (b::ID, pointer),
        Request::QueryBpf => {
            // `struct perf_event_query_bpf`: `ids_len`, `prog_cnt`, `ids`.
            words[0] = 4;
            (b::QUERY_BPF, pointer)
        }
        Request::SetBpf => (b::SET_BPF, program as u64),
        Request::SetFilter => (b::SET_FILTER, c"common_pid != 0".as_ptr() as u64),
    };
    // SAFETY: the argument is a number, or it points to as many bytes as the request reads or
    // writes, which live until the call returns.
    let status = unsafe { libc::ioctl(event.as_raw_fd(), u64::from(number), arg) };
    Errno::result(status).map(drop)
}

/// Reads an event. Returns the number of bytes.
pub fn read(event: &OwnedFd, words: &mut [u64]) -> Result<usize, Errno> {
    let length = size_of_val(words);
    // SAFETY: the buffer has this many bytes, and any bytes are valid for it.
    let read = unsafe { libc::read(event.as_raw_fd(), words.as_mut_ptr().cast(), length) };
    Errno::result(read).map(|read| read as usize)
}

/// A mapped page of an event, and its ring buffer.
pub struct Mapping {
    start: NonNull<perf_event_mmap_page>,
    length: usize,
}

impl Mapping {
    /// Maps the page, and 2^(`order` - 1) pages of a ring buffer.
    pub fn new(event: &OwnedFd, order: u8, write: bool) -> Result<Self, Errno> {
        let data = (1usize << order) >> 1;
        let length = NonZeroUsize::MIN.saturating_add(data).get() * PAGE;
        let mut prot = ProtFlags::PROT_READ;
        if write {
            prot |= ProtFlags::PROT_WRITE;
        }
        let size = NonZeroUsize::new(length).ok_or(Errno::EINVAL)?;
        // SAFETY: the kernel chooses the address, so that no existing mapping is replaced.
        let start = unsafe { mmap(None, size, prot, MapFlags::MAP_SHARED, event.as_fd(), 0) }?;
        Ok(Self {
            start: start.cast(),
            length,
        })
    }

    /// Reads all records of the ring buffer. Returns their number, or what is wrong with them.
    ///
    /// # Safety
    ///
    /// The mapping must be for writing.
    pub unsafe fn drain(&self) -> Result<u64, String> {
        let size = (self.length - PAGE) as u64;
        if size == 0 {
            return Ok(0);
        }
        let page = self.start.as_ptr();
        // SAFETY: the page is mapped as long as `self` lives, and its fields are integers.
        let (head, tail) = unsafe {
            (
                (&raw const (*page).data_head).read_volatile(),
                (&raw const (*page).data_tail).read_volatile(),
            )
        };
        fence(SeqCst);
        if head.wrapping_sub(tail) > size {
            return Err(format!(
                "ring buffer of {size}: head {head:#x}, tail {tail:#x}"
            ));
        }
        let mut records = 0;
        let mut at = tail;
        while at < head {
            let offset = PAGE + (at % size) as usize;
            // SAFETY: records are aligned to 8 bytes, so that the header is within the buffer,
            // and its fields are integers.
            let header = unsafe {
                self.start
                    .byte_add(offset)
                    .cast::<perf_event_header>()
                    .read_volatile()
            };
            let length = u64::from(header.size);
            // include/uapi/linux/perf_event.h, enum perf_event_type: up to
            // PERF_RECORD_CALLCHAIN_DEFERRED.
            let known = (1..=22).contains(&header.type_);
            if length < 8 || length % 8 != 0 || length > head - at || !known {
                return Err(format!(
                    "record {records} at {at:#x}, with head {head:#x}: type {}, {length} bytes",
                    header.type_
                ));
            }
            at += length;
            records += 1;
        }
        fence(SeqCst);
        // SAFETY: the page is mapped for writing, as the caller says, as long as `self` lives.
        unsafe { (&raw mut (*page).data_tail).write_volatile(head) };
        Ok(records)
    }

    /// The count by RDPMC, as perf_event_open(2) describes, if the page allows that. `None` as
    /// well if the page changes all the time.
    pub fn rdpmc(&self) -> Option<i64> {
        let page = self.start.as_ptr();
        for _ in 0..10 {
            // SAFETY: the page is mapped as long as `self` lives, and its fields are integers.
            let (lock, flags, index, offset, width) = unsafe {
                let lock = (&raw const (*page).lock).read_volatile();
                fence(SeqCst);
                (
                    lock,
                    (&raw const (*page).__bindgen_anon_1.__bindgen_anon_1).read_volatile(),
                    (&raw const (*page).index).read_volatile(),
                    (&raw const (*page).offset).read_volatile(),
                    (&raw const (*page).pmc_width).read_volatile(),
                )
            };
            if flags.cap_user_rdpmc() == 0 || index == 0 || width == 0 {
                return None;
            }
            let (low, high): (u32, u32);
            // SAFETY: RDPMC changes EAX and EDX only. If it faults, because the task has moved to
            // a CPU without the counter, or may not use RDPMC any more, the handler of
            // `signals.rs` skips it; both registers have values before it.
            unsafe {
                std::arch::asm!(
                    "rdpmc", in("ecx") index - 1, inout("eax") 0 => low, inout("edx") 0 => high
                )
            };
            let unused = 64 - u32::from(width);
            let value = (((u64::from(high) << 32) | u64::from(low)) << unused) as i64 >> unused;
            fence(SeqCst);
            // SAFETY: as above.
            if unsafe { (&raw const (*page).lock).read_volatile() } == lock {
                return Some(offset.wrapping_add(value));
            }
        }
        None
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped this, and only `self` refers to it.
        let _ = unsafe { munmap(self.start.cast(), self.length) };
    }
}
