// SPDX-License-Identifier: GPL-2.0
//! Random programs, whose samples show random sequences of branches.

use std::cell::Cell;

use anyhow::{ensure, Context, Result};
use fastrand::Rng;
use perf_event::{SampleFlag, Sampler};

use super::super::expect;
use super::super::sampling::for_each_sample;
use super::generated::{Block, Instruction, Instruction::*, Program, Run, CARRY, NOPS, ZERO};
use super::hardware::{request, Hardware};
use super::{drivers, event, leaves_out, RING};
use crate::ctx::Ctx;
use crate::workload::{Branch, BranchKind};

/// The programs. Each has its own request and period.
const PROGRAMS: usize = 28;
/// The samples of each program, for which the ring buffer has room: 10,000 of them all.
const SAMPLES: u64 = 360;
/// How many samples of a program may lack records. An interrupt between two samples, of the timer for
/// instance, takes a record, and a switch to another task wipes all.
const SHORT: u64 = 18;
/// How many records a sample lacks at most if no other task has run, and only if it could have all.
const TAKEN_BY_INTERRUPTS: usize = 2;

/// What users may ask for, alone or two at a time.
const REQUESTS: [u64; 7] = [
    request::ANY,
    request::COND,
    request::CALL,
    request::ANY_CALL,
    request::ANY_RETURN,
    request::IND_CALL,
    request::IND_JUMP,
];

/// Generates the blocks of a program. The first one is its beginning.
struct Generator<'a> {
    rng: &'a mut Rng,
    /// How often a branch is indirect, and how often a block calls a function, in 8.
    indirect: u8,
    calls: u8,
    /// The first blocks of the functions. Each one calls only later ones, so that the program ends.
    functions: Vec<Block>,
}

impl Generator<'_> {
    fn in_8(&mut self, n: u8) -> bool {
        self.rng.u8(..8) < n
    }

    fn nops(&mut self) -> Vec<Instruction> {
        let n = self.rng.usize(..4);
        (0..n).map(|_| Nop(self.rng.usize(..NOPS.len()))).collect()
    }

    /// Sets a flag at random, and returns the condition code of its being set or clear.
    fn condition(&mut self) -> (Instruction, u8) {
        let negated = self.rng.u8(..2);
        match self.rng.bool() {
            true => (Rotate, CARRY | negated),
            false => (Test(1 << self.rng.u8(..8)), ZERO | negated),
        }
    }

    /// A jump or a call to one of two blocks, or always to the first.
    fn branch(&mut self, to: [Block; 2], is_call: bool) -> Vec<Instruction> {
        let last = if is_call { IndirectCall } else { IndirectJump };
        match (self.in_8(self.indirect), self.rng.bool()) {
            (false, _) if is_call => vec![Call(to[0])],
            (false, _) => vec![Jump(to[0])],
            (true, false) => vec![Load(0, to[0]), last],
            (true, true) => vec![Load(0, to[0]), Load(1, to[1]), Rotate, Choose, last],
        }
    }

    /// A block of a function: perhaps a call, then branches to later blocks or a return.
    fn block(&mut self, later: &[Block], callees: &[Block]) -> Vec<Instruction> {
        let mut block = self.nops();
        if !callees.is_empty() && self.in_8(self.calls) {
            // Half of the calls are those of the next function, so that they nest.
            let next = self.rng.bool();
            let callee = [(); 2].map(|()| {
                callees[if next {
                    0
                } else {
                    self.rng.usize(..callees.len())
                }]
            });
            block.extend(self.branch(callee, true));
            block.extend(self.nops());
        }
        let Some(last) = later.len().checked_sub(1) else {
            block.push(Return(self.rng.bool()));
            return block;
        };
        let any = |rng: &mut Rng| later[rng.usize(..=last.min(2))];
        while self.rng.bool() {
            let (flag, code) = self.condition();
            block.extend([flag, If(code, any(self.rng))]);
            block.extend(self.nops());
        }
        let to = [any(self.rng), any(self.rng)];
        block.extend(self.branch(to, false));
        block
    }

    fn program(&mut self) -> Vec<Vec<Instruction>> {
        let [multiply, add] = [(); 2].map(|()| self.rng.i32(0x1000_0000..) | 1);
        let mut blocks = vec![vec![
            Multiply(multiply),
            Add(add),
            Call(1),
            CountDown,
            If(ZERO | 1, 0),
            Return(false),
        ]];
        let sizes: Vec<_> = (0..40).map(|_| self.rng.usize(1..=7)).collect();
        let firsts = sizes.iter().scan(1, |next, size| {
            *next += size;
            Some(*next - size)
        });
        self.functions = firsts.collect();
        for (i, size) in sizes.iter().enumerate() {
            let all: Vec<_> = (self.functions[i]..self.functions[i] + size).collect();
            let callees = self.functions[i + 1..].to_vec();
            for n in 1..=all.len() {
                blocks.push(self.block(&all[n..], &callees));
            }
        }
        blocks
    }
}

/// A random program. Its functions are interleaved in memory.
fn random(rng: &mut Rng) -> Program {
    let mut generator = Generator {
        indirect: rng.u8(1..6),
        calls: rng.u8(1..4),
        functions: Vec::new(),
        rng,
    };
    let blocks = generator.program();
    let mut order: Vec<_> = (1..blocks.len()).collect();
    rng.shuffle(&mut order);
    order.insert(0, 0);
    Program::assemble(&blocks, &order)
}

/// A return from the kernel.
const FROM_KERNEL: Branch = Branch {
    kind: BranchKind::FromKernel,
    from: 0,
    to: 0,
};

/// What the samples of a driver were.
#[derive(Default)]
struct Compared {
    samples: u64,
    records: usize,
    short: u64,
}

/// Compares the records of each sample with the end of the list of what the program has executed until then.
fn compare(
    sampler: &mut Sampler,
    hardware: Hardware,
    flags: u64,
    period: u64,
    run: &Run,
) -> Result<Compared> {
    let mut compared = Compared::default();
    let mut taken = run.taken.iter().peekable();
    // The event was enabled in the kernel.
    let mut last = vec![FROM_KERNEL];
    for_each_sample(sampler, |sample| {
        compared.samples += 1;
        let end = compared.samples * period;
        while let Some((_, branch)) = taken.next_if(|(number, _)| *number <= end) {
            last.push(*branch);
        }
        let what = format!("sample {}", compared.samples);
        let records = sample.lbr().context("no branch stack")?;
        let expected: Vec<_> = hardware.shown(flags, last.iter().rev().copied()).collect();
        ensure!(
            records.len() <= expected.len(),
            "{what} has {} records, expected {}",
            records.len(),
            expected.len()
        );
        for (i, (record, branch)) in records.iter().zip(&expected).enumerate() {
            ensure!(
                (record.from(), record.to()) == (branch.from, branch.to),
                "{what} at {:#x}, record {i}: {:#x} to {:#x}, expected {branch:x?}",
                sample.ip().unwrap_or(0),
                record.from(),
                record.to()
            );
        }
        compared.records += records.len();
        let lacking = expected.len() - records.len();
        compared.short += u64::from(lacking > 0);
        let is_wiped = lacking > TAKEN_BY_INTERRUPTS || expected.len() < hardware.depth;
        if lacking > 0 && is_wiped {
            // Rare branches would be missing until the end.
            let used = Cell::new(0);
            let newest = last.iter().rev().inspect(|_| used.set(used.get() + 1));
            let left = hardware.shown(flags, newest.copied()).take(records.len());
            expect(&what, "records", left.count() as u64, records.len() as u64)?;
            last.drain(..last.len() - used.get());
        }
        // The PMI returns.
        last.push(FROM_KERNEL);
        Ok(())
    })?;
    expect(
        "in total",
        "samples",
        compared.samples,
        run.workload.instructions() / period,
    )?;
    let short = compared.short;
    ensure!(short <= SHORT, "{short} samples have too few records");
    Ok(compared)
}

/// Each sample of a random program has the last branches that it has taken, of the kinds that are asked for,
/// and no others.
pub fn random_programs(ctx: &Ctx) -> Result<()> {
    let hardware = Hardware::of(&ctx.pmu()?)?;
    let mut rng = Rng::with_seed(ctx.seed);
    println!("# seed {}", ctx.seed);
    let mut all = drivers(ctx)?.map(|(name, pmu)| (name, pmu, Compared::default()));
    for i in 0..PROGRAMS {
        let mut flags = REQUESTS[i % REQUESTS.len()];
        if rng.bool() {
            flags |= REQUESTS[rng.usize(..REQUESTS.len())];
        }
        let period = rng.u64(150..1_000) * 2 + 1;
        let run = random(&mut rng).run(SAMPLES * period, rng.u64(..))?;
        for (name, pmu, sum) in &mut all {
            if leaves_out(name, hardware, flags) {
                continue;
            }
            let mut event = event(pmu, flags, period);
            event.sample(SampleFlag::IP);
            let mut sampler = event.build().context("open")?.sampled(RING)?;
            run.workload.measure(&sampler)?;
            let compared =
                compare(&mut sampler, hardware, flags, period, &run).with_context(|| {
                    format!("{name}, program {i}, branch_sample_type {flags:#x}, period {period}")
                })?;
            sum.samples += compared.samples;
            sum.records += compared.records;
            sum.short += compared.short;
        }
    }
    for (
        name,
        _,
        Compared {
            samples,
            records,
            short,
        },
    ) in &all
    {
        println!("# {name}: {samples} samples, {records} records; {short} samples lack records");
        ensure!(*records > 0, "{name}: no records");
    }
    Ok(())
}
