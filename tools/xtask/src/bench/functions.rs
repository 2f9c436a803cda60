// SPDX-License-Identifier: GPL-2.0

//! Which functions run in an operation, with each driver.
//!
//! QEMU logs each instruction, and a system call of `guest-tests bench` begins and ends each window. Of
//! the windows of a driver the one with the fewest instructions counts, less the same of windows without
//! events.

use anyhow::{anyhow, ensure, Context as _, Result};
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
    // Its windows are too long, and begin when a timer says.
    ensure!(!operation.starts_with("rotation"), "no rotation is traced");
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

    /// How the names of the in-tree driver's functions begin, in arch/x86/events.
    const IN_TREE: &'static [&'static str] = &[
        "__amd_",
        "__intel_",
        "_x86_pmu_",
        "amd_get_event",
        "amd_pmu_",
        "amd_put_event",
        "collect_event",
        "handle_pmi_common",
        "hw_perf_event_",
        "intel_",
        "is_x86_event",
        "p4_",
        "perf_event_nmi_handler",
        "x86_",
        "zhaoxin_",
    ];

    /// How the names of functions in kernel/events begin, and of what x86 does there for any PMU.
    const PERF_CORE: &'static [&'static str] = &[
        "__event_",
        "__free_event",
        "__group_",
        "__perf_",
        "__pmu_",
        "__output_",
        "_free_event",
        "_perf_",
        "arch_perf_",
        "calc_timer_",
        "ctx_",
        "event_",
        "group_",
        "mediated_pmu_",
        "merge_sched_in",
        "perf_",
        "put_ctx",
        "put_pmu_ctx",
        "update_context_time",
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

/// A function, and whose it is.
type Function = (Owner, String);

/// The functions of the running kernel.
struct Symbols {
    functions: BTreeMap<u64, Function>,
    /// Where [`MARK`] is.
    mark: u64,
}

impl Symbols {
    /// Reads /proc/kallsyms.
    fn parse(text: &str) -> Result<Self> {
        let mut functions = BTreeMap::new();
        let mut mark = None;
        for line in text.lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            let [address, "t" | "T" | "w" | "W", name, ref module @ ..] = words[..] else {
                continue;
            };
            let address = u64::from_str_radix(address, 16)?;
            if name == MARK {
                mark = Some(address);
            }
            let name = format!("{:#}", demangle(name));
            let owner = match module {
                ["[rust_perf]"] => Owner::RustPerf,
                _ => Owner::of(&name),
            };
            // Of several names the first one.
            functions.entry(address).or_insert((owner, name));
        }
        Ok(Self {
            functions,
            mark: mark.with_context(|| format!("the kernel has no {MARK}"))?,
        })
    }

    /// The function of an address.
    fn at(&self, address: u64) -> Function {
        if address < KERNEL {
            return (Owner::User, "(all)".to_owned());
        }
        let before = self.functions.range(..=address).next_back();
        let unknown = || (Owner::Kernel, "(unknown)".to_owned());
        before.map_or_else(unknown, |(_, function)| function.clone())
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
    /// How many windows there are with our driver, with the in-tree one and without events, in this
    /// order.
    kinds: Vec<usize>,
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
            qemu_args: shell_words::join([
                "-D",
                &files.trace().display().to_string(),
                "-qmp",
                &format!("unix:{},server=on,wait=off", files.monitor().display()),
            ]),
            ..GuestOptions::default()
        };
        let command = format!(
            "cat /proc/kallsyms >/mnt/share/kallsyms && \
             guest-tests bench --while-exists /mnt/share/on --traced {}",
            shell_words::quote(operation)
        );
        let (tell, told) = mpsc::channel();
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
        let mut trace = Self {
            times: 0,
            windows,
            kinds: Vec::new(),
        };
        for told in told.try_iter() {
            match told {
                Told::Times(times) => trace.times = times,
                Told::Kind => trace.kinds.push(0),
                Told::Window => *trace.kinds.last_mut().context("a window of no kind")? += 1,
            }
        }
        Ok(trace)
    }

    /// The cheapest windows of each kind.
    fn cheapest(&self) -> Result<[&Counts; 3]> {
        let n = self.windows.len();
        let all: usize = self.kinds.iter().sum();
        ensure!(n == all, "QEMU logged {n} of {all} windows");
        let mut rest = self.windows.as_slice();
        let mut cheapest = Vec::new();
        for n in &self.kinds {
            let (windows, others) = rest.split_at(*n);
            let least = windows.iter().min_by_key(|it| total(it));
            cheapest.push(least.context("no window")?);
            rest = others;
        }
        let cheapest = cheapest.try_into();
        cheapest.map_err(|_| anyhow!("{} kinds of windows", self.kinds.len()))
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

/// What the guest tells.
enum Told {
    /// How often a window does the operation.
    Times(u64),
    /// Windows of another kind follow.
    Kind,
    /// A window has ended.
    Window,
}

/// Has QEMU log while the guest asks for that.
struct Tracer {
    files: Files,
    output: Vec<u8>,
    monitor: Option<Monitor>,
    tell: Sender<Told>,
}

impl Tracer {
    fn new(files: Files, tell: Sender<Told>) -> Self {
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
        // The monitor answers with a text if it cannot do that.
        let mut order = |order: &str| {
            let answer = monitor.human(order)?;
            ensure!(answer.trim().is_empty(), "{order}: {answer}");
            Ok(())
        };
        match line {
            "begin" => {
                // So that each instruction has a line of its own.
                order("one-insn-per-tb on")?;
                order("log exec,nochain")?;
                fs::write(self.files.on(), "")?;
            }
            "end" => {
                order("log none")?;
                order("one-insn-per-tb off")?;
                fs::remove_file(self.files.on())?;
                self.tell.send(Told::Window)?;
            }
            "kind" => self.tell.send(Told::Kind)?,
            times => {
                let times = times.parse().with_context(|| times.to_owned())?;
                self.tell.send(Told::Times(times))?;
            }
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
    let symbols = Symbols::parse(&fs::read_to_string(files.symbols())?)?;
    let mut window: Option<HashMap<u64, u64>> = None;
    let mut last = 0;
    let mut line = String::new();
    while trace.read_line(&mut line)? > 0 {
        match (address(&line), &mut window) {
            (Some(address), None) if address == symbols.mark => window = Some(HashMap::new()),
            (Some(address), Some(full)) if address == symbols.mark => {
                let mut counts = Counts::new();
                for (address, n) in full {
                    *counts.entry(symbols.at(*address)).or_default() += *n;
                }
                windows.push(counts);
                window = None;
            }
            (Some(address), Some(window)) => {
                *window.entry(address).or_default() += 1;
                last = address;
            }
            // The last one did not run, because of an interrupt. Its line comes again.
            (None, Some(window)) if line.starts_with("Stopped execution") => {
                if let Some(n) = window.get_mut(&last) {
                    *n = n.saturating_sub(1);
                }
            }
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
    let functions = ours.keys().chain(theirs.keys()).chain(without.keys());
    let functions: BTreeSet<_> = functions.collect();
    let mut rows: Vec<_> = functions
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
    use crate::monitor::tests::serve;
    use serde_json::{json, Value};
    use std::os::unix::net::UnixListener;

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
            kinds: vec![2, 2, 2],
        }
    }

    #[test]
    fn cheapest_windows_are_compared_with_those_without_events() {
        let trace = trace(&[
            [8, 14, 0, 16],
            [8, 14, 0, 6],
            [8, 14, 12, 0],
            [8, 14, 32, 0],
            [10, 4, 0, 0],
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
| **user mode** | -1 | -1 |
| `(all)` | -1 | -1 |
| **all** | 10 | 7 |
";
        assert_eq!(table(&trace).unwrap(), expected);
    }

    #[test]
    fn a_trace_with_a_window_less_is_refused() {
        let trace = trace(&[[1, 1, 0, 1]; 5]);
        let error = table(&trace).unwrap_err().to_string();
        assert!(error.contains("5 of 6 windows"), "{error}");
    }

    #[test]
    fn an_instruction_that_is_stopped_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files(dir.path().to_owned());
        fs::write(files.symbols(), SYMBOLS).unwrap();
        let again = "Stopped execution of TB chain before 0x7f00 [0000000000401000] \n\
                     Trace 0: 0x7f00 [00000000/0000000000401000/b0/ff] \n";
        let mark = "Trace 0: 0x7f00 [00000000/ffffffff81000000/b0/ff] \n";
        let log = window([1, 0, 0, 0]).replacen(mark, "", 1);
        let (instruction, end) = log.split_at(log.find(mark).unwrap());
        let log = format!("{mark}{instruction}{again}{end}");
        let windows = windows(log.as_bytes(), &files).unwrap();
        assert_eq!(windows.iter().map(total).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn the_log_is_on_while_the_guest_asks_for_that() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files(dir.path().to_owned());
        let listener = UnixListener::bind(files.monitor()).unwrap();
        let mut orders = Vec::new();
        let answer = |command: &Value| {
            let order = command["arguments"]["command-line"].as_str();
            orders.extend(order.map(str::to_owned));
            let text = match orders.len() {
                6.. => "no such command",
                _ => "",
            };
            json!({ "return": text })
        };
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            let server = scope.spawn(|| serve(&listener, answer));
            let mut tracer = Tracer::new(files.clone(), tell);
            tracer.write_all(b"20\nkind\nbeg").unwrap();
            assert!(!files.on().exists());
            tracer.write_all(b"in\n").unwrap();
            assert!(files.on().exists());
            tracer.write_all(b"end\n").unwrap();
            assert!(!files.on().exists());
            let error = tracer.write_all(b"begin\n").unwrap_err().to_string();
            assert!(error.contains("no such command"), "{error}");
            drop(tracer);
            server.join().unwrap();
        });
        let told: Vec<_> = told.iter().collect();
        assert!(matches!(
            told[..],
            [Told::Times(20), Told::Kind, Told::Window]
        ));
        assert_eq!(
            orders,
            [
                "one-insn-per-tb on",
                "log exec,nochain",
                "log none",
                "one-insn-per-tb off",
                "one-insn-per-tb on",
                "log exec,nochain",
            ]
        );
    }
}
