// SPDX-License-Identifier: GPL-2.0

//! The addresses of the performance monitoring registers.
//!
//! Each vendor's folder declares its own.

/// The address of a performance monitoring register.
///
/// # Invariants
///
/// It is a register that a vendor's `msr.rs` declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Msr(u32);

impl Msr {
    /// Declares a register. For the vendors' `msr.rs` only.
    pub(super) const fn declare(address: u32) -> Self {
        // INVARIANT: This is the declaration.
        Msr(address)
    }

    /// The address.
    pub const fn address(self) -> u32 {
        self.0
    }
}

/// A register for each counter, at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MsrRange {
    first: u32,
    stride: u32,
    /// The index of the last register, one less than their number.
    last: u8,
}

impl MsrRange {
    /// Declares `len` registers, at least one. For the vendors' `msr.rs` only.
    pub(super) const fn declare(first: u32, stride: u32, len: u8) -> Self {
        // Only constants call this, so it fails the build, and never runs in the kernel.
        assert!(len > 0);
        MsrRange {
            first,
            stride,
            last: len - 1,
        }
    }

    /// The number of registers.
    pub(super) const fn len(self) -> u8 {
        self.last.saturating_add(1)
    }

    /// The register of counter `i`, which must be less than [`Self::len`]. Otherwise it
    /// is the last one.
    pub(super) const fn nth(self, i: usize) -> Msr {
        let last = self.last as usize;
        let i = if i < last { i } else { last };
        // INVARIANT: Within the range that was declared.
        Msr((i as u32)
            .wrapping_mul(self.stride)
            .wrapping_add(self.first))
    }
}
