// SPDX-License-Identifier: GPL-2.0

//! The local APIC's entry for performance monitoring interrupts, LVTPC.

use crate::{
    bindings,
    pmc::Field, //
};

bitfield! {
    /// LVTPC (SDM vol. 3, figure "Local Vector Table").
    struct Lvtpc(u32) {
        /// The entry is masked.
        16:16 MASKED;
        /// The delivery mode.
        10:8 DELIVERY_MODE;
        /// The vector. An NMI has none.
        7:0 VECTOR;
    }
}

/// The delivery mode NMI.
const NMI: u32 = 0b100;

/// The local APIC of the CPU that the code runs on.
///
/// # Invariants
///
/// Every CPU has a local APIC, and the kernel uses it.
pub(crate) struct LocalApic(());

impl LocalApic {
    /// The local APIC, if there is one and the kernel uses it.
    pub(super) fn find() -> Option<Self> {
        // SAFETY: The function reads the features of the boot CPU, which are known since boot.
        let present = unsafe { bindings::rust_perf_has_apic() };
        // INVARIANT: It was just found to be present.
        present.then_some(LocalApic(()))
    }

    /// Delivers this CPU's PMIs as NMIs, and unmasks LVTPC.
    ///
    /// Some APICs mask LVTPC when they deliver a PMI, see
    /// [`Generation::masks_lvtpc`](crate::pmc::Generation::masks_lvtpc). There each
    /// PMI handler must call this, after it has removed the cause. Any context.
    pub(crate) fn deliver_pmi_as_nmi(&self) {
        let lvtpc = Lvtpc::from_raw(0).with(Lvtpc::DELIVERY_MODE, NMI);
        // SAFETY: The register exists by the type invariant. The kernel has a handler for NMIs of
        // any origin.
        unsafe { bindings::rust_perf_apic_write_lvtpc(lvtpc.into_raw()) };
    }

    /// Whether LVTPC delivers PMIs as NMIs, masked or not. While KVM's mediated vPMU has
    /// loaded a guest, it delivers them to the guest. Any context.
    pub(crate) fn delivers_nmis(&self) -> bool {
        Self::read().get(Lvtpc::DELIVERY_MODE) == NMI
    }

    /// Whether LVTPC delivers NMIs and is masked. An APIC that masks LVTPC has then
    /// delivered a PMI. Any context.
    pub(crate) fn has_masked_pmi(&self) -> bool {
        let lvtpc = Self::read();
        lvtpc.has(Lvtpc::MASKED) && lvtpc.get(Lvtpc::DELIVERY_MODE) == NMI
    }

    fn read() -> Lvtpc {
        // SAFETY: Only methods call this, so the register exists by the type invariant. Reading it
        // has no side effects.
        Lvtpc::from_raw(unsafe { bindings::rust_perf_apic_read_lvtpc() })
    }
}
