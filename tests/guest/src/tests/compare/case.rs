// SPDX-License-Identifier: GPL-2.0
//! One call of perf_event_open(), and what comes of it on a PMU.

use std::arch::x86_64::__cpuid;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command};

use anyhow::{bail, ensure, Context, Result};
use nix::errno::Errno;
use nix::mount::{mount, umount, MsFlags};
use perf_event::events::Software;
use perf_event::{Builder, Counter};
use perf_event_open_sys::bindings::PERF_IOC_FLAG_GROUP;
use perf_event_open_sys::ioctls;
use tempfile::TempDir;

use super::attr::{self, bits, Attr, Field};
use crate::pmu::{CpuPmu, Pmu};
use crate::workload::{self, Workload};

/// How an attr names its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The PMU's own type.
    Own,
    /// PERF_TYPE_HARDWARE, the PMU's type in the upper half of `config`.
    Hardware,
    /// PERF_TYPE_HW_CACHE, likewise.
    HwCache,
}

/// The argument `pid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// 0.
    Caller,
    /// A child of root's.
    Child,
    /// Process 1.
    Init,
    /// -1.
    Everyone,
    /// A number that no process has.
    NoOne,
    /// The file descriptor of a cgroup.
    Cgroup,
    /// That of something else.
    NoCgroup,
}

/// The argument `group_fd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// -1.
    Alone,
    /// Led by an event of the same PMU.
    Own,
    /// Led by an event of the other PMU, which then has the counters.
    Other,
    /// Led by a software event.
    Software,
    /// Led by a member of a group.
    Member,
    /// A file that is no event.
    NotPerf,
    /// No file descriptor.
    NotOpen,
}

/// Flags of the system call.
pub const FD_NO_GROUP: u64 = 1 << 0;
pub const FD_OUTPUT: u64 = 1 << 1;
pub const PID_CGROUP: u64 = 1 << 2;
pub const FD_CLOEXEC: u64 = 1 << 3;

/// A call of perf_event_open().
#[derive(Clone, Copy)]
pub struct Case {
    pub kind: Kind,
    /// With `type`, and for generic events the upper half of `config`, still to
    /// be filled in for the PMU.
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
    /// An event of the calling thread, for user mode, disabled.
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

    /// A field as the kernel gets it: what is behind `size` is 0, and a `size` of
    /// 0 means the first one that there was.
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

    /// `config`, but for what says which PMU.
    pub fn config(&self) -> u64 {
        let config = self.attr.get(attr::CONFIG);
        match self.kind {
            Kind::Own => config,
            Kind::Hardware | Kind::HwCache => config & u64::from(u32::MAX),
        }
    }

    /// The attr for a PMU.
    fn attr_for(&self, pmu: &Pmu) -> Attr {
        const HARDWARE: u64 = 0;
        const HW_CACHE: u64 = 3;
        let own = u64::from(pmu.type_);
        let (type_, config) = match self.kind {
            Kind::Own => (own, self.config()),
            Kind::Hardware => (HARDWARE, (own << 32) | self.config()),
            Kind::HwCache => (HW_CACHE, (own << 32) | self.config()),
        };
        let mut attr = self.attr;
        attr.set(attr::TYPE, type_);
        attr.set(attr::CONFIG, config);
        attr
    }

    /// Whether the event can be counted here and by itself: that its samples
    /// neither stop it nor kill this process, and that nothing else is in it.
    fn is_countable(&self, cpu: &Cpu) -> bool {
        /// Fewer events between two samples could be taken for an interrupt storm.
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

    /// What a workload's count is, where that follows from the attr.
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

/// Says all that it takes to make the call again.
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

/// What of the CPU the outcome depends on.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    /// The family, if its events and registers are AMD's.
    pub amd_family: Option<u32>,
    /// Architectural performance monitoring; all 0 on AMD.
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
    /// Version 6.
    pub const EQ: u64 = 1 << 36;
    /// Version 6.
    pub const UMASK2: u64 = 0xff << 40;
    /// The lowest value of [`CMASK`].
    pub const CMASK_1: u64 = 1 << 24;
}

impl Cpu {
    /// Asks the CPU this runs on.
    pub fn probe() -> Self {
        // SAFETY: every x86-64 CPU has CPUID and this leaf.
        let leaf = unsafe { __cpuid(0) };
        let vendor = [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes);
        let amd = matches!(vendor.as_flattened(), b"AuthenticAMD" | b"HygonGenuine");
        // SAFETY: as above.
        let signature = unsafe { __cpuid(1) }.eax;
        let family = ((signature >> 8) & 0xf) + ((signature >> 20) & 0xff);
        Self {
            amd_family: amd.then_some(family),
            perfmon: CpuPmu::probe(),
        }
    }

    /// Whether its events and registers are AMD's.
    pub fn amd(&self) -> bool {
        self.amd_family.is_some()
    }

    /// Whether the events of its northbridge are counted by the cores' counters,
    /// which several cores have in common (APM vol. 3, appendix E).
    pub fn shares_northbridge(&self) -> bool {
        const PERFCTR_CORE: u32 = 1 << 23;
        // SAFETY: every x86-64 CPU has these leaves.
        let (features, sizes) = unsafe { (__cpuid(0x8000_0001), __cpuid(0x8000_0008)) };
        self.amd() && features.ecx & PERFCTR_CORE == 0 && sizes.ecx & 0xff != 0
    }

    /// Whether it is of Intel's kind and of one of these versions.
    pub fn is_version(&self, versions: impl std::ops::RangeBounds<u32>) -> bool {
        !self.amd() && versions.contains(&self.perfmon.version)
    }

    /// The fields of EVENTSEL by which the user chooses what is counted.
    pub fn chosen(&self) -> u64 {
        use eventsel::{AMD_EVENT_HIGH, CMASK, EDGE, EVENT_UMASK, INV};
        let common = EVENT_UMASK | EDGE | INV | CMASK;
        common | if self.amd() { AMD_EVENT_HIGH } else { 0 }
    }

    /// Whether `config` asks for AnyThread, where that has ever been.
    pub fn any_thread(&self, config: u64) -> bool {
        !self.amd() && config & eventsel::ANY != 0
    }

    /// Retired instructions, as in `config`.
    pub fn instructions(&self) -> u64 {
        0xc0
    }

    /// Retired branches, as in `config`.
    pub fn branches(&self) -> u64 {
        if self.amd() {
            0xc2
        } else {
            0xc4
        }
    }

    /// Cycles, as in `config`.
    pub fn cycles(&self) -> u64 {
        if self.amd() {
            0x76
        } else {
            0x3c
        }
    }
}

/// What a call led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// 0 where an event was opened.
    pub errno: i32,
    /// What it counted, where it was let count.
    pub count: Option<u64>,
}

/// What the calls refer to, and how they are made.
pub struct World {
    pub cpu: Cpu,
    pub workload: Workload,
    /// Counts how often this thread was scheduled.
    switches: Counter,
    child: Child,
    cgroup: File,
    null: File,
    // Last, as files in it are open.
    _cgroups: Mount,
}

impl World {
    pub fn new() -> Result<Self> {
        let mut switches = Builder::new(Software::CONTEXT_SWITCHES)
            .include_kernel()
            .build()?;
        switches.enable()?;
        let cgroups = Mount::cgroup2()?;
        Ok(Self {
            cpu: Cpu::probe(),
            workload: workload::whole_periods(1),
            switches,
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
            // Above the highest that there can be (PID_MAX_LIMIT).
            Whose::NoOne => 1 << 23,
            Whose::Cgroup => self.cgroup.as_raw_fd(),
            Whose::NoCgroup => self.null.as_raw_fd(),
        }
    }

    /// Opens an event in a group, -1 for none. Errors are those of the call.
    pub fn open(
        &self,
        pmu: &Pmu,
        case: &Case,
        group_fd: RawFd,
    ) -> std::result::Result<OwnedFd, i32> {
        let attr = case.attr_for(pmu);
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
        // SAFETY: the buffer is longer than what the kernel reads or writes at
        // most, a page.
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
        // SAFETY: a new file descriptor, which is nobody else's.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
    }

    /// An event to lead the group of `case`: of a PMU, or a software event.
    fn leader(
        &self,
        case: &Case,
        pmu: Option<&Pmu>,
        group_fd: RawFd,
    ) -> std::result::Result<OwnedFd, i32> {
        const SOFTWARE: u64 = 1;
        const DUMMY: u64 = 9;
        let leader = Case::own(self.cpu.instructions());
        let mut attr = match pmu {
            Some(pmu) => leader.attr_for(pmu),
            None => {
                let mut attr = leader.attr;
                attr.set(attr::TYPE, SOFTWARE);
                attr.set(attr::CONFIG, DUMMY);
                attr
            }
        };
        // Else the two would be no group for that reason alone.
        attr.set(attr::INHERIT, case.attr.get(attr::INHERIT));
        self.syscall(attr, case, group_fd, case.flags & PID_CGROUP)
    }

    /// Makes the call on `pmu`, and if `count` lets the event count where that can
    /// be.
    pub fn attempt(&mut self, case: &Case, pmu: &Pmu, other: &Pmu, count: bool) -> Result<Outcome> {
        let mut leaders = Vec::new();
        let opened = match case.group {
            Group::Alone => Ok(-1),
            Group::NotPerf => Ok(self.null.as_raw_fd()),
            Group::NotOpen => Ok(i32::MAX),
            Group::Own => self.leader(case, Some(pmu), -1).map(|leader| {
                leaders.push(leader);
                leaders[0].as_raw_fd()
            }),
            Group::Other => self.leader(case, Some(other), -1).map(|leader| {
                leaders.push(leader);
                leaders[0].as_raw_fd()
            }),
            Group::Software => self.leader(case, None, -1).map(|leader| {
                leaders.push(leader);
                leaders[0].as_raw_fd()
            }),
            Group::Member => self.leader(case, None, -1).and_then(|leader| {
                let member = self.leader(case, None, leader.as_raw_fd())?;
                leaders.extend([leader, member]);
                Ok(leaders[1].as_raw_fd())
            }),
        }
        .and_then(|group_fd| self.open(pmu, case, group_fd));
        match opened {
            Err(errno) => Ok(Outcome { errno, count: None }),
            Ok(event) => Ok(Outcome {
                errno: 0,
                count: if count && case.is_countable(&self.cpu) {
                    let count = self.count(&event, case.attr.get(attr::READ_FORMAT));
                    Some(count.with_context(|| format!("{}: {case}", pmu.name))?)
                } else {
                    None
                },
            }),
        }
    }

    /// What the workload's count should be, if the attr alone tells.
    pub fn truth(&self, case: &Case) -> Option<u64> {
        case.truth(&self.cpu, &self.workload)
    }

    /// Has an event or group count the workload, as often as it takes to have no other task run in
    /// between: it would move the place that derived events go on from.
    pub fn count(&mut self, event: &OwnedFd, read_format: u64) -> Result<u64> {
        for _ in 0..200 {
            // SAFETY: an event, and no argument but a flag.
            let status = unsafe { ioctls::RESET(event.as_raw_fd(), PERF_IOC_FLAG_GROUP) };
            ensure!(status == 0, "reset: {}", io::Error::last_os_error());
            let before = self.switches.read()?;
            self.workload.measure(event)?;
            if self.switches.read()? == before {
                return read(event, read_format);
            }
        }
        bail!("never alone on the CPU")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // It can only have gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the first count that an event or group gives (perf_event_open(2),
/// "Reading results").
pub fn read(event: &OwnedFd, read_format: u64) -> Result<u64> {
    let mut words = [0u64; 64];
    let value = if read_format & bits::FORMAT_GROUP == 0 {
        0
    } else {
        // Behind their number and the times.
        1 + (read_format & 3).count_ones() as usize
    };
    // SAFETY: the buffer is that long.
    let len = unsafe {
        libc::read(
            event.as_raw_fd(),
            words.as_mut_ptr().cast(),
            std::mem::size_of_val(&words),
        )
    };
    ensure!(
        len >= 8 * (value as isize + 1),
        "read: {len}, {}",
        io::Error::last_os_error()
    );
    Ok(words[value])
}

/// The hierarchy of cgroups, mounted where nobody looks; unmounted on drop.
struct Mount(TempDir);

impl Mount {
    fn cgroup2() -> Result<Self> {
        let dir = TempDir::new()?;
        mount(
            None::<&str>,
            dir.path(),
            Some("cgroup2"),
            MsFlags::empty(),
            None::<&str>,
        )
        .context("mount cgroup2")?;
        Ok(Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // The guest ends soon anyway.
        let _ = umount(self.0.path());
    }
}

/// The calling thread without root's rights, which it gets back on drop.
pub struct Unprivileged;

impl Unprivileged {
    const NOBODY: libc::uid_t = 65534;

    pub fn new() -> Result<Self> {
        Self::set_user(Self::NOBODY).context("give up root's rights")?;
        Ok(Self)
    }

    /// Sets the effective user, and with it the effective capabilities.
    fn set_user(user: libc::uid_t) -> io::Result<()> {
        const UNCHANGED: libc::uid_t = libc::uid_t::MAX;
        // The C library's function would do this to all threads.
        // SAFETY: it takes numbers only.
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
        Self::set_user(0).expect("root's rights are kept aside");
    }
}
