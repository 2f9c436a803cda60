// SPDX-License-Identifier: GPL-2.0

//! Trace points of the kernel and its modules.
//!
//! A trace point is found by a number, the hash of its name. [`Attached`] calls a
//! [`Probe`] whenever the trace point is hit.
//!
//! C header: `include/linux/tracepoint.h`.

mod args;

use self::args::Args;
use super::{
    irq::{
        PreemptDisabled,
        Regs, //
    },
    task::Task, //
};
use crate::bindings;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    error::to_result,
    ffi::c_void,
    prelude::*,
    str::CStr,
    sync::Arc, //
};

/// The number of a name: its 32-bit FNV-1a hash.
pub const fn number_of(name: &[u8]) -> u32 {
    let mut hash: u32 = 0x811c_9dc5;
    let mut i = 0;
    while i < name.len() {
        hash = (hash ^ name[i] as u32).wrapping_mul(0x0100_0193);
        i += 1;
    }
    hash
}

/// A trace point. If it is in a module, the module stays loaded while this exists.
///
/// # Invariants
///
/// `raw` is a trace point of the kernel or of `module`, of which this owns a
/// reference. `module` is null for one of the kernel.
pub struct TracePoint {
    raw: NonNull<bindings::tracepoint>,
    module: *mut bindings::module,
}

// SAFETY: The kernel synchronises accesses to the trace point, and to the module's reference count.
unsafe impl Send for TracePoint {}
// SAFETY: As above.
unsafe impl Sync for TracePoint {}

impl TracePoint {
    /// Finds the trace point with this number. Task context, may sleep.
    ///
    /// Fails with `ENOENT` if there is none, and with `EEXIST` if there are several.
    pub fn find(number: u32) -> Result<Self> {
        let mut found: Option<Self> = None;
        let mut several = false;
        for_each(|raw, module| {
            // SAFETY: `for_each()` passes valid trace points, and the name is a part of one.
            let name = unsafe { CStr::from_char_ptr((*raw.as_ptr()).name) };
            if number_of(name.to_bytes()) != number {
                return;
            }
            several |= found.is_some();
            // SAFETY: `for_each()` passes a module that is not freed meanwhile, or null.
            if found.is_none() && unsafe { bindings::try_module_get(module) } {
                // INVARIANT: A reference to the module was just taken.
                found = Some(TracePoint { raw, module });
            }
        })?;
        if several {
            return Err(EEXIST);
        }
        found.ok_or(ENOENT)
    }

    /// Its name.
    pub fn name(&self) -> &CStr {
        // SAFETY: The name is a static string of the kernel or of the module, which stays loaded.
        unsafe { CStr::from_char_ptr((*self.raw.as_ptr()).name) }
    }
}

impl Drop for TracePoint {
    fn drop(&mut self) {
        // SAFETY: This owns a reference to the module, or the pointer is null.
        unsafe { bindings::module_put(self.module) };
    }
}

/// Calls `f` with the number of each trace point. Task context, may sleep.
pub fn for_each_number(mut f: impl FnMut(u32)) -> Result {
    for_each(|raw, _| {
        // SAFETY: `for_each()` passes valid trace points, and the name is a part of one.
        let name = unsafe { CStr::from_char_ptr((*raw.as_ptr()).name) };
        f(number_of(name.to_bytes()));
    })
}

/// Calls `f` with each trace point and its module, which is null for those of the kernel.
/// Neither goes away during the call. Task context, may sleep.
fn for_each<F: FnMut(NonNull<bindings::tracepoint>, *mut bindings::module)>(mut f: F) -> Result {
    /// # Safety
    ///
    /// `f` must point to an `F` that nothing else uses meanwhile.
    unsafe extern "C" fn in_kernel<F>(raw: *mut bindings::tracepoint, f: *mut c_void)
    where
        F: FnMut(NonNull<bindings::tracepoint>, *mut bindings::module),
    {
        // SAFETY: By the safety requirement.
        unsafe { in_module::<F>(raw, ptr::null_mut(), f) }
    }

    /// # Safety
    ///
    /// `f` must point to an `F` that nothing else uses meanwhile.
    unsafe extern "C" fn in_module<F>(
        raw: *mut bindings::tracepoint,
        module: *mut bindings::module,
        f: *mut c_void,
    ) where
        F: FnMut(NonNull<bindings::tracepoint>, *mut bindings::module),
    {
        // SAFETY: By the safety requirement.
        let f = unsafe { &mut *f.cast::<F>() };
        if let Some(raw) = NonNull::new(raw) {
            f(raw, module);
        }
    }

    let f: *mut c_void = (&raw mut f).cast();
    // SAFETY: `f` is the closure that both functions expect. Each returns before the next begins,
    // and calls back from this task only.
    unsafe {
        bindings::for_each_kernel_tracepoint(Some(in_kernel::<F>), f);
        to_result(bindings::rust_perf_for_each_module_tracepoint(
            Some(in_module::<F>),
            f,
        ))
    }
}

/// Finds what this needs of the kernel. To be called once before [`Attached::new`]. Task
/// context, may sleep. Fails with the error of `register_kprobe()`.
pub fn init() -> Result {
    // SAFETY: This is called in task context, as registering a kprobe requires.
    to_result(unsafe { bindings::rust_perf_trace_init() })
}

/// Handles the hits of a trace point.
pub trait Probe: Send + Sync + 'static {
    /// The trace point was hit. Any context, an NMI too; preemption is disabled.
    fn hit(&self, hit: &Hit<'_>);
}

/// A hit of a trace point.
#[derive(Clone, Copy)]
pub struct Hit<'a> {
    raw: &'a bindings::rust_perf_trace_hit,
    args: &'a Args,
    preempt: PreemptDisabled<'a>,
}

impl<'a> Hit<'a> {
    /// Proof that preemption is disabled.
    pub fn preempt_disabled(&self) -> PreemptDisabled<'a> {
        self.preempt
    }

    /// The code that the trace point is in, and its stack pointer.
    pub fn caller(&self) -> (usize, usize) {
        (self.raw.ip, self.raw.sp)
    }

    /// Argument `i`, 0 if it is not known.
    pub fn arg(&self, i: usize) -> u64 {
        self.args.mask(i).map_or(0, |mask| {
            // SAFETY: The trace point has the arguments that have a mask.
            let word = unsafe { self.word(i) };
            word & mask
        })
    }

    /// The task that argument `i` points to.
    pub fn task(&self, i: usize) -> Option<Task<'a>> {
        if !self.args.is_task(i) {
            return None;
        }
        // SAFETY: By its type the argument is a pointer to a task, which lives during the hit.
        NonNull::new(self.pointer(i).cast()).map(|task| unsafe { Task::from_raw(task) })
    }

    /// The registers that argument `i` points to.
    pub fn regs(&self, i: usize) -> Option<Regs<'a>> {
        if !self.args.is_regs(i) {
            return None;
        }
        // SAFETY: By its type the argument is a pointer to registers, which live during the hit.
        NonNull::new(self.pointer(i).cast()).map(|regs| unsafe { Regs::from_raw(regs) })
    }

    /// Argument `i`, which is a pointer.
    fn pointer(&self, i: usize) -> *mut c_void {
        // SAFETY: The trace point has the arguments whose types are known.
        ptr::with_exposed_provenance_mut(unsafe { self.word(i) } as usize)
    }

    /// The arguments that are known.
    pub fn args(&self) -> impl Iterator<Item = u64> + 'a {
        let hit = *self;
        (0..self.args.len()).map(move |i| hit.arg(i))
    }

    /// The word that holds argument `i`. The bits that are not part of the argument are
    /// undefined.
    ///
    /// # Safety
    ///
    /// The trace point must have this argument.
    unsafe fn word(&self, i: usize) -> u64 {
        let registers = &self.raw.registers;
        registers.get(i).copied().unwrap_or_else(|| {
            // SAFETY: By the safety requirement the caller of the probe has put the argument there.
            unsafe { *self.raw.stack.add(i - registers.len()) }
        })
    }
}

/// The C data of a probe, and the Rust probe.
///
/// # Invariants
///
/// `data.hit` is [`Self::hit`]. `args` are those of the trace point that this is attached
/// to.
#[repr(C)]
struct Data<P> {
    data: bindings::rust_perf_trace_data,
    args: Args,
    probe: Arc<P>,
}

impl<P: Probe> Data<P> {
    /// # Safety
    ///
    /// `data` must be that of a `Data<P>`. `hit` must be what the probe was called with,
    /// and preemption disabled.
    unsafe extern "C" fn hit(
        data: *mut bindings::rust_perf_trace_data,
        hit: *const bindings::rust_perf_trace_hit,
    ) {
        // SAFETY: `data` is the first field of a `Data<P>`. It lives until the probe has been
        // detached and no call of it is left.
        let this = unsafe { &*data.cast::<Self>() };
        let hit = Hit {
            // SAFETY: By the safety requirement.
            raw: unsafe { &*hit },
            args: &this.args,
            // SAFETY: By the safety requirement. `Hit` does not outlive this call.
            preempt: unsafe { PreemptDisabled::new() },
        };
        this.probe.hit(&hit);
    }
}

/// Calls a probe at each hit of a trace point until dropped, in task context.
///
/// # Invariants
///
/// The C probe is attached to `point` with the address of `data`.
pub struct Attached<P: Probe> {
    point: TracePoint,
    data: KBox<Data<P>>,
}

impl<P: Probe> Attached<P> {
    /// Attaches a probe. With `hide_pointers`, all arguments that are pointers are 0.
    ///
    /// Task context, may sleep. Fails with `ENOMEM`, or with the error of
    /// the trace point's own function that is called before its first probe.
    pub fn new(point: TracePoint, hide_pointers: bool, probe: Arc<P>) -> Result<Self> {
        let args = Args::of(&point, hide_pointers)?;
        let data = bindings::rust_perf_trace_data {
            hit: Some(Data::<P>::hit),
        };
        let data = KBox::new(Data { data, args, probe }, GFP_KERNEL)?;
        // SAFETY: The trace point stays while `point` exists. `data` stays where it is until the
        // probe is detached: it is in a box.
        to_result(unsafe {
            bindings::rust_perf_trace_attach(point.raw.as_ptr(), Self::as_raw(&data))
        })?;
        // INVARIANT: Attached just now.
        Ok(Attached { point, data })
    }

    /// What the C probe gets. It passes the pointer to [`Data::hit`], which reads all of
    /// the data; nothing writes through it.
    fn as_raw(data: &Data<P>) -> *mut bindings::rust_perf_trace_data {
        ptr::from_ref(data).cast_mut().cast()
    }
}

impl<P: Probe> Drop for Attached<P> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the probe is attached with this data.
        unsafe {
            bindings::rust_perf_trace_detach(self.point.raw.as_ptr(), Self::as_raw(&self.data))
        };
        // `data` may be freed only when no probe is running any more.
        // SAFETY: The function waits for grace periods, and this is task context: only there may the
        // value be dropped.
        unsafe { bindings::rust_perf_trace_synchronize() };
    }
}
