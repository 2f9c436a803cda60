// SPDX-License-Identifier: GPL-2.0

//! Contexts in which interrupts are disabled, as types.

use crate::bindings;
use core::{
    marker::PhantomData,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::ffi::{
    c_int,
    c_void, //
};

/// Proof that interrupts are disabled on the CPU that the code runs on.
///
/// The code therefore stays on that CPU. NMIs can still interrupt it. Interrupt
/// and NMI handlers run like this, too.
///
/// # Invariants
///
/// Interrupts are disabled for `'a`. The type is neither `Send` nor `Sync`, so it
/// exists only on the CPU on which it was made.
#[derive(Clone, Copy)]
pub struct IrqsDisabled<'a>(PhantomData<(&'a (), *mut ())>);

impl IrqsDisabled<'_> {
    /// # Safety
    ///
    /// Interrupts must be disabled while the value exists.
    pub unsafe fn new() -> Self {
        // INVARIANT: The caller guarantees that interrupts are disabled.
        IrqsDisabled(PhantomData)
    }

    /// Calls `f` with interrupts disabled. Any context.
    pub fn with<R>(f: impl FnOnce(IrqsDisabled<'_>) -> R) -> R {
        // SAFETY: `rust_perf_local_irq_restore()` below undoes this, on the same CPU.
        let flags = unsafe { bindings::rust_perf_local_irq_save() };
        // SAFETY: They were just disabled, and `f` cannot keep the value.
        let result = f(unsafe { IrqsDisabled::new() });
        // SAFETY: `flags` is what `rust_perf_local_irq_save()` returned on this CPU: with
        // interrupts disabled the code cannot have moved.
        unsafe { bindings::rust_perf_local_irq_restore(flags) };
        result
    }
}

/// Proof that preemption is disabled on the CPU that the code runs on.
///
/// The code therefore stays on that CPU, and is an RCU reader. Interrupts and NMIs can
/// still interrupt it.
///
/// # Invariants
///
/// Preemption is disabled for `'a`. The type is neither `Send` nor `Sync`, so it exists
/// only on the CPU on which it was made.
#[derive(Clone, Copy)]
pub struct PreemptDisabled<'a>(PhantomData<(&'a (), *mut ())>);

impl PreemptDisabled<'_> {
    /// # Safety
    ///
    /// Preemption must be disabled while the value exists.
    pub(crate) unsafe fn new() -> Self {
        // INVARIANT: The caller guarantees that preemption is disabled.
        PreemptDisabled(PhantomData)
    }

    /// Calls `f` with preemption disabled. Any context.
    pub fn with<R>(f: impl FnOnce(PreemptDisabled<'_>) -> R) -> R {
        // SAFETY: `rust_perf_preempt_enable()` below undoes this.
        unsafe { bindings::rust_perf_preempt_disable() };
        // SAFETY: It was just disabled, and `f` cannot keep the value.
        let result = f(unsafe { PreemptDisabled::new() });
        // SAFETY: This undoes `rust_perf_preempt_disable()`.
        unsafe { bindings::rust_perf_preempt_enable() };
        result
    }
}

impl<'a> From<IrqsDisabled<'a>> for PreemptDisabled<'a> {
    fn from(_: IrqsDisabled<'a>) -> Self {
        // INVARIANT: Nothing preempts code that runs with interrupts disabled.
        PreemptDisabled(PhantomData)
    }
}

/// The registers of interrupted code (`struct pt_regs`).
#[derive(Clone, Copy)]
pub struct Regs<'a> {
    regs: NonNull<bindings::pt_regs>,
    _lifetime: PhantomData<&'a ()>,
}

impl Regs<'_> {
    /// # Safety
    ///
    /// `regs` must be initialised while the value exists.
    pub(crate) unsafe fn from_raw(regs: NonNull<bindings::pt_regs>) -> Self {
        Regs {
            regs,
            _lifetime: PhantomData,
        }
    }

    /// Whether the interrupted code ran in user mode: CS has its privilege level
    /// (`user_mode()` in `arch/x86/include/asm/ptrace.h`).
    pub fn is_user_mode(&self) -> bool {
        const PRIVILEGE_LEVEL: u16 = 3;
        // SAFETY: The structure is valid while `self` is. The union is the word in which the CPU
        // or the kernel has stored CS.
        let cs = unsafe { (*self.regs.as_ptr()).__bindgen_anon_1.cs };
        cs & PRIVILEGE_LEVEL != 0
    }

    /// The C structure, which is valid while `self` is.
    pub fn as_ptr(&self) -> *mut bindings::pt_regs {
        self.regs.as_ptr()
    }
}

/// An interrupt or NMI that is being handled on this CPU.
#[derive(Clone, Copy)]
pub struct Interrupt<'a> {
    regs: Regs<'a>,
    irqs: IrqsDisabled<'a>,
}

impl<'a> Interrupt<'a> {
    /// # Safety
    ///
    /// Must be called in the handler of an interrupt or NMI that found `regs`. Neither the
    /// result nor a copy must outlive the handler.
    pub unsafe fn from_raw(regs: NonNull<bindings::pt_regs>) -> Self {
        Interrupt {
            regs: Regs {
                regs,
                _lifetime: PhantomData,
            },
            // SAFETY: The caller guarantees that this is a handler, which runs with interrupts
            // disabled to its end.
            irqs: unsafe { IrqsDisabled::new() },
        }
    }

    /// The registers of the interrupted code.
    pub fn regs(&self) -> Regs<'a> {
        self.regs
    }

    /// Proof that interrupts are disabled.
    pub fn irqs_disabled(&self) -> IrqsDisabled<'a> {
        self.irqs
    }

    /// Whether it has interrupted the idle task.
    pub fn is_of_idle_task(&self) -> bool {
        // SAFETY: The function may be called in any context. An interrupt handler is on its CPU.
        unsafe { bindings::rust_perf_is_idle() }
    }
}

/// Calls `f` with interrupts disabled on `cpu`, and waits for it. No other CPU is interrupted. `f` is not
/// called if the CPU is offline, or if there is none of this number.
///
/// Task context.
pub fn on_cpu<F>(cpu: u32, f: F)
where
    F: Fn(IrqsDisabled<'_>) + Sync,
{
    /// # Safety
    ///
    /// `info` must point to an `F`, and interrupts must be disabled.
    unsafe extern "C" fn call<F: Fn(IrqsDisabled<'_>) + Sync>(info: *mut c_void) {
        // SAFETY: `info` is an `F` by the safety requirement. It is `Sync`, so that another CPU may use
        // it.
        let f = unsafe { &*info.cast::<F>() };
        // SAFETY: Interrupts are disabled by the safety requirement, until this returns.
        f(unsafe { IrqsDisabled::new() });
    }

    // SAFETY: `f` is the `F` that the function expects, and lives until the CPU is done with it, which is
    // waited for. The function is called by IPI, or here with interrupts disabled. Any number of a CPU may
    // be passed.
    unsafe {
        bindings::rust_perf_on_cpu(cpu, Some(call::<F>), ptr::from_ref(&f).cast_mut().cast())
    };
}

/// Calls `f` with interrupts disabled on each online CPU for which `wanted`
/// holds, and waits for all of them. The other CPUs are not interrupted.
///
/// `wanted` is called on this CPU, with the number of a possible CPU. Task
/// context.
pub fn on_each_cpu<W, F>(wanted: W, f: F)
where
    W: Fn(u32) -> bool,
    F: Fn(IrqsDisabled<'_>) + Sync,
{
    struct Call<W, F> {
        wanted: W,
        f: F,
    }

    /// # Safety
    ///
    /// `info` must point to a `Call<W, F>`.
    unsafe extern "C" fn wanted_on<W: Fn(u32) -> bool, F>(cpu: c_int, info: *mut c_void) -> bool {
        // SAFETY: `info` is a `Call<W, F>` by the safety requirement.
        let call = unsafe { &*info.cast::<Call<W, F>>() };
        (call.wanted)(cpu as u32)
    }

    /// # Safety
    ///
    /// `info` must point to a `Call<W, F>`, and interrupts must be disabled.
    unsafe extern "C" fn call<W, F: Fn(IrqsDisabled<'_>)>(info: *mut c_void) {
        // SAFETY: `info` is a `Call<W, F>` by the safety requirement. Only `f`, which is `Sync`, is
        // used on other CPUs.
        let f = unsafe { &(*info.cast::<Call<W, F>>()).f };
        // SAFETY: Interrupts are disabled by the safety requirement, until this returns.
        f(unsafe { IrqsDisabled::new() });
    }

    let mut info = Call { wanted, f };
    // SAFETY: `info` is the `Call<W, F>` that both functions expect, and lives until the function
    // returns, when all CPUs are done with it. `wanted_on` is called on this CPU, `call` by IPI or
    // with interrupts disabled.
    unsafe {
        bindings::rust_perf_on_each_cpu_cond(
            Some(wanted_on::<W, F>),
            Some(call::<W, F>),
            ptr::from_mut(&mut info).cast(),
        )
    };
}
