// SPDX-License-Identifier: GPL-2.0
//! Signals of events: handlers that count them, and that enable an event again.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering::SeqCst};

use anyhow::{ensure, Context, Result};
use nix::sys::signal::{sigaction, SaFlags, SigAction, SigHandler, SigSet, Signal};
use nix::unistd::gettid;
use perf_event::Counter;
use perf_event_open_sys::ioctls;

/// The most signals that [`Rearming`] takes.
const MAX_SIGNALS: usize = 128;

/// `si_code` of the last overflow of PERF_EVENT_IOC_REFRESH (`asm-generic/siginfo.h`).
pub const POLL_HUP: libc::c_int = 6;

/// The handler of a signal. The one before is back when this is dropped.
struct Handler {
    signal: Signal,
    before: SigAction,
}

impl Handler {
    fn install(signal: Signal, handler: SigHandler) -> Result<Self> {
        let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
        // SAFETY: both handlers of this file call only what a signal handler may call.
        let before = unsafe { sigaction(signal, &action) }.context("sigaction")?;
        Ok(Self { signal, before })
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // SAFETY: this is what the signal did before.
        let _ = unsafe { sigaction(self.signal, &self.before) };
    }
}

/// The event that `enable_again` enables.
static EVENT: AtomicI32 = AtomicI32::new(-1);
/// For how many samples.
static SAMPLES: AtomicI32 = AtomicI32::new(0);
/// After how many signals it leaves the event disabled.
static WANTED: AtomicUsize = AtomicUsize::new(0);
/// How many signals there were, of last samples.
static SIGNALS: AtomicUsize = AtomicUsize::new(0);
/// The counts of the event at its signals.
static COUNTS: [AtomicU64; MAX_SIGNALS] = [const { AtomicU64::new(0) }; MAX_SIGNALS];

/// Reads the event, and enables it for further samples, as profilers do.
extern "C" fn enable_again(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes the address of a `siginfo_t`.
    if unsafe { (*info).si_code } != POLL_HUP {
        return;
    }
    let event = EVENT.load(SeqCst);
    let mut values = [0_u64; 8];
    // SAFETY: the buffer is valid for writes of its size. The event is open, and the argument of the ioctl
    // is a number.
    unsafe {
        let buffer = values.as_mut_ptr().cast();
        if libc::read(event, buffer, size_of_val(&values)) <= 0 {
            return;
        }
        let number = SIGNALS.fetch_add(1, SeqCst);
        if let Some(count) = COUNTS.get(number) {
            count.store(values[0], SeqCst);
        }
        if number + 1 < WANTED.load(SeqCst) {
            ioctls::REFRESH(event, SAMPLES.load(SeqCst));
        }
    }
}

/// An event that takes some samples and stops (PERF_EVENT_IOC_REFRESH). The signal of the last one enables
/// it for as many again.
pub struct Rearming<'a> {
    event: &'a Counter,
    wanted: usize,
    _handler: Handler,
}

impl<'a> Rearming<'a> {
    /// Enables `event`, which is one of this thread, for `samples` samples at a time, `signals` times.
    pub fn start(event: &'a Counter, samples: u32, signals: usize) -> Result<Self> {
        assert!(signals <= MAX_SIGNALS);
        let fd = event.as_raw_fd();
        EVENT.store(fd, SeqCst);
        SAMPLES.store(samples as i32, SeqCst);
        WANTED.store(signals, SeqCst);
        SIGNALS.store(0, SeqCst);
        let rearming = Self {
            event,
            wanted: signals,
            _handler: Handler::install(Signal::SIGIO, SigHandler::SigAction(enable_again))?,
        };
        // `linux/fcntl.h`
        const F_SETSIG: libc::c_int = 10;
        const F_SETOWN_EX: libc::c_int = 15;
        const F_OWNER_TID: libc::c_int = 0;
        let owner = [F_OWNER_TID, gettid().as_raw()];
        // SAFETY: the event is open. `owner` is a `struct f_owner_ex`, which lives during the call.
        let status = unsafe {
            libc::fcntl(fd, F_SETOWN_EX, owner.as_ptr())
                // With a number the signal has its si_code.
                | libc::fcntl(fd, F_SETSIG, libc::SIGIO)
                | libc::fcntl(fd, libc::F_SETFL, libc::O_ASYNC)
        };
        ensure!(status == 0, "fcntl: {}", io::Error::last_os_error());
        rearming.refresh(samples)?;
        Ok(rearming)
    }

    fn refresh(&self, samples: u32) -> Result<()> {
        // SAFETY: the event is open, and the argument is a number.
        let status = unsafe { ioctls::REFRESH(self.event.as_raw_fd(), samples as i32) };
        ensure!(status == 0, "REFRESH: {}", io::Error::last_os_error());
        Ok(())
    }

    /// Whether there was the last signal.
    pub fn is_done(&self) -> bool {
        SIGNALS.load(SeqCst) >= self.wanted
    }

    /// The counts of the event at its signals.
    pub fn counts(&self) -> Vec<u64> {
        let counts = COUNTS.iter().take(SIGNALS.load(SeqCst));
        counts.map(|count| count.load(SeqCst)).collect()
    }
}

impl Drop for Rearming<'_> {
    fn drop(&mut self) {
        // Its signals would find another handler.
        // SAFETY: the event is open.
        unsafe { libc::fcntl(self.event.as_raw_fd(), libc::F_SETFL, 0) };
    }
}

/// How many SIGTRAP there were.
static TRAPS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_trap(_: libc::c_int) {
    TRAPS.fetch_add(1, SeqCst);
}

/// Counts SIGTRAP while this exists.
pub struct Traps(#[expect(dead_code, reason = "it counts until it is dropped")] Handler);

impl Traps {
    /// Counts from now on.
    pub fn start() -> Result<Self> {
        TRAPS.store(0, SeqCst);
        Handler::install(Signal::SIGTRAP, SigHandler::Handler(count_trap)).map(Self)
    }

    /// How many there were.
    pub fn number(&self) -> u64 {
        TRAPS.load(SeqCst)
    }
}
