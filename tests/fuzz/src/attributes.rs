// SPDX-License-Identifier: GPL-2.0

//! From attributes to registers, on the PMU model.
//!
//! Whatever a user asks for, nothing panics, and an event that is accepted
//!
//! - has only bits that its register has: no WRMSR faults;
//! - is put on a counter that counts it: it counts the same in a group, on whichever counter it
//!   has there, as alone on any counter that it may have.

use arbitrary::{Result, Unstructured};
use pmc::{
    assign::Assignment,
    counter::{Counter, CounterSet},
    event::{EventSel, Modes},
    CacheEvent, Capabilities, Extra, ExtraInUse, ExtraRegister, Registers,
};
use pmu_model::{Config, Retired};
use std::num::NonZeroU8;

use crate::common::{Cpu, Driven};

/// An event that was accepted.
#[derive(Clone, Copy)]
struct Event {
    eventsel: EventSel,
    extra: Option<Extra>,
}

/// Which counters are driven, and how.
#[derive(Clone, Copy)]
struct Machine {
    config: Config,
    caps: Capabilities,
}

impl Machine {
    fn new(u: &mut Unstructured<'_>) -> Result<Option<Machine>> {
        let config = crate::config(u)?;
        let cpu = Cpu::new(config);
        let caps = match u.ratio(1, 4)? {
            true => cpu.detect_as(u.int_in_range(0..=7)?),
            false => cpu.detect(),
        };
        let Some(mut caps) = caps else {
            return Ok(None);
        };
        if u.ratio(1, 8)? {
            caps = caps.without_fixed();
        }
        if u.ratio(1, 8)? {
            caps = caps.limit_gp(u.arbitrary::<NonZeroU8>()?);
        }
        if u.ratio(1, 8)? {
            caps = caps.without_extra(*u.choose(&ExtraRegister::ALL)?);
        }
        Ok(Some(Machine { config, caps }))
    }

    /// What the registers hold that the driver uses.
    fn registers(&self, cpu: &Cpu) -> Vec<u64> {
        self.caps.registers().map(|msr| cpu.rdmsr(msr)).collect()
    }

    /// Counts events on these counters, and returns their counts.
    fn count(&self, events: &[(Counter, Event)], retired: &[Retired; 2]) -> Vec<u64> {
        let cpu = Cpu::new(self.config);
        let before = self.registers(&cpu);
        let driven = Driven::take_over(cpu, self.caps);
        let counters = driven.counters();
        let program = || {
            for (counter, event) in events {
                if let Some(extra) = event.extra {
                    counters.program_extra(extra);
                }
                driven.program(*counter, event.eventsel, 0);
            }
        };
        program();
        let on: CounterSet = events.iter().map(|(counter, _)| *counter).collect();
        if counters.is_uncleared() {
            counters.clear_selection(on);
            program();
        }
        counters.run(on);
        driven.cpu.pmu.borrow_mut().retire(retired);
        counters.run(CounterSet::EMPTY);
        let counts = events.iter().map(|(counter, _)| counters.read(*counter));
        let counts = counts.collect();
        driven.take_overflows(on);
        for (counter, _) in events {
            counters.unmerge(*counter);
        }
        counters.give_back();
        assert!(!driven.cpu.pmu.borrow().counting());
        assert_eq!(self.registers(&driven.cpu), before, "as after a reset");
        counts
    }
}

/// As the driver's `CorePmu::resolve()`.
fn resolve(u: &mut Unstructured<'_>, caps: &Capabilities) -> Result<Option<(u64, Option<Extra>)>> {
    let value = match u.ratio(1, 2)? {
        true => u.int_in_range(0..=3)?,
        false => u.arbitrary()?,
    };
    let (config, value) = match u.int_in_range(0..=5)? {
        0 => (u.arbitrary()?, value),
        1 => (u.arbitrary::<u64>()? & caps.config_mask(), value),
        2 => (u64::from(u.arbitrary::<u16>()?), value),
        3 => {
            let events: Vec<_> = caps.events().collect();
            let modifiers = caps.config_mask() & !0xffff & u.arbitrary::<u64>()?;
            let modifiers = if u.arbitrary()? { modifiers } else { 0 };
            (u.choose(&events)?.config | modifiers, 0)
        }
        4 => match caps.hardware_event(u.int_in_range(0..=12)?) {
            Some(config) => return Ok(Some((config, None))),
            None => return Ok(None),
        },
        _ => match caps.cache_event(u.int_in_range(0..=0x7_0303)?) {
            CacheEvent::Config(config) => (config, 0),
            CacheEvent::Extra { config, config1 } => (config, config1),
            CacheEvent::Missing | CacheEvent::Invalid => return Ok(None),
        },
    };
    let extra = caps.extra(EventSel::from_raw(config), value);
    Ok(extra.ok().map(|extra| (config, extra)))
}

/// As the driver's `CorePmu::eventsel()`.
fn event(u: &mut Unstructured<'_>, caps: &Capabilities) -> Result<Option<Event>> {
    let Some((config, extra)) = resolve(u, caps)? else {
        return Ok(None);
    };
    let [user, kernel, host, guest, hidden] = u.arbitrary()?;
    let modes = Modes { user, kernel };
    let Some(mut eventsel) = EventSel::from_config(config, caps.config_mask(), modes) else {
        return Ok(None);
    };
    if caps.svm && host != guest {
        eventsel = eventsel
            .with(EventSel::HOST_ONLY, host.into())
            .with(EventSel::GUEST_ONLY, guest.into());
    }
    let hidden = hidden && caps.hides_counters;
    eventsel = eventsel.with(EventSel::RDPMC_USER_DISABLE, hidden.into());
    let period = u.arbitrary()?;
    let limited = caps.limit_period(eventsel, period);
    assert_eq!(caps.limit_period(eventsel, limited), limited);
    let _ = caps.is_period_allowed(eventsel, period);
    let _ = caps.is_transaction_allowed(eventsel, period);
    Ok(Some(Event { eventsel, extra }))
}

/// The target.
pub fn check(u: &mut Unstructured<'_>) -> Result<()> {
    let Some(machine) = Machine::new(u)? else {
        return Ok(());
    };
    let caps = &machine.caps;
    let mut assignment = Assignment::default();
    let mut in_use = ExtraInUse::default();
    // By counter. The second counter of a pair has none.
    let mut on: [Option<Event>; pmc::counter::MAX_COUNTERS] = [None; pmc::counter::MAX_COUNTERS];
    for _ in 0..u.int_in_range(1..=12)? {
        let Some(mut event) = event(u, caps)? else {
            continue;
        };
        let allowed = caps.counters_for(event.eventsel);
        assert_eq!(allowed & (caps.counters | caps.metrics), allowed);
        if caps.is_metric(event.eventsel) {
            // It is no counter, and is counted with slots only.
            assert_eq!(allowed.len(), 1);
            continue;
        }
        if let Some(extra) = event.extra {
            let taken = in_use.take(caps.extra_choices(event.eventsel, extra));
            let Some(extra) = taken else { continue };
            event.extra = taken;
            event.eventsel = caps.event_in(event.eventsel, extra.register);
            assert_eq!(caps.counters_for(event.eventsel), allowed);
        }
        let Some(placement) = assignment.place_event(caps.needs(event.eventsel)) else {
            if let Some(extra) = event.extra {
                in_use.release(extra.register);
            }
            continue;
        };
        for (from, to) in placement.moves() {
            let moved = on[from.index()].take();
            assert!(on[to.index()].is_none());
            on[to.index()] = moved;
        }
        assert!(on[placement.counter.index()].is_none());
        on[placement.counter.index()] = Some(event);
    }

    let events: Vec<_> = on
        .iter()
        .enumerate()
        .filter_map(|(i, event)| Some((Counter::from_index(i)?, (*event)?)))
        .collect();
    for (counter, event) in &events {
        assert!(caps.counters_for(event.eventsel).contains(*counter));
    }
    let (user, kernel) = (u.int_in_range(0..=9999)?, u.int_in_range(0..=9999)?);
    let retired = [crate::retired(u, user)?, crate::retired(u, kernel)?];
    let counts = machine.count(&events, &retired);
    for ((counter, event), count) in events.iter().zip(counts) {
        let others: Vec<_> = caps.counters_for(event.eventsel).into_iter().collect();
        let other = *u.choose(&others)?;
        let alone = machine.count(&[(other, *event)], &retired)[0];
        assert_eq!(
            count,
            alone,
            "{:#x} on {counter:?} in a group and on {other:?} alone, on {:?}",
            event.eventsel.into_raw(),
            machine.config
        );
    }
    Ok(())
}
