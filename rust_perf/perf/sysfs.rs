// SPDX-License-Identifier: GPL-2.0

//! A PMU's folders in sysfs: `format/` and `events/`, which tell the perf tool
//! how to write an event, `caps/` and what else a driver has.

use crate::bindings;
use core::ptr;
use kernel::{
    alloc::KVec,
    fmt,
    prelude::*,
    str::CString, //
};

/// A file: its name and its one line.
pub(crate) struct File {
    name: &'static CStr,
    line: CString,
}

impl File {
    /// A file with the line `line`. Task context, may sleep.
    pub(crate) fn new(name: &'static CStr, line: fmt::Arguments<'_>) -> Result<Self> {
        Ok(File {
            name,
            line: CString::try_from_fmt(line)?,
        })
    }
}

/// The folders of a PMU.
///
/// # Invariants
///
/// `pointers` ends with a null pointer; the others point to `groups`' heap
/// allocations, which in turn point to their attributes, in the same manner.
pub(crate) struct AttributeGroups {
    pointers: KVec<*const bindings::attribute_group>,
    _groups: KVec<Group>,
}

struct Group {
    group: KBox<bindings::attribute_group>,
    _pointers: KVec<*mut bindings::attribute>,
    _attributes: KVec<bindings::perf_pmu_events_attr>,
    _files: KVec<File>,
}

// SAFETY: The pointers are to what the structure owns, and nothing is changed through them.
unsafe impl Send for AttributeGroups {}
// SAFETY: As above.
unsafe impl Sync for AttributeGroups {}

impl AttributeGroups {
    /// Folders, each with its name and files. Task context, may sleep.
    pub(crate) fn new<const N: usize>(folders: [(&'static CStr, KVec<File>); N]) -> Result<Self> {
        let mut groups = KVec::new();
        let mut pointers = KVec::new();
        for (name, files) in folders {
            let group = Group::new(name, files)?;
            pointers.push(ptr::from_ref(&*group.group), GFP_KERNEL)?;
            groups.push(group, GFP_KERNEL)?;
        }
        pointers.push(ptr::null(), GFP_KERNEL)?;
        // INVARIANT: The boxes that `pointers` points to stay where they are when `groups` moves.
        Ok(AttributeGroups {
            pointers,
            _groups: groups,
        })
    }

    /// What `struct pmu` wants of it.
    pub(super) fn as_ptr(&self) -> *mut *const bindings::attribute_group {
        self.pointers.as_ptr().cast_mut()
    }
}

impl Group {
    fn new(name: &'static CStr, files: KVec<File>) -> Result<Self> {
        let mut attributes = KVec::with_capacity(files.len(), GFP_KERNEL)?;
        for file in files.iter() {
            attributes.push(attribute(file), GFP_KERNEL)?;
        }
        let mut pointers = KVec::with_capacity(files.len() + 1, GFP_KERNEL)?;
        for attribute in attributes.iter_mut() {
            let attribute = &raw mut attribute.attr.attr;
            // SAFETY: The attribute is in its final place: no vector grows any more.
            unsafe { bindings::rust_perf_sysfs_attr_init(attribute) };
            pointers.push(attribute, GFP_KERNEL)?;
        }
        pointers.push(ptr::null_mut(), GFP_KERNEL)?;

        let mut group = KBox::new(
            bindings::attribute_group {
                name: name.as_char_ptr(),
                ..Default::default()
            },
            GFP_KERNEL,
        )?;
        group.__bindgen_anon_2.attrs = pointers.as_mut_ptr();
        Ok(Group {
            group,
            _pointers: pointers,
            _attributes: attributes,
            _files: files,
        })
    }
}

/// The attribute of a file, which points to its name and line.
fn attribute(file: &File) -> bindings::perf_pmu_events_attr {
    let mut attribute = bindings::perf_pmu_events_attr {
        // Shown as it is: perf_event_sysfs_show() prefers it to `id`.
        event_str: file.line.as_char_ptr(),
        ..Default::default()
    };
    attribute.attr.attr.name = file.name.as_char_ptr();
    attribute.attr.attr.mode = 0o444;
    attribute.attr.__bindgen_anon_1.show = Some(bindings::perf_event_sysfs_show);
    attribute
}
