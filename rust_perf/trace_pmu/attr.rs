// SPDX-License-Identifier: GPL-2.0

//! What an event asks for, and who may ask for it.

use super::{
    names::Traits,
    Source,
    TracePmu, //
};
use crate::perf::{
    self,
    NewEvent,
    Selector, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What an event traces, by the fields of `format/`.
pub(super) enum Kind {
    /// The trace point with this number.
    TracePoint(u32),
}

impl Kind {
    /// Decodes `config`. Fails with `EINVAL` if a bit of no field is set.
    fn of(selector: Selector) -> Result<Self> {
        let Selector::Config(config) = selector else {
            return Err(EINVAL);
        };
        match config >> 32 {
            0 => Ok(Kind::TracePoint(config as u32)),
            _ => Err(EINVAL),
        }
    }
}

impl TracePmu {
    /// Checks an event that is being opened, and finds what it traces. Task context.
    pub(super) fn open(&self, event: &NewEvent<'_, Self>) -> Result<Arc<Source>> {
        // Check in the in-tree PMU's order, so that the errno matches.
        let attr = event.attr();
        if attr.wants_branch_stack() {
            return Err(perf::not_supported());
        }
        let mut sources = self.sources.lock();
        if let Some(parent) = event.parent() {
            return Ok(sources.join(parent.data().into()));
        }
        match Kind::of(attr.selector())? {
            Kind::TracePoint(number) => {
                if attr.has_extended_config() {
                    return Err(EINVAL);
                }
                let allowed = |traits: &Traits| allowed(event, traits);
                sources.trace_point(number, allowed)
            }
        }
    }
}

/// Checks that the current task may open an event of a trace point. As
/// perf_trace_event_perm().
fn allowed(event: &NewEvent<'_, TracePmu>, traits: &Traits) -> Result {
    let attr = event.attr();
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
