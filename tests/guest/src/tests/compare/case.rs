// SPDX-License-Identifier: GPL-2.0
//! Calls of perf_event_open() and their results.

use std::arch::x86_64::__cpuid;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command};

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use nix::mount::{mount, umount, MsFlags};
use perf_event::Counter;
use perf_event_open_sys::bindings::PERF_IOC_FLAG_GROUP;
use perf_event_open_sys::ioctls;
use tempfile::TempDir;

use super::super::{alone_by, context_switches};
use super::attr::{self, bits, Attr, Field};
use crate::generic_events::{PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE};
use crate::pmu::{cpuid, CpuPmu, Pmu};
use crate::waiting;
use crate::workload::{self, Workload};

/// The `type` of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The PMU's own type.
    Own,
    /// PERF_TYPE_HARDWARE, with the PMU's type in the upper half of `config`. rust_pmu's own event of
    /// this name.
    Hardware,
    /// PERF_TYPE_HW_CACHE, with the PMU's type in the upper half of `config`. rust_pmu's own event of
    /// this name.
    HwCache,
}

/// The argument `pid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// 0.
    Caller,
    /// A child process, which is root's.
    Child,
    /// Process 1.
    Init,
    /// -1.
    Everyone,
    /// A pid that no process has.
    NoOne,
    /// The file descriptor of a cgroup.
    Cgroup,
    /// The file descriptor of another file.
    NoCgroup,
}

/// The argument `group_fd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// -1.
    Alone,
    /// Led by an event of the same PMU.
    Own,
    /// Led by an event of the other PMU, whose driver then holds the counters.
    Other,
    /// Led by a software event.
    Software,
    /// A member of a group, which cannot be a leader.
    Member,
    /// A file that is not an event.
    NotPerf,
    /// A file descriptor that is not open.
    NotOpen,
}

/// Flags of the system call.
pub const FD_NO_GROUP: u64 = 1 << 0;
pub const FD_OUTPUT: u64 = 1 << 1;
pub const PID_CGROUP: u64 = 1 << 2;
pub const FD_CLOEXEC: u64 = 1 << 3;

/// One of the two PMUs that are compared.
pub struct Side {
    pub pmu: Pmu,
    /// An event that can lead a group, as cases have it.
    leader: Attr,
    /// The `config` of cases and that of this PMU, if they differ.
    configs: Option<Configs>,
    /// The PMU's own events for generic ones, by their types and numbers, if it has these by name
    /// only.
    names: RefCell<HashMap<(Kind, u64), Option<ByName>>>,
}

/// The `config` and `config1` of an event that a PMU has by name.
type ByName = [u64; 2];

/// The numbers that a PMU has for the events that are compared.
struct Configs {
    /// As cases have it, and as the PMU has it.
    events: Vec<(u64, u64)>,
    /// What all other numbers become: the PMU has no such event. What the number would
    /// mean to this PMU alone says nothing of the other one.
    unknown: u64,
}

impl Side {
    /// A PMU with the same numbers as the other one.
    pub fn new(pmu: Pmu, leader: u64) -> Self {
        Self {
            pmu,
            leader: Case::own(leader).attr,
            configs: None,
            names: RefCell::default(),
        }
    }

    /// A PMU whose events have other numbers than on the other one, or which has more
    /// events than those that are compared. `events` has the numbers that cases have, and
    /// those of this PMU; the first is one that can lead a group.
    pub fn with_configs(pmu: Pmu, events: &[(u64, u64)], unknown: u64) -> Self {
        Self {
            pmu,
            leader: Case::own(events[0].0).attr,
            configs: Some(Configs {
                events: events.to_vec(),
                unknown,
            }),
            names: RefCell::default(),
        }
    }

    /// The PMU, with `leader` to lead groups.
    pub fn led_by(self, leader: Attr) -> Self {
        Self { leader, ..self }
    }

    /// The `config` and `config1` of this PMU's own event for a generic one. `None` if the PMU takes
    /// generic events, or has no such event.
    pub fn by_name(&self, case: &Case) -> Option<ByName> {
        let type_ = match case.kind {
            Kind::Hardware => PERF_TYPE_HARDWARE,
            Kind::HwCache => PERF_TYPE_HW_CACHE,
            Kind::Own => return None,
        };
        if !self.pmu.has_names_only() {
            return None;
        }
        let id = case.config();
        let mut names = self.names.borrow_mut();
        let find = || self.pmu.generic_by_name(type_, id).ok().flatten();
        *names.entry((case.kind, id)).or_insert_with(find)
    }

    /// This PMU's number for `config` of a case.
    fn config(&self, config: u64) -> u64 {
        let Some(Configs { events, unknown }) = &self.configs else {
            return config;
        };
        let event = events.iter().find(|(case, _)| *case == config);
        event.map_or(*unknown, |(_, own)| *own)
    }
}

/// A call of perf_event_open().
#[derive(Clone, Copy)]
pub struct Case {
    pub kind: Kind,
    /// The attributes, without `type` and, for generic events, the upper half of
    /// `config`. `attr_for` fills these in for a PMU.
    pub attr: Attr,
    pub whose: Whose,
    pub cpu: i32,
    pub group: Group,
    pub flags: u64,
    /// The `perf_event_paranoid` under which an unprivileged user calls, or
    /// `None` for root.
    pub paranoid: Option<i32>,
}

impl Case {
    /// An event of the calling thread for user mode, disabled.
    pub fn new(kind: Kind, config: u64) -> Self {
        let mut attr = Attr::default();
        attr.set(attr::SIZE, attr::LEN);
        attr.set(attr::CONFIG, config);
        attr.set(attr::DISABLED, 1);
        attr.set(attr::EXCLUDE_KERNEL, 1);
        Self {
            kind,
            attr,
            whose: Whose::Caller,
            cpu: -1,
            group: Group::Alone,
            flags: 0,
            paranoid: None,
        }
    }

    /// An event of the PMU's own type.
    pub fn own(config: u64) -> Self {
        Self::new(Kind::Own, config)
    }

    /// A field as the kernel reads it: a field beyond `size` is 0. A `size` of 0 means
    /// PERF_ATTR_SIZE_VER0.
    pub fn seen(&self, field: Field) -> u64 {
        let size = match self.attr.get(attr::SIZE) {
            0 => 64,
            size => size,
        };
        if field.is_within(size) {
            self.attr.get(field)
        } else {
            0
        }
    }

    /// `config` without the PMU's type.
    pub fn config(&self) -> u64 {
        let config = self.attr.get(attr::CONFIG);
        match self.kind {
            Kind::Own => config,
            Kind::Hardware | Kind::HwCache => config & u64::from(u32::MAX),
        }
    }

    /// The attr for a PMU.
    fn attr_for(&self, side: &Side) -> Attr {
        let own = u64::from(side.pmu.type_);
        let mut attr = self.attr;
        let generic = |type_: u32| (u64::from(type_), (own << 32) | self.config());
        let (type_, config) = match (self.kind, side.by_name(self)) {
            (Kind::Own, _) => (own, side.config(self.config())),
            (_, Some([config, 0])) => (own, config),
            (_, Some([config, config1])) => {
                // A value of the case's own would be that of another event.
                let value = match self.seen(attr::CONFIG1) {
                    0 => config1,
                    _ => u64::MAX,
                };
                attr.set(attr::CONFIG1, value);
                (own, config)
            }
            (Kind::Hardware, None) => generic(PERF_TYPE_HARDWARE),
            (Kind::HwCache, None) => generic(PERF_TYPE_HW_CACHE),
        };
        attr.set(attr::TYPE, type_);
        attr.set(attr::CONFIG, config);
        attr
    }

    /// Whether the event counts the calling thread, and only user mode, and its
    /// overflows neither throttle it nor kill this process.
    fn is_countable(&self, cpu: &Cpu) -> bool {
        /// With a shorter period the kernel could throttle the event.
        const SHORTEST_PERIOD: u64 = 1_000;
        let period = self.seen(attr::SAMPLE_PERIOD);
        self.whose == Whose::Caller
            && self.cpu == -1
            && self.group == Group::Alone
            && self.paranoid.is_none()
            && self.attr.has(attr::DISABLED)
            && self.attr.has(attr::EXCLUDE_KERNEL)
            && !(self.kind == Kind::Own && cpu.any_thread(self.config()))
            && (period == 0
                || period >= SHORTEST_PERIOD
                    && !self.attr.has(attr::FREQ)
                    && !self.attr.has(attr::SIGTRAP))
    }

    /// The expected count of a workload, if the attributes determine it.
    fn truth(&self, cpu: &Cpu, workload: &Workload) -> Option<u64> {
        if self.attr.has(attr::EXCLUDE_USER) || self.attr.has(attr::EXCLUDE_HOST) {
            return Some(0);
        }
        let config = self.config();
        let is = |hardware, code| match self.kind {
            Kind::Own => config & cpu.chosen() == code,
            Kind::Hardware => config == hardware,
            Kind::HwCache => false,
        };
        if is(1, cpu.instructions()) {
            Some(workload.instructions())
        } else if is(4, cpu.branches()) {
            Some(workload.branches())
        } else {
            None
        }
    }
}

/// Shows everything that is needed to repeat the call.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} event, {}", self.kind, self.attr)?;
        if (self.whose, self.cpu) != (Whose::Caller, -1) {
            write!(f, "; pid={:?} cpu={}", self.whose, self.cpu)?;
        }
        if (self.group, self.flags) != (Group::Alone, 0) {
            write!(f, "; group_fd={:?} flags={:#x}", self.group, self.flags)?;
        }
        if let Some(level) = self.paranoid {
            write!(f, "; unprivileged, perf_event_paranoid={level}")?;
        }
        Ok(())
    }
}

/// The properties of the CPU that the results depend on.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    /// The family, if the CPU has the events and registers of AMD.
    pub amd_family: Option<u32>,
    /// The PMU, as CPUID describes it.
    pub perfmon: CpuPmu,
}

/// Bits of EVENTSEL (SDM vol. 3B, "Performance Monitoring"; APM vol. 2,
/// "Performance Event-Select Registers").
pub mod eventsel {
    pub const EVENT_UMASK: u64 = 0xffff;
    pub const EDGE: u64 = 1 << 18;
    pub const PC: u64 = 1 << 19;
    pub const ANY: u64 = 1 << 21;
    pub const INV: u64 = 1 << 23;
    pub const CMASK: u64 = 0xff << 24;
    pub const AMD_EVENT_HIGH: u64 = 0xf << 32;
    /// Since version 6.
    pub const EQ: u64 = 1 << 36;
    /// Since version 6.
    pub const UMASK2: u64 = 0xff << 40;
    /// [`CMASK`] with the value 1.
    pub const CMASK_1: u64 = 1 << 24;
}

impl Cpu {
    /// Reads CPUID of the CPU that this runs on.
    pub fn probe() -> Self {
        // SAFETY: every x86-64 CPU has CPUID with leaf 0.
        let leaf = unsafe { __cpuid(0) };
        let vendor = [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes);
        let amd = matches!(vendor.as_flattened(), b"AuthenticAMD" | b"HygonGenuine");
        // SAFETY: every x86-64 CPU has CPUID with leaf 1.
        let signature = unsafe { __cpuid(1) }.eax;
        let family = ((signature >> 8) & 0xf) + ((signature >> 20) & 0xff);
        Self {
            amd_family: amd.then_some(family),
            perfmon: CpuPmu::probe(),
        }
    }

    /// Whether the CPU has the events and registers of AMD.
    pub fn amd(&self) -> bool {
        self.amd_family.is_some()
    }

    /// Whether the CPU has AMD's branch records (CPUID.80000022H:EAX.LbrStack).
    pub fn has_amd_lbr(&self) -> bool {
        let [most, ..] = cpuid(0x8000_0000, 0);
        let [features, ..] = cpuid(0x8000_0022, 0);
        self.amd() && most >= 0x8000_0022 && features & 0b10 != 0
    }

    /// Whether the legacy counters count events of a northbridge that several cores
    /// share (APM vol. 3, appendix E).
    pub fn shares_northbridge(&self) -> bool {
        const PERFCTR_CORE: u32 = 1 << 23;
        // SAFETY: every x86-64 CPU has CPUID with these leaves.
        let (features, sizes) = unsafe { (__cpuid(0x8000_0001), __cpuid(0x8000_0008)) };
        self.amd() && features.ecx & PERFCTR_CORE == 0 && sizes.ecx & 0xff != 0
    }

    /// Whether the CPU has one of these versions of architectural performance
    /// monitoring.
    pub fn is_version(&self, versions: impl std::ops::RangeBounds<u32>) -> bool {
        !self.amd() && versions.contains(&self.perfmon.version)
    }

    /// The fields of EVENTSEL that the user chooses on every generation.
    pub fn chosen(&self) -> u64 {
        use eventsel::{AMD_EVENT_HIGH, CMASK, EDGE, EVENT_UMASK, INV};
        let common = EVENT_UMASK | EDGE | INV | CMASK;
        common | if self.amd() { AMD_EVENT_HIGH } else { 0 }
    }

    /// Whether `config` sets AnyThread, which AMD does not have.
    pub fn any_thread(&self, config: u64) -> bool {
        !self.amd() && config & eventsel::ANY != 0
    }

    /// The `config` of retired instructions.
    pub fn instructions(&self) -> u64 {
        0xc0
    }

    /// The `config` of retired branches.
    pub fn branches(&self) -> u64 {
        if self.amd() {
            0xc2
        } else {
            0xc4
        }
    }

    /// The `config` of cycles.
    pub fn cycles(&self) -> u64 {
        if self.amd() {
            0x76
        } else {
            0x3c
        }
    }
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// 0 if the call opened an event.
    pub errno: i32,
    /// The event's count of the workload, if it was measured.
    pub count: Option<u64>,
}

/// An event that a call has opened, and those that lead its group.
pub struct Opened {
    pub event: OwnedFd,
    _leaders: Vec<OwnedFd>,
}

/// The processes, files and workload that the calls refer to.
pub struct World {
    pub cpu: Cpu,
    pub workload: Workload,
    /// Counts the context switches of this thread.
    switches: Counter,
    child: Child,
    /// The root of the hierarchy.
    pub cgroup: File,
    null: File,
    // The last field, because the mount must outlive the open files in it.
    _cgroups: Mount,
}

impl World {
    pub fn new() -> Result<Self> {
        let cgroups = Mount::cgroup2()?;
        Ok(Self {
            cpu: Cpu::probe(),
            workload: workload::whole_periods(1),
            switches: context_switches()?,
            child: Command::new("sleep").arg("infinity").spawn()?,
            cgroup: fs::OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_DIRECTORY)
                .open(cgroups.path())?,
            null: File::open("/dev/null")?,
            _cgroups: cgroups,
        })
    }

    fn pid(&self, whose: Whose) -> i32 {
        match whose {
            Whose::Caller => 0,
            Whose::Child => self.child.id() as i32,
            Whose::Init => 1,
            Whose::Everyone => -1,
            // PID_MAX_LIMIT is less.
            Whose::NoOne => 1 << 23,
            Whose::Cgroup => self.cgroup.as_raw_fd(),
            Whose::NoCgroup => self.null.as_raw_fd(),
        }
    }

    /// Opens an event of `pmu`. A `group_fd` of -1 means no group. The error is the
    /// errno.
    pub fn open(
        &self,
        side: &Side,
        case: &Case,
        group_fd: RawFd,
    ) -> std::result::Result<OwnedFd, i32> {
        let attr = case.attr_for(side);
        self.syscall(attr, case, group_fd, case.flags)
    }

    fn syscall(
        &self,
        attr: Attr,
        case: &Case,
        group_fd: RawFd,
        flags: u64,
    ) -> std::result::Result<OwnedFd, i32> {
        let mut buffer = attr.to_buffer();
        // SAFETY: the buffer has two pages, and the kernel reads and writes at most one.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                buffer.as_mut_ptr(),
                self.pid(case.whose),
                case.cpu,
                group_fd,
                flags,
            )
        };
        if fd < 0 {
            return Err(Errno::last_raw());
        }
        // SAFETY: the kernel has just created this descriptor, so nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
    }

    /// Opens a leader for the group of `case`: an event of `pmu`, or a software event.
    fn leader(
        &self,
        case: &Case,
        side: Option<&Side>,
        group_fd: RawFd,
    ) -> std::result::Result<OwnedFd, i32> {
        const SOFTWARE: u64 = 1;
        const DUMMY: u64 = 9;
        let mut attr = match side {
            Some(side) => {
                let leader = Case {
                    attr: side.leader,
                    ..Case::own(0)
                };
                leader.attr_for(side)
            }
            None => {
                let mut attr = Case::own(DUMMY).attr;
                attr.set(attr::TYPE, SOFTWARE);
                attr
            }
        };
        // Leader and member must have the same `inherit`.
        attr.set(attr::INHERIT, case.attr.get(attr::INHERIT));
        self.syscall(attr, case, group_fd, case.flags & PID_CGROUP)
    }

    /// Makes the call for a PMU.
    pub fn opened(
        &self,
        case: &Case,
        side: &Side,
        other: &Side,
    ) -> std::result::Result<Opened, i32> {
        let mut leaders = Vec::new();
        let mut lead = |leader: OwnedFd| {
            let fd = leader.as_raw_fd();
            leaders.push(leader);
            fd
        };
        let group_fd = match case.group {
            Group::Alone => -1,
            Group::NotPerf => self.null.as_raw_fd(),
            Group::NotOpen => i32::MAX,
            Group::Own => lead(self.leader(case, Some(side), -1)?),
            Group::Other => lead(self.leader(case, Some(other), -1)?),
            Group::Software => lead(self.leader(case, None, -1)?),
            Group::Member => {
                let leader = lead(self.leader(case, None, -1)?);
                lead(self.leader(case, None, leader)?)
            }
        };
        let event = self.open(side, case, group_fd)?;
        Ok(Opened {
            event,
            _leaders: leaders,
        })
    }

    /// Makes the call for a PMU. If `count` is set and the event can be counted, it counts
    /// the workload.
    pub fn attempt(
        &mut self,
        case: &Case,
        side: &Side,
        other: &Side,
        count: bool,
    ) -> Result<Outcome> {
        let Opened { event, _leaders } = match self.opened(case, side, other) {
            Ok(opened) => opened,
            Err(errno) => return Ok(Outcome { errno, count: None }),
        };
        let count = if count && case.is_countable(&self.cpu) {
            let count = self.count(&event, case.attr.get(attr::READ_FORMAT));
            Some(count.with_context(|| format!("{}: {case}", side.pmu.name))?)
        } else {
            None
        };
        Ok(Outcome { errno: 0, count })
    }

    /// The expected count of the workload, if the attributes determine it.
    pub fn truth(&self, case: &Case) -> Option<u64> {
        case.truth(&self.cpu, &self.workload)
    }

    /// Counts the workload with an event or group, and repeats this until no other task ran
    /// meanwhile: that would change the counts of derived events.
    pub fn count(&mut self, event: &OwnedFd, read_format: u64) -> Result<u64> {
        alone_by(&mut self.switches, || {
            // SAFETY: `event` is an open event, and the argument is a number.
            let status = unsafe { ioctls::RESET(event.as_raw_fd(), PERF_IOC_FLAG_GROUP) };
            ensure!(status == 0, "reset: {}", io::Error::last_os_error());
            self.workload.measure(event)
        })?;
        read(event, read_format)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // This fails only if the child has already ended.
        let _ = self.child.kill();
        let _ = waiting::child(&mut self.child, "the end of the child");
    }
}

/// Reads the count of an event, or of a group's leader (perf_event_open(2), "Reading
/// results").
pub fn read(event: &OwnedFd, read_format: u64) -> Result<u64> {
    let mut words = [0u64; 64];
    let value = if read_format & bits::FORMAT_GROUP == 0 {
        0
    } else {
        // The number of values and the times come first.
        1 + (read_format & 3).count_ones() as usize
    };
    // SAFETY: `words` is a buffer of `size_of_val(&words)` bytes, for which any bytes are
    // valid.
    let len = unsafe {
        libc::read(
            event.as_raw_fd(),
            words.as_mut_ptr().cast(),
            std::mem::size_of_val(&words),
        )
    };
    ensure!(
        len >= 8 * (value as isize + 1),
        "read() returned {len}: {}",
        io::Error::last_os_error()
    );
    Ok(words[value])
}

/// A temporary mount of the cgroup hierarchy. Drop unmounts it.
pub struct Mount(TempDir);

impl Mount {
    pub fn cgroup2() -> Result<Self> {
        let dir = TempDir::new()?;
        mount(
            None::<&str>,
            dir.path(),
            Some("cgroup2"),
            MsFlags::empty(),
            None::<&str>,
        )
        .context("mount cgroup2")?;
        let this = Self(dir);
        // Kernel 7.3.4 without a memory controller gives new cgroups no perf_event, which is
        // implicit, before a controller was enabled once.
        let control = this.path().join("cgroup.subtree_control");
        for change in ["+pids", "-pids"] {
            fs::write(&control, change).with_context(|| format!("cgroup controller {change}"))?;
        }
        Ok(this)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = umount(self.0.path());
    }
}

/// Makes the calling thread unprivileged. Drop makes it root again.
pub struct Unprivileged;

impl Unprivileged {
    const NOBODY: libc::uid_t = 65534;

    pub fn new() -> Result<Self> {
        Self::set_user(Self::NOBODY).context("cannot drop privileges")?;
        Ok(Self)
    }

    /// Sets the effective user ID, and with it the effective capabilities.
    fn set_user(user: libc::uid_t) -> io::Result<()> {
        const UNCHANGED: libc::uid_t = libc::uid_t::MAX;
        // The C library's setresuid() would change all threads.
        // SAFETY: this system call takes numbers only.
        let status = unsafe { libc::syscall(libc::SYS_setresuid, UNCHANGED, user, UNCHANGED) };
        if status == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl Drop for Unprivileged {
    fn drop(&mut self) {
        Self::set_user(0).expect("the real and the saved user are still root");
    }
}
