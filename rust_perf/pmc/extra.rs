// SPDX-License-Identifier: GPL-2.0

//! Registers that hold a part of an event.
//!
//! Some of Intel's events do not fit into EVENTSEL. A further register holds the
//! rest, which perf passes in `attr.config1`. The counters of a CPU share these
//! registers, on some models even the threads of a core do. So events that are
//! counted at once must agree on the value, or be in different registers:
//! [`ExtraInUse`] keeps the books.
//!
//! The tables are in the vendors' folders. So are the addresses of the registers: all of them are
//! Intel's.

use super::event::EventSel;
use core::ffi::CStr;

/// The number of extra registers.
pub(super) const EXTRA_REGISTERS: usize = 10;

/// A register that holds a part of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExtraRegister {
    /// Which requests and responses outside the core are counted.
    OffcoreRsp0,
    /// Which requests and responses outside the core a second event counts.
    OffcoreRsp1,
    /// How many cycles a load takes at least.
    LoadLatency,
    /// Which stalls of the front end are counted.
    Frontend,
    /// Which responses to snoops are counted.
    SnoopRsp0,
    /// Which responses to snoops a second event counts.
    SnoopRsp1,
    /// Which requests and responses outside the module are counted.
    Omr0,
    /// Which requests and responses outside the module a second event counts.
    Omr1,
    /// Which requests and responses outside the module a third event counts.
    Omr2,
    /// Which requests and responses outside the module a fourth event counts.
    Omr3,
}

impl ExtraRegister {
    /// All of them, in the order of their indices.
    pub const ALL: [Self; EXTRA_REGISTERS] = [
        Self::OffcoreRsp0,
        Self::OffcoreRsp1,
        Self::LoadLatency,
        Self::Frontend,
        Self::SnoopRsp0,
        Self::SnoopRsp1,
        Self::Omr0,
        Self::Omr1,
        Self::Omr2,
        Self::Omr3,
    ];

    /// A number less than [`EXTRA_REGISTERS`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The register with this number.
    pub fn from_index(index: usize) -> Option<Self> {
        Self::ALL.get(index).copied()
    }

    const fn bit(self) -> u16 {
        1u16.wrapping_shl(self as u32)
    }
}

/// A register, and the value that an event needs in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extra {
    /// The register.
    pub register: ExtraRegister,
    /// The value.
    pub value: u64,
}

/// Why an event cannot have its extra register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraError {
    /// The value has bits that the register does not have.
    Invalid,
    /// The CPU does not have the register.
    Missing,
}

/// A set of extra registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExtraSet(u16);

impl ExtraSet {
    /// All registers.
    pub(super) const ALL: Self = ExtraSet(u16::MAX);

    #[must_use]
    pub(super) const fn without(self, register: ExtraRegister) -> Self {
        ExtraSet(self.0 & !register.bit())
    }

    pub(super) const fn contains(self, register: ExtraRegister) -> bool {
        self.0 & register.bit() != 0
    }
}

/// A code of an event that needs an extra register.
pub(super) struct Encoding {
    code: u16,
    register: ExtraRegister,
    valid: u64,
}

impl Encoding {
    /// The event with this unit mask and event select needs `register`, of which it
    /// can have the bits of `valid`.
    pub(super) const fn new(code: u16, register: ExtraRegister, valid: u64) -> Self {
        Encoding {
            code,
            register,
            valid,
        }
    }
}

/// The events of a kind of CPU that need an extra register.
pub(super) struct ExtraEvents {
    /// Each row has the codes of one event. They differ in the register. If one is
    /// taken, the next one is as good.
    pub(super) rows: &'static [&'static [Encoding]],
    /// Whether the threads of a core share the registers.
    pub(super) per_core: bool,
    /// The code of an event whose samples are right only if another event is counted at
    /// the same time, and the code of that.
    pub(super) auxiliary: Option<(u16, u16)>,
}

impl ExtraEvents {
    /// No event needs an extra register.
    pub(super) const NONE: Self = Self::per_cpu(&[]);

    /// Each thread has its own registers.
    pub(super) const fn per_cpu(rows: &'static [&'static [Encoding]]) -> Self {
        ExtraEvents {
            rows,
            per_core: false,
            auxiliary: None,
        }
    }

    /// The threads of a core share the registers.
    pub(super) const fn per_core(rows: &'static [&'static [Encoding]]) -> Self {
        ExtraEvents {
            per_core: true,
            ..Self::per_cpu(rows)
        }
    }

    /// Samples of the event `code` are right only together with the event `auxiliary`.
    pub(super) const fn with_auxiliary(self, code: u16, auxiliary: u16) -> Self {
        ExtraEvents {
            auxiliary: Some((code, auxiliary)),
            ..self
        }
    }

    fn encodings(&self) -> impl Iterator<Item = &'static Encoding> {
        self.rows.iter().copied().flatten()
    }

    /// Whether any event needs `register`.
    pub(super) fn need(&self, register: ExtraRegister) -> bool {
        self.encodings().any(|code| code.register == register)
    }

    /// What an event needs of the registers in `present`, if `config1` is `value`. No
    /// modifier of the event matters.
    pub(super) fn of(
        &self,
        event: EventSel,
        value: u64,
        present: ExtraSet,
    ) -> Result<Option<Extra>, ExtraError> {
        let Some(encoding) = self.encodings().find(|code| code.code == event.code()) else {
            return Ok(None);
        };
        if value & !encoding.valid != 0 {
            return Err(ExtraError::Invalid);
        }
        if !present.contains(encoding.register) {
            return Err(ExtraError::Missing);
        }
        let register = encoding.register;
        Ok(Some(Extra { register, value }))
    }

    fn row(&self, event: EventSel) -> &'static [Encoding] {
        let mut rows = self.rows.iter().copied();
        rows.find(|row| row.iter().any(|code| code.code == event.code()))
            .unwrap_or_default()
    }

    /// The registers in which `event` can have the value of `first`, beginning with that.
    pub(super) fn choices(
        &self,
        event: EventSel,
        first: Extra,
        present: ExtraSet,
    ) -> impl Iterator<Item = Extra> {
        let row = self.row(event).iter();
        let earlier = move |code: &&Encoding| code.register != first.register;
        row.clone()
            .skip_while(earlier)
            .chain(row.take_while(earlier))
            .filter(move |code| first.value & !code.valid == 0 && present.contains(code.register))
            .map(move |code| Extra {
                register: code.register,
                ..first
            })
    }

    /// `event` with the code that stands for this register.
    pub(super) fn event_in(&self, event: EventSel, register: ExtraRegister) -> EventSel {
        let mut row = self.row(event).iter();
        row.find(|code| code.register == register)
            .map_or(event, |code| event.with_code(code.code))
    }

    /// The field of `attr.config1` for `event`.
    pub(super) fn field(&self, event: EventSel) -> Option<&'static ExtraField> {
        let row = self.row(event);
        let is_of = |field: &&ExtraField| row.iter().any(|code| code.register == field.register);
        FIELDS.iter().find(is_of)
    }

    /// The fields of `attr.config1`.
    pub(super) fn fields(&self) -> impl Iterator<Item = &'static ExtraField> + '_ {
        FIELDS.iter().filter(|field| self.need(field.register))
    }
}

/// A field of `attr.config1`.
pub struct ExtraField {
    /// Its name in sysfs.
    pub name: &'static CStr,
    /// Its bits, as sysfs shows them.
    pub bits: &'static str,
    register: ExtraRegister,
}

const fn field(name: &'static CStr, bits: &'static str, register: ExtraRegister) -> ExtraField {
    ExtraField {
        name,
        bits,
        register,
    }
}

/// The names are the in-tree driver's (`arch/x86/events/intel/core.c`).
static FIELDS: [ExtraField; 5] = [
    field(c"offcore_rsp", "0-63", ExtraRegister::OffcoreRsp0),
    field(c"offmodule_rsp", "0-63", ExtraRegister::Omr0),
    field(c"ldlat", "0-15", ExtraRegister::LoadLatency),
    field(c"frontend", "0-23", ExtraRegister::Frontend),
    field(c"snoop_rsp", "0-63", ExtraRegister::SnoopRsp0),
];

/// Which extra registers of a CPU, or of a core, have which values for how many events.
#[derive(Default)]
pub struct ExtraInUse {
    registers: [InUse; EXTRA_REGISTERS],
}

#[derive(Clone, Copy, Default)]
struct InUse {
    events: u32,
    value: u64,
}

impl ExtraInUse {
    /// Takes the first of `choices` that is free or has the same value. Returns `None`,
    /// and changes nothing, if there is none.
    pub fn take(&mut self, choices: impl IntoIterator<Item = Extra>) -> Option<Extra> {
        choices.into_iter().find(|choice| {
            let Some(register) = self.registers.get_mut(choice.register.index()) else {
                return false;
            };
            if register.events != 0 && register.value != choice.value {
                return false;
            }
            register.value = choice.value;
            register.events = register.events.saturating_add(1);
            true
        })
    }

    /// Undoes a [`Self::take`] that returned this register.
    pub fn release(&mut self, register: ExtraRegister) {
        if let Some(register) = self.registers.get_mut(register.index()) {
            register.events = register.events.saturating_sub(1);
        }
    }
}
