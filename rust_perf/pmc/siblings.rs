// SPDX-License-Identifier: GPL-2.0

//! Counters of the threads of a core that disturb each other.
//!
//! While one thread counts an [exclusive event](Capabilities::is_exclusive), the counters of
//! the same number of the core's other threads may count wrongly. So a counter with an
//! exclusive event is used by one thread only. While there is such an event on the core, each
//! thread takes at most half of its GP counters, so that one does not leave the others none,
//! unless the others are offline: in-tree `intel_get_excl_constraints()` and `x86_schedule_events()`. A thread that had more
//! before keeps them.
//!
//! Each thread has an [`Assignment`] of its own. [`Siblings`] keeps the core's books.

use super::{
    assign::{
        Assignment,
        Barred,
        Placement, //
    },
    capabilities::Capabilities,
    counter::{
        Counter,
        CounterSet, //
    },
    needs::Needs, //
};

/// No CPU has more GP counters.
const MAX_GP: usize = 32;

/// Which GP counters the threads of a core use.
///
/// # Invariants
///
/// A counter in `exclusive` has one user.
#[derive(Default)]
pub struct Siblings {
    /// The number of threads that use each counter.
    users: [u8; MAX_GP],
    /// The counters with an exclusive event.
    exclusive: CounterSet,
}

impl Siblings {
    /// Finds a counter of a thread for an event, as [`Assignment::place`] does, among those that
    /// the thread may use. Returns `None`, and changes nothing, if there is none for now.
    ///
    /// From now on the other threads keep clear of it. So the caller must have stopped the
    /// thread's counters before, and may run them only after this. A thread that is `alone` on
    /// its core may have all of its counters.
    pub fn place(
        &mut self,
        thread: &mut Assignment,
        capabilities: &Capabilities,
        needs: Needs,
        alone: bool,
    ) -> Option<Placement> {
        let request = Request {
            allowed: needs.counters(),
            exclusive: needs.exclusive(),
            alone,
        };
        self.place_among(thread, capabilities.counters.gp_part(), request)
    }

    fn place_among(
        &mut self,
        thread: &mut Assignment,
        all: CounterSet,
        request: Request,
    ) -> Option<Placement> {
        let before = Share::of(thread);
        let barred = self.barred(before, all, request);
        let placement = thread.place_within(request.allowed, request.exclusive, barred)?;
        self.replace(before, Share::of(thread));
        Some(placement)
    }

    /// Removes the event on a thread's `counter`, which is stopped.
    pub fn remove(&mut self, thread: &mut Assignment, counter: Counter) {
        let before = Share::of(thread);
        thread.remove(counter);
        self.replace(before, Share::of(thread));
    }

    /// The counters of `all` that a thread, which has `own`, may not take for one more event.
    fn barred(&self, own: Share, all: CounterSet, request: Request) -> Barred {
        if !request.exclusive && self.exclusive.is_empty() {
            return Barred::default();
        }
        let of_others = self.exclusive & !own.exclusive;
        let beyond_half = if request.alone || own.used.len() < half(all) {
            CounterSet::EMPTY
        } else {
            all & !own.used
        };
        Barred {
            all: of_others | beyond_half,
            exclusive: all
                .into_iter()
                .filter(|&it| self.is_shared(it, own))
                .collect(),
        }
    }

    /// Whether another thread than that with `own` uses a counter.
    fn is_shared(&self, counter: Counter, own: Share) -> bool {
        let users = self.users.get(counter.index());
        users.is_some_and(|&users| users > own.used.contains(counter).into())
    }

    /// A thread has `after` instead of `before`.
    fn replace(&mut self, before: Share, after: Share) {
        for counter in before.used & !after.used {
            self.count(counter, |users| users.saturating_sub(1));
        }
        for counter in after.used & !before.used {
            self.count(counter, |users| users.saturating_add(1));
        }
        // INVARIANT: `barred()` keeps exclusive events off the counters of others, and others off
        // those of exclusive events.
        self.exclusive = (self.exclusive & !before.exclusive) | after.exclusive;
    }

    fn count(&mut self, counter: Counter, change: impl FnOnce(u8) -> u8) {
        if let Some(users) = self.users.get_mut(counter.index()) {
            *users = change(*users);
        }
    }
}

/// What a new event asks for.
#[derive(Clone, Copy, Debug)]
struct Request {
    allowed: CounterSet,
    exclusive: bool,
    alone: bool,
}

/// The GP counters that one thread uses.
#[derive(Clone, Copy)]
struct Share {
    used: CounterSet,
    /// Those of them with exclusive events.
    exclusive: CounterSet,
}

impl Share {
    fn of(thread: &Assignment) -> Self {
        Share {
            used: thread.used().gp_part(),
            exclusive: thread.exclusive(),
        }
    }
}

/// Half of the counters, but at least one.
fn half(all: CounterSet) -> u32 {
    (all.len() / 2).max(1)
}

#[cfg(test)]
mod tests;
