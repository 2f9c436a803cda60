// SPDX-License-Identifier: GPL-2.0

//! The windows of an operation, from the log of QEMU.

use anyhow::{anyhow, ensure, Context as _, Result};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::sync::mpsc;
use std::thread;
use suites::Suite;

use super::symbols::{Function, Symbols};
use super::tracer::{Files, Told, Tracer};
use crate::bench::figures::Built;
use crate::context::Context;
use crate::guest::Options as GuestOptions;

/// How many instructions of each function.
pub type Counts = BTreeMap<Function, u64>;

pub fn total(counts: &Counts) -> u64 {
    counts.values().sum()
}

/// The windows of an operation.
pub struct Trace {
    /// How often a window does the operation.
    pub times: u64,
    /// How many instructions of each function each window has.
    pub windows: Vec<Counts>,
    /// How many windows there are with our driver, with the in-tree one and without events, in this
    /// order.
    pub kinds: Vec<usize>,
}

impl Trace {
    /// Runs the operation in a guest.
    pub fn of(
        ctx: &Context,
        built: &Built,
        suite: &'static Suite,
        operation: &str,
    ) -> Result<Self> {
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
    pub fn cheapest(&self) -> Result<[&Counts; 3]> {
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

/// Reads QEMU's log to its end.
pub fn windows(mut trace: impl BufRead, files: &Files) -> Result<Vec<Counts>> {
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
