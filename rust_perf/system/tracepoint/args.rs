// SPDX-License-Identifier: GPL-2.0

//! The arguments of a trace point, from the kernel's type information (BTF).
//!
//! C header: `include/linux/btf.h`.

use super::TracePoint;
use crate::bindings;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*,
    str::CString, //
};

/// The largest number of arguments that a probe can see.
const MAX_ARGS: usize =
    (bindings::RUST_PERF_TRACE_REGISTERS + bindings::RUST_PERF_TRACE_STACK) as usize;

/// The number and the widths of a trace point's arguments.
///
/// # Invariants
///
/// The trace point has at least `len` arguments, each in a word of its own. `len` is at
/// most [`MAX_ARGS`].
pub(super) struct Args {
    len: usize,
    /// The bits of the words that are part of the arguments.
    masks: [u64; MAX_ARGS],
    /// A bit for each argument that points to a `struct task_struct`.
    tasks: u32,
    /// A bit for each argument that points to a `struct pt_regs`.
    regs: u32,
}

impl Args {
    /// The arguments of a trace point, as far as they are known: none, if the kernel has no
    /// type information of it. With `hide_pointers`, no bit of a pointer is part of an
    /// argument. Task context, may sleep.
    pub(super) fn of(point: &TracePoint, hide_pointers: bool) -> Result<Self> {
        let mut args = Args {
            len: 0,
            masks: [0; MAX_ARGS],
            tasks: 0,
            regs: 0,
        };
        // This is the type of a probe. Its first parameter is the probe's data.
        let name = CString::try_from_fmt(fmt!("btf_trace_{}", point.name()))?;
        let Some((types, typedef)) = Types::find(&name, bindings::BTF_KIND_TYPEDEF) else {
            return Ok(args);
        };
        let Some(prototype) = types.prototype(typedef) else {
            return Ok(args);
        };
        let task = Types::find(c"task_struct", bindings::BTF_KIND_STRUCT).map(|(_, id)| id);
        let regs = Types::find(c"pt_regs", bindings::BTF_KIND_STRUCT).map(|(_, id)| id);
        for parameter in 1..prototype.len {
            let parameter = prototype.parameter(parameter);
            let width = types.width(parameter);
            // Of what does not fit into a word it is not known where it is, nor what follows it.
            let (Some((width, has_pointer)), true) = (width, args.len < MAX_ARGS) else {
                break;
            };
            if !(hide_pointers && has_pointer) {
                args.masks[args.len] = !0 >> (64 - 8 * width);
            }
            // The kernel and its modules share the numbers of the kernel's types.
            if let Some(structure) = types.pointee(parameter) {
                args.tasks |= u32::from(task == Some(structure)) << args.len;
                args.regs |= u32::from(regs == Some(structure)) << args.len;
            }
            // INVARIANT: This parameter is in a word.
            args.len += 1;
        }
        Ok(args)
    }

    /// Their number.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether argument `i` points to a `struct task_struct`.
    pub(super) fn is_task(&self, i: usize) -> bool {
        i < self.len && self.tasks & (1 << i) != 0
    }

    /// Whether argument `i` points to a `struct pt_regs`.
    pub(super) fn is_regs(&self, i: usize) -> bool {
        i < self.len && self.regs & (1 << i) != 0
    }

    /// The bits of the word that are part of argument `i`. `None` if there is no such argument.
    pub(super) fn mask(&self, i: usize) -> Option<u64> {
        self.masks[..self.len.min(MAX_ARGS)].get(i).copied()
    }
}

/// The types of the kernel or of a module.
///
/// # Invariants
///
/// `raw` is valid, and this owns a reference to it.
struct Types {
    raw: NonNull<bindings::btf>,
}

/// The parameters of a function.
///
/// # Invariants
///
/// `parameters` points to `len` parameters.
struct Prototype<'a> {
    parameters: *const bindings::btf_param,
    len: u32,
    _types: &'a Types,
}

impl Prototype<'_> {
    /// The type of a parameter, 0 if there is no such parameter.
    fn parameter(&self, i: u32) -> u32 {
        if i >= self.len {
            return 0;
        }
        // SAFETY: By the type invariant there is this parameter.
        unsafe { (*self.parameters.add(i as usize)).type_ }
    }
}

impl Types {
    /// Finds the named type of a kind, and returns its number.
    fn find(name: &CStr, kind: u32) -> Option<(Self, u32)> {
        let mut btf = ptr::null_mut();
        // SAFETY: The name is a string, and `btf` is valid for writes.
        let id = unsafe { bindings::rust_perf_btf_find(name.as_char_ptr(), kind, &mut btf) };
        to_result(id.min(0)).ok()?;
        // INVARIANT: The function has succeeded, so that it has returned a reference.
        let types = Types {
            raw: NonNull::new(btf)?,
        };
        Some((types, id as u32))
    }

    fn get(&self, id: u32) -> Option<(u32, &bindings::btf_type)> {
        // SAFETY: The function returns null for numbers that do not exist. The type lives as long as
        // `self`.
        let raw = unsafe { bindings::btf_type_by_id(self.raw.as_ptr(), id).as_ref() }?;
        // BTF_INFO_KIND
        Some(((raw.info >> 24) & 0x7f, raw))
    }

    /// What a type refers to.
    fn target(raw: &bindings::btf_type) -> u32 {
        // SAFETY: Both variants of the union are integers of the same size.
        unsafe { raw.__bindgen_anon_1.type_ }
    }

    /// The function that a `typedef` of a pointer to a function has.
    fn prototype(&self, typedef: u32) -> Option<Prototype<'_>> {
        let (_, typedef) = self.get(typedef)?;
        let (kind, pointer) = self.get(Self::target(typedef))?;
        if kind != bindings::BTF_KIND_PTR {
            return None;
        }
        let (kind, function) = self.get(Self::target(pointer))?;
        if kind != bindings::BTF_KIND_FUNC_PROTO {
            return None;
        }
        // INVARIANT: The parameters follow a function's type. BTF_INFO_VLEN is their number.
        Some(Prototype {
            parameters: ptr::from_ref(function).wrapping_add(1).cast(),
            len: function.info & 0xff_ffff,
            _types: self,
        })
    }

    /// The number of the type, without modifiers, that a pointer points to.
    fn pointee(&self, id: u32) -> Option<u32> {
        let pointer = self.get(self.unmodified(id)?)?;
        (pointer.0 == bindings::BTF_KIND_PTR)
            .then(|| self.unmodified(Self::target(pointer.1)))
            .flatten()
    }

    /// The number of a type without its modifiers and names.
    fn unmodified(&self, mut id: u32) -> Option<u32> {
        loop {
            let (kind, raw) = self.get(id)?;
            match kind {
                bindings::BTF_KIND_TYPEDEF
                | bindings::BTF_KIND_VOLATILE
                | bindings::BTF_KIND_CONST
                | bindings::BTF_KIND_RESTRICT
                | bindings::BTF_KIND_TYPE_TAG => id = Self::target(raw),
                _ => return Some(id),
            }
        }
    }

    /// The bytes of a type that a register can hold, and whether it may have a pointer.
    fn width(&self, id: u32) -> Option<(u32, bool)> {
        let (kind, raw) = self.get(self.unmodified(id)?)?;
        // A structure may hold a pointer.
        let (size, has_pointer) = match kind {
            bindings::BTF_KIND_PTR => (8, true),
            bindings::BTF_KIND_STRUCT | bindings::BTF_KIND_UNION => (Self::target(raw), true),
            bindings::BTF_KIND_INT | bindings::BTF_KIND_ENUM | bindings::BTF_KIND_ENUM64 => {
                (Self::target(raw), false)
            }
            _ => return None,
        };
        matches!(size, 1..=8).then_some((size, has_pointer))
    }
}

impl Drop for Types {
    fn drop(&mut self) {
        // SAFETY: This owns a reference.
        unsafe { bindings::rust_perf_btf_put(self.raw.as_ptr()) };
    }
}
