// SPDX-License-Identifier: GPL-2.0

//! CPU hotplug.
//!
//! C header: `include/linux/cpuhotplug.h`.

use super::irq::IrqsDisabled;
use crate::bindings;
use core::{
    marker::PhantomPinned,
    mem::transmute, //
};
use kernel::{
    error::to_result,
    ffi::{
        c_int,
        c_uint, //
    },
    prelude::*,
    types::Opaque, //
};

/// Receives notifications of CPUs that come online and go offline.
///
/// Both methods are called on the CPU in question, with interrupts disabled.
pub trait Handler: Send + Sync + 'static {
    /// This CPU has come online, or is so when the handler is registered. perf may have put events
    /// on it already.
    fn online(&self, irqs: IrqsDisabled<'_>);

    /// This CPU is going offline. perf takes its events off it after this.
    fn offline(&self, irqs: IrqsDisabled<'_>);
}

/// Whether the CPU that the code runs on is going offline. It is false while the CPU comes online,
/// even before [`Handler::online`].
pub fn is_this_cpu_dying(_: IrqsDisabled<'_>) -> bool {
    // SAFETY: The code stays on this CPU.
    unsafe { bindings::rust_perf_this_cpu_dying() }
}

/// Calls a [`Handler`] until dropped.
///
/// # Invariants
///
/// `state` is a hotplug state with the callbacks of this type, and `node` is its
/// only instance.
#[pin_data(PinnedDrop)]
pub struct Registration<H: Handler> {
    #[pin]
    node: Opaque<bindings::hlist_node>,
    state: bindings::cpuhp_state,
    handler: H,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: Only the kernel accesses `node`, under its own lock. The handler is `Send`.
unsafe impl<H: Handler> Send for Registration<H> {}
// SAFETY: Only the kernel accesses `node`, under its own lock. The handler is `Sync`.
unsafe impl<H: Handler> Sync for Registration<H> {}

impl<H: Handler> Registration<H> {
    /// Registers a handler, and tells it of the CPUs that are online. `name` appears in traces. Task
    /// context, may sleep.
    pub fn register(name: &'static CStr, handler: H) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            node <- Opaque::ffi_init(|slot: *mut bindings::hlist_node| {
                // SAFETY: `slot` is valid for writes, and a node of no list is all zero.
                unsafe { slot.write_bytes(0, 1) }
            }),
            state: new_state::<H>(name)?,
            handler,
            _pin: PhantomPinned,
            _: {
                // SAFETY: `this` is initialised, and stays where it is.
                let (node, state) = unsafe {
                    (Opaque::cast_into(&raw const (*this.as_ptr()).node), (*this.as_ptr()).state)
                };
                // SAFETY: `state` is for nodes of this type. `node` is one, and is removed from the
                // state before it goes away.
                to_result(unsafe { bindings::__cpuhp_state_add_instance(state, node, true) })
                    // SAFETY: `state` was allocated above, and has no instance.
                    .inspect_err(|_| unsafe { bindings::__cpuhp_remove_state(state, false) })?;
            },
        }? Error)
    }
}

/// A callback of a state with instances.
type InstanceCallback = unsafe extern "C" fn(c_uint, *mut bindings::hlist_node) -> c_int;
/// A callback as the prototype of `__cpuhp_setup_state()` has it.
type Callback = unsafe extern "C" fn(c_uint) -> c_int;

/// Allocates a hotplug state whose instances are `Registration<H>`s.
fn new_state<H: Handler>(name: &'static CStr) -> Result<bindings::cpuhp_state> {
    // SAFETY: A state that is set up with `multi_instance` has its callbacks called as
    // `InstanceCallback`s, whatever the prototype says.
    let (online, offline) = unsafe {
        (
            transmute::<InstanceCallback, Callback>(online::<H>),
            transmute::<InstanceCallback, Callback>(offline::<H>),
        )
    };
    // SAFETY: With `multi_instance` set, the callbacks are of the right type. `name` is static.
    let state = unsafe {
        bindings::__cpuhp_setup_state(
            bindings::cpuhp_state_CPUHP_AP_ONLINE_DYN,
            name.as_char_ptr(),
            false,
            Some(online),
            Some(offline),
            true,
        )
    };
    to_result(state.min(0))?;
    Ok(state as bindings::cpuhp_state)
}

#[pinned_drop]
impl<H: Handler> PinnedDrop for Registration<H> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `state` and `node` are registered by the type invariant. Both functions take the
        // hotplug lock, so that no callback is running when they return.
        unsafe {
            bindings::__cpuhp_state_remove_instance(self.state, self.node.get(), false);
            bindings::__cpuhp_remove_state(self.state, false);
        }
    }
}

/// The handler of the registration that `node` is part of.
///
/// # Safety
///
/// `node` must be that of a `Registration<H>` that lives for `'a`.
unsafe fn handler<'a, H: Handler>(node: *mut bindings::hlist_node) -> &'a H {
    let node = node.cast::<Opaque<bindings::hlist_node>>();
    // SAFETY: `node` is within a live `Registration<H>` by the safety requirement.
    unsafe { &(*kernel::container_of!(node, Registration<H>, node)).handler }
}

/// # Safety
///
/// `node` must be that of a registered `Registration<H>`.
unsafe extern "C" fn online<H: Handler>(_: c_uint, node: *mut bindings::hlist_node) -> c_int {
    // SAFETY: The registration is removed from the state before it goes away.
    let handler = unsafe { handler::<H>(node) };
    // The hotplug thread of the CPU calls this.
    IrqsDisabled::with(|irqs| handler.online(irqs));
    0
}

/// # Safety
///
/// `node` must be that of a registered `Registration<H>`.
unsafe extern "C" fn offline<H: Handler>(_: c_uint, node: *mut bindings::hlist_node) -> c_int {
    // SAFETY: The registration is removed from the state before it goes away.
    let handler = unsafe { handler::<H>(node) };
    // The hotplug thread of the CPU calls this.
    IrqsDisabled::with(|irqs| handler.offline(irqs));
    0
}
