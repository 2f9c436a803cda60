// SPDX-License-Identifier: GPL-2.0
//! Events of dynamic probes, held against the in-tree PMUs `kprobe` and `uprobe`.

mod attrs;
mod cost;
mod errors;
pub(super) mod leaks;
mod programs;
mod records;

use attrs::{changed_attrs, random_attrs, rights};
use cost::cost_of_a_hit;
use errors::{
    descriptors as bad_descriptors, paths as bad_paths, reserved_bits, symbols as bad_symbols,
    unprivileged,
};
use leaks::opened_and_closed;
use programs::{
    inherited, inherited_by_threads, of_all_processes, of_one_process, reference_counter,
    removed_on_exec, typed, typed_names, unlinked, unmounted,
};
use records::{
    instructions_at_each_hit, of_programs as records_of_programs,
    of_the_kernel as records_of_the_kernel, periods,
};

use std::arch::global_asm;
use std::ffi::{CStr, CString};
use std::fs;
use std::os::fd::AsRawFd;
use std::ptr;

use anyhow::{ensure, Context, Result};
use perf_event::Counter;

use super::expect;
use crate::ctx::{Ctx, Test};
use crate::pmu::{BuilderExt, Mode, Pmu};
use crate::probe::{
    c_path, kernel_address, kernel_probes, place_of, Kind, Probe, Side, RUST_TRACE, SIDES,
};
use crate::tests;

pub const TESTS: &[Test] = tests![
    all need [Root, Module];
    format,
    by_name,
    functions_of_the_kernel,
    several_probes_of_a_function,
    code_that_counts: [Guest("probes the code that handles probes")],
    functions_of_this_program,
    functions_that_call_themselves,
    text_is_restored,
    of_one_cpu,
    bad_symbols: [NoChecks],
    bad_paths,
    bad_descriptors,
    reserved_bits,
    unprivileged,
    changed_attrs,
    random_attrs,
    rights,
    records_of_programs,
    records_of_the_kernel,
    periods,
    instructions_at_each_hit: [ExactCounts],
    of_one_process,
    of_all_processes,
    removed_on_exec,
    inherited,
    inherited_by_threads,
    unlinked,
    unmounted,
    reference_counter,
    typed: [PerfTool, Guest("runs a tool of the checkout")],
    typed_names: [Guest("runs a tool of the checkout")],
    opened_and_closed: [Guest("measures the memory of the whole kernel")],
];

/// What needs exact times.
pub const COST: &[Test] = tests![
    all need [Root, Module, Icount];
    cost_of_a_hit: [NoChecks],
];

global_asm!(include_str!("../probed.s"));

extern "C" {
    fn guest_probed(a: u64, b: u64) -> u64;
    fn guest_recursive(depth: u64) -> u64;
    static guest_probed_second: u8;
}

/// A function of the kernel that [`system_calls`] calls once a round.
const SYSTEM_CALL: &CStr = c"__x64_sys_getppid";
/// Where its second instruction begins: behind ENDBR64, or the NOP in its place, and the
/// call of ftrace, or the NOP in its place.
const BEHIND_FTRACE: u64 = 4 + 5;

/// Calls [`SYSTEM_CALL`].
fn system_calls(rounds: u64) {
    for _ in 0..rounds {
        // SAFETY: the system call takes no argument and returns a number.
        unsafe { libc::syscall(libc::SYS_getppid) };
    }
}

/// Calls `guest_probed`.
fn own_calls(rounds: u64) -> u64 {
    // SAFETY: the function adds two numbers.
    (0..rounds).map(|i| unsafe { guest_probed(i, 1) }).sum()
}

/// The place of `guest_probed`, or of an address behind it.
fn own_place(code: u64) -> Result<(CString, u64)> {
    let (path, offset) = place_of(code)?;
    Ok((c_path(&path)?, offset))
}

fn probed() -> u64 {
    guest_probed as usize as u64
}

/// Opens an event of the calling thread on both sides.
fn open_both(probe: &Probe) -> Result<[Counter; 2]> {
    let open = |side| -> Result<Counter> {
        let counter = probe.event(side)?.build();
        counter.with_context(|| format!("open {probe:x?} on {side:?}"))
    };
    Ok([open(Side::InTree)?, open(Side::Ours)?])
}

/// Counts on both sides while `load` runs.
fn count_both(probe: &Probe, load: impl FnOnce()) -> Result<[u64; 2]> {
    let mut counters = open_both(probe)?;
    for counter in &mut counters {
        counter.enable()?;
    }
    load();
    for counter in &mut counters {
        counter.disable()?;
    }
    let [in_tree, ours] = &mut counters;
    Ok([in_tree.read()?, ours.read()?])
}

/// Expects a count on both sides.
fn expect_both(what: &str, counts: [u64; 2], want: u64) -> Result<()> {
    for (side, count) in SIDES.iter().zip(counts) {
        expect(&format!("{what}, {side:?}"), "hits", count, want)?;
    }
    Ok(())
}

/// Each field that a probe has is in `format/`.
fn format(_: &Ctx) -> Result<()> {
    let dir = Pmu::find(RUST_TRACE)?.dir().join("format");
    for (field, bits) in [
        ("kind", "config:32-33"),
        ("ret", "config:34"),
        ("args", "config:35-37"),
        ("ref_ctr_offset", "config:0-31"),
        ("symbol", "config1:0-63"),
        ("path", "config1:0-63"),
        ("fd", "config1:0-63"),
        ("address", "config2:0-63"),
        ("offset", "config2:0-63"),
        ("kprobe", "config:41"),
        ("kretprobe", "config:42"),
        ("uprobe", "config:43"),
        ("uretprobe", "config:44"),
    ] {
        let text = fs::read_to_string(dir.join(field)).with_context(|| format!("no {field}"))?;
        ensure!(text.trim_end() == bits, "format/{field}: {text}");
    }
    Ok(())
}

/// A name in `format/` is in the place of `kind` and `ret`, as perf needs it for
/// `rust_trace/kprobe,address=0x…/`. With one of these fields, another name or no place it is `EINVAL`.
fn by_name(_: &Ctx) -> Result<()> {
    let pmu = Pmu::find(RUST_TRACE)?;
    let address = kernel_address(SYSTEM_CALL.to_str()?)?;
    let (path, offset) = place_of(probed())?;
    let program = fs::File::open(path)?;
    let fd = program.as_raw_fd() as u64;
    let open = |terms: &str, config1, config2| -> Result<_> {
        let mut builder = pmu.raw(pmu.encode(terms)?);
        builder.filter(Mode::Both);
        let attrs = builder.attrs_mut();
        attrs.__bindgen_anon_3.config1 = config1;
        attrs.__bindgen_anon_4.config2 = config2;
        Ok(builder.build())
    };
    for (terms, config1, config2) in [
        ("kprobe", 0, address),
        ("kprobe,args=0x2", 0, address),
        ("kretprobe", 0, address),
        ("uprobe", fd, offset),
        ("uprobe,args=0x2", fd, offset),
        ("uretprobe", fd, offset),
    ] {
        let mut counter = open(terms, config1, config2)?.context(terms)?;
        counter.enable()?;
        system_calls(123);
        own_calls(123);
        counter.disable()?;
        expect(terms, "hits", counter.read()?, 123)?;
    }
    for (terms, config1, config2) in [
        ("kprobe", 0, 0),
        ("kretprobe", 0, 0),
        ("kprobe,kind=0x1", 0, address),
        ("kprobe,kretprobe", 0, address),
        ("kprobe,ret=0x1", 0, address),
        ("kprobe,point=0x1", 0, address),
        ("kprobe,page-faults", 0, address),
        ("kretprobe,args=0x1", 0, address),
        ("uretprobe,args=0x1", fd, offset),
    ] {
        let error = open(terms, config1, config2)?.err();
        let error = error.with_context(|| format!("{terms} opens"))?;
        ensure!(
            error.raw_os_error() == Some(libc::EINVAL),
            "{terms}: {error}"
        );
    }
    Ok(())
}

/// Probes of a kernel function by name and by address count each call, return and place within, as
/// in-tree.
fn functions_of_the_kernel(_: &Ctx) -> Result<()> {
    let address = kernel_address(SYSTEM_CALL.to_str()?)?;
    let symbol = Probe::symbol(SYSTEM_CALL, 0);
    // An empty name is none.
    let unnamed = Probe {
        config2: address,
        ..Probe::symbol(c"", 0)
    };
    for (what, probe) in [
        ("entry", symbol),
        ("return", symbol.of_return()),
        ("a place within", Probe::symbol(SYSTEM_CALL, BEHIND_FTRACE)),
        ("address", Probe::address(address)),
        (
            "return from the address",
            Probe::address(address).of_return(),
        ),
        ("address within", Probe::address(address + BEHIND_FTRACE)),
        ("address without a name", unnamed),
    ] {
        let counts = count_both(&probe, || system_calls(1_234)).context(what)?;
        expect_both(what, counts, 1_234)?;
    }
    Ok(())
}

/// Several events of one place count each hit, also if some are closed meanwhile.
fn several_probes_of_a_function(_: &Ctx) -> Result<()> {
    let symbol = Probe::symbol(SYSTEM_CALL, 0);
    let open =
        |probe: &Probe| -> Result<Counter> { Ok(probe.event(Side::Ours)?.enabled(true).build()?) };
    let mut counters = Vec::new();
    for _ in 0..5 {
        counters.push(open(&symbol)?);
        counters.push(open(&symbol.of_return())?);
    }
    let start = counters
        .iter_mut()
        .map(|counter| counter.read())
        .collect::<Result<Vec<_>, _>>()?;
    system_calls(100);
    // Every other one of either kind.
    let mut i = 0;
    counters.retain(|_| {
        i += 1;
        i % 4 < 2
    });
    system_calls(100);
    let start: Vec<_> = (1..=10)
        .filter(|i| i % 4 < 2)
        .map(|i| start[i - 1])
        .collect();
    for (counter, start) in counters.iter_mut().zip(start) {
        expect("one of several", "hits", counter.read()? - start, 200)?;
    }
    Ok(())
}

/// A probe in the code that counts hits must neither hang nor crash. The kernel misses
/// hits that the handling of another hit causes.
fn code_that_counts(_: &Ctx) -> Result<()> {
    for function in [c"perf_tp_event", c"perf_swevent_get_recursion_context"] {
        let mut counted = Probe::symbol(SYSTEM_CALL, 0).event(Side::Ours)?.build()?;
        let inner = Probe::symbol(function, 0);
        let mut ours = inner.event(Side::Ours)?.build()?;
        counted.enable()?;
        ours.enable()?;
        system_calls(500);
        ours.disable()?;
        counted.disable()?;
        expect("the function that is called", "hits", counted.read()?, 500)?;
        expect("the function that counts", "hits", ours.read()?, 0)?;
    }
    Ok(())
}

/// Probes of a program by path and by file descriptor count each call, return and place within, as
/// in-tree.
fn functions_of_this_program(_: &Ctx) -> Result<()> {
    let (path, offset) = own_place(probed())?;
    // The address of a symbol, nothing is read.
    let second = (&raw const guest_probed_second) as u64;
    let (_, second) = own_place(second)?;
    for (what, probe) in [
        ("entry", Probe::path(&path, offset)),
        ("return", Probe::path(&path, offset).of_return()),
        ("a place within", Probe::path(&path, second)),
    ] {
        let counts = count_both(&probe, || {
            own_calls(1_234);
        });
        expect_both(what, counts.context(what)?, 1_234)?;
    }

    let file = fs::File::open(path.to_str()?)?;
    let fd = file.as_raw_fd() as u64;
    for of_return in [false, true] {
        let probe = Probe {
            of_return,
            ..Probe::new(Kind::Descriptor, fd, offset)
        };
        let mut counter = probe.event(Side::Ours)?.build().context("by descriptor")?;
        counter.enable()?;
        own_calls(1_234);
        counter.disable()?;
        expect("by descriptor", "hits", counter.read()?, 1_234)?;
    }
    Ok(())
}

/// The kernel keeps at most 64 returns of a task.
fn functions_that_call_themselves(_: &Ctx) -> Result<()> {
    let (path, offset) = own_place(guest_recursive as usize as u64)?;
    // SAFETY: the function needs 16 bytes of stack a call.
    let load = || unsafe {
        for _ in 0..10 {
            assert_eq!(guest_recursive(40), 40);
        }
    };
    for (what, probe) in [
        ("entry", Probe::path(&path, offset)),
        ("return", Probe::path(&path, offset).of_return()),
    ] {
        expect_both(what, count_both(&probe, load)?, 10 * 41)?;
    }
    Ok(())
}

/// The first byte of `guest_probed` as it is in memory now.
fn first_byte() -> u8 {
    // SAFETY: the program's code can be read.
    unsafe { ptr::read_volatile(probed() as *const u8) }
}

/// An open event puts a breakpoint into the code, and closing it takes that out.
fn text_is_restored(_: &Ctx) -> Result<()> {
    const INT3: u8 = 0xcc;
    let (path, offset) = own_place(probed())?;
    let before = first_byte();
    let kernel = kernel_probes()?;
    for probe in [
        Probe::path(&path, offset),
        Probe::path(&path, offset).of_return(),
    ] {
        let counter = probe.event(Side::Ours)?.build()?;
        ensure!(first_byte() == INT3, "no breakpoint: {:#x}", first_byte());
        let other = probe.event(Side::Ours)?.build()?;
        drop(counter);
        ensure!(first_byte() == INT3, "the other's: {:#x}", first_byte());
        drop(other);
        ensure!(first_byte() == before, "left: {:#x}", first_byte());
    }
    for probe in [
        Probe::symbol(SYSTEM_CALL, 0),
        Probe::symbol(SYSTEM_CALL, 0).of_return(),
    ] {
        let counter = probe.event(Side::Ours)?.build()?;
        let open = kernel_probes()?.len();
        expect(
            "an open event",
            "probes",
            open as u64,
            kernel.len() as u64 + 1,
        )?;
        drop(counter);
        ensure!(kernel_probes()? == kernel, "{:?}", kernel_probes()?);
    }
    Ok(())
}

/// An event of a CPU counts what all tasks do there, and nothing of other CPUs.
fn of_one_cpu(_: &Ctx) -> Result<()> {
    let affinity = crate::setting::Affinity::save()?;
    let (path, offset) = own_place(probed())?;
    let cpus = super::cpus()?;
    for here in 0..cpus {
        affinity.pin(here)?;
        for (what, probe) in [
            ("kernel", Probe::symbol(SYSTEM_CALL, 0)),
            ("program", Probe::path(&path, offset)),
        ] {
            let mut counters = (0..cpus)
                .map(|cpu| {
                    probe
                        .event(Side::Ours)?
                        .any_pid()
                        .one_cpu(cpu)
                        .build()
                        .context(what)
                })
                .collect::<Result<Vec<_>>>()?;
            for counter in &mut counters {
                counter.enable()?;
            }
            std::thread::scope(|scope| {
                // The thread inherits the affinity.
                scope.spawn(|| {
                    system_calls(100);
                    own_calls(100);
                });
            });
            for (cpu, counter) in counters.iter_mut().enumerate() {
                counter.disable()?;
                let want = if cpu == here { 100 } else { 0 };
                let what = format!("{what}, on CPU {here}, of CPU {cpu}");
                expect(&what, "hits", counter.read()?, want)?;
            }
        }
    }
    Ok(())
}
