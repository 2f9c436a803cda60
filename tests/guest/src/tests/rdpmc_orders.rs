// SPDX-License-Identifier: GPL-2.0
//! Whatever tasks open, map, unmap, close and fork, and in whatever order: none reads with RDPMC, or
//! in the page of an event, what the events of another have counted.

pub(super) mod machine;
mod steps;

use machine::{
    count_in_tree, fresh_page, has_metrics, open_topdown, Machine, EVENTS, METRICS, SLOTS,
};
use steps::{sequences, Step, Turn};

use std::arch::asm;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use anyhow::{bail, ensure, Context, Result};
use nix::sys::signal::{sigaction, SaFlags, SigAction, SigHandler, SigSet, Signal};
use nix::unistd::{fork, gettid, pipe, ForkResult};
use perf_event::Counter;
use pmc::period::sign_extend;

use super::user_read::{expect_child_succeeds, KilledProcess, Page, SETTING};
use crate::ctx::{Ctx, Test};
use crate::pmu::{Event, Mode};
use crate::setting::{pin, Setting};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Counters, InTree];
    no_order_of_steps_shows_counts_of_others,
    no_order_of_steps_shows_counts_to_all_tasks: [Root],
    pages_show_no_counts_of_others: [Cpus(2)],
];

/// The number of steps of a sequence.
const STEPS: usize = 4;

/// How often RDPMC has faulted in this process.
static FAULTS: AtomicU32 = AtomicU32::new(0);

/// Skips an RDPMC that faults: it is two bytes long.
extern "C" fn skip_rdpmc(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    FAULTS.fetch_add(1, SeqCst);
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel passes the context of the interrupted code, which continues with it.
    unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] += 2 };
}

/// Reads a counter, which must exist. `None` if that is not allowed.
fn try_rdpmc(index: u32) -> Option<u64> {
    let faults = FAULTS.load(SeqCst);
    let (low, high): (u32, u32);
    // SAFETY: RDPMC changes EAX and EDX only. If it faults, `skip_rdpmc` has it do nothing.
    unsafe { asm!("rdpmc", in("ecx") index, inout("eax") 0 => low, inout("edx") 0 => high) };
    let value = (u64::from(high) << 32) | u64::from(low);
    (FAULTS.load(SeqCst) == faults).then_some(value)
}

/// A task that does what it is told.
struct Task<'a> {
    machine: &'a Machine,
    /// Whether it has slots and metrics besides its events, where there are metrics.
    opens_topdown: bool,
    events: Vec<Counter>,
    topdown: Vec<Counter>,
    page: Option<Page>,
}

impl Task<'_> {
    /// Does a step, and then looks at all registers, if `looks`.
    fn take(&mut self, step: Step, looks: bool) -> Result<()> {
        let Machine { pmu, registers, .. } = self.machine;
        match step {
            Step::Open => {
                if self.opens_topdown && has_metrics(pmu) {
                    self.topdown = open_topdown(pmu)?;
                }
                for event in EVENTS.into_iter().filter(|event| pmu.has(*event)) {
                    let mut event = pmu.open(event, Mode::User)?;
                    event.enable()?;
                    self.events.push(event);
                }
            }
            Step::Map => {
                let event = self.events.last().context("no event")?;
                self.page = Some(Page::map(event)?);
            }
            Step::Unmap => self.page = None,
            Step::Close => {
                (self.page, self.events, self.topdown) = (None, Vec::new(), Vec::new());
            }
            Step::Run | Step::Exit => {}
            // Its parent's events do not count the child.
            Step::Fork => expect_child_succeeds(|| match looks {
                true => look(registers, |_, _| false),
                false => Ok(()),
            })?,
            Step::InTree => count_in_tree(&self.machine.in_tree)?,
        }
        workload::branches(100).run();
        match looks {
            true => self.look(),
            false => Ok(()),
        }
    }

    /// Fails if a register has anything but what an event of this task has counted.
    fn look(&mut self) -> Result<()> {
        let read = |events: &mut Vec<Counter>| -> Result<Vec<u64>> {
            events.iter_mut().map(|it| Ok(it.read()?)).collect()
        };
        let (start, width) = self.machine.fresh;
        let before = read(&mut self.events)?;
        let mut values = Vec::new();
        // Slots and metrics are counted anew after each read.
        let has_topdown = !self.topdown.is_empty();
        look(&self.machine.registers, |index, value| {
            if !(has_topdown && [SLOTS, METRICS].contains(&index)) {
                values.push(value);
            }
            true
        })?;
        let after = read(&mut self.events)?;
        ensure!(
            values.len() <= after.len(),
            "{values:#x?} in counters, with {} events",
            after.len()
        );
        for value in values {
            // A fresh event starts that far before the wrap.
            let counted = sign_extend(value, width as u8).wrapping_add(start) as u64;
            let mut counts = before.iter().zip(&after);
            ensure!(
                counts.any(|(before, after)| (*before..=*after).contains(&counted)),
                "{value:#x} in a counter, with counts of {before:?} to {after:?}"
            );
        }
        if let Some(page) = &self.page {
            let (offset, _) = page.offset_with_index().context("no index in the page")?;
            ensure!(
                offset == start,
                "an offset of {offset:#x}, expected {start:#x}"
            );
        }
        Ok(())
    }
}

/// Reads registers, as far as that is allowed. Fails if one that is not 0 is not `expected`.
fn look(registers: &[u32], mut expected: impl FnMut(u32, u64) -> bool) -> Result<()> {
    for &index in registers {
        let Some(value) = try_rdpmc(index) else {
            return Ok(());
        };
        if value != 0 && !expected(index, value) {
            bail!("counter {index:#x} is {value:#x}, left by another task");
        }
    }
    Ok(())
}

/// A process that runs a [`Task`]. Drop ends it.
struct Worker {
    _process: KilledProcess,
    steps: File,
    answers: File,
}

impl Worker {
    fn spawn(machine: &Machine, opens_topdown: bool) -> Result<Self> {
        let ((steps, to_worker), (from_worker, answers)) = (pipe()?, pipe()?);
        // SAFETY: this program has only one thread here, so that no lock is held in the child.
        match unsafe { fork() }? {
            ForkResult::Child => {
                drop((to_worker, from_worker));
                let task = Task {
                    machine,
                    opens_topdown,
                    events: Vec::new(),
                    topdown: Vec::new(),
                    page: None,
                };
                let served = serve(task, steps.into(), answers.into());
                process::exit(served.is_err().into())
            }
            ForkResult::Parent { child } => Ok(Self {
                _process: KilledProcess(child),
                steps: to_worker.into(),
                answers: from_worker.into(),
            }),
        }
    }

    /// Has the process do a step, and then look at the registers if it `looks`, and waits for it.
    fn take(&mut self, step: Step, looks: bool) -> Result<()> {
        self.steps.write_all(&[step as u8, looks.into()])?;
        let mut length = [0];
        self.answers.read_exact(&mut length)?;
        let mut message = vec![0; length[0].into()];
        self.answers.read_exact(&mut message)?;
        ensure!(message.is_empty(), "{}", String::from_utf8_lossy(&message));
        Ok(())
    }
}

/// Does the steps that come from `steps`, and answers each with an error message, which is empty if
/// there is none.
fn serve(mut task: Task<'_>, mut steps: File, mut answers: File) -> Result<()> {
    let handler = SigHandler::SigAction(skip_rdpmc);
    let action = SigAction::new(handler, SaFlags::SA_SIGINFO, SigSet::empty());
    // SAFETY: the handler changes an atomic and its own context only.
    unsafe { sigaction(Signal::SIGSEGV, &action) }?;
    loop {
        let mut told = [0; 2];
        steps.read_exact(&mut told)?;
        let [step, looks] = told;
        let result = task.take(Step::ALL[usize::from(step)], looks != 0);
        let mut message = result.err().map_or(String::new(), |it| format!("{it:#}"));
        message.truncate(u8::MAX.into());
        answers.write_all(&[message.len() as u8])?;
        answers.write_all(message.as_bytes())?;
    }
}

/// Runs all sequences of steps. Their tasks have CPU 0 for themselves and for this one.
fn run_sequences(ctx: &Ctx) -> Result<()> {
    pin(gettid(), 0)?;
    let machine = Machine::new(ctx)?;
    machine.check()?;
    let sequences = sequences(STEPS);
    // Whether the in-tree driver has had the counters last. What it shows then is its own matter: it does
    // not clear PERF_METRICS.
    let mut is_in_tree = true;
    for (done, turns) in sequences.iter().enumerate() {
        // So often that a slow guest is not taken for one that hangs.
        if done % 50 == 0 {
            println!("# {done} of {} sequences of {STEPS} steps", sequences.len());
        }
        // Task B has no slots and metrics, and must not find those of A.
        let spawn = |task| Worker::spawn(&machine, task == 0);
        let mut workers = [spawn(0)?, spawn(1)?];
        let mut run = || -> Result<()> {
            for Turn { task, step } in turns {
                match step {
                    Step::InTree => is_in_tree = true,
                    Step::Open => is_in_tree = false,
                    _ => {}
                }
                workers[*task].take(*step, !is_in_tree)?;
                if *step == Step::Exit {
                    workers[*task] = spawn(*task)?;
                }
            }
            // Both once more, after all the steps.
            for worker in &mut workers {
                worker.take(Step::Run, !is_in_tree)?;
            }
            Ok(())
        };
        run().with_context(|| {
            let turns: Vec<_> = turns.iter().map(Turn::to_string).collect();
            turns.join(", ")
        })?;
    }
    Ok(())
}

/// Two tasks that have mapped events, or not, take turns in every way, also after in-tree events have
/// counted on all counters. None finds another's counts in a GP counter, in a fixed counter or in
/// PERF_METRICS.
fn no_order_of_steps_shows_counts_of_others(ctx: &Ctx) -> Result<()> {
    run_sequences(ctx)
}

/// No task finds another's counts in any register either if all tasks may use RDPMC.
fn no_order_of_steps_shows_counts_to_all_tasks(ctx: &Ctx) -> Result<()> {
    let _setting = Setting::change(SETTING, 2)?;
    run_sequences(ctx)
}

/// A task on another CPU maps the event of a task that may not use RDPMC. Its page shows nothing but
/// that event's count, whatever its counter held when it was started.
fn pages_show_no_counts_of_others(ctx: &Ctx) -> Result<()> {
    const STARTS: usize = 50;
    let pmu = ctx.pmu()?;
    pin(gettid(), 1)?;
    let (fresh, _) = fresh_page(&pmu)?;
    let (shown, other) = (run_forever()?, run_forever()?);
    for event in [Event::Instructions, Event::Branches] {
        let open = |task: &KilledProcess| -> Result<Counter> {
            let mut event = pmu
                .event(event)
                .exclude_kernel(true)
                .observe_pid(task.0.as_raw())
                .build()?;
            event.enable()?;
            Ok(event)
        };
        let _other = open(&other)?;
        let mut counter = open(&shown)?;
        let page = Page::map(&counter)?;
        // The kernel changes the page whenever it puts the event on a counter.
        let mut seen = BTreeSet::new();
        while seen.len() < STARTS {
            let Some((offset, lock)) = page.offset_with_index() else {
                continue;
            };
            ensure!(
                offset == fresh,
                "{}: an offset of {offset:#x}, expected {fresh:#x}",
                event.name()
            );
            seen.insert(lock);
        }
        ensure!(counter.read()? > 0, "{} is not counted", event.name());
    }
    Ok(())
}

/// Starts a process on CPU 0 that runs forever.
fn run_forever() -> Result<KilledProcess> {
    // SAFETY: this program has only one thread here, so that no lock is held in the child.
    match unsafe { fork() }? {
        ForkResult::Child => {
            if pin(gettid(), 0).is_err() {
                process::exit(1);
            }
            loop {
                workload::branches(1_000).run();
            }
        }
        ForkResult::Parent { child } => Ok(KilledProcess(child)),
    }
}
