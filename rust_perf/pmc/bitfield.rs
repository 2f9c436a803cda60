// SPDX-License-Identifier: GPL-2.0

//! Registers as fields.
//!
//! [`bitfield!`] declares a register with the syntax of the kernel's own macro
//! (`rust/kernel/bitfield.rs`), which cannot be built for the host. The fields
//! are constants named as in the manuals, and all of it works in `const`
//! contexts. Shifts and masks are written here and nowhere else.

use core::marker::PhantomData;

/// A field of the register `R`: the bits from `lo` to `hi`, both included.
pub struct Field<R> {
    hi: u32,
    lo: u32,
    _register: PhantomData<fn() -> R>,
}

impl<R> Clone for Field<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Field<R> {}

impl<R> Field<R> {
    /// The bits from `lo` to `hi`, at most bit 63.
    pub const fn new(hi: u32, lo: u32) -> Self {
        Field {
            hi,
            lo,
            _register: PhantomData,
        }
    }

    /// The field's bits in its register.
    pub const fn mask(self) -> u64 {
        let width = self.hi.wrapping_sub(self.lo).wrapping_add(1);
        u64::MAX
            .wrapping_shr(64u32.wrapping_sub(width))
            .wrapping_shl(self.lo)
    }

    /// The value of the field in `register`.
    pub const fn extract(self, register: u64) -> u64 {
        (register & self.mask()).wrapping_shr(self.lo)
    }

    /// `register` with the field set to `value`. Bits of `value` that do not fit
    /// into the field are dropped.
    pub const fn insert(self, register: u64, value: u64) -> u64 {
        (register & !self.mask()) | (value.wrapping_shl(self.lo) & self.mask())
    }
}

/// Declares registers and their fields. [`Field`] must be in scope.
///
/// ```text
/// bitfield! {
///     /// What the register is.
///     pub struct Register(u64) {
///         /// What the field is.
///         15:8 FIELD;
///     }
/// }
/// ```
macro_rules! bitfield {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $register:ident($storage:ty) {
            $(
                $(#[$field_attribute:meta])*
                $hi:literal:$lo:literal $field:ident;
            )*
        }
    )*) => {
        $(
            $(#[$attribute])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            $visibility struct $register($storage);

            #[allow(dead_code, reason = "a register is declared whole and used in part")]
            impl $register {
                $(
                    $(#[$field_attribute])*
                    $visibility const $field: Field<Self> = Field::new($hi, $lo);
                )*

                /// The register with this value.
                $visibility const fn from_raw(raw: $storage) -> Self {
                    Self(raw)
                }

                /// The register's value.
                $visibility const fn into_raw(self) -> $storage {
                    self.0
                }

                /// The value of a field.
                $visibility const fn get(self, field: Field<Self>) -> $storage {
                    field.extract(self.0 as u64) as $storage
                }

                /// Whether any bit of a field is set.
                $visibility const fn has(self, field: Field<Self>) -> bool {
                    self.get(field) != 0
                }

                /// The register with a field set to `value`. Bits of `value` that do not
                /// fit into the field are dropped.
                #[must_use]
                $visibility const fn with(self, field: Field<Self>, value: $storage) -> Self {
                    Self(field.insert(self.0 as u64, value as u64) as $storage)
                }
            }
        )*
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    bitfield! {
        /// Fields at both ends, and one that is the register.
        struct Sample(u64) {
            63:60 TOP;
            9:8 MIDDLE;
            0:0 BOTTOM;
            63:0 ALL;
        }
    }

    #[test]
    fn a_field_is_its_bits() {
        assert_eq!(Sample::TOP.mask(), 0xf000_0000_0000_0000);
        assert_eq!(Sample::MIDDLE.mask(), 0x300);
        assert_eq!(Sample::BOTTOM.mask(), 1);
        assert_eq!(Sample::ALL.mask(), u64::MAX);
    }

    #[test]
    fn fields_do_not_disturb_each_other() {
        let sample = Sample::from_raw(u64::MAX).with(Sample::MIDDLE, 0b01);
        assert_eq!(sample.into_raw(), !0x200);
        assert_eq!(sample.get(Sample::MIDDLE), 0b01);
        assert_eq!(sample.get(Sample::TOP), 0xf);
        // What does not fit is dropped.
        let sample = Sample::default().with(Sample::MIDDLE, 0b111);
        assert_eq!(sample.into_raw(), 0x300);
        assert!(!sample.has(Sample::TOP));
    }
}
