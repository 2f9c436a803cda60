// SPDX-License-Identifier: GPL-2.0
//! The random sequences of a round. They follow from the seed, the round and the machine.

use fastrand::Rng;

use super::op::{Childhood, Op, Request, CGROUPS, SLOTS};
use super::open::open;
use super::world::{Class, Counts, World};

/// The workers of a round.
pub const WORKERS: usize = 4;
/// The operations of a worker in a round.
pub const LENGTH: usize = 60;

/// What rounds may contain.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Whether CPUs go offline.
    pub hotplug: bool,
    /// Whether the system's tasks are frozen, as for suspend.
    pub suspend: bool,
}

/// The sequences of a round's workers.
pub fn round(world: &World, limits: Limits, seed: u64, number: u64) -> Vec<Vec<Op>> {
    // Fractions of the golden ratio, so that seeds and rounds do not overlap.
    let mut rng = Rng::with_seed(
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(number.wrapping_mul(0xd1b5_4a32_d192_ed03)),
    );
    // The in-tree driver and the module take the counters from each other in some rounds only: in
    // these an event may fail with EBUSY.
    let shared = rng.u8(..6) == 0;
    let choices: Vec<usize> = (0..world.events.len())
        .filter(|event| shared || world.events[*event].class != Class::Other)
        .collect();
    (0..WORKERS)
        .map(|_| {
            let mut ops = Vec::with_capacity(LENGTH);
            while ops.len() < LENGTH {
                operation(&mut rng, world, limits, &choices, &mut ops);
            }
            ops.truncate(LENGTH);
            ops
        })
        .collect()
}

/// A number of rounds of a loop, often small.
fn rounds(rng: &mut Rng) -> u32 {
    let bits = rng.u32(4..=18);
    rng.u32(1..=1 << bits)
}

fn slot(rng: &mut Rng) -> u8 {
    rng.u8(..SLOTS)
}

/// Adds an operation, or some that belong together.
fn operation(rng: &mut Rng, world: &World, limits: Limits, choices: &[usize], ops: &mut Vec<Op>) {
    let cpu = |rng: &mut Rng| rng.u8(..world.cpus.len() as u8);
    let op = match rng.u32(..1_000) {
        0..270 => return open(rng, world, choices, ops),
        270..320 => Op::Close(slot(rng)),
        320..440 => Op::Ioctl {
            slot: slot(rng),
            request: request(rng),
            group: rng.bool(),
        },
        440..520 => Op::Read {
            slot: slot(rng),
            len: *rng.choice(&[8, 16, 40, 512, 512, 512]).unwrap_or(&512),
        },
        520..620 => Op::Measure {
            slot: slot(rng),
            rounds: rounds(rng),
        },
        620..660 => Op::Map {
            slot: slot(rng),
            order: rng.u8(..5),
            write: rng.u8(..4) > 0,
        },
        660..680 => Op::Unmap(slot(rng)),
        680..710 => Op::Drain(slot(rng)),
        710..740 => Op::Rdpmc(slot(rng)),
        740..790 => Op::Loop(rounds(rng)),
        790..810 => Op::Probed(rng.u32(1..50)),
        810..825 => Op::SystemCalls(rng.u32(1..200)),
        825..835 => Op::PageFaults(rng.u8(1..40)),
        835..870 => Op::Fork(childhood(rng)),
        870..885 => Op::Reap,
        885..895 => {
            let instructions =
                |event: &&usize| world.events[**event].counts == Counts::Instructions;
            let events: Vec<_> = choices.iter().filter(instructions).collect();
            match rng.choice(&events) {
                Some(event) => Op::CountProgram {
                    event: **event,
                    inherit: rng.bool(),
                },
                None => Op::Loop(rounds(rng)),
            }
        }
        895..905 => Op::Thread(rounds(rng)),
        905..940 => Op::Migrate(cpu(rng)),
        940..950 => Op::MoveToCgroup(rng.u8(..=CGROUPS)),
        950..955 => Op::Unshare(namespaces(rng)),
        955..965 => Op::Prctl(rng.bool()),
        965..975 if !world.files.is_empty() => Op::ReadFile(rng.usize(..world.files.len())),
        975..979 if !world.core.is_empty() => Op::MuxInterval {
            pmu: rng.usize(..world.core.len()),
            ms: rng.u8(1..20),
        },
        979..981 => Op::RdpmcSetting(rng.u8(..3)),
        981..985 if limits.hotplug && !world.removable.is_empty() => {
            let cpu = rng.u8(..world.removable.len() as u8);
            ops.push(Op::Hotplug { cpu, online: false });
            for _ in 0..rng.u8(..4) {
                ops.push(Op::Loop(rounds(rng)));
            }
            Op::Hotplug { cpu, online: true }
        }
        985..990 => Op::Unload,
        990..991 if limits.suspend => Op::Suspend,
        _ => Op::Loop(rounds(rng)),
    };
    ops.push(op);
}

fn request(rng: &mut Rng) -> Request {
    match rng.u8(..20) {
        0..5 => Request::Enable,
        5..9 => Request::Disable,
        9..11 => Request::Reset,
        11 => Request::Refresh(rng.u32(..4)),
        12 => Request::Period(rng.u64(10_000..10_000_000)),
        13 => Request::SetOutput(Some(slot(rng))),
        14 => Request::SetOutput(None),
        15 => Request::PauseOutput(rng.bool()),
        16 => Request::Id,
        17 => Request::QueryBpf,
        18 => Request::SetBpf,
        _ => Request::SetFilter,
    }
}

fn childhood(rng: &mut Rng) -> Childhood {
    match rng.u8(..10) {
        0..3 => Childhood::Loop(rounds(rng)),
        3..5 => Childhood::Close(slot(rng)),
        5 => Childhood::Fork(rounds(rng)),
        6 => Childhood::Unshare(namespaces(rng) | libc::CLONE_NEWPID),
        7 => Childhood::Killed,
        _ => Childhood::Exec,
    }
}

fn namespaces(rng: &mut Rng) -> i32 {
    const FLAGS: [i32; 5] = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWNET,
    ];
    FLAGS.iter().filter(|_| rng.u8(..3) == 0).sum()
}
