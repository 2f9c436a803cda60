// SPDX-License-Identifier: GPL-2.0
//! Calls that any two PMUs can be compared with: every field of the attributes, the other
//! arguments, and the rights of the caller. A comparison adds what is special about the
//! `config` of its PMUs.

use anyhow::Result;
use fastrand::Rng;

use super::attr::{self, bits, Field};
use super::case::{
    Case, Group, Unprivileged, Whose, FD_CLOEXEC, FD_NO_GROUP, FD_OUTPUT, PID_CGROUP,
};
use crate::setting::Setting;

/// Modifies a call.
pub type Change = fn(&mut Case);

/// Makes the event sample, with a period that the workload hardly reaches.
pub fn sampling(case: &mut Case) {
    case.attr.set(attr::SAMPLE_PERIOD, 100_000);
    case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_IP);
}

fn sample(case: &mut Case, sample_type: u64) {
    case.attr.set(attr::SAMPLE_PERIOD, 100_000);
    case.attr
        .add(attr::SAMPLE_TYPE, bits::SAMPLE_IP | sample_type);
}

fn branch_stack(case: &mut Case, branches: u64) {
    sample(case, bits::SAMPLE_BRANCH_STACK);
    case.attr.add(attr::BRANCH_SAMPLE_TYPE, branches);
}

/// Fields that have an effect only together with other fields, which the change sets.
const COMPANIONS: &[(Field, Change)] = &[
    (attr::SAMPLE_PERIOD, |case| case.attr.set(attr::FREQ, 1)),
    (attr::BRANCH_SAMPLE_TYPE, |case| {
        sample(case, bits::SAMPLE_BRANCH_STACK)
    }),
    (attr::SAMPLE_REGS_USER, |case| {
        sample(case, bits::SAMPLE_REGS_USER)
    }),
    (attr::SAMPLE_REGS_INTR, |case| {
        sample(case, bits::SAMPLE_REGS_INTR)
    }),
    (attr::SAMPLE_STACK_USER, |case| {
        sample(case, bits::SAMPLE_STACK_USER)
    }),
    (attr::SAMPLE_MAX_STACK, |case| {
        sample(case, bits::SAMPLE_CALLCHAIN)
    }),
    (attr::AUX_SAMPLE_SIZE, |case| sample(case, bits::SAMPLE_AUX)),
    (attr::CLOCKID, |case| case.attr.set(attr::USE_CLOCKID, 1)),
    (attr::SIG_DATA, |case| {
        case.attr.set(attr::SIGTRAP, 1);
        case.attr.set(attr::REMOVE_ON_EXEC, 1);
    }),
    (attr::INHERIT_THREAD, |case| case.attr.set(attr::INHERIT, 1)),
    (attr::SAMPLE_TYPE, |case| {
        case.attr.set(attr::INHERIT, 1);
        case.attr.set(attr::SAMPLE_TYPE, bits::SAMPLE_TID);
    }),
    (attr::AUX_OUTPUT, |case| case.attr.set(attr::PRECISE_IP, 1)),
    (attr::PRECISE_IP, |case| {
        branch_stack(case, bits::BRANCH_ANY)
    }),
];

/// The interesting values of a field: each single bit, none, all, and limits of
/// periods, frequencies, clocks and sizes.
pub fn edge_values(field: Field) -> Vec<u64> {
    const EDGES: [u64; 22] = [
        0,
        3,
        5,
        7,
        9,
        10,
        11,
        12,
        127,
        1_000,
        4_095,
        100_000,
        999_999,
        1_000_000,
        1_000_001,
        (1 << 16) - 8,
        (1 << 16) - 1,
        (1 << 31) - 1,
        (1 << 32) - 1,
        (1 << 63) - 1,
        (1 << 63) + 1,
        u64::MAX,
    ];
    (0..field.bits)
        .map(|bit| 1 << bit)
        .chain(EDGES.into_iter().filter(|edge| *edge <= field.max()))
        .collect()
}

/// Sizes that `struct perf_event_attr` has had over time, and invalid ones.
const SIZES: [u64; 16] = [
    0, 1, 8, 56, 63, 64, 72, 80, 96, 104, 112, 120, 128, 136, 144, 152,
];
const HUGE_SIZES: [u64; 4] = [4_096, 4_097, 1 << 31, u32::MAX as u64];

/// Sets each field to its interesting values, for a counting event, for a sampling
/// event, and with the fields that it depends on.
pub fn every_field(counting: Case, mut call: impl FnMut(Case) -> Result<()>) -> Result<()> {
    let mut sampled = counting;
    sampling(&mut sampled);

    for size in SIZES.into_iter().chain(HUGE_SIZES) {
        for mut case in [counting, sampled] {
            case.attr.set(attr::SIZE, size);
            call(case)?;
            // Nonzero bytes after the end of the struct.
            case.attr.set(attr::CONFIG4, 1);
            call(case)?;
            case.attr.set(attr::CONFIG2, 1);
            case.attr.set(attr::BEYOND, 1);
            call(case)?;
        }
    }
    for &field in attr::FIELDS {
        // `open` sets the type, and the loop above has tested the size.
        if field == attr::TYPE || field == attr::SIZE {
            continue;
        }
        let mut bases = vec![counting, sampled];
        for (_, companion) in COMPANIONS.iter().filter(|(of, _)| *of == field) {
            for mut base in [counting, sampled] {
                companion(&mut base);
                bases.push(base);
            }
        }
        for base in bases {
            for value in edge_values(field) {
                let mut case = base;
                case.attr.set(field, value);
                call(case)?;
                // Also keep the bits of the base, such as those of `sample_type`.
                let added = base.attr.get(field) | value;
                if added != value {
                    case.attr.set(field, added);
                    call(case)?;
                }
            }
        }
    }
    Ok(())
}

/// Changes to a call for which the result could depend on the driver.
pub const CHANGES: &[Change] = &[
    sampling,
    |case| {
        case.attr.set(attr::SAMPLE_PERIOD, 1);
    },
    |case| {
        sampling(case);
        case.attr.set(attr::FREQ, 1);
    },
    |case| case.attr.set(attr::SAMPLE_PERIOD, 1 << 63),
    |case| case.attr.set(attr::PRECISE_IP, 1),
    |case| case.attr.set(attr::PRECISE_IP, 2),
    |case| case.attr.set(attr::PRECISE_IP, 3),
    |case| branch_stack(case, bits::BRANCH_ANY),
    |case| branch_stack(case, bits::BRANCH_CALL_STACK),
    |case| branch_stack(case, bits::BRANCH_COUNTERS),
    |case| branch_stack(case, 0),
    |case| {
        case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_BRANCH_STACK);
        case.attr.add(attr::BRANCH_SAMPLE_TYPE, bits::BRANCH_ANY);
    },
    |case| case.attr.add(attr::BRANCH_SAMPLE_TYPE, bits::BRANCH_ANY),
    |case| case.attr.set(attr::EXCLUDE_USER, 1),
    |case| case.attr.set(attr::EXCLUDE_KERNEL, 0),
    |case| case.attr.set(attr::EXCLUDE_HV, 1),
    |case| case.attr.set(attr::EXCLUDE_IDLE, 1),
    |case| case.attr.set(attr::EXCLUDE_HOST, 1),
    |case| case.attr.set(attr::EXCLUDE_GUEST, 1),
    |case| case.attr.set(attr::EXCLUDE_CALLCHAIN_USER, 1),
    |case| case.attr.set(attr::PINNED, 1),
    |case| case.attr.set(attr::EXCLUSIVE, 1),
    |case| case.attr.set(attr::INHERIT, 1),
    |case| case.attr.set(attr::INHERIT_STAT, 1),
    |case| case.attr.set(attr::INHERIT_THREAD, 1),
    |case| case.attr.set(attr::ENABLE_ON_EXEC, 1),
    |case| case.attr.set(attr::REMOVE_ON_EXEC, 1),
    |case| case.attr.set(attr::SIGTRAP, 1),
    |case| case.attr.set(attr::WRITE_BACKWARD, 1),
    |case| case.attr.set(attr::AUX_OUTPUT, 1),
    |case| case.attr.set(attr::AUX_ACTION, 1),
    |case| case.attr.set(attr::AUX_ACTION, 2),
    |case| case.attr.set(attr::AUX_ACTION, 6),
    |case| case.attr.set(attr::DEFER_CALLCHAIN, 1),
    |case| case.attr.set(attr::TEXT_POKE, 1),
    |case| case.attr.set(attr::RESERVED_1, 1),
    |case| case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_READ),
    |case| case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_WEIGHT),
    |case| case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_WEIGHT_STRUCT),
    |case| case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_PHYS_ADDR),
    |case| {
        case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_AUX);
        case.attr.set(attr::AUX_SAMPLE_SIZE, 4_096);
    },
    |case| {
        case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_REGS_USER);
        case.attr.add(attr::SAMPLE_REGS_USER, 1 << 32);
    },
    |case| case.attr.add(attr::SAMPLE_REGS_USER, 1 << 32),
    |case| {
        case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_REGS_INTR);
        case.attr.add(attr::SAMPLE_REGS_INTR, 1 << 32);
    },
    |case| case.attr.add(attr::SAMPLE_REGS_INTR, 1 << 32),
    |case| {
        case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_REGS_INTR);
        case.attr.add(attr::SAMPLE_REGS_INTR, 0xff);
    },
    |case| case.attr.add(attr::READ_FORMAT, bits::FORMAT_GROUP),
    |case| case.attr.add(attr::READ_FORMAT, 3),
    |case| case.attr.set(attr::SIZE, 64),
    |case| case.attr.set(attr::CONFIG1, 1),
    |case| case.attr.set(attr::CONFIG2, 1),
    |case| case.attr.set(attr::CONFIG3, 1 << 63),
    |case| case.attr.set(attr::CONFIG4, 1),
    |case| {
        case.whose = Whose::Everyone;
        case.cpu = 0;
    },
    |case| case.group = Group::Own,
    |case| case.group = Group::Software,
];

/// All pairs of these changes. A change combined with itself is the change alone.
pub fn pairs(base: Case, changes: &[Change]) -> impl Iterator<Item = Case> + '_ {
    changes.iter().flat_map(move |first| {
        changes.iter().map(move |second| {
            let mut case = base;
            first(&mut case);
            second(&mut case);
            case
        })
    })
}

/// A random value of a field, which is often an interesting one.
fn value(rng: &mut Rng, field: Field) -> u64 {
    match rng.u8(..4) {
        0 => rng.u64(..) & field.max(),
        1 => rng.u64(..16),
        2 => 1 << rng.u32(..field.bits),
        _ => rng.choice(edge_values(field)).unwrap_or(0),
    }
}

/// Makes a few of these changes, and sets a few fields to random values.
pub fn change_randomly(rng: &mut Rng, case: &mut Case, changes: &[Change]) {
    for _ in 0..rng.usize(0..=6) {
        if rng.u8(..3) > 0 {
            if let Some(change) = rng.choice(changes) {
                change(case);
            }
        } else if let Some(&field) = rng.choice(&attr::FIELDS[2..]) {
            let value = value(rng, field);
            case.attr.set(field, value);
        }
    }
    // The event must not run before it is measured: its period could be so short that
    // each instruction raises an interrupt.
    case.attr.set(attr::DISABLED, 1);
}

pub const WHOSE: [Whose; 7] = [
    Whose::Caller,
    Whose::Child,
    Whose::Init,
    Whose::Everyone,
    Whose::NoOne,
    Whose::Cgroup,
    Whose::NoCgroup,
];

/// Values of `cpu`: any, existing, missing and invalid ones.
pub const CPUS: [i32; 6] = [-1, 0, 1, 2, -2, i32::MAX];

const GROUPS: [Group; 7] = [
    Group::Alone,
    Group::Own,
    Group::Other,
    Group::Software,
    Group::Member,
    Group::NotPerf,
    Group::NotOpen,
];

const FLAGS: [u64; 8] = [
    0,
    FD_NO_GROUP,
    FD_OUTPUT,
    FD_NO_GROUP | FD_OUTPUT,
    PID_CGROUP,
    FD_CLOEXEC,
    1 << 4,
    1 << 63,
];

/// All combinations of the other arguments of the system call.
pub fn arguments(base: Case) -> impl Iterator<Item = Case> {
    WHOSE.into_iter().flat_map(move |whose| {
        CPUS.into_iter().flat_map(move |cpu| {
            GROUPS.into_iter().flat_map(move |group| {
                FLAGS.into_iter().map(move |flags| Case {
                    whose,
                    cpu,
                    group,
                    flags,
                    ..base
                })
            })
        })
    })
}

/// Calls of an unprivileged user, at each level of `perf_event_paranoid`: each of the
/// changes, and each task and CPU.
pub fn rights(
    base: Case,
    changes: &[Change],
    mut call: impl FnMut(Case) -> Result<()>,
) -> Result<()> {
    let paranoid = Setting::save("/proc/sys/kernel/perf_event_paranoid")?;
    for level in -1..=4 {
        paranoid.set(level)?;
        let base = Case {
            paranoid: Some(level),
            ..base
        };
        let _unprivileged = Unprivileged::new()?;
        for change in changes {
            let mut case = base;
            change(&mut case);
            call(case)?;
            case.attr.set(attr::EXCLUDE_KERNEL, 0);
            call(case)?;
        }
        for whose in WHOSE {
            for cpu in CPUS {
                let mut case = Case { whose, cpu, ..base };
                call(case)?;
                case.flags = PID_CGROUP;
                call(case)?;
            }
        }
    }
    Ok(())
}
