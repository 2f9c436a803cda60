// SPDX-License-Identifier: GPL-2.0

//! A PMU's folders in sysfs: `format/` and `events/`, which tell the perf tool how
//! events are encoded, `caps/`, and others; and files beside them.
//!
//! A driver makes its folders when it registers the PMU, with the files that this
//! machine should have, so no file needs `is_visible`.

use crate::{
    bindings,
    system::cpumask::CpuMask, //
};
use core::ptr;
use kernel::{
    alloc::KVec,
    fmt,
    prelude::*,
    str::CString,
    sync::Arc, //
};

/// A file with one line of text.
pub struct File {
    name: CString,
    line: Line,
}

enum Line {
    /// Always the same.
    Text(CString),
    /// The list of CPUs that are online.
    OnlineCpus,
    /// The list of those of these CPUs that are online.
    Cpus(Arc<CpuMask>),
}

impl File {
    /// A file that reads as `line`. Task context, may sleep.
    pub fn new(name: &CStr, line: fmt::Arguments<'_>) -> Result<Self> {
        Self::prefixed("", name, line)
    }

    /// A file with the name `name` after `prefix`, which reads as `line`. Task context, may sleep.
    pub fn prefixed(prefix: &str, name: &CStr, line: fmt::Arguments<'_>) -> Result<Self> {
        Ok(File {
            name: CString::try_from_fmt(fmt!("{prefix}{name}"))?,
            line: Line::Text(CString::try_from_fmt(line)?),
        })
    }

    /// A file that reads as the list of CPUs that are online, such as `0-3,5`. Task context, may
    /// sleep.
    pub fn online_cpus(name: &CStr) -> Result<Self> {
        Ok(File {
            name: CString::try_from(name)?,
            line: Line::OnlineCpus,
        })
    }

    /// A file that reads as the list of those of `cpus` that are online. Task context, may sleep.
    pub fn cpus(name: &CStr, cpus: Arc<CpuMask>) -> Result<Self> {
        Ok(File {
            name: CString::try_from(name)?,
            line: Line::Cpus(cpus),
        })
    }
}

/// The folders of a PMU.
///
/// # Invariants
///
/// `pointers` ends with a null pointer. The other pointers are to the boxes in
/// `groups`, which point to their attributes in the same way.
pub struct AttributeGroups {
    pointers: KVec<*const bindings::attribute_group>,
    _groups: KVec<Group>,
}

struct Group {
    group: KBox<bindings::attribute_group>,
    _pointers: KVec<*mut bindings::attribute>,
    _attributes: KVec<bindings::perf_pmu_events_attr>,
    _files: KVec<File>,
}

// SAFETY: The pointers are to heap memory that the structure owns, and nothing is changed through
// them.
unsafe impl Send for AttributeGroups {}
// SAFETY: Nothing is changed through the pointers.
unsafe impl Sync for AttributeGroups {}

impl AttributeGroups {
    /// Makes folders of these names and files. Task context, may sleep.
    pub fn new<const N: usize>(folders: [(&'static CStr, KVec<File>); N]) -> Result<Self> {
        Self::with_files(KVec::new(), folders)
    }

    /// Makes files, and folders beside them. Task context, may sleep.
    pub fn with_files<const N: usize>(
        files: KVec<File>,
        folders: [(&'static CStr, KVec<File>); N],
    ) -> Result<Self> {
        let mut groups = KVec::new();
        // Without a name, it is no folder.
        groups.push(Group::new(None, files)?, GFP_KERNEL)?;
        for (name, files) in folders {
            groups.push(Group::new(Some(name), files)?, GFP_KERNEL)?;
        }
        let mut pointers = KVec::with_capacity(groups.len() + 1, GFP_KERNEL)?;
        for group in groups.iter() {
            pointers.push(ptr::from_ref(&*group.group), GFP_KERNEL)?;
        }
        pointers.push(ptr::null(), GFP_KERNEL)?;
        // INVARIANT: The boxes stay where they are when `groups` moves.
        Ok(AttributeGroups {
            pointers,
            _groups: groups,
        })
    }

    /// The value of `attr_groups` in `struct pmu`.
    pub(super) fn as_ptr(&self) -> *mut *const bindings::attribute_group {
        self.pointers.as_ptr().cast_mut()
    }
}

impl Group {
    fn new(name: Option<&'static CStr>, files: KVec<File>) -> Result<Self> {
        let mut attributes = KVec::with_capacity(files.len(), GFP_KERNEL)?;
        for file in files.iter() {
            attributes.push(attribute(file), GFP_KERNEL)?;
        }
        let mut pointers = KVec::with_capacity(files.len() + 1, GFP_KERNEL)?;
        for attribute in attributes.iter_mut() {
            let attribute = &raw mut attribute.attr.attr;
            // SAFETY: The attribute is valid, and in its final place: the vector does not grow any
            // more.
            unsafe { bindings::rust_perf_sysfs_attr_init(attribute) };
            pointers.push(attribute, GFP_KERNEL)?;
        }
        pointers.push(ptr::null_mut(), GFP_KERNEL)?;

        let mut group = KBox::new(
            bindings::attribute_group {
                name: name.map_or(ptr::null(), CStr::as_char_ptr),
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

/// The attribute of a file. It points to the file's name, and to its line or its CPUs.
fn attribute(file: &File) -> bindings::perf_pmu_events_attr {
    let mut attribute = bindings::perf_pmu_events_attr::default();
    attribute.attr.__bindgen_anon_1.show = Some(match &file.line {
        Line::Text(line) => {
            // perf_event_sysfs_show() prints this if it is set.
            attribute.event_str = line.as_char_ptr();
            bindings::perf_event_sysfs_show
        }
        Line::OnlineCpus => bindings::rust_perf_show_online_cpus,
        Line::Cpus(cpus) => {
            // rust_perf_show_cpumask() expects the mask there.
            attribute.event_str = cpus.as_ptr().cast();
            bindings::rust_perf_show_cpumask
        }
    });
    attribute.attr.attr.name = file.name.as_char_ptr();
    attribute.attr.attr.mode = 0o444;
    attribute
}
