// SPDX-License-Identifier: GPL-2.0
//! A process that does the operations of a sequence, and checks what is known.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{bail, ensure, Context, Result};
use nix::errno::Errno;
use nix::sched::{sched_setaffinity, unshare, CloneFlags, CpuSet};
use nix::unistd::{getpid, Pid};

use super::lanes::{Lane, Lanes};
use super::op::{Op, Open, Request, Target, SLOTS};
use super::open::TIMES;
use super::slot::{ioctl, perf_event_open, read, Mapping, Model, Slot};
use super::world::{Class, Counts, World};
use super::{child, signals};
use crate::bpf;
use crate::module;
use crate::setting::{online_file, SampleRate};
use crate::tests::compare::attr;
use crate::tests::compare::case::PID_CGROUP;
use crate::workload;

/// What a refused call may fail with, whatever its arguments are.
const REFUSALS: &[Errno] = &[
    Errno::EINVAL,
    Errno::ENOENT,
    Errno::EOPNOTSUPP,
    Errno::ENODEV,
    Errno::ESRCH,
    Errno::EBUSY,
    Errno::E2BIG,
    Errno::ENOSPC,
    Errno::EOVERFLOW,
    Errno::EPERM,
    Errno::EACCES,
    Errno::EBADF,
    Errno::EEXIST,
    Errno::EXDEV,
    Errno::EILSEQ,
];

/// A worker's state.
pub struct Worker<'a> {
    pub world: &'a World,
    pub lane: &'a Lane,
    lanes: &'a Lanes,
    /// Whether the in-tree driver has events, too, in this round.
    shared: bool,
    pub slots: Vec<Option<Slot>>,
    pub children: Vec<Pid>,
    threads: Vec<JoinHandle<()>>,
    program: Option<OwnedFd>,
}

/// What the kernel said to an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Refused,
}

use Outcome::{Done, Refused};

impl<'a> Worker<'a> {
    /// A worker without events. `shared`: whether events of the in-tree driver are opened, too.
    pub fn new(world: &'a World, lanes: &'a Lanes, number: usize, shared: bool) -> Self {
        Self {
            world,
            lane: &lanes[number],
            lanes,
            shared,
            slots: (0..SLOTS).map(|_| None).collect(),
            children: Vec::new(),
            threads: Vec::new(),
            program: None,
        }
    }

    /// Whether the in-tree driver has events, too, in this round.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Does the operations, then closes all events. Each has its number in the round.
    pub fn run(&mut self, ops: &[(u32, Op)]) -> Result<()> {
        for (number, op) in ops {
            self.lane.at.store(*number, SeqCst);
            let start = Instant::now();
            let outcome = self.apply(op).with_context(|| format!("{op:?}"))?;
            self.lane
                .count(op.kind(), start.elapsed(), outcome == Refused);
        }
        for slot in 0..SLOTS {
            self.check_count(slot)
                .with_context(|| format!("slot {slot} at the end"))?;
        }
        for thread in self.threads.drain(..) {
            ensure!(thread.join().is_ok(), "a thread panicked");
        }
        while let Some(child) = self.children.pop() {
            child::reap(child, true)?;
        }
        self.slots.clear();
        Ok(())
    }

    fn apply(&mut self, op: &Op) -> Result<Outcome> {
        match *op {
            Op::Open(open) => return self.open(&open),
            Op::Close(slot) => {
                self.check_count(slot)?;
                self.close(slot);
            }
            Op::Ioctl {
                slot,
                request,
                group,
            } => return self.ioctl(slot, request, group),
            Op::Read { slot, len } => return self.read(slot, len),
            Op::Measure { slot, rounds } => return self.measure(slot, rounds),
            Op::Map { slot, order, write } => return self.map(slot, order, write),
            Op::Unmap(slot) => {
                let Some(slot) = self.slots[slot as usize].as_mut() else {
                    return Ok(Refused);
                };
                match slot.others.pop() {
                    Some(_) => {}
                    None => slot.mapping = None,
                }
            }
            Op::Drain(slot) => return self.drain(slot),
            Op::Rdpmc(slot) => return self.rdpmc(slot),
            Op::Loop(rounds) => workload::tight_loop(rounds.into()).run(),
            Op::Probed(calls) => {
                for _ in 0..calls {
                    // SAFETY: the system call takes no argument and returns a number.
                    unsafe { libc::syscall(libc::SYS_getppid) };
                    workload::empty().run();
                }
            }
            Op::SystemCalls(calls) => workload::syscalls(calls.into()).run(),
            Op::PageFaults(pages) => workload::touch(pages.into())?.run(),
            Op::Fork(childhood) => return child::fork_one(self, childhood),
            Op::Reap => {
                if self.children.is_empty() {
                    return Ok(Refused);
                }
                let oldest = self.children.remove(0);
                child::reap(oldest, true)?;
            }
            Op::CountProgram { event, inherit } => {
                return child::count_program(self, event, inherit)
            }
            Op::Thread(rounds) => self.thread(rounds)?,
            Op::Migrate(cpu) => {
                let mut set = CpuSet::new();
                set.set(self.world.cpus[cpu as usize])?;
                return refused_with(
                    sched_setaffinity(Pid::from_raw(0), &set),
                    // The CPU is offline.
                    &[Errno::EINVAL],
                );
            }
            Op::MoveToCgroup(cgroup) => {
                let result = self.world.move_to_cgroup(getpid(), cgroup.into());
                // The worker is in a cgroup namespace that does not have it.
                return refused_with(result.map_err(errno), &[Errno::ENOENT]);
            }
            Op::Unshare(flags) => {
                return refused_with(
                    unshare(CloneFlags::from_bits_retain(flags)),
                    &[Errno::EINVAL, Errno::ENOSPC, Errno::EPERM],
                )
            }
            Op::Prctl(enable) => self.prctl(enable)?,
            Op::ReadFile(file) => self.read_file(file)?,
            Op::MuxInterval { pmu, ms } => {
                let pmu = &self.world.core[pmu];
                return written(&pmu.turn_file(), ms.into(), &[]);
            }
            Op::RdpmcSetting(value) => match self.world.rdpmc_file() {
                Some(file) => return written(&file, value.into(), &[]),
                None => return Ok(Refused),
            },
            Op::Hotplug { cpu, online } => {
                let cpu = self.world.removable[cpu as usize];
                let _pulled = self.lanes.plug().pull();
                // Another worker suspends, or takes the last CPU offline.
                let refusals = [Errno::EBUSY, Errno::EAGAIN, Errno::EINTR];
                return written(&online_file(cpu), online.into(), &refusals);
            }
            Op::Unload => return self.unload(),
            Op::Suspend => return super::suspend::freeze(),
        }
        Ok(Done)
    }

    fn close(&mut self, slot: u8) {
        self.slots[slot as usize] = None;
        // The members of its group become events of their own: they may go on.
        for other in self.slots.iter_mut().flatten() {
            if other.open.leader == Some(slot) {
                other.open.leader = None;
                other.model = Model::Unknown;
            }
        }
    }

    fn open(&mut self, open: &Open) -> Result<Outcome> {
        self.check_count(open.slot)?;
        self.close(open.slot);
        let choice = &self.world.events[open.event];
        let mut attr = open.attr;
        choice.set(&mut attr, open.garbage);
        let cpu = |cpu: u8| self.world.cpus[cpu as usize] as i32;
        let mut flags = open.flags;
        let (pid, cpu) = match open.target {
            Target::Own => (0, -1),
            Target::OwnOn(on) => (0, cpu(on)),
            Target::Worker(number) => {
                let lane = &self.lanes[usize::from(number) % self.lanes.len()];
                (lane.pid.load(SeqCst), -1)
            }
            Target::Child => (self.children.last().map_or(0, |pid| pid.as_raw()), -1),
            Target::Cpu(on) => (-1, cpu(on)),
            Target::Cgroup(cgroup, on) => {
                flags |= PID_CGROUP;
                (self.world.cgroups[cgroup as usize].1.as_raw_fd(), cpu(on))
            }
        };
        // The kernel corrupts a list if a task execs while another task opens an event of it with
        // REMOVE_ON_EXEC: see docs/upstream/findings.md. Of the targets only children exec. But a worker
        // may fork a child meanwhile that inherits the event: perf may exchange their contexts, and the
        // child's exec then removes the worker's event.
        let may_exec = match open.target {
            Target::Child => true,
            Target::Worker(_) => attr.has(attr::INHERIT) && !attr.has(attr::INHERIT_THREAD),
            _ => false,
        };
        if may_exec {
            attr.set(attr::REMOVE_ON_EXEC, 0);
            attr.set(attr::SIGTRAP, 0);
        }
        let mut open = *open;
        // No CPU goes offline while an event joins a group.
        let _kept = open.leader.map(|_| self.lanes.plug().keep());
        let pulls = self.lanes.plug().pulls();
        // If the leader's CPU was offline, only the module refuses to put an event into its group. With
        // other events the kernel would use freed memory: see docs/upstream/findings.md.
        let leader = open.leader.filter(|slot| {
            let leader = self.slots[*slot as usize].as_ref();
            leader.is_some_and(|it| choice.is_ours || it.pulls == pulls)
        });
        open.leader = leader;
        let group = leader.map_or(-1, |slot| self.fd(slot));
        // If an enabled event of a cgroup is the first one of its CPU, the kernel may not count the next
        // ones: see docs/upstream/findings.md.
        let enable_later = flags & PID_CGROUP != 0 && !attr.has(attr::DISABLED);
        if enable_later {
            attr.set(attr::DISABLED, 1);
        }
        match perf_event_open(attr, pid, cpu, group, flags) {
            Ok(file) => {
                if enable_later {
                    ioctl(&file, Request::Enable, false, -1, -1).context("enable")?;
                }
                self.lane.opened.fetch_add(1, SeqCst);
                let model = self.model(&open, choice.counts);
                self.slots[open.slot as usize] = Some(Slot {
                    file,
                    open,
                    pulls,
                    counts: choice.counts,
                    model,
                    mapping: None,
                    others: Vec::new(),
                    is_redirected: false,
                    keeps_records: false,
                });
                Ok(Done)
            }
            Err(errno) => {
                // A hybrid PMU does not have a CPU that is offline.
                let offline = self.world.is_hybrid && errno == Errno::ENOENT;
                let gone = matches!(errno, Errno::ESRCH | Errno::ENODEV) || offline;
                let taken = self.shared
                    && errno == Errno::EBUSY
                    && matches!(choice.class, Class::Core | Class::Other);
                // A leader that is in a group of another kind, or has ended.
                let grouped = leader.is_some() && errno == Errno::EINVAL;
                let too_often = errno == Errno::EINVAL
                    && attr.has(attr::FREQ)
                    && attr.get(attr::SAMPLE_PERIOD) > SampleRate::now()?;
                let expected = match open.sure {
                    true => gone || taken || grouped || too_often,
                    false => REFUSALS.contains(&errno),
                };
                ensure!(expected, "{}: {errno}", choice.name);
                Ok(Refused)
            }
        }
    }

    /// What is known of an event that has just been opened.
    fn model(&self, open: &Open, counts: Counts) -> Model {
        let attr = &open.attr;
        let plain = open.sure || open.leader.is_some();
        let known = counts != Counts::Other
            && self.world.exact
            && plain
            && open.garbage == 0
            && open.target == Target::Own
            && attr.has(attr::EXCLUDE_KERNEL)
            && attr.get(attr::READ_FORMAT) == TIMES
            && ![
                attr::EXCLUDE_USER,
                attr::INHERIT,
                attr::ENABLE_ON_EXEC,
                attr::FREQ,
            ]
            .iter()
            .any(|field| attr.has(*field))
            && (!attr.has(attr::SAMPLE_PERIOD) || attr.get(attr::SAMPLE_PERIOD) >= 10_000_000)
            && match open.leader {
                None => attr.has(attr::DISABLED),
                // The leader must not have run with it.
                Some(leader) => {
                    !attr.has(attr::DISABLED)
                        && self.slots[leader as usize]
                            .as_ref()
                            .is_some_and(|leader| leader.model == Model::Known(0))
                }
            };
        match known {
            true => Model::Known(0),
            false => Model::Unknown,
        }
    }

    pub fn fd(&self, slot: u8) -> RawFd {
        let slot = self.slots[slot as usize].as_ref();
        slot.map_or(-1, |slot| slot.file.as_raw_fd())
    }

    /// The slots of the group that a slot leads, and itself.
    fn group(&self, slot: u8) -> Vec<usize> {
        (0..self.slots.len())
            .filter(|other| {
                let event = self.slots[*other].as_ref();
                *other == slot as usize || event.is_some_and(|it| it.open.leader == Some(slot))
            })
            .collect()
    }

    fn forget(&mut self, slots: &[usize]) {
        for slot in slots {
            if let Some(event) = &mut self.slots[*slot] {
                event.model = Model::Unknown;
            }
        }
    }

    fn ioctl(&mut self, slot: u8, request: Request, group: bool) -> Result<Outcome> {
        if request == Request::SetBpf && self.program.is_none() {
            self.program = bpf::return_1(bpf::Kind::PerfEvent).ok();
        }
        let program = self.program.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let output = match request {
            Request::SetOutput(Some(other)) => self.fd(other),
            _ => -1,
        };
        let Some(event) = &self.slots[slot as usize] else {
            return Ok(Refused);
        };
        let result = ioctl(&event.file, request, group, output, program);
        let leader = event.open.leader;
        // An ioctl with PERF_IOC_FLAG_GROUP is for all of the group, whichever event it is of.
        let mut touched = self.group(leader.unwrap_or(slot));
        if !group {
            touched.retain(|other| *other == slot as usize);
        }
        if let (Request::SetOutput(Some(_)), Ok(()), Some(event)) =
            (request, result, &mut self.slots[slot as usize])
        {
            event.is_redirected = true;
            event.keeps_records = false;
        }
        match request {
            Request::Reset => {
                for slot in touched {
                    if let Some(event) = &mut self.slots[slot] {
                        if event.model != Model::Unknown {
                            event.model = Model::Known(0);
                        }
                    }
                }
            }
            Request::Enable | Request::Refresh(_) | Request::Period(_) | Request::Disable => {
                // Which events of the group run with the leader has changed.
                let all = self.group(leader.unwrap_or(slot));
                let alone = all.len() == 1 && request == Request::Disable;
                if !alone {
                    self.forget(&all);
                }
            }
            Request::SetBpf => self.forget(&touched),
            _ => {}
        }
        let refusals: &[Errno] = match request {
            // PERF_IOC_FLAG_GROUP reaches an event that has ended with its task.
            Request::Enable | Request::Disable | Request::Reset | Request::Id => &[],
            _ => REFUSALS,
        };
        refused_with(result, refusals)
    }

    fn read(&mut self, slot: u8, len: usize) -> Result<Outcome> {
        let Some(event) = &self.slots[slot as usize] else {
            return Ok(Refused);
        };
        let mut words = [0; 64];
        match read(&event.file, &mut words[..len / 8]) {
            Ok(_) => self.check_count(slot)?,
            Err(errno) => {
                // perf does not add up groups of a parent and its children if they have come to
                // differ.
                let may_differ = event.open.attr.has(attr::INHERIT);
                ensure!(
                    (len < 512 && errno == Errno::ENOSPC) || (may_differ && errno == Errno::ECHILD),
                    "read of {len}: {errno}"
                );
                return Ok(Refused);
            }
        }
        Ok(Done)
    }

    /// Compares an event's count with what is known.
    fn check_count(&mut self, slot: u8) -> Result<()> {
        let leader = self.slots[slot as usize]
            .as_ref()
            .map(|it| it.open.leader.unwrap_or(slot));
        let leader = leader.and_then(|it| self.slots[it as usize].as_ref());
        let is_pinned = leader.is_some_and(|it| it.open.attr.has(attr::PINNED));
        let Some(event) = &mut self.slots[slot as usize] else {
            return Ok(());
        };
        let Model::Known(want) = event.model else {
            return Ok(());
        };
        let mut words = [0; 3];
        let len = read(&event.file, &mut words).context("read")?;
        if len == 0 {
            // The group is pinned, and could not be put on the counters.
            event.model = Model::Unknown;
            return Ok(());
        }
        ensure!(len == 24, "read() returned {len}, expected 24");
        let [count, enabled, running] = words;
        let name = &self.world.events[event.open.event].name;
        let times = format!("enabled {enabled} ns, running {running} ns");
        ensure!(running <= enabled, "{name}: {times}");
        if is_pinned && running == 0 {
            // Likewise. A member can still be read.
            event.model = Model::Unknown;
            return Ok(());
        }
        if running == enabled {
            ensure!(count == want, "{name}: {count}, expected {want}; {times}");
            self.lane.exact.fetch_add(1, SeqCst);
        } else {
            ensure!(
                count <= want,
                "{name}: {count}, expected at most {want}; {times}"
            );
            event.model = Model::Unknown;
        }
        Ok(())
    }

    fn measure(&mut self, slot: u8, rounds: u32) -> Result<Outcome> {
        let Some(event) = &self.slots[slot as usize] else {
            return Ok(Refused);
        };
        let leader = event.open.leader.unwrap_or(slot);
        let group = self.group(leader);
        let Some(event) = &self.slots[leader as usize] else {
            bail!("a member without a leader");
        };
        let code = workload::tight_loop(rounds.into());
        let before = signals::handled();
        code.measure_group(&event.file)?;
        // A pinned group that could not be put on the counters again counts no more until it is enabled.
        let is_in_error =
            event.open.attr.has(attr::PINNED) && read(&event.file, &mut [0; 64]) == Ok(0);
        if is_in_error || signals::handled() != before {
            self.forget(&group);
        }
        for slot in group {
            let Some(event) = &mut self.slots[slot] else {
                continue;
            };
            if let Model::Known(count) = &mut event.model {
                *count += match event.counts {
                    Counts::Instructions => code.instructions(),
                    Counts::Branches => code.branches(),
                    Counts::Other => 0,
                };
            }
        }
        Ok(Done)
    }

    fn map(&mut self, slot: u8, order: u8, write: bool) -> Result<Outcome> {
        let Some(event) = &mut self.slots[slot as usize] else {
            return Ok(Refused);
        };
        match Mapping::new(&event.file, order, write) {
            Ok(mapping) => {
                match event.mapping {
                    None => {
                        event.keeps_records = write && !event.is_redirected;
                        event.mapping = Some(mapping);
                    }
                    Some(_) if event.others.len() < 4 => event.others.push(mapping),
                    Some(_) => {}
                }
                Ok(Done)
            }
            Err(errno) => {
                let expected = [Errno::EINVAL, Errno::ENODEV, Errno::EBUSY, Errno::EPERM];
                ensure!(expected.contains(&errno), "mmap: {errno}");
                Ok(Refused)
            }
        }
    }

    fn drain(&mut self, slot: u8) -> Result<Outcome> {
        let event = self.slots[slot as usize].as_ref();
        let Some((event, mapping)) = event.and_then(|it| Some((it, it.mapping.as_ref()?))) else {
            return Ok(Refused);
        };
        if !event.keeps_records || event.open.attr.has(attr::WRITE_BACKWARD) {
            return Ok(Refused);
        }
        // SAFETY: `keeps_records` says that the first mapping, which this is, is for writing.
        let records = unsafe { mapping.drain() }.map_err(anyhow::Error::msg)?;
        self.lane.records.fetch_add(records, SeqCst);
        Ok(Done)
    }

    fn rdpmc(&mut self, slot: u8) -> Result<Outcome> {
        let event = self.slots[slot as usize].as_ref();
        let Some(mapping) = event.and_then(|event| event.mapping.as_ref()) else {
            return Ok(Refused);
        };
        Ok(match mapping.rdpmc() {
            Some(_) => Done,
            None => Refused,
        })
    }

    fn thread(&mut self, rounds: u32) -> Result<()> {
        if self.threads.len() == 4 {
            let oldest = self.threads.remove(0);
            ensure!(oldest.join().is_ok(), "a thread panicked");
        }
        let run = move || workload::tight_loop(rounds.into()).run();
        self.threads
            .push(std::thread::Builder::new().spawn(run).context("thread")?);
        Ok(())
    }

    fn prctl(&mut self, enable: bool) -> Result<()> {
        let option = match enable {
            true => libc::PR_TASK_PERF_EVENTS_ENABLE,
            false => libc::PR_TASK_PERF_EVENTS_DISABLE,
        };
        // SAFETY: these options take no argument.
        let status = unsafe { libc::prctl(option) };
        ensure!(status == 0, "prctl: {}", Errno::last());
        // Members are disabled, or events run that were not to.
        self.forget(&(0..self.slots.len()).collect::<Vec<_>>());
        Ok(())
    }

    fn read_file(&self, file: usize) -> Result<()> {
        let file = &self.world.files[file];
        match fs::read(file) {
            Ok(_) => Ok(()),
            // Files that can only be written.
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(()),
            Err(error) => Err(error).with_context(|| file.display().to_string()),
        }
    }

    fn unload(&self) -> Result<Outcome> {
        let events = &self.world.events;
        let in_use = self
            .slots
            .iter()
            .flatten()
            .any(|it| events[it.open.event].is_ours);
        if !in_use || !self.world.is_module {
            return Ok(Refused);
        }
        let result = module::remove();
        ensure!(
            matches!(result, Err(Errno::EAGAIN | Errno::EBUSY)),
            "rmmod with an open event: {result:?}"
        );
        Ok(Done)
    }
}

/// An outcome that may be one of these errors.
fn refused_with<T>(result: Result<T, Errno>, refusals: &[Errno]) -> Result<Outcome> {
    match result {
        Ok(_) => Ok(Done),
        Err(errno) if refusals.contains(&errno) => Ok(Refused),
        Err(errno) => Err(errno.into()),
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}

/// Writes a number to a file.
fn written(file: &str, value: u32, refusals: &[Errno]) -> Result<Outcome> {
    let result = fs::write(file, value.to_string());
    refused_with(result.map_err(errno), refusals).with_context(|| format!("echo {value} >{file}"))
}
