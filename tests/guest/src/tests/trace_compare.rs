// SPDX-License-Identifier: GPL-2.0
//! perf_event_open() on a trace point has the same result with rust_trace as with the
//! in-tree PMU, and what is only rust_trace's has the errno that its page of docs says.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use perf_event_open_sys::bindings::{
    perf_event_attr, PERF_SAMPLE_BRANCH_ANY, PERF_SAMPLE_BRANCH_STACK, PERF_SAMPLE_CALLCHAIN,
    PERF_SAMPLE_RAW, PERF_SAMPLE_REGS_INTR, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER,
};
use perf_event_open_sys::ioctls;

use super::compare::Unprivileged;
use crate::ctx::{Ctx, Test};
use crate::setting::Setting;
use crate::tests;
use crate::trace::{number, rust_type, Event};

pub const TESTS: &[Test] = tests![
    all need [Module, Root];
    attributes,
    attributes_of_an_unprivileged_user,
    who_may_record,
    reserved_bits,
    unknown_trace_points,
    stacks_at_page_faults,
    samples_of_migrations,
    filter,
];

/// The trace points that are compared: an ordinary one, one that everyone may record, one
/// on every CPU, and the one that must not be sampled.
const POINTS: [&str; 4] = ["task_rename", "sys_enter", "sched_switch", "irq_work_exit"];

/// A change of an attribute, with its name.
type Change = (String, Box<dyn Fn(&mut perf_event_attr)>);

/// Sets some fields of an attribute.
type Set = fn(&mut perf_event_attr);

/// The result of a call.
type Outcome = Result<(), Errno>;

/// Opens an event.
fn open(attr: &perf_event_attr, pid: i32, cpu: i32) -> Result<OwnedFd, Errno> {
    // The kernel's structure may be larger, and so may be the size that a test says.
    #[repr(C)]
    struct Padded(perf_event_attr, [u64; 1024]);
    let mut attr = Padded(*attr, [0; 1024]);
    // SAFETY: the attribute is valid, and the kernel accesses at most 4096 bytes.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw mut attr, pid, cpu, -1, 0) };
    Errno::result(fd)?;
    // SAFETY: the call has just returned this file descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The events that are compared, by name. Only root may read the numbers of the in-tree PMU.
fn events() -> Result<Vec<(&'static str, [Event; 2])>> {
    let both = |name| Ok((name, [Event::rust(name)?, Event::in_tree(name)?]));
    POINTS.into_iter().map(both).collect()
}

fn plain(event: Event) -> perf_event_attr {
    let mut attr = perf_event_attr::default();
    attr.size = size_of::<perf_event_attr>() as u32;
    event.set(&mut attr);
    attr.set_disabled(1);
    attr
}

/// Sets a bit of the structure.
fn flip(attr: &mut perf_event_attr, byte: usize, bit: usize) {
    let bytes: *mut u8 = std::ptr::from_mut(attr).cast();
    // SAFETY: `byte` is within the structure, which consists of integers.
    unsafe { *bytes.add(byte + bit / 8) ^= 1 << (bit % 8) };
}

fn change(name: &str, f: impl Fn(&mut perf_event_attr) + 'static) -> Change {
    (name.to_string(), Box::new(f))
}

fn sampling(attr: &mut perf_event_attr, sample_type: u64) {
    attr.__bindgen_anon_1.sample_period = 1;
    attr.sample_type |= sample_type;
}

/// Changes of every field that is not `config…`, one at a time.
fn changes() -> Vec<Change> {
    // In `struct perf_event_attr`.
    const FLAGS: usize = 40;
    const READ_FORMAT: usize = 32;
    let mut all = vec![change("plain", |_| ())];
    for bit in 0..64 {
        all.push(change(&format!("sample_type bit {bit}"), move |attr| {
            sampling(attr, 1 << bit);
        }));
        all.push(change(&format!("flag {bit}, counting"), move |attr| {
            flip(attr, FLAGS, bit);
        }));
        all.push(change(&format!("flag {bit}, sampling"), move |attr| {
            sampling(attr, 1);
            flip(attr, FLAGS, bit);
        }));
    }
    for bit in 0..8 {
        all.push(change(&format!("read_format bit {bit}"), move |attr| {
            flip(attr, READ_FORMAT, bit);
        }));
    }
    for period in [1, 2, 1000, i64::MAX as u64, 1 << 63, u64::MAX] {
        all.push(change(&format!("period {period}"), move |attr| {
            attr.__bindgen_anon_1.sample_period = period;
        }));
        all.push(change(&format!("frequency {period}"), move |attr| {
            attr.__bindgen_anon_1.sample_freq = period;
            attr.set_freq(1);
        }));
    }
    for size in [0, 8, 63, 64, 72, 96, 112, 128, 136, 144, 4096, 4097] {
        all.push(change(&format!("size {size}"), move |attr| {
            attr.size = size
        }));
    }
    let named: [(&str, Set); 14] = [
        ("branch stack", |a| {
            sampling(a, PERF_SAMPLE_BRANCH_STACK.into());
            a.branch_sample_type = PERF_SAMPLE_BRANCH_ANY.into();
        }),
        ("branch stack, counting", |a| {
            a.branch_sample_type = PERF_SAMPLE_BRANCH_ANY.into();
        }),
        ("user registers", |a| {
            sampling(a, PERF_SAMPLE_REGS_USER.into());
            a.sample_regs_user = 0xff;
        }),
        ("unknown user registers", |a| {
            sampling(a, PERF_SAMPLE_REGS_USER.into());
            a.sample_regs_user = 1 << 63;
        }),
        ("registers", |a| {
            sampling(a, PERF_SAMPLE_REGS_INTR.into());
            a.sample_regs_intr = 0xff;
        }),
        ("XMM registers", |a| {
            sampling(a, PERF_SAMPLE_REGS_INTR.into());
            a.sample_regs_intr = 1 << 32;
        }),
        ("user stack", |a| {
            sampling(a, PERF_SAMPLE_STACK_USER.into());
            a.sample_stack_user = 64;
        }),
        ("user stack of an odd size", |a| {
            sampling(a, PERF_SAMPLE_STACK_USER.into());
            a.sample_stack_user = 63;
        }),
        ("call chain", |a| sampling(a, PERF_SAMPLE_CALLCHAIN.into())),
        ("deep call chain", |a| {
            sampling(a, PERF_SAMPLE_CALLCHAIN.into());
            a.sample_max_stack = u16::MAX;
        }),
        ("raw and call chain", |a| {
            sampling(a, u64::from(PERF_SAMPLE_RAW | PERF_SAMPLE_CALLCHAIN));
        }),
        ("clock", |a| {
            a.set_use_clockid(1);
            a.clockid = libc::CLOCK_MONOTONIC;
        }),
        ("unknown clock", |a| {
            a.set_use_clockid(1);
            a.clockid = 99;
        }),
        ("signal", |a| {
            sampling(a, 1);
            a.set_sigtrap(1);
            a.set_remove_on_exec(1);
        }),
    ];
    all.extend(named.map(|(name, f)| change(name, f)));
    all
}

/// Which task and CPU: this task, this task on a CPU, a CPU, nothing, a task that is not.
const WHOSE: [(i32, i32); 5] = [(0, -1), (0, 0), (-1, 0), (-1, -1), (i32::MAX, -1)];

/// Makes every call on both PMUs, and returns their number.
fn compare(events: &[(&str, [Event; 2])], whose: &[(i32, i32)]) -> Result<usize> {
    let mut calls = 0;
    let mut failures = Vec::new();
    let changes = changes();
    for (name, events) in events {
        for (what, change) in &changes {
            for &(pid, cpu) in whose {
                let outcomes: [Outcome; 2] = events.map(|event| {
                    let mut attr = plain(event);
                    change(&mut attr);
                    open(&attr, pid, cpu).map(drop)
                });
                calls += 1;
                if outcomes[0] != outcomes[1] {
                    let [ours, theirs] = outcomes;
                    failures.push(format!(
                        "{name}, {what}, pid {pid}, cpu {cpu}: {ours:?}, in-tree {theirs:?}"
                    ));
                }
            }
        }
    }
    let count = failures.len();
    failures.truncate(20);
    ensure!(
        failures.is_empty(),
        "{count} differ:\n{}",
        failures.join("\n")
    );
    Ok(calls)
}

/// An event of each trace point, so that the calls that follow attach nothing.
fn keep_attached() -> Result<Vec<OwnedFd>> {
    let mut kept = Vec::new();
    for name in POINTS {
        for event in [Event::rust(name)?, Event::in_tree(name)?] {
            kept.push(open(&plain(event), 0, -1).context(name)?);
        }
    }
    Ok(kept)
}

fn attributes(_: &Ctx) -> Result<()> {
    let _kept = keep_attached()?;
    let calls = compare(&events()?, &WHOSE)?;
    ensure!(calls > 4_000, "only {calls} calls");
    Ok(())
}

fn attributes_of_an_unprivileged_user(_: &Ctx) -> Result<()> {
    let _kept = keep_attached()?;
    let events = events()?;
    let paranoid = Setting::save("/proc/sys/kernel/perf_event_paranoid")?;
    for level in [-1, 0, 1, 2] {
        paranoid.set(level)?;
        let _unprivileged = Unprivileged::new()?;
        compare(&events, &WHOSE[..3]).with_context(|| format!("perf_event_paranoid={level}"))?;
    }
    paranoid.restore()
}

/// Who may have records, told without the in-tree PMU.
fn who_may_record(_: &Ctx) -> Result<()> {
    let paranoid = Setting::save("/proc/sys/kernel/perf_event_paranoid")?;
    for (level, name, pid, outcome) in [
        (-1, "task_rename", 0, Ok(())),
        (-1, "task_rename", -1, Ok(())),
        (0, "task_rename", 0, Err(Errno::EPERM)),
        (0, "sys_enter", 0, Ok(())),
        (0, "sys_enter", -1, Err(Errno::EPERM)),
        (1, "task_rename", 0, Err(Errno::EPERM)),
        (1, "sys_enter", 0, Ok(())),
        (1, "sys_exit", 0, Ok(())),
        (1, "sys_enter", -1, Err(Errno::EPERM)),
        // The kernel must be excluded.
        (2, "sys_enter", 0, Err(Errno::EACCES)),
        (1, "page-faults", 0, Err(Errno::EPERM)),
    ] {
        paranoid.set(level)?;
        let mut attr = plain(Event::rust(name)?);
        sampling(&mut attr, PERF_SAMPLE_RAW.into());
        let cpu = if pid == 0 { -1 } else { 0 };
        open(&attr, pid, cpu)?;
        let _unprivileged = Unprivileged::new()?;
        let got = open(&attr, pid, cpu).map(drop);
        ensure!(
            got == outcome,
            "perf_event_paranoid={level}, {name}, pid {pid}: {got:?}, expected {outcome:?}"
        );
    }
    paranoid.restore()
}

fn expect_errno(what: &str, attr: &perf_event_attr, errno: Errno) -> Result<()> {
    let got = open(attr, 0, -1).map(drop);
    ensure!(got == Err(errno), "{what}: {got:?}, expected {errno}");
    Ok(())
}

/// Bits of `config` that no field has, and the other words.
fn reserved_bits(_: &Ctx) -> Result<()> {
    let event = Event::rust("task_rename")?;
    for bit in 35..64 {
        let mut attr = plain(event);
        attr.config |= 1 << bit;
        expect_errno(&format!("config bit {bit}"), &attr, Errno::EINVAL)?;
    }
    // A trace point has no return.
    let mut attr = plain(event);
    attr.config |= 1 << 34;
    expect_errno("ret", &attr, Errno::EINVAL)?;
    for bit in 0..64 {
        let mut attr = plain(event);
        attr.__bindgen_anon_3.config1 = 1 << bit;
        expect_errno("config1", &attr, Errno::EINVAL)?;
        let mut attr = plain(event);
        attr.__bindgen_anon_4.config2 = 1 << bit;
        expect_errno("config2", &attr, Errno::EINVAL)?;
        let mut attr = plain(event);
        attr.config3 = 1 << bit;
        expect_errno("config3", &attr, Errno::EINVAL)?;
    }
    Ok(())
}

/// As for an unknown event of the in-tree PMU.
fn unknown_trace_points(_: &Ctx) -> Result<()> {
    for config in [
        0,
        u64::from(u32::MAX),
        number("there is no such trace point"),
    ] {
        let type_ = rust_type()?;
        let attr = plain(Event { type_, config });
        expect_errno("an unknown trace point", &attr, Errno::EINVAL)?;
    }
    let attr = plain(Event {
        config: u64::from(u32::MAX),
        ..Event::in_tree("task_rename")?
    });
    expect_errno("in-tree", &attr, Errno::EINVAL)
}

/// Where a page fault is traced, nothing reads user memory.
fn stacks_at_page_faults(_: &Ctx) -> Result<()> {
    for name in ["page_fault_user", "page_fault_kernel", "page-faults"] {
        let event = Event::rust(name)?;
        let mut attr = plain(event);
        sampling(&mut attr, PERF_SAMPLE_CALLCHAIN.into());
        expect_errno(name, &attr, Errno::EINVAL)?;
        attr.set_exclude_callchain_user(1);
        open(&attr, 0, -1).context("the call chain of the kernel")?;
        let mut attr = plain(event);
        sampling(&mut attr, PERF_SAMPLE_STACK_USER.into());
        attr.sample_stack_user = 64;
        expect_errno(name, &attr, Errno::EINVAL)?;
    }
    Ok(())
}

/// When a migration is counted, the task does not run yet.
fn samples_of_migrations(_: &Ctx) -> Result<()> {
    let mut attr = plain(Event::rust("cpu-migrations")?);
    open(&attr, 0, -1)?;
    sampling(&mut attr, 1);
    expect_errno("samples", &attr, Errno::EOPNOTSUPP)
}

/// Only PMUs that are part of the kernel may have filters.
fn filter(_: &Ctx) -> Result<()> {
    let event = open(&plain(Event::rust("task_rename")?), 0, -1)?;
    let filter = c"pid == 1";
    // SAFETY: the filter is a string.
    let status = unsafe { ioctls::SET_FILTER(event.as_raw_fd(), filter.as_ptr().cast_mut()) };
    let errno = io::Error::last_os_error().raw_os_error();
    ensure!(
        status == -1 && errno == Some(libc::EINVAL),
        "{status}, {errno:?}"
    );
    Ok(())
}
