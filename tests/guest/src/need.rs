// SPDX-License-Identifier: GPL-2.0
//! What a test needs of the machine, the kernel and the command line.

use std::env;
use std::fmt;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use nix::sys::utsname::uname;
use nix::unistd::geteuid;

use crate::ctx::{in_tree_name, skip, Ctx, RUST_PMU};
use crate::module;
use crate::msr;
use crate::pmu::{CpuPmu, Pmu, Vendor};
use crate::trace::has_kcfi;
use crate::waiting;
use crate::workload;

/// A condition without which a test says nothing. [`tests!`](crate::tests) lists the
/// needs of each test; a test is skipped, with the reason, if one is not met.
///
/// Three hold on the emulated PMU only. They are apart because a test is
/// right on other hardware as far as it does without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The machine is the guest of a suite, because the test does this: see
    /// [`suites::TestGroup::elsewhere`].
    Guest(&'static str),
    /// The PMU under test is there, and its counters are free. Most other needs include that.
    Counters,
    /// Counts of user instructions and branches are exact. Most CPUs count an
    /// instruction more for each interrupt and page fault.
    ExactCounts,
    /// Cycles, cache events and branch misses are the functions of instructions and
    /// branches that the PMU model defines.
    EmulatedPmu,
    /// A PMI arrives before the instruction that follows the overflow.
    ZeroSkid,
    /// The clock and the TSC count instructions: QEMU runs with `-icount shift=0`.
    Icount,
    /// At least this many general counters.
    General(u32),
    /// At least this many fixed counters.
    Fixed(u32),
    /// At most this many fixed counters.
    FixedAtMost(u32),
    /// General counters of at most this many bits.
    WidthAtMost(u32),
    /// One write starts or stops all counters.
    GlobalControl,
    /// A CPU of Intel.
    Intel,
    /// A CPU with AMD's PMU.
    Amd,
    /// A CPU with AMD's event of floating-point operations, which needs two counters.
    LargeIncrements,
    /// A CPU of AMD's family 15H.
    Family15h,
    /// At least this many CPUs are online.
    Cpus(usize),
    /// The PMU under test is rust_pmu.
    Module,
    /// The in-tree driver supports this CPU.
    InTree,
    /// The in-tree driver supports this CPU, and its counts are right.
    InTreeCounts,
    /// The in-tree driver reserves the counters that it uses.
    InTreeReserves,
    /// The module can attach to trace points, because the kernel has no kCFI.
    TracePoints,
    /// The kernel has BTF: the types for a BPF program, and the arguments of trace points.
    Btf,
    /// The kernel has this module.
    KernelModule(&'static str),
    /// The kernel does not check itself, which takes several times as long: the test is about times.
    NoChecks,
    /// The kernel resumes from suspend to RAM, as that with KCSAN does not, with or without the module.
    Resumes,
    /// The effective user is root.
    Root,
    /// MSRs can be read and written through `/dev/cpu/*/msr`.
    Msrs,
    /// The perf tool is in PATH.
    PerfTool,
    /// There is the suite's module that is for tests alone.
    TestModule,
}

/// Skips the test unless all needs are met.
pub fn check(ctx: &Ctx, needs: &[Need]) -> Result<()> {
    match needs.iter().find_map(|need| need.missing(ctx)) {
        Some(reason) => skip(reason),
        None => Ok(()),
    }
}

impl Need {
    /// The reason to skip, if the need is not met.
    fn missing(self, ctx: &Ctx) -> Option<String> {
        if self.is_of_counters() && ctx.no_counters.is_some() {
            return ctx.no_counters.clone();
        }
        let pmu = ctx.pmu.as_str();
        let cpu = CpuPmu::probe();
        let exists = |pmu: &str| Pmu::find(pmu).is_ok();
        // On a hybrid CPU there is no PMU for all cores.
        let in_tree = || {
            let of_all_cores = || pmu == RUST_PMU && exists("cpu_core");
            !ctx.is_primary() && (exists(&in_tree_name(pmu)) || of_all_cores())
        };
        // Nothing enumerates AMD's legacy counters: a driver has to find that they work.
        let has_pmu = || exists(pmu) || exists(&format!("{pmu}_core")) || in_tree();
        let (met, has) = match self {
            Self::Guest(_) => (ctx.suite.is_guest(), String::new()),
            Self::Counters => (true, String::new()),
            Self::ExactCounts | Self::EmulatedPmu | Self::ZeroSkid => {
                let met = cpu.general > 0 && crate::pmu::is_tcg() && has_pmu();
                (met, String::new())
            }
            Self::Icount => (
                crate::pmu::is_tcg() && tsc_counts_instructions(),
                String::new(),
            ),
            Self::General(n) => (cpu.general >= n, cpu.general.to_string()),
            Self::Fixed(n) => (cpu.fixed >= n, cpu.fixed.to_string()),
            Self::FixedAtMost(n) => (cpu.fixed <= n, cpu.fixed.to_string()),
            Self::WidthAtMost(bits) => (cpu.width <= bits, cpu.width.to_string()),
            Self::GlobalControl => (cpu.global_control, String::new()),
            Self::Intel => (cpu.vendor == Vendor::Intel, format!("{:?}", cpu.vendor)),
            Self::Amd => (cpu.is_amd(), format!("{:?}", cpu.vendor)),
            Self::LargeIncrements => (
                cpu.is_amd() && cpu.family >= 0x17,
                format!("{:?}, family {:#x}", cpu.vendor, cpu.family),
            ),
            Self::Family15h => (
                cpu.is_family_15h(),
                format!("{:?}, family {:#x}", cpu.vendor, cpu.family),
            ),
            Self::Cpus(n) => {
                let cpus = match ctx.suite.is_guest() {
                    true => online_cpus().len(),
                    false => first_cpus(pmu),
                };
                (cpus >= n, cpus.to_string())
            }
            Self::Module => (ctx.is_rust_pmu(), pmu.to_string()),
            Self::InTree => (in_tree(), String::new()),
            // It has no addresses of Zhaoxin's fixed counters, so that it does not set them.
            Self::InTreeCounts => (in_tree() && cpu.vendor != Vendor::Zhaoxin, String::new()),
            // The kernel has no reservation for the MSRs of version 6.
            Self::InTreeReserves => (in_tree() && cpu.version < 6, String::new()),
            Self::TracePoints => (!has_kcfi(), String::new()),
            Self::Btf => (Path::new("/sys/kernel/btf/vmlinux").exists(), String::new()),
            Self::KernelModule(name) => (has_module(name), String::new()),
            Self::NoChecks => (!checks_itself(), String::new()),
            Self::Resumes => (!is_release("-debug-kcsan"), String::new()),
            Self::Root => (geteuid().is_root(), String::new()),
            Self::Msrs if !ctx.suite.is_guest() => (false, String::new()),
            Self::Msrs => match msr::load_driver() {
                Ok(()) => (true, String::new()),
                Err(error) => (false, format!("{error:#}")),
            },
            Self::PerfTool => (is_in_path("perf"), String::new()),
            Self::TestModule => (env::var_os(module::OF_TESTS).is_some(), String::new()),
        };
        match (met, has.as_str()) {
            (true, _) => None,
            (false, "") => Some(format!("needs {self}")),
            (false, has) => Some(format!("needs {self}, here: {has}")),
        }
    }

    /// Whether a test with this need counts by the PMU under test.
    fn is_of_counters(self) -> bool {
        match self {
            Self::Counters
            | Self::ExactCounts
            | Self::EmulatedPmu
            | Self::ZeroSkid
            | Self::General(_)
            | Self::Fixed(_)
            | Self::FixedAtMost(_)
            | Self::WidthAtMost(_)
            | Self::GlobalControl
            | Self::LargeIncrements
            | Self::Family15h
            | Self::InTree
            | Self::InTreeCounts
            | Self::InTreeReserves => true,
            Self::Guest(_)
            | Self::Icount
            | Self::TracePoints
            | Self::Btf
            | Self::KernelModule(_)
            | Self::NoChecks
            | Self::Resumes
            | Self::Intel
            | Self::Amd
            | Self::Cpus(_)
            | Self::Module
            | Self::Root
            | Self::Msrs
            | Self::PerfTool
            | Self::TestModule => false,
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guest(what) => write!(f, "a guest of a suite: the test {what}"),
            Self::Counters => f.write_str("counters"),
            Self::ExactCounts => f.write_str("the emulated PMU: exact counts"),
            Self::EmulatedPmu => f.write_str("the emulated PMU: its definitions of events"),
            Self::ZeroSkid => f.write_str("the emulated PMU: no skid"),
            Self::Icount => f.write_str("QEMU with -icount shift=0"),
            Self::General(n) => write!(f, "{n} general counters"),
            Self::Fixed(n) => write!(f, "{n} fixed counters"),
            Self::FixedAtMost(n) => write!(f, "at most {n} fixed counters"),
            Self::WidthAtMost(bits) => write!(f, "counters of at most {bits} bits"),
            Self::GlobalControl => f.write_str("global control of the counters"),
            Self::Intel => f.write_str("a CPU of Intel"),
            Self::Amd => f.write_str("AMD's PMU"),
            Self::LargeIncrements => f.write_str("AMD's family 17H or later"),
            Self::Family15h => f.write_str("AMD's family 15H"),
            Self::Cpus(n) => write!(f, "{n} CPUs"),
            Self::Module => write!(f, "{RUST_PMU} as the PMU under test"),
            Self::InTree => f.write_str("the in-tree driver"),
            Self::InTreeCounts => f.write_str("an in-tree driver that counts on this CPU"),
            Self::InTreeReserves => f.write_str("an in-tree driver that reserves its counters"),
            Self::TracePoints => f.write_str("a kernel without kCFI"),
            Self::Btf => f.write_str("a kernel with BTF"),
            Self::KernelModule(name) => write!(f, "the kernel's module {name}"),
            Self::NoChecks => f.write_str("a kernel that does not check itself"),
            Self::Resumes => f.write_str("a kernel without KCSAN"),
            Self::Root => f.write_str("root"),
            Self::Msrs => f.write_str("access to MSRs"),
            Self::PerfTool => f.write_str("the perf tool"),
            Self::TestModule => f.write_str("the suite's module for tests"),
        }
    }
}

/// Whether the kernel is `KERNEL=debug` or `KERNEL=debug-kcsan`: `tools/xtask/src/debug_kernel.rs`.
pub fn checks_itself() -> bool {
    is_release("-debug")
}

/// Whether the kernel's release has this part.
fn is_release(part: &str) -> bool {
    uname().is_ok_and(|it| it.release().to_string_lossy().contains(part))
}

/// Whether modprobe finds a module.
fn has_module(name: &str) -> bool {
    let mut modprobe = Command::new("modprobe");
    let status = waiting::status(modprobe.args(["--dry-run", "--quiet", name]));
    status.is_ok_and(|status| status.success())
}

/// The CPUs that are online, whatever this thread's affinity is.
fn online_cpus() -> Vec<usize> {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    parse_list(online.trim()).unwrap_or_else(|| vec![0])
}

/// The CPUs of a PMU of one type of core, `None` if it is on all.
pub fn cpus_of(pmu: &str) -> Option<Vec<usize>> {
    let file = format!("/sys/bus/event_source/devices/{pmu}/cpus");
    parse_list(fs::read_to_string(file).ok()?.trim())
}

/// How many CPUs, from the first one on, are online and have the PMU. Tests choose those.
fn first_cpus(pmu: &str) -> usize {
    let (online, of_pmu) = (online_cpus(), cpus_of(pmu));
    let is_of_pmu = |cpu: &usize| of_pmu.as_ref().is_none_or(|cpus| cpus.contains(cpu));
    (0..)
        .take_while(|cpu| online.contains(cpu) && is_of_pmu(cpu))
        .count()
}

/// The elements of a list such as `0-3,5`.
fn parse_list(list: &str) -> Option<Vec<usize>> {
    let ranges = list.split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last).then_some(first..=last)
    });
    let ranges: Vec<_> = ranges.collect::<Option<_>>()?;
    Some(ranges.into_iter().flatten().collect())
}

/// Whether the TSC advances by one with each instruction.
///
/// The difference of two loops does not include RDTSC and the calls. An interrupt can
/// disturb a measurement, but not all of them.
fn tsc_counts_instructions() -> bool {
    const ROUNDS: u64 = 5_000;
    let ticks = |rounds| -> u64 {
        let code = workload::tight_loop(black_box(rounds));
        // SAFETY: RDTSC only reads the time-stamp counter. If CR4.TSD forbade it in
        // user mode, the C library's clock_gettime() would not work either.
        let read = || unsafe { core::arch::x86_64::_rdtsc() };
        (0..20)
            .map(|_| {
                let start = read();
                code.run();
                read() - start
            })
            .min()
            .unwrap_or(0)
    };
    // The loop has two instructions a round.
    ticks(2 * ROUNDS).checked_sub(ticks(ROUNDS)) == Some(2 * ROUNDS)
}

fn is_in_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| Path::new(&dir).join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        for (list, cpus) in [
            ("0", &[0][..]),
            ("0-3", &[0, 1, 2, 3]),
            ("0,2-3,7", &[0, 2, 3, 7]),
        ] {
            assert_eq!(parse_list(list).as_deref(), Some(cpus), "{list}");
        }
        for bad in ["", "3-1", "a"] {
            assert_eq!(parse_list(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_need_that_is_not_met_is_the_reason_to_skip() {
        let ctx = |pmu: &str, suite| Ctx {
            suite: suites::find(suite).expect("a suite"),
            pmu: pmu.to_owned(),
            seed: 1,
            no_counters: None,
            cpus: None,
        };
        let in_tree = ctx("cpu", "default");
        assert_eq!(Need::Cpus(1).missing(&in_tree), None);
        assert_eq!(Need::Module.missing(&ctx("rust_pmu", "default")), None);
        assert_eq!(Need::Module.missing(&ctx("cpu", "primary")), None);
        assert_eq!(
            Need::Module.missing(&in_tree).as_deref(),
            Some("needs rust_pmu as the PMU under test, here: cpu")
        );
        let in_its_place = ctx("cpu", "primary");
        assert!(Need::InTree.missing(&in_its_place).is_some());
        let reason = Need::General(99).missing(&in_tree).expect("99 counters");
        assert!(reason.starts_with("needs 99 general counters, here: "));
    }
}
