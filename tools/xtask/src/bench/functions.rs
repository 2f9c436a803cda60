// SPDX-License-Identifier: GPL-2.0

//! Which functions run in an operation, with each driver.
//!
//! QEMU logs each instruction, and a system call of `guest-tests bench` begins and ends each window. Of
//! the windows of a driver the one with the fewest instructions counts, less the same of windows without
//! events.

use anyhow::{ensure, Context as _, Result};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use rustc_demangle::demangle;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::thread;
use suites::Suite;

use super::figures::Built;
use crate::context::Context;
use crate::guest::Options as GuestOptions;
use crate::kernel;
use crate::monitor::Monitor;
use crate::step::Step;

/// The function that begins and ends a window.
const MARK: &str = "__x64_sys_getppid";

/// The lowest address of the kernel.
const KERNEL: u64 = 1 << 63;

/// Prints the functions of an operation on each of these machines that has one CPU.
pub fn show(
    ctx: &Context,
    kernel: &kernel::Options,
    suites: &[&'static Suite],
    operation: &str,
) -> Result<()> {
    // With several CPUs the log does not show where the window of one of them ends.
    let suites: Vec<_> = suites.iter().filter(|suite| suite.cpus == 1).collect();
    ensure!(!suites.is_empty(), "only guests with one CPU are traced");
    let built = Built::prepare(ctx, kernel)?;
    for suite in suites {
        let step = Step::start(ctx, suite.name, &format!("trace of {}", suite.machine.name))?;
        let trace = Trace::of(ctx, &built, suite, operation)?;
        step.done();
        let table = table(&trace)?;
        println!("\n## {}: {operation}\n\n{table}", suite.machine.name);
    }
    Ok(())
}

/// Whose code a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    RustPerf,
    InTree,
    PerfCore,
    Kernel,
    User,
}

impl Owner {
    const ALL: [Self; 5] = [
        Self::RustPerf,
        Self::InTree,
        Self::PerfCore,
        Self::Kernel,
        Self::User,
    ];

    /// How the names of functions in arch/x86/events begin.
    const IN_TREE: &'static [&'static str] = &[
        "__amd_",
        "__intel_",
        "amd_get_event",
        "amd_pmu_",
        "amd_put_event",
        "collect_event",
        "handle_pmi_common",
        "intel_",
        "is_x86_event",
        "p4_",
        "perf_event_nmi_handler",
        "x86_",
        "zhaoxin_",
    ];

    /// How the names of functions in kernel/events begin.
    const PERF_CORE: &'static [&'static str] = &[
        "__event_",
        "__group_",
        "__perf_",
        "__pmu_",
        "__output_",
        "_perf_",
        "arch_perf_",
        "calc_timer_",
        "ctx_",
        "event_",
        "group_",
        "merge_sched_in",
        "perf_",
        "visit_groups_",
    ];

    /// The owner of a function of the kernel itself, by its name.
    fn of(name: &str) -> Self {
        let begins = |with: &[&str]| with.iter().any(|it| name.starts_with(it));
        if begins(Self::IN_TREE) {
            Self::InTree
        } else if begins(Self::PERF_CORE) {
            Self::PerfCore
        } else {
            Self::Kernel
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::RustPerf => "rust_perf",
            Self::InTree => "in-tree driver",
            Self::PerfCore => "perf core",
            Self::Kernel => "rest of the kernel",
            Self::User => "user mode",
        }
    }
}

/// A function.
type Function = (Owner, String);

/// The functions of the running kernel.
struct Symbols(BTreeMap<u64, Function>);

impl Symbols {
    /// Reads /proc/kallsyms.
    fn parse(text: &str) -> Self {
        let symbol = |line: &str| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
            let name = format!("{:#}", demangle(words.next()?));
            let owner = match words.next() {
                Some("[rust_perf]") => Owner::RustPerf,
                _ => Owner::of(&name),
            };
            is_code.then_some((address, (owner, name)))
        };
        Self(text.lines().filter_map(symbol).collect())
    }

    /// The function of an address.
    fn at(&self, address: u64) -> Function {
        let user = || (Owner::User, "(all)".to_owned());
        if address < KERNEL {
            return user();
        }
        let before = self.0.range(..=address).next_back();
        before.map_or_else(user, |(_, function)| function.clone())
    }

    /// Where a function begins.
    fn address(&self, name: &str) -> Option<u64> {
        let found = self.0.iter().find(|(_, (_, it))| it == name)?;
        Some(*found.0)
    }
}

/// How many instructions of each function.
type Counts = BTreeMap<Function, u64>;

fn total(counts: &Counts) -> u64 {
    counts.values().sum()
}

/// The windows of an operation.
struct Trace {
    /// How often a window does the operation.
    times: u64,
    windows: Vec<Counts>,
}

impl Trace {
    /// Runs the operation in a guest.
    fn of(ctx: &Context, built: &Built, suite: &'static Suite, operation: &str) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let files = Files(dir.path().to_owned());
        mkfifo(&files.trace(), Mode::S_IRUSR | Mode::S_IWUSR)?;
        // Without it the reader would wait for a QEMU that may never write.
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .open(files.trace())?;
        let options = GuestOptions {
            timeout: Some(1_800),
            share: Some(dir.path().to_owned()),
            qemu_args: format!(
                "-D {} -qmp unix:{},server=on,wait=off",
                files.trace().display(),
                files.monitor().display()
            ),
            ..GuestOptions::default()
        };
        let command = format!(
            "cat /proc/kallsyms >/mnt/share/kallsyms && \
             guest-tests bench --while-exists /mnt/share/on --traced {}",
            shell_words::quote(operation)
        );
        let (tell, times) = mpsc::channel();
        let tracer = Tracer::new(files.clone(), tell);
        let mut trace = BufReader::new(File::open(files.trace())?);
        let windows = thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let windows = windows(&mut trace, &files);
                // After an error as well: QEMU waits until its log is read.
                io::copy(&mut trace, &mut io::sink())?;
                windows
            });
            let end = built.run(ctx, suite, &command, &options, Box::new(tracer));
            drop(open);
            let windows = reader.join().expect("no panic");
            end.and(windows)
        })?;
        Ok(Self {
            times: times.try_recv().context("the guest printed nothing")?,
            windows,
        })
    }

    /// The cheapest windows of our driver, of the in-tree one and without events, which come in this order.
    fn cheapest(&self) -> Result<[&Counts; 3]> {
        let n = self.windows.len();
        ensure!(n > 0 && n % 3 == 0, "{n} windows, not as many of each kind");
        let mut kinds = self.windows.chunks(n / 3);
        let mut next = || {
            let windows = kinds.next().into_iter().flatten();
            windows.min_by_key(|it| total(it)).context("no window")
        };
        Ok([next()?, next()?, next()?])
    }
}

/// The files that guest, QEMU and this program share.
#[derive(Clone)]
struct Files(PathBuf);

impl Files {
    /// The pipe of QEMU's log.
    fn trace(&self) -> PathBuf {
        self.0.join("trace")
    }

    fn monitor(&self) -> PathBuf {
        self.0.join("monitor")
    }

    fn symbols(&self) -> PathBuf {
        self.0.join("kallsyms")
    }

    /// Exists while QEMU logs, for the guest.
    fn on(&self) -> PathBuf {
        self.0.join("on")
    }
}

/// Has QEMU log while the guest asks for that.
struct Tracer {
    files: Files,
    output: Vec<u8>,
    monitor: Option<Monitor>,
    /// Is told how often a window does the operation.
    tell: Sender<u64>,
}

impl Tracer {
    fn new(files: Files, tell: Sender<u64>) -> Self {
        Self {
            files,
            output: Vec::new(),
            monitor: None,
            tell,
        }
    }

    /// Does what a line of the guest's output asks for.
    fn obey(&mut self, line: &str) -> Result<()> {
        let monitor = match &mut self.monitor {
            Some(monitor) => monitor,
            none => none.insert(Monitor::connect(&self.files.monitor(), None)?),
        };
        match line {
            "begin" => {
                // So that each instruction has a line of its own.
                monitor.human("one-insn-per-tb on")?;
                monitor.human("log exec,nochain")?;
                fs::write(self.files.on(), "")?;
            }
            "end" => {
                monitor.human("log none")?;
                monitor.human("one-insn-per-tb off")?;
                fs::remove_file(self.files.on())?;
            }
            times => self.tell.send(times.parse().context("no number")?)?,
        }
        Ok(())
    }
}

impl Write for Tracer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.extend_from_slice(bytes);
        while let Some(end) = self.output.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.output.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            self.obey(line.trim()).map_err(io::Error::other)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads QEMU's log to its end.
fn windows(mut trace: impl BufRead, files: &Files) -> Result<Vec<Counts>> {
    let mut windows = Vec::new();
    // The guest writes its symbols before it asks for a log.
    if trace.fill_buf()?.is_empty() {
        return Ok(windows);
    }
    let symbols = Symbols::parse(&fs::read_to_string(files.symbols())?);
    let mark = symbols.address(MARK).context(MARK)?;
    let mut window: Option<HashMap<u64, u64>> = None;
    let mut line = String::new();
    while trace.read_line(&mut line)? > 0 {
        match (address(&line), &mut window) {
            (Some(address), None) if address == mark => window = Some(HashMap::new()),
            (Some(address), Some(full)) if address == mark => {
                let mut counts = Counts::new();
                for (address, n) in full {
                    *counts.entry(symbols.at(*address)).or_default() += *n;
                }
                windows.push(counts);
                window = None;
            }
            (Some(address), Some(window)) => *window.entry(address).or_default() += 1,
            (None, _) | (_, None) => {}
        }
        line.clear();
    }
    Ok(windows)
}

/// The program counter in a line of `-d exec`: "Trace 0: host address [cs_base/pc/flags/cflags] symbol".
fn address(line: &str) -> Option<u64> {
    let (_, block) = line.strip_prefix("Trace ")?.split_once('[')?;
    u64::from_str_radix(block.split('/').nth(1)?, 16).ok()
}

/// How many instructions of each function an operation takes, by owner, with both drivers.
fn table(trace: &Trace) -> Result<String> {
    let [ours, theirs, without] = trace.cheapest()?;
    let of = |counts: &Counts, function: &Function| {
        let n = |it: &Counts| it.get(function).copied().unwrap_or_default() as f64;
        (n(counts) - n(without)) / trace.times as f64
    };
    let both: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    let mut rows: Vec<_> = both
        .into_iter()
        .map(|it| (it, [of(theirs, it), of(ours, it)]))
        .collect();
    rows.sort_by_key(|(_, [theirs, ours])| Reverse(theirs.max(*ours).round() as i64));

    let mut table = "| function | in-tree | rust_pmu |\n|---|---|---|\n".to_owned();
    let mut line = |name: String, [theirs, ours]: [f64; 2]| {
        let (theirs, ours) = (theirs.round() as i64, ours.round() as i64);
        writeln!(table, "| {name} | {theirs} | {ours} |")
    };
    let sum = |sum: [f64; 2], more: &[f64; 2]| [sum[0] + more[0], sum[1] + more[1]];
    for owner in Owner::ALL {
        let of_owner = rows.iter().filter(|((it, _), _)| *it == owner);
        let all = of_owner.clone().map(|(_, both)| both).fold([0.0; 2], sum);
        line(format!("**{}**", owner.name()), all)?;
        for ((_, name), both) in of_owner {
            if both.iter().any(|n| n.abs() >= 0.5) {
                line(format!("`{name}`"), *both)?;
            }
        }
    }
    line(
        "**all**".to_owned(),
        rows.iter().map(|(_, both)| both).fold([0.0; 2], sum),
    )?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "\
ffffffff81000000 T __x64_sys_getppid
ffffffff81000010 t perf_read
ffffffff81000020 d some_data
ffffffff81000030 t x86_pmu_read
ffffffffc0000000 t _RNvNtCs1234_9rust_perf8core_pmu4read\t[rust_perf]
";

    /// A window with so many instructions of user mode, perf_read, x86_pmu_read and our driver.
    fn window(counts: [usize; 4]) -> String {
        let lines = |(pc, n)| format!("Trace 0: 0x7f00 [00000000/{pc:016x}/b0/ff] \n").repeat(n);
        let mark = (0xffff_ffff_8100_0000, 1);
        let pcs = [
            0x40_1000,
            0xffff_ffff_8100_0028,
            0xffff_ffff_8100_0030_u64,
            0xffff_ffff_c000_0004,
        ];
        let blocks = pcs.into_iter().zip(counts);
        let window: String = [mark]
            .into_iter()
            .chain(blocks)
            .chain([mark])
            .map(lines)
            .collect();
        // The last instruction of the system call is not part of the window.
        window + &lines((mark.0 + 4, 1))
    }

    fn trace(windows: &[[usize; 4]]) -> Trace {
        let dir = tempfile::tempdir().unwrap();
        let files = Files(dir.path().to_owned());
        fs::write(files.symbols(), SYMBOLS).unwrap();
        let log: String = windows.iter().copied().map(window).collect();
        let log = format!("qemu: something else\n{log}");
        Trace {
            times: 2,
            windows: super::windows(log.as_bytes(), &files).unwrap(),
        }
    }

    #[test]
    fn cheapest_windows_are_compared_with_those_without_events() {
        let trace = trace(&[
            [8, 14, 0, 16],
            [8, 14, 0, 6],
            [8, 14, 12, 0],
            [8, 14, 32, 0],
            [8, 4, 0, 0],
            [18, 4, 0, 0],
        ]);
        let expected = "\
| function | in-tree | rust_pmu |
|---|---|---|
| **rust_perf** | 0 | 3 |
| `rust_perf::core_pmu::read` | 0 | 3 |
| **in-tree driver** | 6 | 0 |
| `x86_pmu_read` | 6 | 0 |
| **perf core** | 5 | 5 |
| `perf_read` | 5 | 5 |
| **rest of the kernel** | 0 | 0 |
| **user mode** | 0 | 0 |
| **all** | 11 | 8 |
";
        assert_eq!(table(&trace).unwrap(), expected);
    }

    #[test]
    fn a_trace_with_a_window_less_is_refused() {
        let trace = trace(&[[1, 1, 0, 1], [1, 1, 1, 0]]);
        let error = table(&trace).unwrap_err().to_string();
        assert!(error.contains("2 windows"), "{error}");
    }
}
