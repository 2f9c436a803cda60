// SPDX-License-Identifier: GPL-2.0

//! What an event asks for, and who may ask for it.

use super::{
    names::{
        Special,
        Traits,
        SOFTWARE, //
    },
    probes::At,
    uprobe,
    Source,
    TracePmu, //
};
use crate::perf::{
    self,
    KernelCounter,
    NewEvent,
    Selector, //
};
use core::sync::atomic::Ordering::Relaxed;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What an event traces, by the fields of `format/`.
pub(super) enum Kind {
    /// The trace point with this number.
    TracePoint(u32),
    /// A place in the kernel's code, or the return from the function there.
    Kernel(At),
    /// A place in a program, or the return from the function there.
    Program {
        at: At,
        /// What says which program.
        by: uprobe::By,
        /// See [`Place`](crate::system::uprobe::Place).
        ref_ctr_offset: u64,
    },
}

/// The first bit of `config` that is a field of probes.
const FIELDS_SHIFT: u32 = 32;
/// The bits of `config` from 32 on that are the field `kind`.
const KIND: u64 = 0b11;
/// The bit of `config` from 32 on that is the field `ret`.
const RET: u64 = 0b100;
/// The first bit of `config` from 32 on that is the field `args`, of three bits.
const ARGS_SHIFT: u32 = 3;
/// The kinds of probes that have a name of their own, and their fields in `config` from 32 on.
pub(super) const PROBES: &[(&CStr, u64)] = &[
    (c"kprobe", 1),
    (c"kretprobe", 1 | RET),
    (c"uprobe", 3),
    (c"uretprobe", 3 | RET),
];

/// The first bit of `config` that selects an event by a name.
const NAMES_SHIFT: u32 = 38;

/// The bit of `config` that selects this event of [`SOFTWARE`].
pub(super) const fn name_bit(i: usize) -> u32 {
    NAMES_SHIFT.wrapping_add(i as u32)
}

/// The bit of `config` that selects this kind of [`PROBES`].
pub(super) const fn probe_bit(i: usize) -> u32 {
    name_bit(SOFTWARE.len().wrapping_add(i))
}

impl Kind {
    /// Decodes `config`. Fails with `EINVAL` if a bit of no field is set, or if fields do not
    /// go together.
    fn of(selector: Selector) -> Result<Self> {
        let Selector::Config(config) = selector else {
            return Err(EINVAL);
        };
        if config >> NAMES_SHIFT == 0 {
            return Self::by_fields(config);
        }
        let software = (0..).zip(SOFTWARE);
        for (i, (_, number)) in software {
            if config == 1 << name_bit(i) {
                return Ok(Kind::TracePoint(*number));
            }
        }
        let probes = (0..).zip(PROBES);
        for (i, (_, fields)) in probes {
            let rest = config & !(1 << probe_bit(i));
            // The name is in the place of these fields.
            let is_alone = rest & ((KIND | RET) << FIELDS_SHIFT) == 0;
            if rest != config && rest >> NAMES_SHIFT == 0 && is_alone {
                return Self::by_fields(rest | (fields << FIELDS_SHIFT));
            }
        }
        Err(EINVAL)
    }

    /// Decodes `config`, which has no bit of a name.
    fn by_fields(config: u64) -> Result<Self> {
        let (low, high) = (config as u32, config >> FIELDS_SHIFT);
        let args = high >> ARGS_SHIFT;
        let at = At::new(high & RET != 0, args as usize)?;
        let program = |by| Kind::Program {
            at,
            by,
            ref_ctr_offset: low.into(),
        };
        match high & KIND {
            0 if at == (At::Place { args: 0 }) => Ok(Kind::TracePoint(low)),
            1 if low == 0 => Ok(Kind::Kernel(at)),
            2 => Ok(program(uprobe::By::Path)),
            3 => Ok(program(uprobe::By::Descriptor)),
            _ => Err(EINVAL),
        }
    }
}

impl TracePmu {
    /// Checks an event that is being opened, and finds what it traces. Task context.
    pub(super) fn open(&self, event: &NewEvent<'_, Self>) -> Result<Arc<Source>> {
        // Check in the in-tree PMU's order, so that the errno matches.
        let attr = event.attr();
        if let Some(parent) = event.parent() {
            let source: Arc<Source> = parent.data().into();
            return Ok(source.join());
        }
        let kind = Kind::of(attr.selector());
        let may_open = match kind {
            // What the in-tree PMUs `kprobe` and `uprobe` want.
            Ok(Kind::Kernel(_)) => perf::perfmon_capable(),
            Ok(Kind::Program { .. }) => perf::is_administrator(),
            Ok(Kind::TracePoint(_)) | Err(_) => true,
        };
        if !may_open {
            return Err(EACCES);
        }
        if attr.samples_branch_stack() {
            return Err(perf::not_supported());
        }
        let source = match kind? {
            Kind::TracePoint(number) => {
                if attr.has_extended_config() {
                    return Err(EINVAL);
                }
                if let Special::Migrations = Traits::of(number).special {
                    let mut migrations = self.migrations.lock();
                    if migrations.is_none() {
                        *migrations = Some(KernelCounter::of_migrations()?);
                    }
                }
                let allowed = |traits: &Traits| allowed(event, traits);
                self.sources.lock().numbered(number, event, allowed)?
            }
            Kind::Kernel(at) => self.open_kprobe(event, at)?,
            Kind::Program {
                at,
                by,
                ref_ctr_offset,
            } => self.open_uprobe(event, at, by, ref_ctr_offset)?,
        };
        if event.is_of_task() && event.cpu().is_some() {
            source.has_bound_events.store(true, Relaxed);
        }
        if attr.wants_raw() {
            source.has_records.store(true, Relaxed);
        }
        Ok(source)
    }
}

/// Checks that the current task may open an event of a trace point. As
/// perf_trace_event_perm().
fn allowed(event: &NewEvent<'_, TracePmu>, traits: &Traits) -> Result {
    let attr = event.attr();
    if traits.special == Special::Migrations && event.is_sampling() {
        // The task that has migrated does not run yet.
        return Err(perf::not_supported());
    }
    if traits.is_caused_by_samples && event.is_sampling() {
        return Err(EPERM);
    }
    if traits.is_page_fault && event.is_sampling() && attr.wants_user_stack() {
        return Err(EINVAL);
    }
    // Counts say little of what other tasks and the kernel do. Records say all.
    if !attr.wants_raw() || (traits.is_public && event.is_of_task()) {
        return Ok(());
    }
    perf::allow_tracepoint()
}
