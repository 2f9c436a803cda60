// SPDX-License-Identifier: GPL-2.0
//! What software might do to a PMU, whoever made it: for property tests.

use pmu_model::{msr::EventSel, PmiFault};
use proptest::prelude::*;

/// What software might do to a PMU.
#[derive(Clone, Debug)]
pub enum Act {
    Read(u32),
    Write(u32, u64),
    ReadPmc(u32, bool, bool),
    Retire([u64; 2]),
    Inject(PmiFault),
}

/// Anything, on registers that `msr` chooses; some of the values that are written
/// have `event` counted.
pub fn act<S: Strategy<Value = u32>>(
    msr: impl Fn() -> S,
    event: u64,
) -> impl Strategy<Value = Act> {
    let value = prop_oneof![
        any::<u64>(),
        (0..64u32).prop_map(|bit| 1 << bit),
        (0..64u32).prop_map(|bit| (1 << bit) - 1),
        Just(EventSel::EN | EventSel::INT | EventSel::OS | EventSel::USR | event),
    ];
    let fault = prop_oneof![
        Just(PmiFault::Lose),
        (0..9u64).prop_map(PmiFault::Delay),
        (0..9u64).prop_map(PmiFault::Repeat),
    ];
    prop_oneof![
        4 => msr().prop_map(Act::Read),
        8 => (msr(), value).prop_map(|(msr, value)| Act::Write(msr, value)),
        1 => any::<(u32, bool, bool)>().prop_map(|(ecx, cpl0, pce)| Act::ReadPmc(ecx, cpl0, pce)),
        2 => any::<[u64; 2]>().prop_map(Act::Retire),
        1 => fault.prop_map(Act::Inject),
    ]
}
