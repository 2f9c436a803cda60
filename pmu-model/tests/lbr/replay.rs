// SPDX-License-Identifier: GPL-2.0

//! All kinds of LBRs against the reference.

use super::reference::{machines, Machine, Reference, Step, KINDS};
use pmu_model::Mode;
use proptest::prelude::*;

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![3 => Just(Mode::User), 1 => Just(Mode::Kernel)]
}

/// Of a program or of the kernel.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 1..0x7fff_ffff_ffff_u64,
        1 => 0xffff_8000_0000_0000..u64::MAX,
    ]
}

fn step(machine: &Machine) -> impl Strategy<Value = Step> {
    let depth = machine.depth();
    let (_, bits) = machine.select().unwrap_or((0, 0));
    let everything = machine.everything();
    let call_stack = machine.call_stack().unwrap_or(everything);
    let select = prop_oneof![
        Just(everything),
        Just(call_stack),
        any::<u64>().prop_map(move |it| it & bits),
    ];
    // Half of the runs of instructions are longer than INFO can say.
    let run = prop_oneof![10 => 1..100_u64, 1 => 60_000..100_000_u64];
    let branch = (
        0..KINDS.len(),
        [address(), address()],
        [mode(), mode()],
        run,
    );
    prop_oneof![
        30 => branch.prop_map(|(kind, ips, modes, run)| Step::Branch(kind, ips, modes, run)),
        1 => select.prop_map(Step::Select),
        1 => prop_oneof![3 => Just(true), 1 => Just(false)].prop_map(Step::Enable),
        1 => prop_oneof![1 => Just(true), 3 => Just(false)].prop_map(Step::Freeze),
        1 => prop_oneof![Just(8), Just(16), Just(32)].prop_map(Step::Depth),
        1 => (0..depth as u8).prop_map(Step::Tos),
        1 => (0..depth, 0..3usize, 0..0x1_0000_u64)
            .prop_map(|(i, field, value)| Step::Write(i, field, value)),
        2 => Just(Step::Interrupt),
        1 => Just(Step::Restore),
        1 => prop_oneof![1 => Just(Step::Debug), 3 => Just(Step::Enable(true))],
    ]
}

fn run() -> impl Strategy<Value = (Machine, Vec<Step>)> {
    prop::sample::select(machines()).prop_flat_map(|machine| {
        let steps = proptest::collection::vec(step(&machine), 1..100);
        steps.prop_map(move |steps| {
            let start = [Step::Select(machine.everything()), Step::Enable(true)];
            (machine, start.into_iter().chain(steps).collect())
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn records_are_those_of_the_reference((machine, steps) in run()) {
        let mut pmu = machine.pmu();
        let mut reference = Reference::new(machine);
        for step in &steps {
            step.apply(&machine, &mut pmu);
            reference.step(step);
        }
        prop_assert_eq!(machine.read(&pmu, reference.used()), reference.read());
    }
}
