// SPDX-License-Identifier: GPL-2.0

//! Places in programs as what events trace.

use super::{
    probes::At,
    Source, //
};
use crate::{
    bindings,
    perf::Attr,
    system::{
        address_space::AddressSpace,
        irq::PreemptDisabled,
        path::RegularFile,
        uprobe::{
            Handler,
            Hit,
            Place,
            Uprobe, //
        },
        user_string::UserString, //
    }, //
};
use core::sync::atomic::{
    AtomicBool,
    Ordering::Relaxed, //
};
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    },
    task::Task, //
};

/// The probe of an event. It counts for a source.
pub(super) type Probe = Uprobe<Hits>;

/// Counts the hits of a probe.
pub(super) struct Hits {
    source: Arc<Source>,
    /// The only task whose hits count, if there is one.
    task: Option<ARef<Task>>,
    /// How many arguments a record has.
    args: usize,
    /// Whether programs are probed.
    active: AtomicBool,
}

impl Handler for Hits {
    fn wants(&self, mm: AddressSpace) -> bool {
        self.active.load(Relaxed)
            && self
                .task
                .as_ref()
                .is_none_or(|task| AddressSpace::of(task) == mm)
    }

    fn hit(&self, hit: Hit<'_>) {
        let (source, regs) = (&self.source, hit.regs);
        let ip = regs.instruction_pointer();
        PreemptDisabled::with(|preempt| match hit.function {
            None => source.count_place(preempt, regs, ip, self.args),
            Some(function) => source.count_return(preempt, regs, function as u64, ip),
        });
    }
}

/// How an event that is being opened names a program.
#[derive(Clone, Copy)]
pub(super) enum By {
    /// `config1` is the address of a path in the memory of the current task.
    Path,
    /// `config1` is a file descriptor of the current task.
    Descriptor,
}

/// Where an event that is being opened wants its probe: in the file that `config1` names,
/// at offset `config2`.
///
/// Fails with `EFAULT` if the path cannot be read, with `E2BIG` if it is too long, with
/// `EINVAL` if there is none or if it is not that of a regular file, with `EBADF` if there
/// is no such descriptor, and with the errors of `kern_path()`. Task context, may sleep.
pub(super) fn place(attr: &Attr, by: By, ref_ctr_offset: u64) -> Result<Place> {
    let [file, offset, ..] = attr.extended_config();
    let file = match by {
        By::Path if file == 0 => return Err(EINVAL),
        By::Path => {
            let path = UserString::copy(file, bindings::PATH_MAX as usize)?;
            if path.is_empty() {
                return Err(EINVAL);
            }
            RegularFile::at(&path)?
        }
        By::Descriptor => RegularFile::opened_as(file.try_into().map_err(|_| EBADF)?)?,
    };
    Ok(Place {
        file,
        offset,
        ref_ctr_offset,
    })
}

/// Puts a probe at a place, or on the return from the function there, into the programs that map the
/// file: those of `task` only, if there is one.
///
/// If `at_once` is not set, it is left to programs that map the file from now on.
///
/// Task context, may sleep. Fails with the errors of [`Uprobe::register`].
pub(super) fn attach(
    place: Place,
    at: At,
    task: Option<ARef<Task>>,
    at_once: bool,
    source: Arc<Source>,
) -> Result<Pin<KBox<Probe>>> {
    let hits = Hits {
        source,
        task,
        args: at.args(),
        active: AtomicBool::new(at_once),
    };
    let probe = KBox::pin_init(Uprobe::register(place, at.is_return(), hits), GFP_KERNEL)?;
    probe.handler().active.store(true, Relaxed);
    Ok(probe)
}
