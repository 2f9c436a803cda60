// SPDX-License-Identifier: GPL-2.0

//! What an event asks for.

use super::CorePmu;
use crate::{
    perf::{
        self,
        Attr,
        Event,
        NewEvent,
        Selector,
        Word, //
    },
    pmc::{
        assign::Assignment,
        counter::CounterSet,
        event::{
            EventSel,
            Modes, //
        },
        CacheEvent, //
    }, //
};
use core::num::NonZeroU64;
use kernel::prelude::*;

/// The event rate that is assumed for an event that is sampled at a frequency. perf
/// works out the right period from the first samples.
const EVENTS_PER_SECOND: u64 = 1 << 28;

/// The registers from XMM0 on, which only precise samples of some CPUs have
/// (`arch/x86/include/uapi/asm/perf_regs.h`).
const EXTENDED_REGISTERS: u64 = !0 << 32;

/// One more than the highest number of a generic hardware event
/// (`include/uapi/linux/perf_event.h`).
const PERF_COUNT_HW_MAX: u64 = 10;

impl CorePmu {
    /// Checks an event that is being opened, sets its period, and returns its EVENTSEL.
    /// Task context.
    pub(super) fn check(&self, event: &NewEvent<'_, Self>) -> Result<Word> {
        let attr = event.attr();
        // Check in the in-tree driver's order, so that the errno matches. The reservation is the
        // exception: it comes last, so that an event that is refused reserves nothing.
        if attr.precise_ip() != 0 {
            return Err(perf::not_supported());
        }
        if attr.sampled_registers() & EXTENDED_REGISTERS != 0 {
            return Err(EINVAL);
        }
        let config = self.resolve(attr.selector())?;
        if attr.wants_branch_stack() {
            return Err(perf::not_supported());
        }
        if attr.has_extended_config() {
            return Err(EINVAL);
        }
        let eventsel = self.eventsel(attr, config)?;
        self.fits_in_group(event, self.counters_for(eventsel))?;

        if !event.is_sampling() {
            event.set_period(self.hardware.capabilities.max_period());
        } else if attr.is_frequency() {
            let period = EVENTS_PER_SECOND.checked_div(attr.sample_freq());
            event.set_period(period.map_or(1, |period| period.max(1)));
        }
        NonZeroU64::new(eventsel.into_raw()).map(Word).ok_or(EINVAL)
    }

    /// The encoding of an event in `attr.config`.
    fn resolve(&self, selector: Selector) -> Result<u64> {
        let capabilities = &self.hardware.capabilities;
        match selector {
            Selector::Config(config) => Ok(config),
            Selector::Hardware(id) if id < PERF_COUNT_HW_MAX => {
                capabilities.hardware_event(id).ok_or(ENOENT)
            }
            Selector::Hardware(_) => Err(EINVAL),
            Selector::HwCache(id) => match capabilities.cache_event(id) {
                CacheEvent::Config(config) => Ok(config),
                CacheEvent::Missing => Err(ENOENT),
                CacheEvent::Invalid => Err(EINVAL),
            },
        }
    }

    /// The EVENTSEL for `config`, in the modes that the user asks for.
    fn eventsel(&self, attr: &Attr, config: u64) -> Result<EventSel> {
        let capabilities = &self.hardware.capabilities;
        let (no_host, no_guest) = (attr.exclude_host(), attr.exclude_guest());
        let selectable = capabilities.svm;
        // If the CPU cannot select guests, only the host is counted. With both bits set AMD's CPUs
        // count host and guests (amd_core_hw_config()).
        let modes = if no_host && (no_guest || !selectable) {
            Modes::NONE
        } else {
            Modes {
                user: !attr.exclude_user(),
                kernel: !attr.exclude_kernel(),
            }
        };
        let mut eventsel =
            EventSel::from_config(config, capabilities.config_mask(), modes).ok_or(EINVAL)?;
        if eventsel.has(EventSel::ANY) && !perf::perfmon_capable() {
            return Err(EACCES);
        }
        if selectable && no_host != no_guest {
            eventsel = eventsel
                .with(EventSel::HOST_ONLY, no_guest.into())
                .with(EventSel::GUEST_ONLY, no_host.into());
        }
        Ok(eventsel)
    }

    /// Fails with `EINVAL` if `event`, which can be on `counters`, and the events of the
    /// group that it joins do not fit at once.
    fn fits_in_group(&self, event: &NewEvent<'_, Self>, counters: CounterSet) -> Result {
        let mut group = Assignment::default();
        let mut place = |counters| group.place(counters).map(|_| ()).ok_or(EINVAL);
        event.for_each_in_group(|member| place(self.counters_for(Self::eventsel_of(member))))?;
        place(counters)
    }

    /// The counters that can count an event.
    pub(super) fn counters_for(&self, eventsel: EventSel) -> CounterSet {
        self.hardware.capabilities.counters_for(eventsel)
    }

    /// The EVENTSEL of an open event. Any context.
    pub(super) fn eventsel_of(event: &Event<Self>) -> EventSel {
        EventSel::from_raw(event.data())
    }
}
