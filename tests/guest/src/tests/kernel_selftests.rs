// SPDX-License-Identifier: GPL-2.0
//! The kernel's own selftests of perf events, built from Debian's source of this kernel, unchanged:
//! `tools/testing/selftests/perf_events`, and of `bpf` those that attach to perf events.
//!
//! The guest's clock counts instructions, because the selftests have time limits. Not run are:
//!
//! - `timer_stress_nmi_*` of `bpf`: each executes 100,000,000,000 instructions.
//! - `res_spin_lock_stress` of `bpf`: it needs four CPUs, and logs errors although it passes.

use std::fmt::Display;
use std::process::{Command, Output};

use anyhow::{anyhow, ensure, Context, Result};

use crate::ctx::{skip, Ctx, Test};
use crate::module;
use crate::selftest::Outcomes;
use crate::setting::SampleRate;
use crate::tests;
use crate::tool;
use crate::waiting;

pub const TESTS: &[Test] = tests![
    all need [Root, Module, Icount];
    perf_events_mmap,
    perf_events_remove_on_exec,
    perf_events_sigtrap_threads,
    perf_events_watermark_signal,
    bpf_cookie: [Btf],
    bpf_get_branch_snapshot: [Btf],
    bpf_get_stackid_cannot_attach: [Btf],
    bpf_lru_lock_nmi: [Btf],
    bpf_perf_branches: [Btf],
    bpf_perf_buffer: [Btf],
    bpf_perf_event_stackmap: [Btf],
    bpf_perf_link: [Btf],
    bpf_perf_skip: [Btf],
    bpf_send_signal: [Btf],
    bpf_stacktrace_build_id_nmi: [Btf],
    bpf_task_work: [Btf],
];

/// What needs branch records and nothing else.
pub const BRANCHES: &[Test] = tests![
    all need [Root, Module, Icount, Btf];
    bpf_with_branches,
];

/// What skips itself in a virtual machine. The kernel takes the snapshot, by the in-tree driver.
pub const SNAPSHOT: &[Test] = tests![
    all need [Root, Module, Btf];
    bpf_snapshot_of_branches,
];

const NO_AUX: &str = "no PMU has an AUX buffer";
const NOT_PRECISE: &str = "there are no precise events";

/// Tests, or parts of them, that must say that they are skipped, and why. They say so with the
/// in-tree driver as well.
const SKIPPED: &[(&str, &str)] = &[
    ("perf_mmap.aux.map", NO_AUX),
    ("perf_mmap.aux.remap", NO_AUX),
    ("perf_mmap.aux.unmap", NO_AUX),
    ("get_branch_snapshot", "it is not for virtual machines"),
    ("get_stackid_cannot_attach", NOT_PRECISE),
    ("perf_event_stackmap", NOT_PRECISE),
];

/// Runs a selftest in the directory with its files.
fn run_to_end(program: &str, arguments: &[&str]) -> Result<Output> {
    let directory = tool::kernel_programs()?;
    // Some sample as often as is allowed. At the kernel's default rate, ten times this, the CPU
    // would do little else.
    let _rate = SampleRate::fixed(10_000)?;
    let mut command = Command::new(directory.join(program));
    command.args(arguments).current_dir(&directory);
    waiting::output(&mut command).with_context(|| format!("{command:?}"))
}

/// Runs a selftest, and checks its results.
fn run(program: &str, arguments: &[&str], parse: fn(&str) -> Outcomes) -> Result<()> {
    let output = run_to_end(program, arguments)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let said = |what: &dyn Display| {
        let errors = String::from_utf8_lossy(&output.stderr);
        anyhow!("{what}\n{text}\n{errors}")
    };
    let outcomes = parse(&text);
    let all_skipped = outcomes.check(SKIPPED).map_err(|error| said(&error))?;
    if !output.status.success() {
        return Err(said(&output.status));
    }
    match all_skipped {
        Some(why) => skip(why),
        None => Ok(()),
    }
}

fn perf_events(program: &str) -> Result<()> {
    run(program, &[], Outcomes::of_harness)
}

/// Runs the tests, or subtests, of `test_progs` that match a glob.
fn bpf(glob: &str) -> Result<()> {
    run("test_progs", &["-a", glob], Outcomes::of_test_progs)
}

/// The kernel's selftest `perf_events/mmap` passes.
fn perf_events_mmap(_: &Ctx) -> Result<()> {
    perf_events("mmap")
}

/// The kernel's selftest `perf_events/remove_on_exec` passes.
fn perf_events_remove_on_exec(_: &Ctx) -> Result<()> {
    perf_events("remove_on_exec")
}

/// The kernel's selftest `perf_events/sigtrap_threads` passes.
fn perf_events_sigtrap_threads(_: &Ctx) -> Result<()> {
    perf_events("sigtrap_threads")
}

/// The kernel's selftest `perf_events/watermark_signal` passes.
fn perf_events_watermark_signal(_: &Ctx) -> Result<()> {
    perf_events("watermark_signal")
}

/// The kernel's selftest `bpf: bpf_cookie/perf_event` passes.
fn bpf_cookie(_: &Ctx) -> Result<()> {
    bpf("bpf_cookie/perf_event")
}

/// The kernel's selftest `bpf: get_branch_snapshot` passes.
fn bpf_get_branch_snapshot(_: &Ctx) -> Result<()> {
    bpf("get_branch_snapshot")
}

/// The kernel's selftest `bpf: get_stackid_cannot_attach` passes.
fn bpf_get_stackid_cannot_attach(_: &Ctx) -> Result<()> {
    bpf("get_stackid_cannot_attach")
}

/// The kernel's selftest `bpf: lru_lock_nmi` passes.
fn bpf_lru_lock_nmi(_: &Ctx) -> Result<()> {
    bpf("lru_lock_nmi")
}

/// The kernel's selftest `bpf: perf_branches` passes.
fn bpf_perf_branches(_: &Ctx) -> Result<()> {
    bpf("perf_branches")
}

/// The kernel's selftest `bpf: perf_buffer` passes.
fn bpf_perf_buffer(_: &Ctx) -> Result<()> {
    bpf("perf_buffer")
}

/// The kernel's selftest `bpf: perf_event_stackmap` passes.
fn bpf_perf_event_stackmap(_: &Ctx) -> Result<()> {
    bpf("perf_event_stackmap")
}

/// The kernel's selftest `bpf: perf_link` passes.
fn bpf_perf_link(_: &Ctx) -> Result<()> {
    bpf("perf_link")
}

/// The kernel's selftest `bpf: perf_skip` passes.
fn bpf_perf_skip(_: &Ctx) -> Result<()> {
    bpf("perf_skip")
}

/// Those that send the signal at a hardware event.
fn bpf_send_signal(_: &Ctx) -> Result<()> {
    bpf("send_signal/send_signal_nmi*")
}

/// The kernel's selftest `bpf: stacktrace_build_id_nmi` passes.
fn bpf_stacktrace_build_id_nmi(_: &Ctx) -> Result<()> {
    bpf("stacktrace_build_id_nmi")
}

/// The kernel's selftest `bpf: task_work/test_task_work_*` passes.
fn bpf_task_work(_: &Ctx) -> Result<()> {
    bpf("task_work/test_task_work_*")
}

/// On a CPU with branch records both parts of the kernel's selftest `bpf: perf_branches` pass.
fn bpf_with_branches(_: &Ctx) -> Result<()> {
    bpf("perf_branches")
}

/// On a CPU with branch records that is not virtual, the kernel's selftest `bpf: get_branch_snapshot` says the
/// same with and without the module: it finds its loop. It may say that too many branches come behind the loop.
/// It permits nine, and in the guest there are ten.
fn bpf_snapshot_of_branches(ctx: &Ctx) -> Result<()> {
    let said = || -> Result<Vec<String>> {
        let output = run_to_end("test_progs", &["-v", "-a", "get_branch_snapshot"])?;
        let text = String::from_utf8_lossy(&output.stdout);
        let lines = text.lines().filter(|line| line.starts_with("serial_test_"));
        let lines: Vec<_> = lines.map(str::to_owned).collect();
        let has = |words| lines.iter().any(|line| line.contains(words));
        let mut failed = lines.iter().filter(|line| line.contains(":FAIL:"));
        let known = failed.all(|line| line.contains(":check_wasted_entries "));
        ensure!(has(":PASS:find_looptest_in_lbr ") && known, "{text}");
        Ok(lines)
    };
    let with_module = said()?;
    module::remove().context("rmmod")?;
    let without_module = said();
    module::insert(ctx)?.context("insmod")?;
    let without_module = without_module?;
    ensure!(
        with_module == without_module,
        "with the module {with_module:#?}, without it {without_module:#?}"
    );
    Ok(())
}
