// SPDX-License-Identifier: GPL-2.0

//! Branches that are told with the next report or interrupt: those that no register shows need not be told.

use std::collections::BTreeMap;

use pmu_model::{Branch, BranchKind, Mode, Pmu, Retired};
use proptest::prelude::*;

use super::{
    branch,
    reference::{machines, Kind, Machine, Step, KINDS},
};

/// What is told of the branches since the last report or interrupt in call-stack mode. QEMU keeps them like
/// this (qemu/pmu/branch.c).
#[derive(Default)]
struct CallStack {
    depth: i64,
    /// The branches by number. Returns lower the next number, also below 0.
    branches: BTreeMap<i64, (Option<[Retired; 2]>, Branch)>,
    end: i64,
    highest: i64,
    lowest: i64,
    /// The returns that found no record.
    empty_returns: i64,
    last: Option<[Retired; 2]>,
}

impl CallStack {
    fn begin(&self) -> i64 {
        self.highest - self.depth
    }

    fn branch(&mut self, branch: &Branch) {
        if branch.kind == BranchKind::Return {
            if self.end > self.begin() {
                self.end -= 1;
                self.lowest = self.lowest.min(self.end);
            } else {
                self.empty_returns += 1;
            }
            return;
        }
        self.branches.insert(self.end, (self.last, *branch));
        self.end += 1;
        self.highest = self.highest.max(self.end);
        self.last = Some(branch.retired);
    }

    fn tell(self, pmu: &mut Pmu) {
        let begin = self.begin().max(self.lowest);
        pmu.drop_records(self.highest as usize, -self.lowest as usize);
        pmu.skip_branches(begin - self.lowest - self.empty_returns);
        for at in begin..self.end {
            let (before, branch) = &self.branches[&at];
            before.iter().for_each(|&it| pmu.branch_was_recorded(it));
            pmu.branch(branch);
        }
        if let Some(last) = self.last {
            pmu.branch_was_recorded(last);
        }
    }
}

/// Tells of the branches between two reports or interrupts that matter.
fn tell_what_matters(pmu: &mut Pmu, branches: &[Branch]) {
    let filtered = |it: &&Branch| pmu.branch_filter(it.modes[1]) & it.kind.bit() != 0;
    let filtered: Vec<_> = branches.iter().filter(filtered).collect();
    if let Some(depth) = pmu.call_stack_depth() {
        let mut stack = CallStack {
            depth: depth as i64,
            ..CallStack::default()
        };
        filtered.into_iter().for_each(|it| stack.branch(it));
        stack.tell(pmu);
    } else {
        let matter = pmu.last_branches().unwrap().min(filtered.len());
        let (skipped, told) = filtered.split_at(filtered.len() - matter);
        pmu.skip_branches(skipped.len() as i64);
        told.iter().for_each(|it| pmu.branch(it));
    }
}

/// A run of branches of a few kinds, so that calls and returns go far up and down: the kinds' numbers,
/// the modes, and the instructions before each.
fn run() -> impl Strategy<Value = Vec<(usize, [Mode; 2], u64)>> {
    let mode = || prop_oneof![3 => Just(Mode::User), 1 => Just(Mode::Kernel)];
    let number = |kind| KINDS.iter().position(|it| it.0 == kind).unwrap();
    let calls = [BranchKind::RelativeCall, BranchKind::IndirectCall].map(number);
    let kinds = prop_oneof![
        2 => Just((0..KINDS.len()).collect()),
        3 => Just(calls.to_vec()),
        3 => Just(vec![number(BranchKind::Return)]),
    ];
    kinds.prop_flat_map(move |kinds: Vec<usize>| {
        let branch = (proptest::sample::select(kinds), mode(), mode(), 1..100u64);
        proptest::collection::vec(
            branch.prop_map(|(kind, before, after, instructions)| {
                (kind, [before, after], instructions)
            }),
            0..50,
        )
    })
}

/// A value of the register that selects branches, in call-stack mode on machines that have it.
fn selection(machine: &Machine) -> impl Strategy<Value = u64> {
    // The bits of CPL 0 and of call-stack mode. Those of LBR_CTL select CPL 0, and others suppress it.
    let (selects, cpl_0, stack) = match machine.kind {
        Kind::Arch => (true, 1 << 1, 1 << 3),
        _ => (false, 1 << 0, 1 << 9),
    };
    let of_program = |value: u64| {
        if selects {
            value & !cpl_0
        } else {
            value | cpl_0
        }
    };
    let of_both = |value: u64| {
        if selects {
            value | cpl_0
        } else {
            value & !cpl_0
        }
    };
    let everything = machine.everything();
    let call_stacks = machine
        .call_stack()
        .map(|calls| [calls, everything | stack])
        .into_iter()
        .flatten();
    let (_, bits) = machine.select().unwrap_or((0, 0));
    let all = std::iter::once(everything).chain(call_stacks);
    let all = all.flat_map(|it| [of_program(it) & bits, of_both(it) & bits]);
    proptest::sample::select(all.collect::<Vec<_>>())
}

fn machine_and_selections() -> impl Strategy<Value = (Machine, [u64; 2])> {
    proptest::sample::select(machines()).prop_flat_map(|machine| {
        let selections = [selection(&machine), selection(&machine)];
        selections.prop_map(move |selections| (machine, selections))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn records_are_those_of_all_branches(
        (machine, selections) in machine_and_selections(),
        depth in prop_oneof![Just(8u8), Just(16), Just(32)],
        intervals in proptest::collection::vec(proptest::collection::vec(run(), 0..5), 1..6),
    ) {
        let [mut all, mut later] = [(); 2].map(|()| {
            let mut pmu = machine.pmu();
            for step in [Step::Depth(depth), Step::Select(selections[0]), Step::Enable(true)] {
                step.apply(&machine, &mut pmu);
            }
            pmu
        });
        for (i, interval) in intervals.into_iter().enumerate() {
            let mut retired = [Retired::default(); 2];
            let addresses = i as u64 * 1_000 + 1..;
            let branches: Vec<_> = addresses.zip(interval.concat()).map(|(from, (kind, modes, run))| {
                let mode = &mut retired[modes[0] as usize];
                mode.instructions += run;
                mode.branches += 1;
                Branch { modes, retired, ..branch(KINDS[kind].0, from, from + 1) }
            }).collect();
            // An interrupt comes in the middle.
            let (before, after) = branches.split_at(branches.len() / 2);
            before.iter().for_each(|it| all.branch(it));
            tell_what_matters(&mut later, before);
            all.interrupt();
            later.interrupt();
            after.iter().for_each(|it| all.branch(it));
            tell_what_matters(&mut later, after);
            for pmu in [&mut all, &mut later] {
                pmu.retire(&retired);
            }
            prop_assert!(later.save() == all.save());
            if i == 2 {
                // The records of one mode are those that the other one goes on with.
                for pmu in [&mut all, &mut later] {
                    Step::Select(selections[1]).apply(&machine, pmu);
                }
            }
        }
    }
}
