// SPDX-License-Identifier: GPL-2.0

//! Random operations on a PMU, for the property tests of all vendors.

use pmu_model::{msr::EventSel, PmiFault};
use proptest::prelude::*;

/// One operation on a PMU.
#[derive(Clone, Debug)]
pub enum Operation {
    /// RDMSR of an address.
    Read(u32),
    /// WRMSR of a value to an address.
    Write(u32, u64),
    /// RDPMC: ECX, whether CPL is 0, and CR4.PCE.
    ReadPmc(u32, bool, bool),
    /// Instructions retire, by mode.
    Retire([u64; 2]),
    /// A fault is injected into the next PMI.
    Inject(PmiFault),
}

/// Any operation. `msr` generates the addresses; some of the values written are event
/// selects that count `event`.
pub fn operation<S: Strategy<Value = u32>>(
    msr: impl Fn() -> S,
    event: u64,
) -> impl Strategy<Value = Operation> {
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
        4 => msr().prop_map(Operation::Read),
        8 => (msr(), value).prop_map(|(msr, value)| Operation::Write(msr, value)),
        1 => any::<(u32, bool, bool)>()
            .prop_map(|(ecx, cpl0, pce)| Operation::ReadPmc(ecx, cpl0, pce)),
        2 => any::<[u64; 2]>().prop_map(Operation::Retire),
        1 => fault.prop_map(Operation::Inject),
    ]
}
