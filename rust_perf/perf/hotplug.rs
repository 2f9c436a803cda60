// SPDX-License-Identifier: GPL-2.0

//! CPUs that are brought up.
//!
//! C header: `include/linux/cpuhotplug.h`.

use super::{
    Instance,
    Pmu, //
};
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
    sync::Arc,
    types::Opaque, //
};

/// Calls [`Pmu::prepare_cpu`], until dropped.
///
/// # Invariants
///
/// `state` is a hotplug state of [`prepare::<T>`], and `node` its instance.
#[pin_data(PinnedDrop)]
pub(super) struct Registration<T: Pmu> {
    #[pin]
    node: Opaque<bindings::hlist_node>,
    state: bindings::cpuhp_state,
    instance: Arc<Instance<T>>,
    #[pin]
    _pin: PhantomPinned,
}

impl<T: Pmu> Registration<T> {
    /// Registers a PMU; `name` is for traces. Task context, may sleep.
    pub(super) fn register(
        name: &'static CStr,
        instance: Arc<Instance<T>>,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            node <- Opaque::ffi_init(|slot: *mut bindings::hlist_node| {
                // SAFETY: `slot` is valid for writes; a node of no list is all zero.
                unsafe { slot.write_bytes(0, 1) }
            }),
            state: new_state::<T>(name)?,
            instance,
            _pin: PhantomPinned,
            _: {
                // SAFETY: `this` is initialised, and stays where it is.
                let (node, state) = unsafe {
                    (Opaque::cast_into(&raw const (*this.as_ptr()).node), (*this.as_ptr()).state)
                };
                // SAFETY: As above, and the callback of `state` is for this type.
                to_result(unsafe { bindings::__cpuhp_state_add_instance(state, node, false) })
                    // SAFETY: The state is ours and has no instance.
                    .inspect_err(|_| unsafe { bindings::__cpuhp_remove_state(state, false) })?;
            },
        }? Error)
    }
}

/// Allocates a hotplug state whose instances are `Registration<T>`s.
fn new_state<T: Pmu>(name: &'static CStr) -> Result<bindings::cpuhp_state> {
    type Multi = unsafe extern "C" fn(c_uint, *mut bindings::hlist_node) -> c_int;
    type Single = unsafe extern "C" fn(c_uint) -> c_int;
    // SAFETY: With `multi_instance` the callback is called as a `Multi`, whatever the prototype
    // says.
    let callback = unsafe { transmute::<Multi, Single>(prepare::<T>) };
    // SAFETY: The callback is as said, and `name` lives for ever.
    let state = unsafe {
        bindings::__cpuhp_setup_state(
            bindings::cpuhp_state_CPUHP_BP_PREPARE_DYN,
            name.as_char_ptr(),
            false,
            Some(callback),
            None,
            true,
        )
    };
    to_result(state.min(0))?;
    Ok(state as bindings::cpuhp_state)
}

#[pinned_drop]
impl<T: Pmu> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant both are ours; no callback runs when these return.
        unsafe {
            bindings::__cpuhp_state_remove_instance(self.state, self.node.get(), false);
            bindings::__cpuhp_remove_state(self.state, false);
        }
    }
}

/// # Safety
///
/// `cpu` must be possible, and `node` that of a `Registration<T>`.
unsafe extern "C" fn prepare<T: Pmu>(cpu: c_uint, node: *mut bindings::hlist_node) -> c_int {
    let node = node.cast::<Opaque<bindings::hlist_node>>();
    // SAFETY: By the caller.
    let registration = unsafe { &*kernel::container_of!(node, Registration<T>, node) };
    let instance = &registration.instance;
    // SAFETY: By the caller.
    let state = unsafe { instance.cpus().state_of(cpu) };
    instance.driver().prepare_cpu(state);
    0
}
