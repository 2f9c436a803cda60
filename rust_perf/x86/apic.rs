// SPDX-License-Identifier: GPL-2.0

//! The local APIC's entry for performance monitoring interrupts, LVTPC.

use crate::bindings;

/// Delivery mode NMI, not masked (SDM vol. 3, figure "Local Vector Table").
const DELIVERY_NMI: u32 = 0b100 << 8;

/// Has this CPU's PMIs delivered as NMIs.
///
/// The APIC masks the entry whenever it delivers one (SDM vol. 3, "Local Vector
/// Table": the LVT performance counter register), so each PMI's handler has to
/// call this, once what caused the PMI is gone. Any context.
pub(crate) fn deliver_pmi_as_nmi() {
    // SAFETY: The entry is valid, and this kernel handles NMIs from whatever source.
    unsafe { bindings::rust_perf_apic_write_lvtpc(DELIVERY_NMI) };
}
