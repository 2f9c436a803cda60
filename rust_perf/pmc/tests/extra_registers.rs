// SPDX-License-Identifier: GPL-2.0

//! Registers that hold a part of an event.

use crate::common::Cpuid;
use pmc::{
    event::{EventSel, Modes},
    Capabilities, Extra, ExtraError, ExtraInUse, ExtraRegister,
};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};
use ExtraRegister::{
    Frontend, LoadLatency, OffcoreRsp0, OffcoreRsp1, Omr0, Omr1, Omr2, Omr3, SnoopRsp0, SnoopRsp1,
};

/// Family and model.
type Model = (u8, u8);

/// The code of an event, and the register that it needs.
type Code = (u64, ExtraRegister);

/// A CPU of each table.
const MODELS: [Model; 23] = [
    (6, 0x0f),
    (6, 0x1a),
    (6, 0x2c),
    (6, 0x2a),
    (6, 0x2d),
    (6, 0x3a),
    (6, 0x3e),
    (6, 0x3c),
    (6, 0x3d),
    (6, 0x5e),
    (6, 0x6a),
    (6, 0x8f),
    (6, 0xad),
    (0x13, 0x01),
    (6, 0x1c),
    (6, 0x37),
    (6, 0x5c),
    (6, 0x7a),
    (6, 0x86),
    (6, 0xbe),
    (6, 0xaf),
    (6, 0xdd),
    (6, 0x57),
];

fn caps((family, model): Model) -> Capabilities {
    Cpuid::new(b"GenuineIntel", family, model, 0)
        .with(0xa, 0, [0x0830_0805, 0, 0b1111, 0x8604])
        .detect()
        .unwrap()
}

fn event(code: u64) -> EventSel {
    EventSel::from_config(code, EventSel::INTEL, Modes::ALL).unwrap()
}

/// The CPUs with such events, and these.
static CPUS: LazyLock<Vec<(Capabilities, Vec<Code>)>> = LazyLock::new(|| {
    let cpus = MODELS.map(caps).map(|caps| (caps, codes(&caps)));
    cpus.into_iter()
        .filter(|(_, codes)| !codes.is_empty())
        .collect()
});

/// The codes of a CPU's events that need an extra register, and that register.
fn codes(caps: &Capabilities) -> Vec<Code> {
    (0..=0xffff)
        .filter_map(|code| Some((code, caps.extra(event(code), 0).unwrap()?.register)))
        .collect()
}

#[test]
fn models_have_their_registers() {
    let expected: [(&[Model], &[Code]); 9] = [
        (&[(6, 0x0f), (6, 0x1c)], &[]),
        (
            &[(6, 0x1a)],
            &[(0x01b7, OffcoreRsp0), (0x100b, LoadLatency)],
        ),
        (
            &[(6, 0x2c)],
            &[
                (0x01b7, OffcoreRsp0),
                (0x01bb, OffcoreRsp1),
                (0x100b, LoadLatency),
            ],
        ),
        (
            &[
                (6, 0x2a),
                (6, 0x2d),
                (6, 0x3a),
                (6, 0x3e),
                (6, 0x3c),
                (6, 0x3d),
            ],
            &[
                (0x01b7, OffcoreRsp0),
                (0x01bb, OffcoreRsp1),
                (0x01cd, LoadLatency),
            ],
        ),
        (
            &[(6, 0x5e), (6, 0x6a)],
            &[
                (0x01b7, OffcoreRsp0),
                (0x01bb, OffcoreRsp1),
                (0x01c6, Frontend),
                (0x01cd, LoadLatency),
            ],
        ),
        (
            &[(6, 0x8f)],
            &[
                (0x012a, OffcoreRsp0),
                (0x012b, OffcoreRsp1),
                (0x01c6, Frontend),
                (0x01cd, LoadLatency),
                (0x04c2, Frontend),
                (0x40ad, Frontend),
            ],
        ),
        (
            &[(0x13, 1)],
            &[
                (0x012a, Omr0),
                (0x014f, Omr0),
                (0x01cd, LoadLatency),
                (0x01d6, Omr0),
                (0x022a, Omr1),
                (0x024f, Omr1),
                (0x02c6, Frontend),
                (0x02d6, Omr1),
                (0x03c6, Frontend),
                (0x042a, Omr2),
                (0x044f, Omr2),
                (0x04c2, Frontend),
                (0x04d6, Omr2),
                (0x082a, Omr3),
                (0x084f, Omr3),
                (0x08d6, Omr3),
                (0x40ad, Frontend),
            ],
        ),
        (
            &[(6, 0x37), (6, 0x5c), (6, 0x7a), (6, 0x86), (6, 0x57)],
            &[(0x01b7, OffcoreRsp0), (0x02b7, OffcoreRsp1)],
        ),
        (
            &[(6, 0xaf), (6, 0xdd)],
            &[
                (0x0127, SnoopRsp0),
                (0x01b7, OffcoreRsp0),
                (0x0227, SnoopRsp1),
                (0x02b7, OffcoreRsp1),
                (0x05d0, LoadLatency),
            ],
        ),
    ];
    for (models, expected) in expected {
        for model in models {
            assert_eq!(codes(&caps(*model)), expected, "{model:x?}");
        }
    }
}

#[test]
fn each_register_has_an_address_and_a_number_of_its_own() {
    let addresses: BTreeSet<_> = ExtraRegister::ALL.map(|it| it.msr().address()).into();
    assert_eq!(addresses.len(), ExtraRegister::ALL.len());
    for register in ExtraRegister::ALL {
        assert_eq!(ExtraRegister::from_index(register.index()), Some(register));
    }
    assert_eq!(ExtraRegister::from_index(ExtraRegister::ALL.len()), None);
}

#[test]
fn bits_that_the_register_does_not_have_are_refused() {
    // Of Silvermont's two registers the second one has a bit less.
    let caps = caps((6, 0x37));
    let bit_38 = 1 << 38;
    let [first, second] = [event(0x01b7), event(0x02b7)];
    assert_eq!(
        caps.extra(first, bit_38),
        Ok(Some(Extra {
            register: OffcoreRsp0,
            value: bit_38
        }))
    );
    assert_eq!(caps.extra(second, bit_38), Err(ExtraError::Invalid));
    assert_eq!(caps.extra(first, 1 << 63), Err(ExtraError::Invalid));
    // So the first event cannot have the second register, but the reverse works.
    let choices = |event, value| -> Vec<_> {
        let extra = caps.extra(event, value).unwrap().unwrap();
        caps.extra_choices(event, extra)
            .map(|it| it.register)
            .collect()
    };
    assert_eq!(choices(first, bit_38), [OffcoreRsp0]);
    assert_eq!(choices(first, 1), [OffcoreRsp0, OffcoreRsp1]);
    assert_eq!(choices(second, 1), [OffcoreRsp1, OffcoreRsp0]);
}

#[test]
fn modifiers_make_no_difference() {
    let caps = caps((6, 0x5e));
    for modifier in [EventSel::EDGE.mask(), EventSel::INV.mask(), 0x0100_0000] {
        let extra = caps.extra(event(0x01c6 | modifier), 0x11);
        assert_eq!(extra.unwrap().unwrap().register, Frontend);
    }
}

#[test]
fn a_missing_register_is_said_to_be_missing() {
    let caps = caps((6, 0x5e));
    assert!(caps
        .extra_registers()
        .any(|register| register == OffcoreRsp0));
    let without = caps.without_extra(OffcoreRsp0);
    // Invalid bits come first, as in the in-tree driver.
    assert_eq!(without.extra(event(0x01b7), 1), Err(ExtraError::Missing));
    assert_eq!(
        without.extra(event(0x01b7), 1 << 63),
        Err(ExtraError::Invalid)
    );
    assert_eq!(without.extra(event(0xc0), 1), Ok(None));
    // Nor does it stand in for the other one.
    let extra = without.extra(event(0x01bb), 1).unwrap().unwrap();
    let choices: Vec<_> = without.extra_choices(event(0x01bb), extra).collect();
    assert_eq!(choices, [extra]);
}

/// The other registers of an event come with other codes of it, which the same counters
/// can count.
#[test]
fn choices_are_interchangeable() {
    for (caps, codes) in CPUS.iter() {
        for &(code, register) in codes {
            let first = caps.extra(event(code), 0).unwrap().unwrap();
            let choices: Vec<_> = caps.extra_choices(event(code), first).collect();
            assert_eq!(choices.first(), Some(&first));
            assert_eq!(caps.event_in(event(code), register), event(code));
            let distinct: BTreeSet<_> = choices.iter().map(|it| it.register.index()).collect();
            assert_eq!(distinct.len(), choices.len());
            for choice in choices {
                let other = caps.event_in(event(code), choice.register);
                assert_eq!(caps.extra(other, 0), Ok(Some(choice)));
                assert_eq!(caps.counters_for(other), caps.counters_for(event(code)));
                // Only the code changes.
                let edge = event(code | EventSel::EDGE.mask());
                let expected = other.into_raw() | EventSel::EDGE.mask();
                assert_eq!(caps.event_in(edge, choice.register).into_raw(), expected);
            }
        }
    }
}

#[test]
fn sysfs_names_the_fields() {
    let fields = |model| -> Vec<_> {
        let caps = caps(model);
        let fields = caps.extra_format();
        fields
            .map(|it| (it.name.to_str().unwrap(), it.bits))
            .collect()
    };
    let offcore = ("offcore_rsp", "0-63");
    let ldlat = ("ldlat", "0-15");
    let frontend = ("frontend", "0-23");
    assert_eq!(fields((6, 0x0f)), []);
    assert_eq!(fields((6, 0x2a)), [offcore, ldlat]);
    assert_eq!(fields((6, 0x5e)), [offcore, ldlat, frontend]);
    assert_eq!(fields((6, 0x37)), [offcore]);
    assert_eq!(fields((6, 0xaf)), [offcore, ldlat, ("snoop_rsp", "0-63")]);
    assert_eq!(
        fields((0x13, 1)),
        [("offmodule_rsp", "0-63"), ldlat, frontend]
    );
}

#[derive(Clone, Debug)]
enum Step {
    Add { event: usize, value: u64 },
    Remove { which: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (any::<usize>(), 0u64..4).prop_map(|(event, value)| Step::Add { event, value }),
        2 => any::<usize>().prop_map(|which| Step::Remove { which }),
    ]
}

proptest! {
    /// Events come and go. No register has two values at once; an event that fits gets
    /// a register, the first that fits; and a register that nobody has is free.
    #[test]
    fn registers_are_shared_by_value(
        cpu in 0..CPUS.len(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let (caps, codes) = &CPUS[cpu];
        let mut in_use = ExtraInUse::default();
        let mut events: Vec<Extra> = Vec::new();
        for step in steps {
            match step {
                Step::Add { event: code, value } => {
                    let event = event(codes[code % codes.len()].0);
                    // A few registers do not have these bits.
                    let Ok(Some(wanted)) = caps.extra(event, value) else { continue };
                    let held: BTreeMap<_, _> =
                        events.iter().map(|it| (it.register.index(), it.value)).collect();
                    let fits = |choice: &Extra| {
                        let held = held.get(&choice.register.index());
                        held.is_none_or(|held| *held == choice.value)
                    };
                    let expected = caps.extra_choices(event, wanted).find(fits);
                    let taken = in_use.take(caps.extra_choices(event, wanted));
                    prop_assert_eq!(taken, expected);
                    events.extend(taken);
                }
                Step::Remove { which } if !events.is_empty() => {
                    let gone = events.swap_remove(which % events.len());
                    in_use.release(gone.register);
                }
                Step::Remove { .. } => {}
            }
            for a in &events {
                for b in &events {
                    prop_assert!(a.register != b.register || a.value == b.value);
                }
            }
        }
        for gone in events {
            in_use.release(gone.register);
        }
        for register in caps.extra_registers() {
            let other = Extra { register, value: 0xff };
            prop_assert_eq!(in_use.take([other]), Some(other));
        }
    }
}
