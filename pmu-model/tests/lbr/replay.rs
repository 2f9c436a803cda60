// SPDX-License-Identifier: GPL-2.0

//! All kinds of LBRs against the reference, and the branches of which the model need not be told.

use super::reference::{machines, retired, Machine, Reference, Step, KINDS};
use pmu_model::{Branch, Mode, Pmu};
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

/// The number of records that are read.
fn used(machine: &Machine, pmu: &Pmu) -> usize {
    pmu.rdmsr(0x14cf).map_or(machine.depth(), |it| it as usize)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// Of the branches between two reports the model need not be told of those that no register shows, but of
    /// their number.
    #[test]
    fn early_branches_do_not_matter(
        machine in prop::sample::select(machines()),
        call_stack in any::<bool>(),
        depth in prop_oneof![Just(8u8), Just(16), Just(32)],
        intervals in proptest::collection::vec(
            proptest::collection::vec((0..KINDS.len(), 1..100u64), 0..120),
            1..5,
        ),
    ) {
        let everything = machine.everything();
        let select = machine.call_stack().filter(|_| call_stack).unwrap_or(everything);
        let recording = || {
            let mut pmu = machine.pmu();
            for step in [Step::Depth(depth), Step::Select(select), Step::Enable(true)] {
                step.apply(&machine, &mut pmu);
            }
            pmu
        };
        let (mut all, mut last) = (recording(), recording());
        for interval in intervals {
            let mut instructions = 0;
            let branches = (1..).zip(interval).map(|(count, (kind, run))| {
                instructions += run;
                let mut retired = retired(Mode::User, instructions);
                retired[0].branches = count;
                Branch {
                    kind: KINDS[kind].0,
                    from: count,
                    to: instructions,
                    modes: [Mode::User; 2],
                    retires: true,
                    retired,
                }
            });
            let filter = all.branch_filter(Mode::User);
            let branches = branches.filter(|it| filter & it.kind.bit() != 0);
            let branches: Vec<_> = branches.collect();
            branches.iter().for_each(|it| all.branch(it));
            let matter = last.last_branches().unwrap_or(usize::MAX).min(branches.len());
            let (skipped, told) = branches.split_at(branches.len() - matter);
            last.skip_branches(skipped.len() as u64);
            told.iter().for_each(|it| last.branch(it));
            if let Some(branch) = branches.last() {
                for pmu in [&mut all, &mut last] {
                    pmu.retire(&branch.retired);
                }
            }
            let used = used(&machine, &all);
            prop_assert_eq!(machine.read(&last, used), machine.read(&all, used));
            prop_assert!(last.save() == all.save());
        }
    }
}
