// SPDX-License-Identifier: GPL-2.0

//! What an event asks for.

use super::{
    branches::BranchesInUse,
    event::{
        CoreEvent,
        BRANCHES_ONLY, //
    },
    CorePmu, //
};
use crate::{
    perf::{
        self,
        Attr,
        NewEvent,
        Selector,
        Word, //
    },
    pmc::{
        assign::Assignment,
        event::{
            EventSel,
            Modes, //
        },
        CacheEvent,
        Extra,
        ExtraError,
        ExtraInUse,
        Rate, //
    },
    system::nospec, //
};
use core::num::NonZeroU64;
use kernel::prelude::*;

/// The registers from XMM0 on, which only precise samples of some CPUs have
/// (`arch/x86/include/uapi/asm/perf_regs.h`).
const EXTENDED_REGISTERS: u64 = !0 << 32;

/// One more than the highest number of a generic hardware event
/// (`include/uapi/linux/perf_event.h`).
const PERF_COUNT_HW_MAX: u64 = 10;

/// The event that a user has selected.
struct Selection {
    /// By its number, also if it has been selected by name.
    selector: Selector,
    /// The bits of `config2` that have selected it by name: see
    /// [`Naming::Apart`](super::place::Naming::Apart).
    names: u64,
    /// What the name stands for in `config1`, which the user must leave 0 then.
    config1: u64,
    /// How often it is assumed to occur.
    rate: Rate,
}

impl CorePmu {
    /// Checks an event that is being opened, sets its period and its extra register, and
    /// returns its EVENTSEL. Task context.
    pub(super) fn check(&self, event: &NewEvent<'_, Self>) -> Result<Word> {
        let attr = event.attr();
        // Check in the in-tree driver's order, so that the errno matches. The reservation is the
        // exception: it comes last, so that an event that is refused reserves nothing.
        if attr.precise_ip() != 0 {
            return Err(perf::not_supported());
        }
        let selection = self.selection(attr);
        let selector = selection.selector;
        if event.is_sampling() && !attr.is_frequency() {
            let config = match selector {
                Selector::Config(config) => EventSel::from_raw(config),
                // Those with a limit of their own are not generic.
                Selector::Hardware(_) | Selector::HwCache(_) => EventSel::default(),
            };
            self.check_period_of(config, attr.sample_period())?;
        }
        if attr.sampled_registers() & EXTENDED_REGISTERS != 0 {
            return Err(EINVAL);
        }
        let (config, extra) = self.resolve(attr, &selection)?;
        let branch_control = self.check_branches(event)?;
        let is_logged = self.check_logging(event, selector, branch_control)?;
        self.check_topdown(event, selector)?;
        let clears_metrics = self.wants_metrics_clear(attr, selector);
        let known = match selector {
            Selector::Config(_) if selection.config1 != 0 => 0,
            Selector::Config(_) => extra.map_or(clears_metrics.into(), |extra| extra.value),
            Selector::Hardware(_) | Selector::HwCache(_) => 0,
        };
        if attr.extended_config() != [known, selection.names, 0, 0] {
            return Err(EINVAL);
        }
        self.has_auxiliary(event, config)?;
        let eventsel = self.eventsel(attr, config)?;
        // A frequency is taken for a period here, as by the in-tree driver.
        let capabilities = &self.hardware.capabilities;
        if !capabilities.is_transaction_allowed(eventsel, attr.sample_period()) {
            return Err(perf::not_supported());
        }
        let eventsel = eventsel.with(EventSel::METRICS_CLEAR, clears_metrics.into());
        // A task could read an event of a CPU that it must not see.
        let hidden = capabilities.hides_counters && !event.is_of_task();
        let eventsel = eventsel.with(EventSel::RDPMC_USER_DISABLE, hidden.into());
        let eventsel = match is_logged {
            true => eventsel.with(EventSel::LBR_LOG, 1),
            // On AMD's CPUs the bit is a part of the event select.
            false => eventsel,
        };
        self.fits_in_group(event, eventsel, extra, branch_control)?;
        self.join_slots(event, eventsel)?;
        event.set_constant(capabilities.needs(eventsel).into_word());
        event.set_branch_control(branch_control);
        event.set_extra_register(match extra {
            Some(extra) => Some(perf::ExtraRegister {
                index: extra.register.index(),
                value: extra.value,
            }),
            None if branch_control != 0 => Some(BRANCHES_ONLY),
            None => None,
        });

        if !event.is_sampling() {
            event.set_period(capabilities.max_period());
        } else if attr.is_frequency() {
            let frequency = attr.sample_freq();
            event.set_period(capabilities.first_period(eventsel, selection.rate, frequency));
        }
        NonZeroU64::new(eventsel.into_raw()).map(Word).ok_or(EINVAL)
    }

    /// Fails with `EINVAL` if the CPU cannot count an event with this period.
    pub(super) fn check_period_of(&self, event: EventSel, period: u64) -> Result {
        let capabilities = &self.hardware.capabilities;
        let allowed = capabilities.is_period_allowed(event, period);
        allowed.then_some(()).ok_or(EINVAL)
    }

    /// The event that is selected. Bits of `config2` that select none are left for
    /// [`Self::check`] to refuse.
    fn selection(&self, attr: &Attr) -> Selection {
        let capabilities = &self.hardware.capabilities;
        let selector = attr.selector();
        let by_number = |rate| Selection {
            selector,
            names: 0,
            config1: 0,
            rate,
        };
        let config = match selector {
            Selector::Config(config) => config,
            Selector::Hardware(id) => return by_number(capabilities.hardware_rate(id)),
            Selector::HwCache(_) => return by_number(Rate::CACHE),
        };
        let [_, names, ..] = attr.extended_config();
        let has_code = config & capabilities.code_mask() != 0;
        if !names.is_power_of_two() || has_code {
            return by_number(Rate::UNKNOWN);
        }
        match nospec::get(&self.named, names.trailing_zeros() as usize) {
            Some(event) => Selection {
                selector: Selector::Config(event.config | config),
                names,
                config1: event.config1,
                rate: event.rate,
            },
            None => by_number(Rate::UNKNOWN),
        }
    }

    /// The encoding of an event in `attr.config`, and the extra register that it needs.
    fn resolve(&self, attr: &Attr, selection: &Selection) -> Result<(u64, Option<Extra>)> {
        let capabilities = &self.hardware.capabilities;
        let (config, value) = match selection.selector {
            Selector::Config(config) if selection.config1 != 0 => (config, selection.config1),
            Selector::Config(config) => {
                let [config1, ..] = attr.extended_config();
                (config, config1)
            }
            Selector::Hardware(id) if id < PERF_COUNT_HW_MAX => {
                let config = capabilities.hardware_event(id).ok_or(ENOENT)?;
                return Ok((config, None));
            }
            Selector::Hardware(_) => return Err(EINVAL),
            Selector::HwCache(id) => match capabilities.cache_event(id) {
                CacheEvent::Config(config) => (config, 0),
                CacheEvent::Extra { config, config1 } => (config, config1),
                CacheEvent::Missing => return Err(ENOENT),
                CacheEvent::Invalid => return Err(EINVAL),
            },
        };
        let extra = capabilities.extra(EventSel::from_raw(config), value);
        let extra = extra.map_err(|error| match error {
            ExtraError::Invalid => EINVAL,
            ExtraError::Missing => ENXIO,
        })?;
        Ok((config, extra))
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

    /// Fails with `EINVAL` if `event`, which is `eventsel` and needs `extra`, and the events
    /// of the group that it joins do not fit at once. An inherited event fits as its parent does: fork()
    /// must not fail because a member of the group, which was disabled when the others joined, has been
    /// enabled since.
    fn fits_in_group(
        &self,
        event: &NewEvent<'_, Self>,
        eventsel: EventSel,
        extra: Option<Extra>,
        branch_control: u64,
    ) -> Result {
        if event.parent().is_some() {
            return Ok(());
        }
        let mut group = Assignment::default();
        let mut in_use = ExtraInUse::default();
        let mut branches = BranchesInUse::default();
        let mut place = |eventsel, extra: Option<Extra>, branch_control| {
            if branch_control != 0 && !branches.take(branch_control) {
                return Err(EINVAL);
            }
            if let Some(extra) = extra {
                let choices = self.hardware.capabilities.extra_choices(eventsel, extra);
                in_use.take(choices).ok_or(EINVAL)?;
            }
            let placement = group.place_event(self.hardware.capabilities.needs(eventsel));
            placement.map(|_| ()).ok_or(EINVAL)
        };
        event.for_each_in_group(|member| {
            place(member.eventsel(), member.extra(), member.branch_control())
        })?;
        place(eventsel, extra, branch_control)
    }

    /// Fails with `ENODATA` if samples of the event need another event in the group that it
    /// joins, and there is none.
    fn has_auxiliary(&self, event: &NewEvent<'_, Self>, config: u64) -> Result {
        let capabilities = &self.hardware.capabilities;
        if !event.attr().wants_data_source()
            || !capabilities.needs_auxiliary(EventSel::from_raw(config))
        {
            return Ok(());
        }
        let found = event.any_in_group(|member| capabilities.is_auxiliary(member.eventsel()));
        found.then_some(()).ok_or_else(perf::no_data)
    }
}
