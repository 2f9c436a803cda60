// SPDX-License-Identifier: GPL-2.0
//! The signals that a worker handles.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{ensure, Result};

/// How many signals were handled: each adds instructions to what is measured.
static HANDLED: AtomicU64 = AtomicU64::new(0);

/// How many signals this process has handled.
pub fn handled() -> u64 {
    HANDLED.load(Relaxed)
}

extern "C" fn count(_: i32) {
    HANDLED.fetch_add(1, Relaxed);
}

/// RDPMC.
const RDPMC: [u8; 2] = [0x0f, 0x33];

/// Skips RDPMC. The process ends if another instruction faults.
extern "C" fn skip_rdpmc(signal: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    HANDLED.fetch_add(1, Relaxed);
    // SAFETY: the kernel passes the registers of the interrupted code. They are not used elsewhere
    // while the handler runs.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let ip = &mut registers[libc::REG_RIP as usize];
    // SAFETY: the instruction at this address has been fetched to be executed. If that was the
    // fault, this read faults as well: the signal is blocked here, and the kernel ends the process.
    let code = unsafe { (*ip as *const [u8; 2]).read_unaligned() };
    if code == RDPMC {
        *ip += RDPMC.len() as i64;
    } else {
        // SAFETY: the default action runs no code of this program. The instruction faults again.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Installs the handlers in this process.
pub fn install() -> Result<()> {
    for (signal, handler, flags) in [
        (libc::SIGTRAP, count as usize, libc::SA_RESTART),
        (libc::SIGIO, count as usize, libc::SA_RESTART),
        (libc::SIGSEGV, skip_rdpmc as usize, libc::SA_SIGINFO),
    ] {
        // SAFETY: `sigaction` is made of integers and of an optional function, for which zeroes
        // are valid.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        // SAFETY: the handlers are functions of the type that `flags` says. They only use an
        // atomic, the saved registers and signal(), which are async-signal-safe.
        let status = unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
        ensure!(status == 0, "sigaction: {}", io::Error::last_os_error());
    }
    Ok(())
}
