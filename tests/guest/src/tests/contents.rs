// SPDX-License-Identifier: GPL-2.0
//! The contents of samples: counts of the group, call chain, registers, stack.

use std::fs;

use anyhow::{bail, ensure, Context, Result};
use perf_event::data::{Record, Registers, SampleRegsAbi};
use perf_event::events::Software;
use perf_event::{Builder, ReadFormat, SampleFlag, Sampler};
use perf_event_open_sys::bindings::{PERF_CONTEXT_KERNEL, PERF_CONTEXT_USER};

use super::sampling::{for_each_sample, RING};
use super::{expect, kernel_period};
use crate::ctx::{Ctx, Test};
use crate::need::checks_itself;
use crate::pmu::{BuilderExt, Event, Mode};
use crate::tests;
use crate::workload::{self, Workload};

pub const TESTS: &[Test] = tests![
    all need [ExactCounts, ZeroSkid];
    counts_of_the_group: [General(2)],
    counts_with_a_clock_as_leader: [General(2)],
    user_call_chain,
    kernel_call_chain,
    registers,
    registers_of_both_sides,
    user_stack,
];

/// Opens an event whose samples have these fields.
fn sampler(builder: &mut Builder, fields: SampleFlag) -> Result<Sampler> {
    let counter = builder.sample(fields).build().context("open")?;
    counter.sampled(RING).context("map the ring buffer")
}

/// PERF_SAMPLE_READ with a group: a sample has the count of every member.
fn counts_of_the_group(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 1_009;
    let pmu = ctx.pmu()?;
    let mut leader = sampler(
        pmu.event(Event::Instructions)
            .sample_period(PERIOD)
            .read_format(ReadFormat::GROUP | ReadFormat::ID),
        SampleFlag::READ,
    )?;
    let branches = pmu
        .event(Event::Branches)
        .enabled(true)
        .build_with_group(&mut *leader)?;
    let clock = Builder::new(Software::TASK_CLOCK)
        .enabled(true)
        .build_with_group(&mut *leader)?;
    let workload = workload::tight_loop(500_000);
    workload.measure(&*leader)?;

    let ids = [leader.id(), branches.id(), clock.id()];
    let mut k = 0;
    let mut time = 0;
    for_each_sample(&mut leader, |sample| {
        k += 1;
        let group = sample.values().context("no READ")?;
        expect("in the group", "values", group.len() as u64, 3)?;
        let mut values = [0; 3];
        for ((entry, value), id) in group.entries().zip(&mut values).zip(ids) {
            expect("group member", "as id", entry.id().context("no id")?, id)?;
            *value = entry.value();
        }
        let what = format!("sample {k}");
        expect(&what, "instructions", values[0], k * PERIOD)?;
        let branches = workload::tight_loop_branches(k * PERIOD);
        expect(&what, "branches", values[1], branches)?;
        ensure!(values[2] > time, "{what}: the clock did not advance");
        time = values[2];
        Ok(())
    })?;
    expect("in total", "samples", k, workload.instructions() / PERIOD)
}

/// The leader may be a software event, and a member may be the one that samples.
fn counts_with_a_clock_as_leader(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 1_009;
    let pmu = ctx.pmu()?;
    let format = ReadFormat::GROUP | ReadFormat::ID;
    let mut leader = Builder::new(Software::TASK_CLOCK)
        .read_format(format)
        .build()?;
    let mut builder = pmu.event(Event::Branches);
    builder
        .sample_period(PERIOD)
        .enabled(true)
        .sample(SampleFlag::READ)
        .read_format(format);
    let mut branches = builder.build_with_group(&mut leader)?.sampled(RING)?;
    let instructions = pmu
        .event(Event::Instructions)
        .enabled(true)
        .build_with_group(&mut leader)?;
    let workload = workload::tight_loop(500_000);
    workload.measure(&leader)?;

    let (branches_id, instructions_id) = (branches.id(), instructions.id());
    let mut k = 0;
    for_each_sample(&mut branches, |sample| {
        k += 1;
        let group = sample.values().context("no READ")?;
        let value = |id| {
            let mut entries = group.entries();
            let entry = entries.find(|entry| entry.id() == Some(id));
            Ok::<_, anyhow::Error>(entry.context("no value with this id")?.value())
        };
        let instructions = value(instructions_id)?;
        let what = format!("sample {k}");
        expect(&what, "branches", value(branches_id)?, k * PERIOD)?;
        let branches = workload::tight_loop_branches(instructions);
        expect(&what, "branches by its instructions", branches, k * PERIOD)?;
        let before = workload::tight_loop_branches(instructions - 1);
        expect(&what, "branches just before", before, k * PERIOD - 1)
    })?;
    expect("in total", "samples", k, workload.branches() / PERIOD)
}

/// PERF_SAMPLE_CALLCHAIN follows the frame pointers of three nested functions.
fn user_call_chain(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 1_009;
    let workload = workload::chain(100_000);
    let mut sampler = sampler(
        ctx.pmu()?.event(Event::Instructions).sample_period(PERIOD),
        SampleFlag::IP | SampleFlag::CALLCHAIN,
    )?;
    workload.measure(&*sampler)?;
    let [leaf, middle, outer] = workload::chain_of_calls();
    let mut samples = 0;
    for_each_sample(&mut sampler, |sample| {
        samples += 1;
        let ip = sample.ip().context("no IP")?;
        // The loop is DEC (three bytes) and JNZ.
        ensure!(
            [leaf, leaf + 3].contains(&ip),
            "IP {ip:#x} is not in the loop"
        );
        let chain = sample.callchain().context("no call chain")?;
        let want = [PERF_CONTEXT_USER, ip, middle, outer];
        ensure!(chain == want, "call chain {chain:x?}, expected {want:x?}");
        Ok(())
    })?;
    expect(
        "in total",
        "samples",
        samples,
        workload.instructions() / PERIOD,
    )
}

/// The kernel's functions and their addresses, in ascending order.
struct Symbols(Vec<(u64, String)>);

impl Symbols {
    fn read() -> Result<Self> {
        let mut symbols = Vec::new();
        for line in fs::read_to_string("/proc/kallsyms")?.lines() {
            let mut words = line.split_whitespace();
            if let (Some(address), Some("t" | "T"), Some(name)) =
                (words.next(), words.next(), words.next())
            {
                symbols.push((u64::from_str_radix(address, 16)?, name.to_string()));
            }
        }
        symbols.sort();
        Ok(Self(symbols))
    }

    /// All names of the function that contains an address.
    fn of(&self, address: u64) -> Vec<&str> {
        let behind = self.0.partition_point(|(start, _)| *start <= address);
        let Some((start, _)) = behind.checked_sub(1).map(|last| &self.0[last]) else {
            return Vec::new();
        };
        let same = self.0[..behind].iter().rev();
        same.take_while(|(other, _)| other == start)
            .map(|(_, name)| name.as_str())
            .collect()
    }
}

/// Enough system calls for samples in getpid(), which is a smaller part of one on a kernel that checks
/// itself.
fn syscalls() -> Workload {
    workload::syscalls(match checks_itself() {
        true => 150_000,
        false => 30_000,
    })
}

/// The call chain of a sample in a system call has the kernel's functions, then
/// those of user mode.
fn kernel_call_chain(ctx: &Ctx) -> Result<()> {
    const ENTRY: [&str; 2] = ["do_syscall_64", "entry_SYSCALL_64_after_hwframe"];
    let period = kernel_period(10_007);
    let symbols = Symbols::read()?;
    let mut sampler = sampler(
        ctx.pmu()?
            .event(Event::Instructions)
            .filter(Mode::Kernel)
            .sample_period(period),
        SampleFlag::IP | SampleFlag::CALLCHAIN,
    )?;
    syscalls().measure(&*sampler)?;
    let count = sampler.read()?;
    let (mut samples, mut inside) = (0, 0);
    for_each_sample(&mut sampler, |sample| {
        samples += 1;
        let ip = sample.ip().context("no IP")?;
        let chain = sample.callchain().context("no call chain")?;
        if ip >> 63 == 0 {
            // SYSRET overflowed, so the next instruction is in user mode.
            return Ok(());
        }
        ensure!(
            chain.starts_with(&[PERF_CONTEXT_KERNEL, ip]),
            "call chain {chain:x?} does not begin with the kernel's IP {ip:#x}"
        );
        if !symbols.of(ip).contains(&"__x64_sys_getpid") {
            return Ok(());
        }
        inside += 1;
        let user = chain.iter().position(|&ip| ip == PERF_CONTEXT_USER);
        let (kernel, user) = chain.split_at(user.context("no user part")?);
        let callers = kernel[kernel.len() - ENTRY.len()..].iter();
        for (caller, want) in callers.zip(ENTRY) {
            let names = symbols.of(*caller);
            ensure!(names.contains(&want), "caller {names:?}, expected {want}");
        }
        ensure!(
            user.starts_with(&[PERF_CONTEXT_USER, workload::syscall_return()]),
            "user part {user:x?} does not begin after the SYSCALL"
        );
        Ok(())
    })?;
    expect("in total", "samples", samples, count / period)?;
    ensure!(inside > 0, "none of {samples} samples is in getpid()");
    Ok(())
}

// `asm/perf_regs.h`
const PERF_REG_X86_DI: u64 = 5;
const PERF_REG_X86_SP: u64 = 7;
const PERF_REG_X86_IP: u64 = 8;
/// The bits of RAX to RIP and of R8 to R15.
const ALL: u64 = 0x1ff | (0xff << 16);

/// The value of one register in a sample.
fn register(registers: &Registers, number: u64) -> Result<u64> {
    ensure!(
        registers.abi == SampleRegsAbi::ABI_64,
        "register ABI {:?}, expected ABI_64",
        registers.abi
    );
    ensure!(
        registers.mask & (1 << number) != 0,
        "register {number} is missing"
    );
    let before = registers.mask & ((1 << number) - 1);
    Ok(registers.regs[before.count_ones() as usize])
}

/// An event that samples these registers, both as REGS_USER and as REGS_INTR.
fn registers_sampler(ctx: &Ctx, mode: Mode, period: u64, registers: u64) -> Result<Sampler> {
    let mut builder = ctx.pmu()?.event(Event::Instructions);
    builder
        .filter(mode)
        .sample_period(period)
        .sample_regs_user(registers);
    // perf-event2's method for this field sets sample_regs_user instead.
    builder.attrs_mut().sample_regs_intr = registers;
    let fields = SampleFlag::IP | SampleFlag::REGS_USER | SampleFlag::REGS_INTR;
    sampler(&mut builder, fields)
}

/// All registers are right. In user mode REGS_USER and REGS_INTR are the same.
fn registers(ctx: &Ctx) -> Result<()> {
    const N: u64 = 100_000;
    const PERIOD: u64 = 1_009;
    let workload = workload::registers(N);
    let mut sampler = registers_sampler(ctx, Mode::User, PERIOD, ALL)?;
    workload.measure(&*sampler)?;
    let mut k = 0;
    for_each_sample(&mut sampler, |sample| {
        k += 1;
        let want = workload::Registers::after(N, k * PERIOD).context("a sample after the loop")?;
        expect(
            "the sample",
            "as IP",
            sample.ip().context("no IP")?,
            want.ip,
        )?;
        for registers in [sample.regs_user(), sample.regs_intr()] {
            let registers = registers.context("no registers")?;
            let what = format!("sample {k}");
            let ip = register(registers, PERF_REG_X86_IP)?;
            expect(&what, "as RIP", ip, want.ip)?;
            let di = register(registers, PERF_REG_X86_DI)?;
            expect(&what, "as RDI", di, want.di)?;
            for number in workload::Registers::CONSTANT {
                let value = register(registers, number)?;
                let unit = format!("as register {number}");
                expect(&what, &unit, value, workload::Registers::constant(number))?;
            }
        }
        Ok(())
    })?;
    expect("in total", "samples", k, workload.instructions() / PERIOD)
}

/// In the kernel the two differ: REGS_USER has the registers of the system call,
/// REGS_INTR those at the interrupt.
fn registers_of_both_sides(ctx: &Ctx) -> Result<()> {
    let period = kernel_period(10_007);
    let symbols = Symbols::read()?;
    let mut sampler = registers_sampler(ctx, Mode::Kernel, period, 1 << PERF_REG_X86_IP)?;
    syscalls().measure(&*sampler)?;
    let mut inside = 0;
    while let Some(record) = sampler.next_record() {
        // The IP, and twice an ABI and one register.
        if record.len() < 5 * 8 {
            // The kernel had not yet saved the user registers, so the record has
            // none of them. The parser does not handle that.
            continue;
        }
        let Record::Sample(sample) = record.parse_record()? else {
            bail!("unexpected record of type {}", record.ty());
        };
        let ip = sample.ip().context("no IP")?;
        let at_interrupt = sample.regs_intr().context("no registers")?;
        let at_interrupt = register(at_interrupt, PERF_REG_X86_IP)?;
        expect("REGS_INTR", "as RIP", at_interrupt, ip)?;
        if symbols.of(ip).contains(&"__x64_sys_getpid") {
            inside += 1;
            let of_user = sample.regs_user().context("no registers")?;
            let of_user = register(of_user, PERF_REG_X86_IP)?;
            expect("REGS_USER", "as RIP", of_user, workload::syscall_return())?;
        }
    }
    ensure!(inside > 0, "no sample is in getpid()");
    Ok(())
}

/// PERF_SAMPLE_STACK_USER has the words from the stack pointer up.
fn user_stack(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 1_009;
    const SIZE: usize = 8 * workload::Registers::STACK.len();
    let workload = workload::registers(100_000);
    let mut sampler = sampler(
        ctx.pmu()?
            .event(Event::Instructions)
            .sample_period(PERIOD)
            .sample_regs_user(1 << PERF_REG_X86_SP)
            .sample_stack_user(SIZE as u32),
        SampleFlag::REGS_USER | SampleFlag::STACK_USER,
    )?;
    workload.measure(&*sampler)?;
    let mut pointer = None;
    let mut samples = 0;
    for_each_sample(&mut sampler, |sample| {
        samples += 1;
        let registers = sample.regs_user().context("no registers")?;
        let sp = register(registers, PERF_REG_X86_SP)?;
        expect("sample", "as RSP", sp, *pointer.get_or_insert(sp))?;
        let stack = sample.stack_user().context("no stack")?;
        let want = workload::Registers::STACK.map(u64::to_le_bytes).concat();
        ensure!(stack == want, "stack {stack:x?}, expected {want:x?}");
        Ok(())
    })?;
    expect(
        "in total",
        "samples",
        samples,
        workload.instructions() / PERIOD,
    )
}
