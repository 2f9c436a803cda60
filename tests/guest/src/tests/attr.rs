// SPDX-License-Identifier: GPL-2.0
//! perf_event_open() with unusual attributes returns the same errno as for the
//! in-tree PMU on the same hardware.

use std::io;

use anyhow::{bail, Result};
use perf_event::events::Raw;
use perf_event::{Builder, Counter};
use perf_event_open_sys::bindings::{
    perf_event_attr, PERF_COUNT_HW_REF_CPU_CYCLES, PERF_SAMPLE_ADDR, PERF_SAMPLE_BRANCH_ANY,
    PERF_SAMPLE_BRANCH_CALL_STACK, PERF_SAMPLE_BRANCH_STACK, PERF_SAMPLE_BRANCH_USER,
    PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_DATA_SRC, PERF_SAMPLE_IP, PERF_SAMPLE_PHYS_ADDR,
    PERF_SAMPLE_RAW, PERF_SAMPLE_REGS_INTR, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER,
    PERF_SAMPLE_TRANSACTION, PERF_SAMPLE_WEIGHT, PERF_TYPE_RAW,
};

use super::expect;
use crate::ctx::{Ctx, Test, IN_TREE};
use crate::generic_events::PERF_TYPE_HARDWARE;
use crate::pmu::{CpuPmu, Event, Pmu, Vendor, UNKNOWN_EVENT};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Counters];
    as_in_tree: [InTree],
    unsupported: [InTree],
    reserved_bits: [Module],
    whole_eventsel: [ExactCounts],
    absent_fixed_counter: [Module, Intel, FixedAtMost(3)],
    address_filter: [InTree],
    other_types,
    generic_events: [InTree],
];

type Change = fn(&mut perf_event_attr);

/// The event code that only Intel's fixed counter 2 counts.
const REF_CYCLES: u64 = 0x0300;
/// The event code that only Intel's fixed counter 3 counts.
const SLOTS: u64 = 0x0400;

/// Attributes for which the errno could depend on the driver.
const ATTRS: &[(&str, Change)] = &[
    ("plain", |_| {}),
    ("sample_period", |a| sampling(a, 100_000)),
    ("sample_period=1", |a| sampling(a, 1)),
    ("sample_period=2^63-1", |a| sampling(a, i64::MAX as u64)),
    ("sample_period=2^63", |a| sampling(a, 1 << 63)),
    ("sample_freq", |a| {
        sampling(a, 1_000);
        a.set_freq(1);
    }),
    ("sample_freq too high", |a| {
        sampling(a, u64::from(u32::MAX));
        a.set_freq(1);
    }),
    ("precise_ip=1", |a| precise(a, 1)),
    ("precise_ip=2", |a| precise(a, 2)),
    ("precise_ip=3", |a| precise(a, 3)),
    ("precise_ip=1, not sampling", |a| a.set_precise_ip(1)),
    ("branch stack", |a| branch_stack(a, PERF_SAMPLE_BRANCH_ANY)),
    ("branch stack, user", |a| {
        branch_stack(a, PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER)
    }),
    ("branch call stack", |a| {
        branch_stack(a, PERF_SAMPLE_BRANCH_CALL_STACK)
    }),
    ("branch stack of nothing", |a| branch_stack(a, 0)),
    ("sample ADDR", |a| sample(a, PERF_SAMPLE_ADDR)),
    ("sample PHYS_ADDR", |a| sample(a, PERF_SAMPLE_PHYS_ADDR)),
    ("sample WEIGHT", |a| sample(a, PERF_SAMPLE_WEIGHT)),
    ("sample DATA_SRC", |a| sample(a, PERF_SAMPLE_DATA_SRC)),
    ("sample TRANSACTION", |a| sample(a, PERF_SAMPLE_TRANSACTION)),
    ("sample RAW", |a| sample(a, PERF_SAMPLE_RAW)),
    ("sample CALLCHAIN", |a| sample(a, PERF_SAMPLE_CALLCHAIN)),
    ("sample REGS_USER", |a| {
        sample(a, PERF_SAMPLE_REGS_USER);
        a.sample_regs_user = 0xff;
    }),
    ("sample REGS_INTR", |a| {
        sample(a, PERF_SAMPLE_REGS_INTR);
        a.sample_regs_intr = 0xff;
    }),
    ("sample STACK_USER", |a| {
        sample(a, PERF_SAMPLE_STACK_USER);
        a.sample_stack_user = 1024;
    }),
    ("unknown sample type", |a| {
        sampling(a, 100_000);
        a.sample_type |= 1 << 40;
    }),
    ("unknown read_format", |a| a.read_format = 1 << 40),
    ("exclude_user", |a| a.set_exclude_user(1)),
    ("exclude_kernel", |a| a.set_exclude_kernel(1)),
    ("exclude_hv", |a| a.set_exclude_hv(1)),
    ("exclude_idle", |a| a.set_exclude_idle(1)),
    ("exclude_host", |a| a.set_exclude_host(1)),
    ("exclude_guest", |a| a.set_exclude_guest(1)),
    ("exclude everything", |a| {
        a.set_exclude_user(1);
        a.set_exclude_kernel(1);
        a.set_exclude_hv(1);
        a.set_exclude_idle(1);
    }),
    ("pinned", |a| a.set_pinned(1)),
    ("exclusive", |a| a.set_exclusive(1)),
    ("inherit", |a| a.set_inherit(1)),
    ("aux_watermark", |a| a.aux_watermark = 4096),
    ("sigtrap", |a| a.set_sigtrap(1)),
    ("sigtrap, remove_on_exec", |a| {
        a.set_sigtrap(1);
        a.set_remove_on_exec(1);
    }),
    ("write_backward", |a| {
        sampling(a, 100_000);
        a.set_write_backward(1);
    }),
    ("attr.size too small", |a| a.size = 8),
    ("event 0", |a| a.config = 0),
    ("unknown event", |a| a.config = UNKNOWN_EVENT),
    ("ref-cycles", |a| a.config = REF_CYCLES),
    ("ref-cycles, sampling", |a| {
        a.config = REF_CYCLES;
        sampling(a, 100_000);
    }),
    ("ref-cycles, cmask=1", |a| a.config = REF_CYCLES | (1 << 24)),
    ("edge", |a| a.config |= 1 << 18),
    ("pc", |a| a.config |= 1 << 19),
    ("inv", |a| a.config |= 1 << 23),
    ("cmask=255", |a| a.config |= 255 << 24),
];

/// Attributes that need a capability which no PMU has here. Both drivers refuse
/// them, with EOPNOTSUPP or EINVAL: perf core checks rust_pmu's capability flags,
/// but the in-tree driver sets the flags and checks the hardware itself.
const NEVER: &[(&str, Change)] = &[
    ("sample REGS_USER, XMM", |a| {
        sample(a, PERF_SAMPLE_REGS_USER);
        a.sample_regs_user = 1 << 32;
    }),
    ("sample REGS_INTR, XMM", |a| {
        sample(a, PERF_SAMPLE_REGS_INTR);
        a.sample_regs_intr = 1 << 32;
    }),
    ("aux_output", |a| a.set_aux_output(1)),
];

fn sampling(attr: &mut perf_event_attr, period: u64) {
    attr.__bindgen_anon_1.sample_period = period;
    attr.sample_type |= u64::from(PERF_SAMPLE_IP);
}

fn sample(attr: &mut perf_event_attr, sample_type: u32) {
    sampling(attr, 100_000);
    attr.sample_type |= u64::from(sample_type);
}

fn precise(attr: &mut perf_event_attr, precise_ip: u64) {
    sampling(attr, 100_000);
    attr.set_precise_ip(precise_ip);
}

fn branch_stack(attr: &mut perf_event_attr, branch_sample_type: u32) {
    sample(attr, PERF_SAMPLE_BRANCH_STACK);
    attr.branch_sample_type = branch_sample_type.into();
}

/// Opens an event for instructions, with a change to its attributes.
fn open(pmu: &Pmu, change: impl FnOnce(&mut perf_event_attr)) -> io::Result<Counter> {
    let mut builder = pmu.event(Event::Instructions);
    builder.exclude_kernel(false);
    change(builder.attrs_mut());
    builder.build()
}

/// The errno of a result, or 0 for success.
fn errno<T>(result: io::Result<T>) -> i32 {
    match result {
        Ok(_) => 0,
        Err(e) => match e.raw_os_error() {
            Some(errno) => errno,
            // perf-event2 replaces E2BIG by an error kind of its own.
            None if e.kind() == io::ErrorKind::Unsupported => libc::E2BIG,
            None => -1,
        },
    }
}

fn name(errno: i32) -> String {
    match errno {
        0 => "success".into(),
        errno => format!("{:?}", nix::errno::Errno::from_raw(errno)),
    }
}

/// Collects all differences, so that one run reports all of them.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare(&mut self, what: &str, ours: i32, theirs: i32) {
        if ours != theirs {
            self.0.push(format!(
                "{what} returned {}, expected {}",
                name(ours),
                name(theirs)
            ));
        }
    }

    fn check(self) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        bail!("{} differ\n{}", self.0.len(), self.0.join("\n"))
    }
}

/// Attributes that a user may set have the in-tree driver's errno.
fn as_in_tree(ctx: &Ctx) -> Result<()> {
    let (pmu, in_tree) = (ctx.pmu()?, ctx.in_tree()?);
    let mut differences = Differences::default();
    for (what, change) in ATTRS {
        // One after the other: both drivers cannot hold the counters at once.
        let theirs = errno(open(&in_tree, change));
        let theirs = stricter_errno(what).unwrap_or(theirs);
        let ours = errno(open(&pmu, change));
        differences.compare(what, ours, theirs);
    }
    differences.check()
}

/// The errno that rust_pmu must return where the in-tree driver opens an event
/// that this CPU does not support.
fn stricter_errno(what: &str) -> Option<i32> {
    let cpu = CpuPmu::probe();
    match what {
        // The in-tree driver does not check for a branch stack on these CPUs.
        "branch stack" | "branch stack, user" | "branch call stack"
            if cpu.version == 1 || cpu.vendor == Vendor::Zhaoxin =>
        {
            Some(libc::EOPNOTSUPP)
        }
        // On a general counter this code counts nothing.
        "ref-cycles" | "ref-cycles, sampling" if cpu.vendor == Vendor::Intel && cpu.fixed < 3 => {
            Some(libc::EINVAL)
        }
        // Nor does it with a modifier, which no fixed counter has.
        "ref-cycles, cmask=1" if cpu.vendor == Vendor::Intel => Some(libc::EINVAL),
        _ => None,
    }
}

/// What neither driver supports is EOPNOTSUPP, or EINVAL, on both.
fn unsupported(ctx: &Ctx) -> Result<()> {
    let mut differences = Differences::default();
    for pmu in [ctx.pmu()?, ctx.in_tree()?] {
        for (what, change) in NEVER {
            let errno = errno(open(&pmu, change));
            if errno != libc::EINVAL {
                differences.compare(&format!("{}: {what}", pmu.name), errno, libc::EOPNOTSUPP);
            }
        }
    }
    differences.check()
}

/// Each reserved bit is EINVAL. The in-tree driver ignores them, so that a typing
/// error counts another event.
fn reserved_bits(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let mut differences = Differences::default();
    let fields = pmu.fields()?;
    for bit in (32..64).filter(|bit| !fields.contains(bit)) {
        let ours = errno(open(&pmu, |a| a.config |= 1 << bit));
        differences.compare(&format!("config bit {bit}"), ours, libc::EINVAL);
    }
    for bit in [0, 1, 31, 63] {
        let ours = errno(open(&pmu, |a| a.__bindgen_anon_3.config1 = 1 << bit));
        differences.compare(&format!("config1 bit {bit}"), ours, libc::EINVAL);
        // With a code, also those that select an event by name.
        let ours = errno(open(&pmu, |a| a.__bindgen_anon_4.config2 = 1 << bit));
        differences.compare(&format!("config2 bit {bit}"), ours, libc::EINVAL);
        let ours = errno(open(&pmu, |a| a.config3 = 1 << bit));
        differences.compare(&format!("config3 bit {bit}"), ours, libc::EINVAL);
    }
    differences.check()
}

/// Raw event codes are often published as whole EVENTSEL values. The driver
/// ignores the bits that other attributes determine.
fn whole_eventsel(ctx: &Ctx) -> Result<()> {
    const USR: u64 = 1 << 16;
    const OS: u64 = 1 << 17;
    const INT: u64 = 1 << 20;
    const EN: u64 = 1 << 22;
    let pmu = ctx.pmu()?;
    let workload = workload::branches(10_000);
    for bits in [
        USR,
        OS,
        INT,
        EN,
        USR | OS | EN,
        USR | INT | EN,
        USR | OS | INT | EN,
    ] {
        let mut counter = pmu.raw(pmu.config(Event::Branches) | bits).build()?;
        workload.measure(&counter)?;
        let what = format!("EVENTSEL bits {bits:#x}");
        expect(&what, "branches", counter.read()?, workload.branches())?;
    }
    Ok(())
}

/// An event that only fixed counter 3 counts is EINVAL without that counter. The
/// in-tree driver opens it on a general counter, where it counts nothing.
fn absent_fixed_counter(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let mut differences = Differences::default();
    differences.compare(
        "slots",
        errno(open(&pmu, |a| a.config = SLOTS)),
        libc::EINVAL,
    );
    differences.check()
}

/// PERF_EVENT_IOC_SET_FILTER is only for tracepoints and for PMUs with address
/// filters.
fn address_filter(ctx: &Ctx) -> Result<()> {
    use std::os::fd::AsRawFd;
    let set_filter = |pmu: &Pmu| -> Result<i32> {
        let counter = open(pmu, |_| {})?;
        let mut filter = *b"filter 0x1000/0x1000\0";
        // SAFETY: `filter` is a NUL-terminated string on this stack frame. The
        // kernel only reads it, and only during the call.
        let status = unsafe {
            perf_event_open_sys::ioctls::SET_FILTER(counter.as_raw_fd(), filter.as_mut_ptr().cast())
        };
        Ok(if status == 0 {
            0
        } else {
            errno::<()>(Err(io::Error::last_os_error()))
        })
    };
    let theirs = set_filter(&ctx.in_tree()?)?;
    let ours = set_filter(&ctx.pmu()?)?;
    let mut differences = Differences::default();
    differences.compare("address filter", ours, theirs);
    differences.check()
}

/// The PMU must not take events of other types: PERF_TYPE_RAW and PERF_TYPE_HARDWARE go to the
/// in-tree driver, or to the module if that is in its place. Without either they are ENOENT, as an
/// unknown type is.
fn other_types(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let mut differences = Differences::default();
    let unknown = errno(Builder::new(Raw::new(0xc0)).build_of_type(pmu.type_ + 1_000));
    differences.compare("an unknown type", unknown, libc::ENOENT);
    let due = match Pmu::find(IN_TREE) {
        Ok(_) => 0,
        Err(_) => libc::ENOENT,
    };
    for type_ in [PERF_TYPE_RAW, PERF_TYPE_HARDWARE] {
        let ours = errno(Builder::new(Raw::new(0)).build_of_type(type_));
        differences.compare(&format!("type {type_}"), ours, due);
    }
    differences.check()
}

trait OfType {
    fn build_of_type(&mut self, type_: u32) -> io::Result<Counter>;
}

impl OfType for Builder<'_> {
    fn build_of_type(&mut self, type_: u32) -> io::Result<Counter> {
        self.attrs_mut().type_ = type_;
        self.build()
    }
}

/// perf's hardware events, by name, have the in-tree driver's errno. What that refuses has no name.
/// With the PMU's type in the upper half of `config` all of them are ENOENT.
fn generic_events(ctx: &Ctx) -> Result<()> {
    let (pmu, in_tree) = (ctx.pmu()?, ctx.in_tree()?);
    let mut differences = Differences::default();
    for config in 0..12 {
        let try_on = |pmu: &Pmu| -> Result<i32> {
            Ok(errno(pmu.generic(PERF_TYPE_HARDWARE, config)?.build()))
        };
        let (theirs, ours) = (try_on(&in_tree)?, try_on(&pmu)?);
        let theirs = match config == u64::from(PERF_COUNT_HW_REF_CPU_CYCLES) {
            true => stricter_errno("ref-cycles").unwrap_or(theirs),
            false => theirs,
        };
        if !pmu.has_names_only() {
            differences.compare(&format!("hardware event {config}"), ours, theirs);
            continue;
        }
        let due = if theirs == 0 { 0 } else { libc::ENOENT };
        differences.compare(&format!("hardware event {config}"), ours, due);
        let numbered = errno(pmu.generic_by_number(PERF_TYPE_HARDWARE, config).build());
        let what = format!("hardware event {config} with the type of the PMU");
        differences.compare(&what, numbered, libc::ENOENT);
    }
    differences.check()
}
