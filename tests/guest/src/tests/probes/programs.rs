// SPDX-License-Identifier: GPL-2.0
//! Probes in other programs, and what becomes of their files.

use std::ffi::{c_void, CString};
use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::ptr::NonNull;
use std::thread;

use anyhow::{bail, ensure, Context, Result};
use nix::errno::Errno;
use nix::mount::{mount, umount, MsFlags};
use nix::sys::mman::{mmap, munmap, MapFlags, ProtFlags};
use perf_event::{Builder, Counter};

use super::{own_calls, own_place, probed, system_calls, SYSTEM_CALL};
use crate::ctx::Ctx;
use crate::probe::{c_path, Kind, Probe, Side, SIDES};
use crate::program::{Installed, Stopped, PROBED, PROBED_CALLS, PROBED_FORKING};
use crate::setting::pin;
use crate::tests::{cpus, expect};
use crate::tool::{check, parse_rows};
use crate::trace;
use crate::waiting;

/// What comes before the function in the program's file.
const MARKER: &[u8] = b"probed: ";

/// An installed [`PROBED`], and where its function is.
struct Target {
    program: Installed,
    path: CString,
    offset: u64,
}

impl Target {
    fn new() -> Result<Self> {
        let program = PROBED.install()?;
        Ok(Self {
            path: c_path(program.path())?,
            offset: program.offset_behind(MARKER)?,
            program,
        })
    }

    /// The probes of the function's entry and return.
    fn probes(&self) -> [Probe; 2] {
        let entry = Probe::path(&self.path, self.offset);
        [entry, entry.of_return()]
    }
}

/// Counts an event of a process until it ends.
fn count(mut builder: Builder<'_>, process: Stopped) -> Result<u64> {
    let pid = process.pid().as_raw();
    let mut counter = builder.observe_pid(pid).build().context("open")?;
    process.finish()?;
    Ok(counter.read()?)
}

/// An event of a process counts that process only, whenever it executes the program.
pub(super) fn of_one_process(_: &Ctx) -> Result<()> {
    let target = Target::new()?;
    for probe in target.probes() {
        for side in SIDES {
            for on_exec in [false, true] {
                let other = target.program.stopped()?;
                let mut builder = probe.event(side)?;
                builder.enabled(!on_exec).enable_on_exec(on_exec);
                let pid = target.program.stopped()?;
                let result = thread::scope(|scope| {
                    let other = scope.spawn(|| other.finish());
                    let count = count(builder, pid);
                    other.join().expect("no panic")?;
                    count
                })?;
                let what = format!("{probe:x?}, {side:?}, on exec: {on_exec}");
                expect(&what, "hits", result, PROBED_CALLS)?;
            }
        }
    }
    Ok(())
}

/// What `tools/trace-event` prints, and what it says besides.
fn trace_event(names: &[&str]) -> Result<(String, String)> {
    const TOOL: &str = "/mnt/checkout/tools/trace-event";
    let mut tool = Command::new(TOOL);
    let output = waiting::output(tool.args(names)).context(TOOL)?;
    let output = check(&tool, output)?;
    let events = String::from_utf8(output.stdout)?;
    Ok((events.trim_end().into(), String::from_utf8(output.stderr)?))
}

/// `tools/trace-event` knows the names in `events/`, and warns of those that are none.
pub(super) fn typed_names(_: &Ctx) -> Result<()> {
    const NAMES: [&str; 4] = [
        "sched_switch",
        "context-switches",
        "page-faults",
        "cpu-migrations",
    ];
    const FILES: [&str; 4] = [
        "sched_switch",
        "sw-context-switches",
        "sw-page-faults",
        "sw-cpu-migrations",
    ];
    let mut expected = Vec::new();
    for name in FILES {
        let file = Path::new(trace::RUST_TRACE).join("events").join(name);
        expected.push(format!("rust_trace/{}/", fs::read_to_string(file)?.trim()));
    }
    let expected = expected.join(",");
    let (events, said) = trace_event(&NAMES)?;
    ensure!(events == expected, "{events}, expected {expected}");
    ensure!(said.is_empty(), "{said}");
    let (_, said) = trace_event(&["sched:no_such_point"])?;
    ensure!(said.contains("no trace point no_such_point"), "{said}");
    Ok(())
}

/// What `tools/trace-event` prints is what perf understands.
pub(super) fn typed(_: &Ctx) -> Result<()> {
    let target = Target::new()?;
    let path = target.program.path().display().to_string();
    for (place, hits) in [
        (format!("uprobe:{path}:probed"), PROBED_CALLS),
        (format!("uretprobe:{path}:probed"), PROBED_CALLS),
        (format!("uprobe:{path}:probed+1"), PROBED_CALLS),
        (format!("uprobe:{path}:{:#x}", target.offset), PROBED_CALLS),
        ("kprobe:__x64_sys_exit".into(), 1),
        ("kretprobe:__x64_sys_execve".into(), 1),
    ] {
        let (event, _) = trace_event(&[&place])?;
        let mut perf = Command::new("sh");
        let command = "exec perf stat -x, -e \"$0\" \"$1\" 9< \"$1\"";
        perf.args(["-c", command, &event, &path]);
        let output = waiting::output(&mut perf).context("perf")?;
        let rows = parse_rows(&check(&perf, output)?)?;
        let [row] = &rows[..] else {
            bail!("{place}: {rows:?}");
        };
        expect(&place, "hits", row.value as u64, hits)?;
    }
    Ok(())
}

/// Events of all CPUs count all processes.
///
/// Each event has a probe of its own. The kernel calls the probes of a place one after the
/// other, and may move the process to another CPU between two of them. Then a hit counts
/// twice or not at all, on both PMUs. So each process stays on one CPU.
pub(super) fn of_all_processes(_: &Ctx) -> Result<()> {
    let target = Target::new()?;
    for probe in target.probes() {
        for side in SIDES {
            let processes = [target.program.stopped()?, target.program.stopped()?];
            let open = |cpu| -> Result<Counter> {
                let mut builder = probe.event(side)?;
                Ok(builder.any_pid().one_cpu(cpu).enabled(true).build()?)
            };
            let mut counters = (0..cpus()?).map(open).collect::<Result<Vec<_>>>()?;
            for (process, cpu) in processes.into_iter().zip((0..cpus()?).cycle()) {
                pin(process.pid(), cpu)?;
                process.finish()?;
            }
            let mut sum = 0;
            for counter in &mut counters {
                sum += counter.read()?;
            }
            let what = format!("{probe:x?}, {side:?}");
            expect(&what, "hits", sum, 2 * PROBED_CALLS)?;
        }
    }
    Ok(())
}

/// With `remove_on_exec` a probe's event does not count after its task has called execve().
pub(super) fn removed_on_exec(_: &Ctx) -> Result<()> {
    let target = Target::new()?;
    for probe in target.probes() {
        for side in SIDES {
            let mut builder = probe.event(side)?;
            builder.enabled(true).remove_on_exec(true);
            let hits = count(builder, target.program.stopped()?)?;
            expect(&format!("{probe:x?}, {side:?}"), "hits", hits, 0)?;
        }
    }
    Ok(())
}

/// A child that inherits the event counts as well. The in-tree PMU reads the path once
/// more at the fork, in the memory of the program that forks: that fork fails.
pub(super) fn inherited(_: &Ctx) -> Result<()> {
    let (parent, child) = PROBED_FORKING;
    let target = Target::new()?;
    for probe in target.probes() {
        for (side, inherit, want) in [
            (Side::InTree, false, parent),
            (Side::Ours, false, parent),
            (Side::InTree, true, parent),
            (Side::Ours, true, parent + child),
        ] {
            let mut builder = probe.event(side)?;
            builder.enable_on_exec(true).inherit(inherit);
            let hits = count(builder, target.program.stopped_with("fork")?)?;
            let what = format!("{probe:x?}, {side:?}, inherit: {inherit}");
            expect(&what, "hits", hits, want)?;
        }
    }
    Ok(())
}

/// Threads inherit the events of kernel functions and of this program.
pub(super) fn inherited_by_threads(_: &Ctx) -> Result<()> {
    const THREADS: u64 = 8;
    let (path, offset) = own_place(probed())?;
    for probe in [Probe::symbol(SYSTEM_CALL, 0), Probe::path(&path, offset)] {
        for probe in [probe, probe.of_return()] {
            let mut sides = SIDES.to_vec();
            // perf swaps the events of threads. The in-tree PMU loses hits in programs then, as
            // it looks for the address space of the thread that the event was opened for, which
            // may have ended. It has also counted 799 of 800 returns in the kernel once.
            let in_tree_is_exact = matches!(probe.kind, Kind::Kernel) && !probe.of_return;
            sides.retain(|side| in_tree_is_exact || *side == Side::Ours);
            for side in sides {
                let mut counter = probe.event(side)?.inherit(true).build()?;
                counter.enable()?;
                thread::scope(|scope| {
                    for _ in 0..THREADS {
                        scope.spawn(|| {
                            system_calls(100);
                            own_calls(100);
                        });
                    }
                });
                counter.disable()?;
                let what = format!("{probe:x?}, {side:?}");
                expect(&what, "hits", counter.read()?, THREADS * 100)?;
            }
        }
    }
    Ok(())
}

const PAGE: usize = 4096;

/// A page of a file, mapped.
struct Mapped(NonNull<c_void>);

impl Mapped {
    fn new(file: &File, offset: u64, prot: ProtFlags) -> Result<Self> {
        let size = NonZeroUsize::new(PAGE).context("0")?;
        let private = MapFlags::MAP_PRIVATE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let page = unsafe { mmap(None, size, prot, private, file.as_fd(), offset as i64) }?;
        Ok(Self(page))
    }

    /// Calls the function at an offset, which returns its argument plus 1.
    fn call(&self, offset: u64, argument: u64) -> u64 {
        // SAFETY: the page is executable and has the function of `programs/probed.S` there, which
        // changes one register.
        unsafe {
            let code = self.0.byte_add(offset as usize).as_ptr();
            let function: extern "C" fn(u64) -> u64 = std::mem::transmute(code);
            function(argument)
        }
    }

    /// The two bytes at an offset.
    fn counter(&self, offset: usize) -> u16 {
        // SAFETY: the page can be read. The kernel may change it.
        unsafe { self.0.byte_add(offset).cast::<u16>().read_volatile() }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more.
        let _ = unsafe { munmap(self.0, PAGE) };
    }
}

/// The event stays with the file if that loses its name, be it mapped before or after.
pub(super) fn unlinked(_: &Ctx) -> Result<()> {
    for side in SIDES {
        let target = Target::new()?;
        let page = target.offset & !(PAGE as u64 - 1);
        let within = target.offset - page;
        for probe in target.probes() {
            let code = ProtFlags::PROT_READ | ProtFlags::PROT_EXEC;
            let path = target.program.path();
            let bytes = fs::read(path)?;
            let file = File::open(path)?;
            let before = Mapped::new(&file, page, code)?;
            let mut counter = probe.event(side)?.enabled(true).build()?;
            fs::remove_file(path)?;
            let after = Mapped::new(&file, page, code)?;
            for i in 0..100 {
                ensure!(before.call(within, i) == i + 1 && after.call(within, i) == i + 1);
            }
            let what = format!("{probe:x?}, {side:?}");
            expect(&what, "hits", counter.read()?, 200)?;
            fs::write(path, bytes)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}

/// A file system with a probed file cannot be unmounted until the event is closed.
pub(super) fn unmounted(_: &Ctx) -> Result<()> {
    let target = Target::new()?;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("program");
    for of_return in [false, true] {
        for side in SIDES {
            let none: Option<&str> = None;
            mount(none, dir.path(), Some("tmpfs"), MsFlags::empty(), none)?;
            fs::copy(target.program.path(), &path)?;
            let name = c_path(&path)?;
            let probe = Probe {
                of_return,
                ..Probe::path(&name, target.offset)
            };
            let counter = probe.event(side)?.build()?;
            let busy = umount(dir.path());
            drop(counter);
            let free = umount(dir.path());
            ensure!(busy == Err(Errno::EBUSY), "{side:?}, open: {busy:?}");
            ensure!(free == Ok(()), "{side:?}, closed: {free:?}");
        }
    }
    Ok(())
}

/// The counter in the program's data says how many probes there are.
pub(super) fn reference_counter(_: &Ctx) -> Result<()> {
    const COUNTER: usize = 8;
    let target = Target::new()?;
    let page = target.offset & !(PAGE as u64 - 1);
    let path = target.program.dir().join("with-counter");
    let mut bytes = fs::read(target.program.path())?;
    let data = bytes.len().next_multiple_of(PAGE);
    bytes.resize(data + PAGE, 0);
    fs::write(&path, bytes)?;
    let name = c_path(&path)?;
    let file = File::open(&path)?;
    let code = ProtFlags::PROT_READ | ProtFlags::PROT_EXEC;
    let _code = Mapped::new(&file, page, code)?;
    let writable = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let mapped = Mapped::new(&file, data as u64, writable)?;
    for side in SIDES {
        let probe = Probe {
            ref_ctr_offset: (data + COUNTER) as u64,
            ..Probe::path(&name, target.offset)
        };
        expect("before", "probes", mapped.counter(COUNTER).into(), 0)?;
        let counter = probe.event(side)?.build()?;
        let what = format!("{side:?}");
        expect(&what, "probes", mapped.counter(COUNTER).into(), 1)?;
        drop(counter);
        expect(&what, "probes", mapped.counter(COUNTER).into(), 0)?;
    }
    Ok(())
}
