// SPDX-License-Identifier: GPL-2.0

//! What the driver's tables say of an event, against Intel's list.

use crate::list::{Event, List};
use pmc::{
    counter::CounterSet,
    event::{EventSel, Modes},
    Capabilities, ExtraError, ExtraRegister,
};
use std::fmt;

/// Counters, as bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Set {
    /// All of the CPU's general counters.
    All,
    /// These counters.
    Only(u32),
}

/// What is different.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// The general counters: the list's and the driver's.
    General(Set, Set),
    /// The fixed counters: the list's and the driver's, as bits.
    Fixed(u32, u32),
    /// The event has bits that the CPU does not have.
    Field,
    /// The addresses of the further registers: the list's and the driver's.
    Registers(Vec<u32>, Vec<u32>),
    /// Bits of the value that the further register does not have.
    Value(u64),
}

/// A difference.
pub struct Difference {
    /// Unit mask and event select.
    pub code: u16,
    /// What is different.
    pub what: What,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { code, what } = self;
        write!(f, "{code:#06x}: ")?;
        match what {
            What::General(list, ours) => {
                write!(f, "general counters: Intel's {list:x?}, ours {ours:x?}")
            }
            What::Fixed(list, ours) => {
                write!(f, "fixed counters: Intel's {list:#x}, ours {ours:#x}")
            }
            What::Field => write!(f, "a field that the CPU does not have"),
            What::Registers(list, ours) => {
                write!(f, "further registers: Intel's {list:x?}, ours {ours:x?}")
            }
            What::Value(bits) => write!(f, "the further register has no bits {bits:#x}"),
        }
    }
}

/// A core, and what its list says of all its events.
pub struct Core<'a> {
    /// The list.
    pub list: &'a List,
    /// What the driver detects.
    pub caps: Capabilities,
    /// The counters that the list names.
    pub named: CounterSet,
}

impl Core<'_> {
    /// The differences in one event.
    pub fn differences(&self, event: &Event) -> Vec<Difference> {
        let mut differences = Vec::new();
        for &config in &event.configs {
            let mut add = |what| {
                differences.push(Difference {
                    code: config as u16,
                    what,
                });
            };
            match EventSel::from_config(config, self.caps.config_mask(), Modes::ALL) {
                Some(eventsel) => {
                    self.general(event, eventsel).map(&mut add);
                    self.fixed(event, config, eventsel).map(&mut add);
                    self.register(event, eventsel).map(&mut add);
                }
                None => add(What::Field),
            }
        }
        differences
    }

    fn general(&self, event: &Event, eventsel: EventSel) -> Option<What> {
        let list = event.counters.gp_part();
        let ours = self.caps.counters_for(eventsel).gp_part();
        let all = self.named.gp_part();
        // A line about a fixed counter says nothing about the others.
        if list.is_empty() || list == ours {
            return None;
        }
        // A list has the counters that there are with Hyper-Threading. If an event can be on
        // all of them, the list does not say whether it can be on the others.
        if list == all && ours & all == all {
            return None;
        }
        let set = |counters: CounterSet, all: CounterSet| {
            if counters == all.gp_part() {
                Set::All
            } else {
                Set::Only(counters.bits() as u32)
            }
        };
        Some(What::General(set(list, all), set(ours, self.caps.counters)))
    }

    /// A line is about a fixed counter or about general ones. The fixed counters of an event on
    /// general ones are those of the lines with the same code or the same name, without "_P"
    /// ("programmable"). The driver need not use them.
    fn fixed(&self, event: &Event, config: u64, eventsel: EventSel) -> Option<What> {
        let mut list = event.counters.fixed_part();
        let ours = self.caps.counters_for(eventsel).fixed_part();
        if list.is_empty() && !ours.is_empty() {
            let events = self.list.events_of(event.unit);
            let same = events.clone().filter(|it| it.configs.contains(&config));
            let names: Vec<String> = same.map(|it| without_p(&it.name)).collect();
            let fixed = events
                .filter(|it| it.configs.contains(&config) || names.contains(&it.name))
                .fold(list, |set, it| set | it.counters.fixed_part());
            list = fixed & ours;
        }
        let bits = |set: CounterSet| (set.bits() >> 32) as u32;
        (list != ours).then_some(What::Fixed(bits(list), bits(ours)))
    }

    fn register(&self, event: &Event, eventsel: EventSel) -> Option<What> {
        let extra = |value| self.caps.extra(eventsel, value);
        let ours: Vec<u32> = match extra(event.value) {
            Ok(None) => Vec::new(),
            Ok(Some(first)) => {
                let choices = self.caps.extra_choices(eventsel, first);
                let mut msrs: Vec<u32> = choices.map(|it| address(it.register)).collect();
                msrs.sort_unstable();
                msrs
            }
            Err(ExtraError::Invalid) => {
                let bits = (0..64).map(|bit| event.value & (1 << bit));
                let invalid = bits.filter(|&bit| extra(bit) == Err(ExtraError::Invalid));
                return Some(What::Value(invalid.sum()));
            }
            Err(ExtraError::Missing) => Vec::new(),
        };
        (ours != event.msrs).then(|| What::Registers(event.msrs.clone(), ours))
    }
}

fn address(register: ExtraRegister) -> u32 {
    register.msr().address()
}

fn without_p(name: &str) -> String {
    let name = name.replace("_P_ANY", "_ANY");
    name.strip_suffix("_P").unwrap_or(&name).to_owned()
}
