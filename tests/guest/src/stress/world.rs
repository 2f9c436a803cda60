// SPDX-License-Identifier: GPL-2.0
//! What the operations refer to: the events that there are, CPUs, cgroups and files.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};
use nix::unistd::Pid;

use super::op::CGROUPS;
use crate::clocks::RUST_CLOCK;
use crate::ctx::{Ctx, IN_TREE, RUST_PMU};
use crate::pmu::{cpuid, is_tcg, CpuPmu, Event, Pmu, Vendor};
use crate::probe::{c_path, place_of, RUST_TRACE};
use crate::program::{Installed, MIXED};
use crate::setting::{online_file, Setting};
use crate::tests::compare::attr::{self, Attr};
use crate::tests::compare::case::Mount;
use crate::trace;
use crate::workload::empty_code;

const DEVICES: &str = "/sys/bus/event_source/devices";
const CPU: &str = "/sys/devices/system/cpu";

/// A function of the kernel that [`Op::Probed`](super::op::Op::Probed) calls.
pub const KERNEL_FUNCTION: &CStr = c"__x64_sys_getppid";

/// Which PMU's event it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The PMU under test, of the CPU's counters.
    Core,
    /// rust_clock.
    Clock,
    /// A trace point of rust_trace.
    TracePoint,
    /// A trace point of rust_trace that cannot have all samples.
    SpecialTracePoint,
    /// A kprobe or uprobe of rust_trace.
    Probe,
    /// Perf's own software events.
    Software,
    /// The other driver's, which needs the same counters.
    Other,
}

/// What a measured event counts of a known loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    Instructions,
    Branches,
    Other,
}

/// An event.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Its name for messages.
    pub name: String,
    pub class: Class,
    pub counts: Counts,
    /// Whether it is the module's.
    pub is_ours: bool,
    type_: u32,
    config: u64,
    /// The bits of `config` that garbage leaves as they are.
    kept: u64,
    config1: u64,
    config2: u64,
}

impl Choice {
    fn new(name: String, class: Class, type_: u32, config: u64) -> Self {
        Self {
            name,
            class,
            counts: Counts::Other,
            is_ours: true,
            type_,
            config,
            kept: 0,
            config1: 0,
            config2: 0,
        }
    }

    /// Sets the event in an attribute.
    pub fn set(&self, attr: &mut Attr, garbage: u64) {
        attr.set(attr::TYPE, self.type_.into());
        attr.set(attr::CONFIG, self.config ^ (garbage & !self.kept));
        if self.config1 | self.config2 != 0 {
            attr.set(attr::CONFIG1, self.config1);
            attr.set(attr::CONFIG2, self.config2);
        }
    }
}

/// Everything that operations refer to.
pub struct World {
    pub events: Vec<Choice>,
    /// The PMUs under test, of the CPU's counters.
    pub core: Vec<Pmu>,
    /// The other driver's.
    pub other: Vec<Pmu>,
    /// Whether counts of user instructions and branches are exact.
    pub exact: bool,
    /// Whether the module can be unloaded.
    pub is_module: bool,
    /// Whether samples of the PMUs under test can have call stacks, and so branches of every kind.
    pub has_branches: bool,
    /// Whether these can have counts between branches.
    pub logs_events: bool,
    /// Whether all CPUs have the same counters.
    pub is_hybrid: bool,
    /// The CPUs that are online.
    pub cpus: Vec<usize>,
    /// Those of them that can go offline.
    pub removable: Vec<usize>,
    /// Files to read.
    pub files: Vec<PathBuf>,
    /// The directories of cgroups, and descriptors of them.
    pub cgroups: Vec<(PathBuf, File)>,
    /// A program with a known number of instructions.
    pub program: Installed,
    path: CString,
    offset: u64,
    root_cgroup: PathBuf,
    // The last field, because the mount must outlive the open files in it.
    _mount: Mount,
}

impl World {
    /// Looks at the machine, and makes the cgroups.
    pub fn new(ctx: &Ctx) -> Result<Self> {
        let mount = Mount::cgroup2()?;
        // Cgroups have no events until the root has controlled its children once, for which any
        // controller will do. An init system does so at boot; the guest has none.
        let control = mount.path().join("cgroup.subtree_control");
        fs::write(&control, "+pids").context("cgroup.subtree_control")?;
        fs::write(&control, "-pids").context("cgroup.subtree_control")?;
        let mut cgroups = Vec::new();
        for i in 0..CGROUPS {
            let dir = mount.path().join(format!("rust-perf-stress-{i}"));
            if !dir.exists() {
                fs::create_dir(&dir).with_context(|| format!("mkdir {}", dir.display()))?;
            }
            let file = File::options()
                .read(true)
                .custom_flags(libc::O_DIRECTORY)
                .open(&dir)?;
            cgroups.push((dir, file));
        }
        let cpus = online()?;
        let removable = |cpu: &usize| Path::new(&online_file(*cpu)).exists();
        let (path, offset) = place_of(empty_code())?;
        let mut world = Self {
            events: Vec::new(),
            core: Vec::new(),
            other: Vec::new(),
            exact: is_tcg() && CpuPmu::probe().general > 0,
            is_module: !ctx.is_primary(),
            has_branches: cpuid(0x1c, 0)[1] == 0b111,
            logs_events: cpuid(0x1c, 0)[2] & 0xf_0000 != 0,
            is_hybrid: false,
            removable: cpus.iter().copied().filter(removable).collect(),
            cpus,
            files: Vec::new(),
            cgroups,
            program: MIXED.install()?,
            path: c_path(&path)?,
            offset,
            root_cgroup: mount.path().to_owned(),
            _mount: mount,
        };
        world.find_events(ctx)?;
        Ok(world)
    }

    /// Finds the PMUs and events, whose numbers can change when the module is loaded again.
    pub fn find_events(&mut self, ctx: &Ctx) -> Result<()> {
        self.core = pmus_of(&ctx.pmu)?;
        self.is_hybrid = self.core.len() > 1;
        let is_in_tree = !ctx.is_rust_pmu();
        let (this, other) = match is_in_tree {
            true => (IN_TREE, RUST_PMU),
            false => (RUST_PMU, IN_TREE),
        };
        self.other = match ctx.is_primary() || CpuPmu::probe().vendor == Vendor::Zhaoxin {
            // The in-tree driver does not count right on Zhaoxin's CPUs, see `Need::InTreeCounts`.
            true => Vec::new(),
            false => {
                let names = self
                    .core
                    .iter()
                    .map(|pmu| pmu.name.replacen(this, other, 1));
                names.filter_map(|name| Pmu::find(&name).ok()).collect()
            }
        };
        self.events.clear();
        for (pmus, class, is_ours) in [
            (&self.core, Class::Core, !is_in_tree),
            (&self.other, Class::Other, is_in_tree),
        ] {
            // The in-tree driver writes a bit that raises #GP: "AnyThread on version 5 stops the fixed
            // counters" in docs/upstream/findings.md.
            let any_thread = !is_ours && CpuPmu::probe().version >= 5;
            for pmu in pmus {
                let events = hardware(pmu, class).into_iter();
                self.events.extend(events.map(|event| Choice {
                    is_ours,
                    kept: u64::from(any_thread) << 21,
                    ..event
                }));
            }
        }
        let clock = Pmu::find(RUST_CLOCK)?;
        for config in [0, 1] {
            let name = format!("{RUST_CLOCK}/{config}/");
            self.events
                .push(Choice::new(name, Class::Clock, clock.type_, config));
        }
        self.find_trace_events()?;
        // include/uapi/linux/perf_event.h, enum perf_sw_ids: cpu-clock, page faults, context
        // switches, dummy.
        for config in [0, 2, 3, 9] {
            let name = format!("software/{config}/");
            self.events.push(Choice {
                is_ours: false,
                ..Choice::new(name, Class::Software, 1, config)
            });
        }
        ensure!(!self.events.is_empty(), "no events");
        self.files = self.find_files()?;
        Ok(())
    }

    fn find_trace_events(&mut self) -> Result<()> {
        let Ok(pmu) = Pmu::find(RUST_TRACE) else {
            return Ok(());
        };
        let mut files: Vec<_> = fs::read_dir(pmu.dir().join("events"))?
            .map(|file| Ok(file?.path()))
            .collect::<Result<_>>()?;
        files.sort();
        if trace::has_kcfi() {
            files.clear();
        }
        for file in files {
            let name = file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let terms = fs::read_to_string(&file)?;
            let Ok(config) = pmu.encode(terms.trim_end()) else {
                continue;
            };
            // See docs/rust-trace.md.
            let special = ["page-faults", "page_fault", "cpu-migrations", "irq_work"];
            let class = match special.iter().any(|part| name.contains(part)) {
                true => Class::SpecialTracePoint,
                false => Class::TracePoint,
            };
            let name = format!("{RUST_TRACE}/{name}/");
            self.events
                .push(Choice::new(name, class, pmu.type_, config));
        }
        // Two uprobes of one instruction need the same `ref_ctr_offset`. One can stay although its
        // events are closed: see docs/upstream/findings.md.
        let ref_ctr_offset = u32::MAX.into();
        for (kind, config1, config2, kept) in [
            (1, KERNEL_FUNCTION.as_ptr() as u64, 0, 0),
            (2, self.path.as_ptr() as u64, self.offset, ref_ctr_offset),
        ] {
            for ret in [0, 1] {
                let terms = format!("kind={kind:#x},ret={ret:#x}");
                let name = format!("{RUST_TRACE}/{terms}/");
                let config = pmu.encode(&terms)?;
                self.events.push(Choice {
                    kept,
                    config1,
                    config2,
                    ..Choice::new(name, Class::Probe, pmu.type_, config)
                });
            }
        }
        Ok(())
    }

    /// The files of the module's PMUs, and others that show their state.
    fn find_files(&self) -> Result<Vec<PathBuf>> {
        let mut files: Vec<PathBuf> = ["/proc/interrupts", "/sys/kernel/debug/kprobes/list"]
            .iter()
            .map(PathBuf::from)
            .filter(|file| file.exists())
            .collect();
        let names = [RUST_CLOCK, RUST_TRACE].map(str::to_owned);
        let core = self.core.iter().map(|pmu| pmu.name.clone());
        for name in core.chain(names) {
            let dir = Path::new(DEVICES).join(name);
            for folder in ["", "format", "events", "caps"] {
                let Ok(entries) = fs::read_dir(dir.join(folder)) else {
                    continue;
                };
                for entry in entries {
                    let path = entry?.path();
                    // `uevent` and others can be written, but all files can be read.
                    if path.is_file() {
                        files.push(path);
                    }
                }
            }
        }
        files.sort();
        Ok(files)
    }

    /// Moves a process to one of the cgroups, or with an index that is too large to the root.
    pub fn move_to_cgroup(&self, pid: Pid, cgroup: usize) -> std::io::Result<()> {
        let dir = self
            .cgroups
            .get(cgroup)
            .map_or(&self.root_cgroup, |it| &it.0);
        fs::write(dir.join("cgroup.procs"), pid.to_string())
    }

    /// The values that operations change, to have them again after a round.
    pub fn settings(&self) -> Result<Vec<Setting>> {
        let mut files: Vec<String> = self.core.iter().map(Pmu::turn_file).collect();
        files.extend(self.rdpmc_file());
        files.into_iter().map(Setting::save).collect()
    }

    /// The file that says who may use RDPMC.
    pub fn rdpmc_file(&self) -> Option<String> {
        let pmus = self.core.iter().chain(&self.other);
        pmus.map(|pmu| format!("{DEVICES}/{}/rdpmc", pmu.name))
            .find(|file| Path::new(file).exists())
    }

    /// Brings all CPUs online that were online at first.
    pub fn bring_cpus_online(&self) -> Result<()> {
        for &cpu in &self.removable {
            let file = online_file(cpu);
            fs::write(&file, "1").with_context(|| format!("echo 1 >{file}"))?;
        }
        ensure!(online()? == self.cpus, "not all CPUs are online");
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Err(error) = self.bring_cpus_online() {
            eprintln!("{error:#}");
        }
        for (dir, _) in &self.cgroups {
            if let Err(error) = fs::remove_dir(dir) {
                eprintln!("rmdir {}: {error}", dir.display());
            }
        }
    }
}

/// The CPUs that are online.
fn online() -> Result<Vec<usize>> {
    parse_cpus(&fs::read_to_string(format!("{CPU}/online"))?)
}

/// The CPUs of a list such as `0-3,5`.
pub fn parse_cpus(list: &str) -> Result<Vec<usize>> {
    let mut cpus = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse::<usize>()?..=last.parse()?);
    }
    Ok(cpus)
}

/// The PMU of this name, or on a hybrid CPU those whose names begin with it.
fn pmus_of(name: &str) -> Result<Vec<Pmu>> {
    let mut pmus: Vec<Pmu> = ["", "_core", "_atom", "_lowpower"]
        .iter()
        .filter_map(|suffix| Pmu::find(&format!("{name}{suffix}")).ok())
        .collect();
    pmus.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(pmus)
}

fn hardware(pmu: &Pmu, class: Class) -> Vec<Choice> {
    pmu.events()
        .map(|event| Choice {
            counts: match event {
                Event::Instructions => Counts::Instructions,
                Event::Branches => Counts::Branches,
                _ => Counts::Other,
            },
            ..Choice::new(
                format!("{}/{}/", pmu.name, event.name()),
                class,
                pmu.type_,
                pmu.config(event),
            )
        })
        .collect()
}
