// SPDX-License-Identifier: GPL-2.0

//! CPUID leaf 0AH, "Architectural Performance Monitoring Leaf" (SDM vol. 2A, CPUID).

/// The fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf0Ah {
    /// `EAX[7:0]`: the version.
    pub version: u8,
    /// `EAX[15:8]`: the number of general-purpose counters.
    pub general: u8,
    /// `EAX[23:16]`: their width.
    pub width: u8,
    /// `EAX[31:24]`: the number of valid bits in EBX. A set bit there means that an architectural
    /// event is missing; none is.
    pub events: u8,
    /// ECX: a bitmap of the fixed-function counters, from version 5 on.
    pub fixed_bitmap: u32,
    /// `EDX[4:0]`: the number of fixed-function counters.
    pub fixed: u8,
    /// `EDX[12:5]`: their width.
    pub fixed_width: u8,
    /// `EDX[15]`: AnyThread is deprecated.
    pub anythread_deprecated: bool,
}

impl Leaf0Ah {
    /// EAX, EBX, ECX and EDX.
    pub fn registers(self) -> [u32; 4] {
        let eax = u32::from_le_bytes([self.version, self.general, self.width, self.events]);
        let edx = u32::from(self.fixed)
            | (u32::from(self.fixed_width) << 5)
            | (u32::from(self.anythread_deprecated) << 15);
        [eax, 0, self.fixed_bitmap, edx]
    }
}
