// SPDX-License-Identifier: GPL-2.0

//! Words that only one CPU accesses.
//!
//! C header: `arch/x86/include/asm/local.h`.

use core::{
    arch::asm,
    sync::atomic::{
        AtomicU64,
        Ordering::Relaxed, //
    }, //
};

/// A word that only its own CPU and that CPU's NMIs access.
///
/// An operation is one instruction, or repeats one until no NMI has come in between, so that an NMI
/// comes before or after it, as with the kernel's `local64_t`. It needs no `lock` prefix and no
/// ordering: another CPU may at most read the word, and may then find an old value, or set it, and may
/// then lose what it has set. To read, change and write back is not one operation: what an NMI writes
/// in between is lost.
#[derive(Default)]
#[repr(transparent)]
pub struct LocalWord(AtomicU64);

/// An instruction on the word `self` and the operand `value`.
macro_rules! change {
    ($instruction:literal, $self:ident, $value:ident) => {
        // SAFETY: The word lives as long as the reference, and may be changed through it. The
        // instruction accesses nothing else. The block is not `nomem`: NMIs depend on the order.
        unsafe {
            asm!(
                concat!($instruction, " qword ptr [{word}], {value}"),
                word = in(reg) $self.0.as_ptr(),
                value = in(reg) $value,
                options(nostack),
            )
        }
    };
}

impl LocalWord {
    /// A word with this value.
    pub const fn new(value: u64) -> Self {
        LocalWord(AtomicU64::new(value))
    }

    /// The word at `ptr`.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid for reads and writes and aligned for `'a`. Meanwhile all accesses must be
    /// single instructions.
    pub unsafe fn from_ptr<'a>(ptr: *mut u64) -> &'a Self {
        // SAFETY: `LocalWord` is a transparent wrapper of an `AtomicU64`, which is one of a `u64`. The
        // rest is the safety requirement.
        unsafe { &*ptr.cast() }
    }

    /// The value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Sets the value.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed)
    }

    /// Sets the bits that are set in `value`.
    pub fn or(&self, value: u64) {
        change!("or", self, value)
    }

    /// Clears the bits that are clear in `value`.
    pub fn and(&self, value: u64) {
        change!("and", self, value)
    }

    /// Adds `value`, modulo 2^64.
    pub fn add(&self, value: u64) {
        change!("add", self, value)
    }

    /// Sets the value to `new` if it is `current`. Returns whether it was.
    pub fn replace(&self, current: u64, new: u64) -> bool {
        let found: u64;
        // SAFETY: As for `change!`. CMPXCHG also changes RAX, which is an operand.
        unsafe {
            asm!(
                "cmpxchg qword ptr [{word}], {new}",
                word = in(reg) self.0.as_ptr(),
                new = in(reg) new,
                inlateout("rax") current => found,
                options(nostack),
            )
        };
        found == current
    }

    /// Sets the value, and returns the one before.
    pub fn swap(&self, new: u64) -> u64 {
        let before: u64;
        // SAFETY: As for `change!`. CMPXCHG loads RAX, which is an operand, if the value is another one
        // by now. XCHG would lock the bus.
        unsafe {
            asm!(
                "mov rax, qword ptr [{word}]",
                "2:",
                "cmpxchg qword ptr [{word}], {new}",
                "jne 2b",
                word = in(reg) self.0.as_ptr(),
                new = in(reg) new,
                out("rax") before,
                options(nostack),
            )
        };
        before
    }
}

/// A flag that only its own CPU and that CPU's NMIs access: see [`LocalWord`].
#[derive(Default)]
pub struct LocalFlag(LocalWord);

impl LocalFlag {
    /// Whether it is set.
    pub fn get(&self) -> bool {
        self.0.get() != 0
    }

    /// Sets or clears it.
    pub fn set(&self, value: bool) {
        self.0.set(value.into())
    }

    /// Sets or clears it, and returns whether it was set.
    pub fn swap(&self, value: bool) -> bool {
        self.0.swap(value.into()) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_on_words() {
        let word = LocalWord::new(0b1100);
        word.or(0b0010);
        assert_eq!(word.get(), 0b1110);
        word.and(0b0110);
        assert_eq!(word.get(), 0b0110);
        word.add(u64::MAX);
        assert_eq!(word.get(), 0b0101);
        assert!(!word.replace(6, 1));
        assert_eq!(word.get(), 5);
        assert!(word.replace(5, 1));
        assert_eq!(word.swap(9), 1);
        assert_eq!(word.get(), 9);
    }

    #[test]
    fn operations_on_flags() {
        let flag = LocalFlag::default();
        assert!(!flag.get());
        flag.set(true);
        assert!(flag.get());
        assert!(flag.swap(true));
        assert!(flag.swap(false));
        assert!(!flag.swap(true));
        flag.set(false);
        assert!(!flag.get());
    }
}
