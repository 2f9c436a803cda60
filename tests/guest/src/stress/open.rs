// SPDX-License-Identifier: GPL-2.0
//! Random calls of perf_event_open().

use fastrand::Rng;

use super::generate::WORKERS;
use super::op::{Op, Open, Request, Target, CGROUPS, SLOTS};
use super::world::{Choice, Class, Counts, World};
use crate::tests::compare::attr::{self, bits, Attr};
use crate::tests::compare::case::FD_CLOEXEC;

/// PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING.
pub const TIMES: u64 = 0b11;

/// PERF_SAMPLE_DATA_PAGE_SIZE and PERF_SAMPLE_CODE_PAGE_SIZE.
///
/// Kernel 7.3 hangs when it looks up the size of a page of the kernel: perf_get_pgtable_size()
/// repeats pte_offset_map(), which fails each time for a page table with _PAGE_GLOBAL. So only
/// events that sample nothing but user mode have these.
const PAGE_SIZES: u64 = 0b11 << 22;

/// Bits of `sample_type` that every PMU has.
const SAMPLE_BITS: u64 = (1 << 25) - 1
    // The branch stack, the registers and the stack, which need more fields, the parts of AUX,
    // and one of the two kinds of weight.
    - (1 << 11)
    - (1 << 12)
    - (1 << 13)
    - (1 << 18)
    - (1 << 20)
    - (1 << 24)
    - PAGE_SIZES;

/// Adds operations that open an event, or a group.
pub fn open(rng: &mut Rng, world: &World, choices: &[usize], ops: &mut Vec<Op>) {
    let slot = rng.u8(..SLOTS);
    let measured: Vec<usize> = choices
        .iter()
        .copied()
        .filter(|event| is_measured(&world.events[*event]))
        .collect();
    if rng.u8(..5) < 2 && !measured.is_empty() {
        return open_measured(rng, &measured, slot, ops);
    }
    let mut leader = None;
    let members = if rng.u8(..5) == 0 { rng.u8(1..5) } else { 0 };
    let target = target(rng, world);
    for number in 0..=members {
        let slot = (slot + number) % SLOTS;
        let mut event = any_event(rng, world, choices, slot);
        event.leader = leader;
        event.target = target;
        // A group may need more counters than there are.
        event.sure &= leader.is_none();
        ops.push(Op::Open(event));
        leader = leader.or(Some(slot));
    }
    if leader.is_none() && rng.u8(..20) == 0 {
        // A leader that may be anything.
        if let Some(Op::Open(open)) = ops.last_mut() {
            open.leader = Some(rng.u8(..SLOTS));
            open.sure = false;
        }
    }
    if rng.u8(..3) == 0 {
        use_mapped(rng, slot, ops);
    }
}

/// Adds operations that map an event, have it count and sample, and read it through the mapping.
fn use_mapped(rng: &mut Rng, slot: u8, ops: &mut Vec<Op>) {
    ops.push(Op::Map {
        slot,
        order: rng.u8(1..5),
        write: rng.u8(..8) > 0,
    });
    if rng.bool() {
        ops.push(Op::Ioctl {
            slot,
            request: Request::Enable,
            group: rng.bool(),
        });
    }
    for _ in 0..rng.u8(1..4) {
        ops.push(match rng.u8(..4) {
            0 => Op::SystemCalls(rng.u32(1..200)),
            1 => Op::PageFaults(rng.u8(1..40)),
            2 => Op::Probed(rng.u32(1..50)),
            _ => Op::Loop(rng.u32(1..100_000)),
        });
        ops.push(Op::Rdpmc(slot));
    }
    ops.push(Op::Drain(slot));
    if rng.u8(..4) == 0 {
        ops.push(Op::Unmap(slot));
    }
}

/// Whether the count of a known loop is known.
fn is_measured(event: &Choice) -> bool {
    event.counts != Counts::Other
}

/// Events whose counts are known: of the worker itself, and of user mode.
fn open_measured(rng: &mut Rng, measured: &[usize], slot: u8, ops: &mut Vec<Op>) {
    let members = if rng.u8(..3) == 0 { rng.u8(1..4) } else { 0 };
    for number in 0..=members {
        let mut attr = Attr::default();
        attr.set(attr::SIZE, attr::LEN);
        attr.set(attr::EXCLUDE_KERNEL, 1);
        attr.set(attr::DISABLED, (number == 0).into());
        attr.set(attr::READ_FORMAT, TIMES);
        attr.set(attr::PINNED, (number == 0 && rng.u8(..8) == 0).into());
        if rng.u8(..3) == 0 {
            // So long that it is never throttled.
            attr.set(attr::SAMPLE_PERIOD, rng.u64(10_000_000..1 << 40));
            attr.set(attr::SAMPLE_TYPE, rng.u64(..) & SAMPLE_BITS);
        }
        ops.push(Op::Open(Open {
            slot: (slot + number) % SLOTS,
            event: measured[rng.usize(..measured.len())],
            attr,
            garbage: 0,
            target: Target::Own,
            leader: (number > 0).then_some(slot),
            flags: 0,
            sure: number == 0,
        }));
    }
    let mapped = rng.u8(..4) == 0;
    if mapped {
        ops.push(Op::Map {
            slot,
            order: 0,
            write: rng.bool(),
        });
    }
    if mapped || rng.bool() {
        ops.push(Op::Measure {
            slot,
            rounds: rng.u32(1..100_000),
        });
        ops.push(Op::Read { slot, len: 512 });
    }
}

/// Chooses a class, then one of its events: there are many trace points, and a first event of one
/// takes long to open.
fn choose(rng: &mut Rng, world: &World, choices: &[usize]) -> usize {
    let class = match rng.u8(..20) {
        0..9 => Class::Core,
        9..12 => Class::Clock,
        12..14 => Class::TracePoint,
        14 => Class::SpecialTracePoint,
        15 => Class::Probe,
        16..18 => Class::Software,
        _ => Class::Other,
    };
    let of_class: Vec<_> = choices
        .iter()
        .copied()
        .filter(|event| world.events[*event].class == class)
        .collect();
    let choices = if of_class.is_empty() {
        choices
    } else {
        &of_class
    };
    choices[rng.usize(..choices.len())]
}

fn any_event(rng: &mut Rng, world: &World, choices: &[usize], slot: u8) -> Open {
    let event = choose(rng, world, choices);
    let class = world.events[event].class;
    let mut attr = Attr::default();
    let mut sure = true;
    attr.set(attr::SIZE, attr::LEN);
    attr.set(attr::DISABLED, (rng.u8(..10) < 6).into());
    match rng.u8(..10) {
        0..5 => attr.set(attr::EXCLUDE_KERNEL, 1),
        5 => attr.set(attr::EXCLUDE_USER, 1),
        _ => {}
    }
    let mut chance = |field, one_in| attr.set(field, (rng.u8(..one_in) == 0).into());
    for field in [
        attr::MMAP,
        attr::COMM,
        attr::TASK,
        attr::MMAP_DATA,
        attr::SAMPLE_ID_ALL,
        attr::MMAP2,
        attr::COMM_EXEC,
        attr::CONTEXT_SWITCH,
        attr::NAMESPACES,
        attr::CGROUP,
    ] {
        chance(field, 8);
    }
    chance(attr::PINNED, 10);
    chance(attr::EXCLUSIVE, 20);
    chance(attr::INHERIT, 3);
    chance(attr::ENABLE_ON_EXEC, 6);
    attr.set(attr::READ_FORMAT, rng.u64(..32));
    if rng.bool() {
        sampling(rng, class, &mut attr);
        let choice = &world.events[event];
        if world.has_branches && class == Class::Core && choice.is_ours && rng.bool() {
            branch_stack(rng, world.logs_events, &mut attr);
        }
        // An inherited event that reads its group for each sample has rules of its own, and so
        // have samples of page faults.
        sure &= !attr.has(attr::INHERIT) && class != Class::SpecialTracePoint;
    }
    if rng.u8(..30) == 0 {
        attr.set(attr::ENABLE_ON_EXEC, 0);
        attr.set(attr::REMOVE_ON_EXEC, 1);
        attr.set(attr::SIGTRAP, rng.bool().into());
        attr.set(attr::INHERIT_THREAD, attr.get(attr::INHERIT));
        attr.set(attr::SIG_DATA, rng.u64(..));
        sure = false;
    }
    let mut open = Open {
        slot,
        event,
        attr,
        garbage: 0,
        target: Target::Own,
        leader: None,
        flags: if rng.u8(..4) == 0 { FD_CLOEXEC } else { 0 },
        sure,
    };
    if rng.u8(..20) == 0 {
        make_garbage(rng, &mut open);
    }
    open
}

/// Changes what may make the call fail.
fn make_garbage(rng: &mut Rng, open: &mut Open) {
    open.sure = false;
    if rng.bool() {
        open.garbage = match rng.u8(..3) {
            0 => 1 << rng.u8(..64),
            1 => rng.u64(..0x1_0000),
            _ => rng.u64(..),
        };
    }
    if rng.bool() {
        let field = attr::FIELDS[rng.usize(2..attr::FIELDS.len())];
        // These could have an event sample all the time.
        let short = [attr::SAMPLE_PERIOD, attr::FREQ, attr::EXCLUDE_KERNEL];
        if !short.contains(&field) {
            open.attr.set(field, rng.u64(..) >> rng.u8(..64));
        }
        let types = open.attr.get(attr::SAMPLE_TYPE);
        open.attr.set(attr::SAMPLE_TYPE, types & !PAGE_SIZES);
    }
    if rng.u8(..4) == 0 {
        open.flags = rng.u64(..16);
    }
}

/// Has the event sample, not so often that the CPU does little else.
fn sampling(rng: &mut Rng, class: Class, attr: &mut Attr) {
    let is_user = attr.has(attr::EXCLUDE_KERNEL);
    if rng.u8(..3) == 0 {
        attr.set(attr::FREQ, 1);
        attr.set(attr::SAMPLE_PERIOD, rng.u64(1..500));
    } else {
        let least = match class {
            Class::Core | Class::Other if is_user => 500,
            Class::Core | Class::Other => 20_000,
            Class::Clock => 1_000_000,
            _ => 1,
        };
        attr.set(attr::SAMPLE_PERIOD, least << rng.u8(..10));
    }
    attr.set(attr::SAMPLE_TYPE, rng.u64(..) & rng.u64(..) & SAMPLE_BITS);
    if class == Class::Core && is_user && rng.u8(..4) == 0 {
        attr.add(attr::SAMPLE_TYPE, PAGE_SIZES);
    }
    attr.set(attr::WAKEUP_EVENTS, rng.u64(..4));
    if rng.u8(..4) == 0 {
        attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_REGS_USER);
        attr.set(attr::SAMPLE_REGS_USER, rng.u64(1..0x100));
        attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_REGS_INTR);
        attr.set(attr::SAMPLE_REGS_INTR, rng.u64(1..0x100));
    }
    if rng.u8(..8) == 0 {
        attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_STACK_USER);
        attr.set(attr::SAMPLE_STACK_USER, 8 * rng.u64(1..64));
    }
}

/// Has samples show branches, and perhaps counts between them. Call stacks are those of programs.
fn branch_stack(rng: &mut Rng, logs_events: bool, attr: &mut Attr) {
    const KINDS: [u64; 8] = [
        bits::BRANCH_ANY,
        bits::BRANCH_ANY,
        bits::BRANCH_ANY_CALL,
        bits::BRANCH_ANY_RETURN,
        bits::BRANCH_COND,
        bits::BRANCH_ANY | bits::BRANCH_HW_INDEX,
        bits::BRANCH_CALL_STACK,
        bits::BRANCH_CALL_STACK,
    ];
    let kind = KINDS[rng.usize(..KINDS.len())];
    let may_see_kernel = kind != bits::BRANCH_CALL_STACK && !attr.has(attr::EXCLUDE_KERNEL);
    let levels = match may_see_kernel && rng.bool() {
        true => bits::BRANCH_USER | bits::BRANCH_KERNEL,
        false => bits::BRANCH_USER,
    };
    attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_BRANCH_STACK);
    let counters = match logs_events && kind != bits::BRANCH_CALL_STACK && rng.bool() {
        true => bits::BRANCH_COUNTERS,
        false => 0,
    };
    attr.set(attr::BRANCH_SAMPLE_TYPE, kind | levels | counters);
}

fn target(rng: &mut Rng, world: &World) -> Target {
    let cpu = |rng: &mut Rng| rng.u8(..world.cpus.len() as u8);
    match rng.u8(..20) {
        0..9 => Target::Own,
        9..11 => Target::OwnOn(cpu(rng)),
        11..13 => Target::Worker(rng.u8(..WORKERS as u8)),
        13..15 => Target::Child,
        15..18 => Target::Cpu(cpu(rng)),
        _ => Target::Cgroup(rng.u8(..CGROUPS), cpu(rng)),
    }
}
