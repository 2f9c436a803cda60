// SPDX-License-Identifier: GPL-2.0
//! Code that retires a known number of user instructions and branches.
//!
//! [`Workload::measure`] enables an event, runs the workload and disables the
//! event, all from assembly. Every user instruction in this window is known, so
//! an event that counts user instructions reads exactly
//! [`Workload::instructions`].

use std::arch::global_asm;
use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::path::Path;
use std::ptr::{self, NonNull};

use anyhow::{ensure, Context, Result};
use nix::sys::mman::{madvise, mmap_anonymous, munmap, MapFlags, MmapAdvise, ProtFlags};
use perf_event_open_sys::bindings;

global_asm!(include_str!("workloads.s"));

type Code = unsafe extern "C" fn(u64, u64);

extern "C" {
    fn guest_measure(fd: RawFd, f: Code, a: u64, b: u64, flags: u64) -> u64;
    fn guest_rdpmc_delta(index: u32, f: Code, a: u64, b: u64) -> u64;
    fn guest_empty(a: u64, b: u64);
    fn guest_loop(a: u64, b: u64);
    fn guest_padded_loop(a: u64, b: u64);
    fn guest_branches(a: u64, b: u64);
    fn guest_block(a: u64, b: u64);
    fn guest_kinds(a: u64, b: u64);
    fn guest_touch(a: u64, b: u64);
    fn guest_rep_movsb(a: u64, b: u64);
    fn guest_rep_stosb(a: u64, b: u64);
    fn guest_repne_scasb(a: u64, b: u64);
    fn guest_rep_nothing(a: u64, b: u64);
    fn guest_syscall(a: u64, b: u64);
    fn guest_ud2(a: u64, b: u64);
    fn guest_div0(a: u64, b: u64);
    fn guest_int3(a: u64, b: u64);
    fn guest_single_step(a: u64, b: u64);
    fn guest_cpuid(a: u64, b: u64);
    fn guest_rdtsc(a: u64, b: u64);
    fn guest_pause(a: u64, b: u64);
    fn guest_fpu(a: u64, b: u64);
    fn guest_split_lock(a: u64, b: u64);
    fn guest_cmpxchg16b(a: u64, b: u64);
    fn guest_self_modifying(a: u64, b: u64);
    fn guest_around_call(a: u64, b: u64);
    fn guest_chain(a: u64, b: u64);
    fn guest_nested(a: u64, b: u64);
    fn guest_nested_yields(a: u64, b: u64);
    fn guest_registers(a: u64, b: u64);

    static guest_self_modifying_end: u8;
    static guest_syscall_return: u8;
    static guest_skip2: u8;
    static guest_count_step: u8;
    static guest_restorer: u8;
    static guest_nested_return: u8;
    static guest_measure_return: u8;
    static guest_chain_outer: u8;
    static guest_chain_middle: u8;
    static guest_chain_leaf: u8;
    static guest_registers_loop: u8;
    static guest_record_trap: u8;
    static mut guest_steps: u64;
    static mut guest_traps: [Trap; MAX_TRAPS];
}

/// Instructions that `guest_measure` adds to the workload: 3 before, 5 after.
const WINDOW: u64 = 8;
/// The part of [`WINDOW`] before the workload. Sample addresses depend on it.
const WINDOW_BEFORE: u64 = 3;
/// Branches in [`WINDOW`]: the call, and the SYSCALL that disables the event.
const WINDOW_BRANCHES: u64 = 1 + SYSCALL_BRANCHES;
/// Instructions that `guest_rdpmc_delta` adds between its two RDPMCs.
const RDPMC_WINDOW: u64 = 6;
/// SYSCALL is a far branch, so BR_INST_RETIRED.ALL_BRANCHES counts it.
const SYSCALL_BRANCHES: u64 = 1;
/// Instructions that one signal adds: two of the handler, two of the restorer.
const SIGNAL: u64 = 4;
/// Branches in [`SIGNAL`]: the handler's RET and the restorer's SYSCALL.
const SIGNAL_BRANCHES: u64 = 1 + SYSCALL_BRANCHES;

/// Instructions that one recorded signal adds: 14 of `guest_record_trap`, two of
/// the restorer.
pub const TRAP: u64 = 14 + 2;
/// The number of signals that `guest_traps` has room for.
const MAX_TRAPS: usize = 64;

const PAGE: usize = 4096;

/// Code, its arguments, and what it retires in user mode when measured.
pub struct Workload {
    name: String,
    code: Code,
    args: (u64, u64),
    instructions: u64,
    branches: u64,
    // Resources that the code uses. They live as long as it can be called.
    _memory: Option<Memory>,
    _handler: Option<Handler>,
    _call: Option<Box<Call>>,
}

impl Workload {
    fn new(name: &str, code: Code, args: (u64, u64), instructions: u64, branches: u64) -> Self {
        Self {
            name: format!("{name}({})", if args.1 == 0 { args.0 } else { args.1 }),
            code,
            args,
            instructions: WINDOW + instructions,
            branches: WINDOW_BRANCHES + branches,
            _memory: None,
            _handler: None,
            _call: None,
        }
    }

    fn with_memory(mut self, memory: Memory) -> Self {
        self._memory = Some(memory);
        self
    }

    fn with_handler(mut self, handler: Handler) -> Self {
        self._handler = Some(handler);
        self
    }

    /// The name for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The user instructions that one measured run retires.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// The user branches that one measured run retires.
    pub fn branches(&self) -> u64 {
        self.branches
    }

    /// Enables the event, runs the workload, disables the event.
    pub fn measure(&self, event: &impl AsRawFd) -> Result<()> {
        self.measure_with(event, 0)
    }

    /// Like [`Workload::measure`], for all events of a group
    /// (PERF_IOC_FLAG_GROUP).
    pub fn measure_group(&self, leader: &impl AsRawFd) -> Result<()> {
        self.measure_with(leader, bindings::PERF_IOC_FLAG_GROUP.into())
    }

    fn measure_with(&self, event: &impl AsRawFd, flags: u64) -> Result<()> {
        let (a, b) = self.args;
        // SAFETY: the constructors pair the code with arguments that it accepts,
        // and `self` owns the memory that these point to. `guest_measure`
        // follows the C ABI.
        let status = unsafe { guest_measure(event.as_raw_fd(), self.code, a, b, flags) };
        ensure!(
            status == 0,
            "ioctl: {}",
            io::Error::from_raw_os_error(-(status as i32))
        );
        Ok(())
    }

    /// Runs the workload between two RDPMCs of counter `index`. Returns the
    /// difference, and the difference to expect of a counter of user
    /// instructions. Faults if user mode may not read the counter.
    pub fn rdpmc_delta(&self, index: u32) -> (u64, u64) {
        // SAFETY: the constructors pair the code with arguments that it accepts,
        // and `self` owns the memory that these point to. `guest_rdpmc_delta`
        // follows the C ABI.
        let delta = unsafe { guest_rdpmc_delta(index, self.code, self.args.0, self.args.1) };
        (delta, self.instructions - WINDOW + RDPMC_WINDOW)
    }

    /// Where its code begins.
    pub fn address(&self) -> u64 {
        self.code as usize as u64
    }

    /// Whether the code of the workload, of at most 32 bytes, is at `address`.
    pub fn has_code_at(&self, address: u64) -> bool {
        let start = self.address();
        (start..start + 32).contains(&address)
    }

    /// Runs the workload without enabling or disabling an event.
    pub fn run(&self) {
        // SAFETY: the constructors pair the code with arguments that it accepts,
        // and `self` owns the memory that these point to.
        unsafe { (self.code)(self.args.0, self.args.1) }
    }
}

/// A function that returns at once.
pub fn empty() -> Workload {
    Workload::new("empty", guest_empty, (0, 0), 1, 1)
}

/// The address of [`empty`].
pub fn empty_code() -> u64 {
    guest_empty as usize as u64
}

/// A two-instruction loop.
pub fn tight_loop(n: u64) -> Workload {
    Workload::new("loop", guest_loop, (n, 0), 2 * n + 1, n + 1)
}

/// The target of every taken branch in [`tight_loop`].
pub fn tight_loop_head() -> u64 {
    guest_loop as usize as u64
}

/// The number of branches among the first `retired` instructions of a measured
/// [`tight_loop`]. The last of these must be in the loop.
pub fn tight_loop_branches(retired: u64) -> u64 {
    1 + (retired - WINDOW_BEFORE) / 2
}

/// A loop that, when measured, retires 4096 * `periods` instructions and a multiple of 256 branches. 64
/// instructions load and 64 store, whatever `periods` is.
///
/// The PMU model derives events that TCG does not have, such as cache misses, from these. Over these
/// numbers each derived event grows by the same count, wherever the workload starts.
pub fn whole_periods(periods: u64) -> Workload {
    let n = 2048 * periods - 256 - WINDOW_BRANCHES - 1;
    let workload = Workload::new("padded_loop", guest_padded_loop, (n, 0), 2 * n + 510, n + 1);
    assert_eq!(workload.instructions % 4096, 0);
    assert_eq!(workload.branches % 256, 0);
    workload
}

/// Taken and untaken jumps, calls and returns.
pub fn branches(n: u64) -> Workload {
    Workload::new("branches", guest_branches, (n, 0), 7 * n + 1, 5 * n + 1)
}

/// What kind of branch it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchKind {
    Conditional,
    /// A direct jump.
    Jump,
    IndirectJump,
    /// A direct call.
    Call,
    IndirectCall,
    Return,
    /// A far return from the kernel. No event shows it, because its source is hidden.
    FromKernel,
}

/// A branch that is taken.
#[derive(Clone, Copy, Debug)]
pub struct Branch {
    pub kind: BranchKind,
    pub from: u64,
    pub to: u64,
}

/// The branches of a measured [`branches`] that are taken, up to its `retired`-th instruction. The last one
/// comes first.
pub fn last_branches(n: u64, retired: u64) -> impl Iterator<Item = Branch> {
    // Offsets of the instructions: TEST 0, JZ 3, JMP 5, CALL 7, DEC 12, JNZ 15, RET 21. JNZ has four bytes of
    // displacement, because its target is a global symbol.
    const TAKEN: [Option<(BranchKind, u64, u64)>; 7] = [
        None,
        None,
        Some((BranchKind::Jump, 5, 7)),
        Some((BranchKind::Call, 7, 21)),
        Some((BranchKind::Return, 21, 12)),
        None,
        Some((BranchKind::Conditional, 15, 0)),
    ];
    let start = guest_branches as usize as u64;
    let executed = retired.saturating_sub(WINDOW_BEFORE).min(7 * n);
    (0..executed).rev().filter_map(move |i| {
        let (kind, from, to) = TAKEN[(i % 7) as usize]?;
        let is_last = i + 1 == 7 * n;
        (!is_last).then_some(Branch {
            kind,
            from: start + from,
            to: start + to,
        })
    })
}

/// The call of the workload by [`Workload::measure`], to the code at `to`. It is instruction number
/// [`WINDOW_BEFORE`].
pub fn measured_call(to: u64) -> (u64, Branch) {
    /// CALL R12 has three bytes.
    const CALL: u64 = 3;
    let call = Branch {
        kind: BranchKind::IndirectCall,
        from: measured_call_return() - CALL,
        to,
    };
    (WINDOW_BEFORE, call)
}

/// Where a measured workload returns to.
pub fn measured_call_return() -> u64 {
    &raw const guest_measure_return as u64
}

/// A loop of `n` rounds in `depth` nested calls.
pub fn nested_calls(depth: u64, n: u64) -> Workload {
    let (instructions, branches) = (2 * n + 5 * depth + 3, n + 3 * depth + 2);
    let name = "nested_calls";
    Workload::new(name, guest_nested, (n, depth), instructions, branches)
}

/// Yields to other tasks so often while it is in `depth` calls, each of which is one of the calling
/// task's call stack.
pub fn yield_in_calls(depth: u64, times: u64) -> Result<()> {
    let workload = Workload::new("yield_in_calls", guest_nested_yields, (times, depth), 0, 0);
    workload.run();
    Ok(())
}

/// Where a call in [`nested_calls`] calls from, and the function that it calls.
pub fn nested_call() -> (u64, u64) {
    /// CALL has an opcode and four bytes of displacement.
    const CALL: u64 = 5;
    let after = &raw const guest_nested_return as u64;
    (after - CALL, guest_nested as usize as u64)
}

/// The addresses of the two instructions of the loop of [`nested_calls`]: DEC, of three bytes, and JNZ.
pub fn nested_loop() -> [u64; 2] {
    /// The loop follows the return.
    const RET: u64 = 1;
    let start = &raw const guest_nested_return as u64 + RET;
    [start, start + 3]
}

/// The instructions of a measured [`nested_calls`] before its loop.
pub fn before_nested_loop(depth: u64) -> u64 {
    WINDOW_BEFORE + 4 * depth + 2
}

/// A loop of 15 instructions; see [`block_ip`].
pub fn block(n: u64) -> Workload {
    Workload::new("block", guest_block, (n, 0), 15 * n + 1, n + 1)
}

/// The address of the instruction after the `retired`-th of a measured [`block`],
/// or `None` if the `retired`-th is not in the loop.
pub fn block_ip(n: u64, retired: u64) -> Option<u64> {
    const OFFSETS: [u64; 15] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16];
    let place = retired.checked_sub(WINDOW_BEFORE)?;
    (place < 15 * n).then(|| guest_block as usize as u64 + OFFSETS[(place % 15) as usize])
}

/// A system call for [`guest_around_call`], and two words that its arguments may
/// point to.
#[repr(C)]
struct Call {
    number: u64,
    args: [u64; 3],
    pointee: [u64; 2],
}

/// A loop of `n` rounds, a system call, and another loop of `n` rounds.
fn around_call(number: i64, args: [u64; 3], n: u64) -> Workload {
    around(
        Box::new(Call {
            number: number as u64,
            args,
            pointee: [0; 2],
        }),
        n,
    )
}

fn around(call: Box<Call>, n: u64) -> Workload {
    let args = (ptr::from_ref(&*call) as u64, n);
    let branches = 2 * n + 1 + SYSCALL_BRANCHES;
    let mut workload = Workload::new("around_call", guest_around_call, args, 4 * n + 8, branches);
    workload._call = Some(call);
    workload
}

/// An ioctl of an event between two loops of `n` rounds. The argument is a
/// number, not a pointer.
pub fn around_ioctl(event: &impl AsRawFd, request: u32, arg: u64, n: u64) -> Workload {
    let args = [event.as_raw_fd() as u64, request.into(), arg];
    around_call(libc::SYS_ioctl, args, n)
}

/// PERF_EVENT_IOC_PERIOD between two loops of `n` rounds.
pub fn around_new_period(event: &impl AsRawFd, period: u64, n: u64) -> Workload {
    let mut call = Box::new(Call {
        number: libc::SYS_ioctl as u64,
        args: [event.as_raw_fd() as u64, bindings::PERIOD.into(), 0],
        pointee: [period, 0],
    });
    call.args[2] = ptr::from_ref(&call.pointee) as u64;
    around(call, n)
}

/// The close of a file between two loops of `n` rounds.
pub fn around_close(file: impl IntoRawFd, n: u64) -> Workload {
    around_call(libc::SYS_close, [file.into_raw_fd() as u64, 0, 0], n)
}

/// A sleep between two loops of `n` rounds. `nanoseconds` is less than a second.
pub fn around_sleep(nanoseconds: u64, n: u64) -> Workload {
    let mut call = Box::new(Call {
        number: libc::SYS_nanosleep as u64,
        args: [0; 3],
        // `struct timespec`
        pointee: [0, nanoseconds],
    });
    call.args[0] = ptr::from_ref(&call.pointee) as u64;
    around(call, n)
}

/// Instructions of a measured `around_…` up to and including its SYSCALL.
pub fn before_call(n: u64) -> u64 {
    WINDOW_BEFORE + 2 * n + 7
}

/// Instructions of a measured `around_…` after its SYSCALL.
pub fn after_call(n: u64) -> u64 {
    WINDOW + 4 * n + 8 - before_call(n)
}

/// A loop two calls deep; see [`chain_of_calls`].
pub fn chain(n: u64) -> Workload {
    Workload::new("chain", guest_chain, (n, 0), 2 * n + 14, n + 5)
}

/// The call chain of [`chain`]: the loop, then the return addresses of its
/// function and of the caller. The chain of frame pointers ends there.
pub fn chain_of_calls() -> [u64; 3] {
    [
        ptr::addr_of!(guest_chain_leaf) as u64,
        ptr::addr_of!(guest_chain_middle) as u64,
        ptr::addr_of!(guest_chain_outer) as u64,
    ]
}

/// A loop that runs with known values in all registers; see [`Registers`].
pub fn registers(n: u64) -> Workload {
    Workload::new("registers", guest_registers, (n, 0), 2 * n + 32, n + 1)
}

/// The registers and the stack in the loop of a measured [`registers`].
pub struct Registers {
    pub ip: u64,
    pub di: u64,
}

impl Registers {
    /// The registers that hold a constant, as PERF_REG_X86_*: all general ones
    /// but RSP and RDI.
    pub const CONSTANT: [u64; 14] = [0, 1, 2, 3, 4, 6, 16, 17, 18, 19, 20, 21, 22, 23];
    /// The words on the stack, from RSP up.
    pub const STACK: [u64; 4] = [0x7e57_0003, 0x7e57_0002, 0x7e57_0001, 0x7e57_0000];

    /// The value of a register of [`Registers::CONSTANT`].
    pub fn constant(register: u64) -> u64 {
        0x7e57_0000_0000_0000 + register
    }

    /// The values after the `retired`-th instruction, or `None` if that is not in
    /// the loop.
    pub fn after(n: u64, retired: u64) -> Option<Self> {
        let place = retired.checked_sub(WINDOW_BEFORE + 24)?;
        // The loop is DEC (three bytes) and JNZ.
        (place < 2 * n).then(|| Self {
            ip: ptr::addr_of!(guest_registers_loop) as u64 + 3 * (place % 2),
            di: n - place.div_ceil(2),
        })
    }
}

/// `n` rounds of a loop with all kinds of branches, loads and stores. The kinds are those of a
/// measured run.
pub fn kinds(n: u64) -> Result<(Workload, Kinds)> {
    let memory = Memory::new(PAGE, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
    let args = (memory.address(), n);
    let code = Workload::new("kinds", guest_kinds, args, 25 * n + 3, 5 * n + 1);
    // The window calls the code, and ends with SYSCALL, which is a far branch.
    let kinds = Kinds {
        conditional: 2 * n,
        conditional_taken: n - 1,
        near_unconditional: 1 + 3 * n + 1,
        far: SYSCALL_BRANCHES,
        loads: 10 * n + 1,
        stores: 1 + 9 * n,
    };
    Ok((code.with_memory(memory), kinds))
}

/// How many instructions of each kind a measured run of [`kinds`] retires in user mode.
pub struct Kinds {
    /// Conditional branches.
    pub conditional: u64,
    /// Those of them that are taken.
    pub conditional_taken: u64,
    /// Calls, jumps and returns.
    pub near_unconditional: u64,
    /// All other branches.
    pub far: u64,
    /// Those that load from memory.
    pub loads: u64,
    /// Those that store to memory.
    pub stores: u64,
}

/// One write to each of `pages` fresh pages. Each write faults and then retires
/// once.
pub fn touch(pages: u64) -> Result<Workload> {
    let memory = Memory::new(pages as usize * PAGE, ProtFlags::PROT_WRITE)?;
    let args = (memory.address(), pages);
    Ok(Workload::new("touch", guest_touch, args, 4 * pages + 1, pages + 1).with_memory(memory))
}

/// One REP MOVSB of `len` bytes into fresh pages.
pub fn rep_movsb(len: u64) -> Result<Workload> {
    string("rep_movsb", guest_rep_movsb, len)
}

/// One REP STOSB of `len` bytes into fresh pages.
pub fn rep_stosb(len: u64) -> Result<Workload> {
    string("rep_stosb", guest_rep_stosb, len)
}

/// One REPNE SCASB over `len` bytes of fresh pages.
pub fn repne_scasb(len: u64) -> Result<Workload> {
    string("repne_scasb", guest_repne_scasb, len)
}

fn string(name: &str, code: Code, len: u64) -> Result<Workload> {
    let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let memory = Memory::new(2 * len as usize, prot)?;
    let args = (memory.address(), len);
    Ok(Workload::new(name, code, args, 4, 1).with_memory(memory))
}

/// REP STOSB with a count of zero.
pub fn rep_nothing(n: u64) -> Result<Workload> {
    let memory = Memory::new(PAGE, ProtFlags::PROT_WRITE)?;
    let args = (memory.address(), n);
    Ok(Workload::new("rep_nothing", guest_rep_nothing, args, 4 * n + 1, n + 1).with_memory(memory))
}

/// A loop of `n` getpid() system calls.
pub fn syscalls(n: u64) -> Workload {
    let branches = n * (1 + SYSCALL_BRANCHES) + 1;
    Workload::new("syscalls", guest_syscall, (n, 0), 4 * n + 1, branches)
}

/// The address that the system calls of [`syscalls`] return to.
pub fn syscall_return() -> u64 {
    ptr::addr_of!(guest_syscall_return) as u64
}

/// UD2, skipped by a SIGILL handler. It faults, so it never retires.
pub fn undefined(n: u64) -> Result<Workload> {
    let branches = n * (1 + SIGNAL_BRANCHES) + 1;
    let instructions = n * (2 + SIGNAL) + 1;
    Ok(
        Workload::new("ud2", guest_ud2, (n, 0), instructions, branches)
            .with_handler(Handler::skip2(libc::SIGILL)?),
    )
}

/// A division by zero, skipped by a SIGFPE handler. It faults, so it never
/// retires.
pub fn divide_error(n: u64) -> Result<Workload> {
    let branches = n * (1 + SIGNAL_BRANCHES) + 1;
    let instructions = n * (2 + SIGNAL) + 2;
    Ok(
        Workload::new("div0", guest_div0, (n, 0), instructions, branches)
            .with_handler(Handler::skip2(libc::SIGFPE)?),
    )
}

/// INT3 with a SIGTRAP handler. It traps, so it retires, and it is a branch.
pub fn breakpoint(n: u64) -> Result<Workload> {
    let branches = n * (2 + SIGNAL_BRANCHES) + 1;
    let instructions = n * (3 + SIGNAL) + 1;
    Ok(
        Workload::new("int3", guest_int3, (n, 0), instructions, branches)
            .with_handler(Handler::count(libc::SIGTRAP)?),
    )
}

/// A loop single-stepped by EFLAGS.TF, with a SIGTRAP handler.
pub fn single_step(n: u64) -> Result<Workload> {
    let steps = 2 * n + 3;
    let branches = n + 1 + steps * SIGNAL_BRANCHES;
    let instructions = 2 * n + 7 + steps * SIGNAL;
    Ok(Workload::new(
        "single_step",
        guest_single_step,
        (n, 0),
        instructions,
        branches,
    )
    .with_handler(Handler::count(libc::SIGTRAP)?))
}

/// How often `guest_count_step` or `guest_record_trap` has run in this process.
pub fn signals_counted() -> u64 {
    // SAFETY: only signal handlers of this thread write `guest_steps`. An aligned
    // volatile read of eight bytes is a single instruction, so it cannot tear.
    unsafe { ptr::read_volatile(ptr::addr_of!(guest_steps)) }
}

/// A recorded SIGTRAP: fields of its `siginfo`, and the interrupted RIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Trap {
    /// `si_code`.
    pub code: i64,
    /// `si_perf_data`.
    pub data: u64,
    /// `si_perf_type`.
    pub type_: u32,
    /// `si_perf_flags`.
    pub flags: u32,
    /// The interrupted RIP.
    pub ip: u64,
}

/// [`block`], with a SIGTRAP handler that records each signal. Each signal adds
/// [`TRAP`] instructions, which [`Workload::instructions`] does not include.
pub fn trapped_block(n: u64) -> Result<Workload> {
    // SAFETY: only signal handlers of this thread access `guest_steps`, and none
    // is installed before the next line.
    unsafe { ptr::write_volatile(ptr::addr_of_mut!(guest_steps), 0) };
    let handler = Handler::install(libc::SIGTRAP, ptr::addr_of!(guest_record_trap))?;
    Ok(block(n).with_handler(handler))
}

/// The signals since [`trapped_block`] was made, at most `MAX_TRAPS`.
pub fn traps() -> Vec<Trap> {
    let n = signals_counted() as usize;
    assert!(n <= MAX_TRAPS, "{n} traps");
    // SAFETY: only signal handlers of this thread write `guest_traps`, and the
    // workload that raises the signals is not running.
    let traps = unsafe { ptr::read_volatile(ptr::addr_of!(guest_traps)) };
    traps[..n].to_vec()
}

/// CPUID, which is serializing. TCG runs it in a helper.
pub fn cpuid(n: u64) -> Workload {
    Workload::new("cpuid", guest_cpuid, (n, 0), 4 * n + 3, n + 1)
}

/// RDTSC, which TCG treats as an I/O instruction under -icount.
pub fn rdtsc(n: u64) -> Workload {
    Workload::new("rdtsc", guest_rdtsc, (n, 0), 3 * n + 1, n + 1)
}

/// PAUSE, on which TCG may switch to another vCPU.
pub fn pause(n: u64) -> Workload {
    Workload::new("pause", guest_pause, (n, 0), 3 * n + 1, n + 1)
}

/// x87 and SSE instructions.
pub fn fpu(n: u64) -> Workload {
    Workload::new("fpu", guest_fpu, (n, 0), 6 * n + 1, n + 1)
}

/// A locked addition that crosses a cache line.
pub fn split_lock(n: u64) -> Result<Workload> {
    let memory = Memory::new(PAGE, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
    let args = (memory.address() + 60, n);
    Ok(Workload::new("split_lock", guest_split_lock, args, 3 * n + 1, n + 1).with_memory(memory))
}

/// A locked 16-byte compare and exchange.
pub fn cmpxchg16b(n: u64) -> Result<Workload> {
    let memory = Memory::new(PAGE, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
    let args = (memory.address(), n);
    Ok(Workload::new("cmpxchg16b", guest_cmpxchg16b, args, 3 * n + 3, n + 1).with_memory(memory))
}

/// A loop that modifies its own next instruction.
pub fn self_modifying(n: u64) -> Result<Workload> {
    let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE | ProtFlags::PROT_EXEC;
    let memory = Memory::new(PAGE, prot)?;
    let start = guest_self_modifying as *const u8;
    let end = ptr::addr_of!(guest_self_modifying_end);
    // SAFETY: the two labels enclose one function, which is shorter than a page.
    // The destination is a fresh page that nothing else refers to. The code is
    // position-independent, so the copy is a valid function of type `Code`.
    let code = unsafe {
        ptr::copy_nonoverlapping(
            start,
            memory.start.as_ptr().cast(),
            end.offset_from(start) as usize,
        );
        std::mem::transmute::<*mut c_void, Code>(memory.start.as_ptr())
    };
    Ok(Workload::new("self_modifying", code, (n, 0), 4 * n + 1, n + 1).with_memory(memory))
}

/// The code of a function, at its beginning.
///
/// # Safety
///
/// `code` must be a function of type `Code` that runs at any address and accesses no memory but its stack, if
/// it is called with `args`.
pub unsafe fn generated(
    code: &[u8],
    args: (u64, u64),
    instructions: u64,
    branches: u64,
) -> Result<Workload> {
    let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE | ProtFlags::PROT_EXEC;
    let memory = Memory::new(code.len(), prot)?;
    // SAFETY: the destination is a fresh mapping of at least this size, which nothing else refers to. The
    // caller says that it holds a function of type `Code` then.
    let function = unsafe {
        ptr::copy_nonoverlapping(code.as_ptr(), memory.start.as_ptr().cast(), code.len());
        std::mem::transmute::<*mut c_void, Code>(memory.start.as_ptr())
    };
    let workload = Workload::new("generated", function, args, instructions, branches);
    Ok(workload.with_memory(memory))
}

/// An anonymous mapping of 4 KiB pages. None of them is populated yet.
struct Memory {
    start: NonNull<c_void>,
    len: NonZeroUsize,
}

impl Memory {
    fn new(len: usize, prot: ProtFlags) -> Result<Self> {
        let len = NonZeroUsize::new(len).context("a mapping of zero bytes")?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses the address, so that no existing mapping is
        // replaced.
        let start = unsafe { mmap_anonymous(None, len, prot, flags) }.context("mmap")?;
        let memory = Self { start, len };
        // A huge page would fault once for 512 pages. A kernel without them does not know this.
        if Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            // SAFETY: MADV_NOHUGEPAGE does not change the contents of the memory.
            unsafe { madvise(start, len.get(), MmapAdvise::MADV_NOHUGEPAGE) }.context("madvise")?;
        }
        Ok(memory)
    }

    fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `self` owns the mapping and hands out no reference to it. The
        // workload that uses its address is being dropped too.
        let _ = unsafe { munmap(self.start, self.len.get()) };
    }
}

/// The kernel's `struct sigaction`, which is not the C library's.
#[repr(C)]
struct KernelSigaction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// An installed signal handler in assembly. Drop restores the default action.
///
/// It does not use the C library's sigaction(), because the number of
/// instructions in that library's restorer is not known.
struct Handler(libc::c_int);

impl Handler {
    fn skip2(signal: libc::c_int) -> Result<Self> {
        Self::install(signal, ptr::addr_of!(guest_skip2))
    }

    fn count(signal: libc::c_int) -> Result<Self> {
        Self::install(signal, ptr::addr_of!(guest_count_step))
    }

    fn install(signal: libc::c_int, handler: *const u8) -> Result<Self> {
        const SA_RESTORER: u64 = 0x0400_0000;
        let action = KernelSigaction {
            handler: handler as usize,
            flags: libc::SA_SIGINFO as u64 | SA_RESTORER,
            restorer: ptr::addr_of!(guest_restorer) as usize,
            mask: 0,
        };
        // SAFETY: `action` has the layout of the kernel's `struct sigaction`, and
        // 8 is the size of its mask. `handler` and `guest_restorer` are functions
        // in assembly that live as long as the program.
        let status = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                &action,
                ptr::null::<u8>(),
                8,
            )
        };
        ensure!(status == 0, "rt_sigaction: {}", io::Error::last_os_error());
        Ok(Self(signal))
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // SAFETY: the default action runs no code of this program.
        unsafe { libc::signal(self.0, libc::SIG_DFL) };
    }
}
