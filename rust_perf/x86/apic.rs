// SPDX-License-Identifier: GPL-2.0

//! The local APIC's entry for performance monitoring interrupts, LVTPC.

use crate::bindings;

/// Delivery mode NMI, not masked (SDM vol. 3, figure "Local Vector Table").
const DELIVERY_NMI: u32 = 0b100 << 8;

/// The entry is masked (ibid.).
const MASKED: u32 = 1 << 16;

/// The local APIC of the CPU that the code runs on.
///
/// # Invariants
///
/// The CPUs have one, and the kernel uses it.
pub(crate) struct LocalApic(());

impl LocalApic {
    /// The local APIC, if there is one, and the kernel uses it.
    pub(super) fn find() -> Option<Self> {
        // SAFETY: No preconditions.
        let present = unsafe { bindings::rust_perf_has_apic() };
        // INVARIANT: Just asked for.
        present.then_some(LocalApic(()))
    }

    /// Has this CPU's PMIs delivered as NMIs.
    ///
    /// Some APICs mask the entry whenever they deliver one, see
    /// [`Generation::masks_lvtpc`](super::hal::Generation::masks_lvtpc): there
    /// each PMI's handler has to call this, once what caused the PMI is gone.
    /// Any context.
    pub(crate) fn deliver_pmi_as_nmi(&self) {
        // SAFETY: By the type invariant the register is there; the kernel handles NMIs from
        // whatever source.
        unsafe { bindings::rust_perf_apic_write_lvtpc(DELIVERY_NMI) };
    }

    /// Whether PMIs are masked, hence, on APICs that do this, one has been
    /// delivered. Any context.
    pub(crate) fn masks_pmi(&self) -> bool {
        // SAFETY: By the type invariant the register is there.
        unsafe { bindings::rust_perf_apic_read_lvtpc() & MASKED != 0 }
    }
}
