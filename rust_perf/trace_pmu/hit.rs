// SPDX-License-Identifier: GPL-2.0

//! Hits: what is recorded and counted.
//!
//! All of this runs where the kernel is traced, in any context, an NMI too. Nothing
//! allocates, locks, sleeps, prints or panics.

use super::Source;
use crate::system::tracepoint::{
    Hit,
    Probe, //
};

impl Probe for Source {
    fn hit(&self, hit: &Hit<'_>) {
        let preempt = hit.preempt_disabled();
        if self.list.is_empty(preempt) {
            return;
        }
        let Some(mut recording) = self.buffers.enter(preempt) else {
            return;
        };
        recording.set(self.number, hit.args());
        recording.deliver(&self.list, self.count(hit), hit.caller());
    }
}

impl Source {
    /// How often to count a hit.
    fn count(&self, hit: &Hit<'_>) -> u64 {
        if self.traits.has_count {
            hit.arg(1)
        } else {
            1
        }
    }
}
