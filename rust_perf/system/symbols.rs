// SPDX-License-Identifier: GPL-2.0

//! The kernel's symbols.
//!
//! The functions are not exported. They are found with kprobes, see `bindings/helpers.c`.
//!
//! C header: `include/linux/kallsyms.h`.

use crate::bindings;
use core::ptr;
use kernel::{
    error::to_result,
    ffi::{
        c_char,
        c_int,
        c_ulong,
        c_void, //
    },
    prelude::*, //
};

/// The kernel's symbols, including those of modules.
///
/// # Invariants
///
/// The functions have been found.
#[derive(Clone, Copy)]
pub struct Symbols(());

/// Counts symbols of one name.
struct Count<'a> {
    name: &'a CStr,
    count: usize,
}

impl Symbols {
    /// Finds the functions. Task context, may sleep. Fails with the error of
    /// `register_kprobe()`.
    pub fn find() -> Result<Self> {
        // SAFETY: This is task context, as registering a kprobe requires.
        to_result(unsafe { bindings::rust_perf_symbols_init() })?;
        // INVARIANT: They were just found.
        Ok(Symbols(()))
    }

    /// Checks that `name`, either `SYMBOL` or `MODULE:SYMBOL`, is one symbol. If the kernel
    /// itself has a `SYMBOL`, those of modules do not count.
    ///
    /// Fails with `ENOENT` if there is none, and with `EADDRNOTAVAIL` if there are several.
    /// Task context, may sleep.
    pub fn check_unique(self, name: &CStr) -> Result {
        let bytes = name.to_bytes();
        let colon = bytes.iter().position(|byte| *byte == b':');
        let count = match colon {
            Some(colon) => {
                let mut module = KVec::with_capacity(colon + 1, GFP_KERNEL)?;
                module.extend_from_slice(&bytes[..colon], GFP_KERNEL)?;
                module.push(0, GFP_KERNEL)?;
                let module = CStr::from_bytes_with_nul(&module).map_err(|_| EINVAL)?;
                let symbol = name.to_bytes_with_nul();
                let symbol = CStr::from_bytes_with_nul(&symbol[colon + 1..]).map_err(|_| EINVAL)?;
                Self::count_in_modules(module.as_char_ptr(), symbol)
            }
            None => match Self::count_in_kernel(name) {
                0 => Self::count_in_modules(ptr::null(), name),
                count => count,
            },
        };
        match count {
            0 => Err(ENOENT),
            1 => Ok(()),
            _ => Err(Error::from_errno(
                -(kernel::bindings::EADDRNOTAVAIL as c_int),
            )),
        }
    }

    fn count_in_kernel(name: &CStr) -> usize {
        let mut count = 0_usize;
        // SAFETY: `visit_kernel` takes a pointer to a `usize`, which outlives the call.
        unsafe {
            bindings::rust_perf_each_kernel_symbol(
                Some(visit_kernel),
                name.as_char_ptr(),
                (&raw mut count).cast(),
            )
        };
        count
    }

    /// `module` may be null, for all modules.
    fn count_in_modules(module: *const c_char, name: &CStr) -> usize {
        let mut count = Count { name, count: 0 };
        // SAFETY: `visit_module` takes a pointer to a `Count`, which outlives the call.
        unsafe {
            bindings::rust_perf_each_module_symbol(
                module,
                Some(visit_module),
                (&raw mut count).cast(),
            )
        };
        count.count
    }

    /// The address of a symbol that is `SYMBOL` or `MODULE:SYMBOL`. Task context.
    pub fn address(self, name: &CStr) -> Option<usize> {
        // SAFETY: `name` is a string.
        match unsafe { bindings::rust_perf_symbol_address(name.as_char_ptr()) } {
            0 => None,
            address => Some(address),
        }
    }

    /// The number of bytes from `address` to the next symbol. `None` if no symbol begins there. Task
    /// context.
    pub fn size(self, address: usize) -> Option<usize> {
        let (size, offset) = Self::extent(address)?;
        (offset == 0).then_some(size)
    }

    /// The size of the symbol that `address` is in, and the offset of `address` there.
    fn extent(address: usize) -> Option<(usize, usize)> {
        let (mut size, mut offset): (c_ulong, c_ulong) = (0, 0);
        // SAFETY: `size` and `offset` are valid for writes.
        let found = unsafe { bindings::rust_perf_symbol_extent(address, &mut size, &mut offset) };
        (found != 0).then_some((size, offset))
    }

    /// Whether `address` is in a function that must not be traced (`notrace`). Task context.
    pub fn is_notrace(self, address: usize) -> Result<bool> {
        if !Self::has_no_ftrace_location(address) {
            return Ok(false);
        }
        // A part of a function, such as `name.cold`, has no location of its own.
        let mut name = KVec::<c_char>::from_elem(0, bindings::KSYM_NAME_LEN as usize, GFP_KERNEL)?;
        // SAFETY: The function writes at most `KSYM_NAME_LEN` bytes.
        if unsafe { bindings::rust_perf_symbol_name(address, name.as_mut_ptr()) } != 0 {
            return Ok(true);
        }
        let Some(dot) = name.iter().position(|byte| *byte == b'.' as c_char) else {
            return Ok(true);
        };
        name[dot] = 0;
        // SAFETY: `name` is a string.
        match unsafe { bindings::rust_perf_symbol_address(name.as_ptr()) } {
            0 => Ok(true),
            whole => Ok(Self::has_no_ftrace_location(whole)),
        }
    }

    /// Whether `address` is in a symbol in which ftrace can attach nowhere.
    fn has_no_ftrace_location(address: usize) -> bool {
        if address == 0 {
            return false;
        }
        let Some((size, offset)) = Self::extent(address) else {
            return false;
        };
        let start = address.wrapping_sub(offset);
        let end = start.wrapping_add(size).wrapping_sub(1);
        // SAFETY: The function takes any addresses.
        !unsafe { bindings::rust_perf_has_ftrace_location(start, end) }
    }
}

/// # Safety
///
/// `data` must point to a `usize` that nothing else accesses.
unsafe extern "C" fn visit_kernel(data: *mut c_void, _: c_ulong) -> c_int {
    // SAFETY: By the safety requirement.
    unsafe { *data.cast::<usize>() += 1 };
    0
}

/// # Safety
///
/// `data` must point to a `Count` that nothing else accesses, and `name` to a string.
unsafe extern "C" fn visit_module(data: *mut c_void, name: *const c_char, _: c_ulong) -> c_int {
    // SAFETY: By the safety requirement.
    let (count, name) = unsafe { (&mut *data.cast::<Count<'_>>(), CStr::from_char_ptr(name)) };
    if name == count.name {
        count.count += 1;
    }
    0
}
