// SPDX-License-Identifier: GPL-2.0

//! Registers that an event needs besides its counter.

use super::{
    cpu_event::AddedEvent,
    Event,
    NewEvent,
    Pmu, //
};
use core::ptr::addr_of_mut;

/// A register that an event needs besides its counter (`struct hw_perf_event_extra`).
#[derive(Clone, Copy)]
pub struct ExtraRegister {
    /// Which one. The driver defines the numbers.
    pub index: usize,
    /// What the event needs in it.
    pub value: u64,
}

impl<T: Pmu> Event<T> {
    /// The register that the event needs besides its counter. Another CPU may see an old
    /// register. Any context.
    pub fn extra_register(&self) -> Option<ExtraRegister> {
        // SAFETY: This is within an allocated `perf_event`.
        let extra =
            unsafe { addr_of_mut!((*self.hw()).__bindgen_anon_1.__bindgen_anon_1.extra_reg) };
        // SAFETY: An aligned word of the event. All variants of the union may be read as integers, and
        // no Rust PMU uses another variant than this one.
        let index = unsafe { addr_of_mut!((*extra).idx).read_volatile() };
        let index = usize::try_from(index).ok()?;
        // SAFETY: The same. The value does not change while the event is open, so that it belongs to
        // whatever register has been read.
        let value = unsafe { addr_of_mut!((*extra).config).read_volatile() };
        Some(ExtraRegister { index, value })
    }

    /// Sets the register. Its value must not change when the event has been opened.
    pub(super) fn set_extra_register(&self, register: Option<ExtraRegister>) {
        let index = register.map_or(-1, |register| register.index as i32);
        let value = register.map_or(0, |register| register.value);
        // SAFETY: See `extra_register()`. They are written by `event_init`, when nothing else
        // accesses the event, and then by the event's CPU only.
        unsafe {
            let extra = addr_of_mut!((*self.hw()).__bindgen_anon_1.__bindgen_anon_1.extra_reg);
            addr_of_mut!((*extra).config).write_volatile(value);
            addr_of_mut!((*extra).idx).write_volatile(index);
        }
    }
}

impl<T: Pmu> Event<T> {
    /// What the event needs in the register that selects branches, as [`NewEvent::set_branch_control`]
    /// has set it. Any context.
    pub fn branch_control(&self) -> u64 {
        // SAFETY: An aligned word of the event, in the variant of the union that all Rust PMUs use. It
        // has not changed since the event was opened.
        unsafe {
            addr_of_mut!(
                (*self.hw())
                    .__bindgen_anon_1
                    .__bindgen_anon_1
                    .branch_reg
                    .config
            )
            .read()
        }
    }
}

impl<T: Pmu> NewEvent<'_, T> {
    /// What [`Self::set_branch_control`] has set.
    pub fn branch_control(&self) -> u64 {
        self.event().branch_control()
    }

    /// Sets what the event needs in the register that selects branches, 0 for nothing.
    pub fn set_branch_control(&self, control: u64) {
        let hw = self.event().hw();
        // SAFETY: The event is being opened, by the type invariant: nothing else accesses it yet.
        unsafe {
            addr_of_mut!((*hw).__bindgen_anon_1.__bindgen_anon_1.branch_reg.config).write(control)
        };
    }

    /// Sets the register that the event needs besides its counter. It has none otherwise.
    pub fn set_extra_register(&self, register: Option<ExtraRegister>) {
        self.event().set_extra_register(register);
    }
}

impl<T: Pmu> AddedEvent<'_, T> {
    /// Gives the event another register with the same value.
    pub fn move_extra_register(&self, index: usize) {
        let register = self.extra_register();
        self.set_extra_register(register.map(|register| ExtraRegister { index, ..register }));
    }
}
