// SPDX-License-Identifier: GPL-2.0
//! kexec while events are running.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use anyhow::{bail, ensure, Context, Result};
use nix::sys::utsname::uname;

use super::cpus;
use crate::ctx::{Ctx, Test};
use crate::kmsg::Kmsg;
use crate::need::checks_itself;
use crate::pmu::{Event, Mode};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [NoChecks, InTree, ExactCounts];
    next_kernel_finds_nothing_running,
];

/// A word that only the second kernel's command line has.
const MARK: &str = "rust_perf.second_kernel";

/// The initramfs that xtask booted this guest with.
const INITRAMFS: &str = "/run/xtask/initramfs";

/// Boots a second kernel by kexec while events of this task and of every CPU are
/// running. Does nothing in the second kernel, nor in one that checks itself, which has no kexec.
pub fn reboot_once(ctx: &Ctx) -> Result<()> {
    let cmdline = fs::read_to_string("/proc/cmdline")?;
    if cmdline.contains(MARK) || checks_itself() {
        return Ok(());
    }
    let pmu = ctx.pmu()?;
    let mut events = Vec::new();
    for event in [Event::Instructions, Event::CpuCycles, Event::Branches] {
        let mut builder = pmu.event(event);
        builder.sample_period(100_003).enabled(true);
        events.push(builder.build()?);
        for cpu in 0..cpus()? {
            let mut builder = pmu.event(event);
            builder.include_kernel().enabled(true);
            builder.any_pid().one_cpu(cpu);
            events.push(builder.build()?);
        }
    }
    workload::tight_loop(1_000_000).run();

    let release = uname()?.release().to_owned();
    let vmlinuz = Path::new("/usr/lib/modules").join(release).join("vmlinuz");
    let open = |path: &Path| File::open(path).with_context(|| format!("{}", path.display()));
    let cmdline = CString::new(format!("{} {MARK}", cmdline.trim()))?;
    // SAFETY: the two temporary files are open until the end of the statement. `cmdline`
    // is a NUL-terminated string of the given length.
    let loaded = unsafe {
        libc::syscall(
            libc::SYS_kexec_file_load,
            open(&vmlinuz)?.as_raw_fd(),
            open(Path::new(INITRAMFS))?.as_raw_fd(),
            cmdline.as_bytes_with_nul().len(),
            cmdline.as_ptr(),
            0u64,
        )
    };
    ensure!(
        loaded == 0,
        "kexec_file_load: {}",
        io::Error::last_os_error()
    );
    // SAFETY: the reboot ends all processes of the guest without a shutdown. This guest
    // exists only for that, and nothing in it needs to be saved.
    unsafe { libc::reboot(libc::LINUX_REBOOT_CMD_KEXEC) };
    bail!("kexec: {}", io::Error::last_os_error())
}

/// The in-tree driver warns at boot if it finds a counter that runs. There is no such
/// warning, and both PMUs count.
fn next_kernel_finds_nothing_running(ctx: &Ctx) -> Result<()> {
    let found: Vec<String> = Kmsg::from_boot()?
        .lines()?
        .into_iter()
        .filter(|line| line.contains("hw-PMU") || line.contains("Firmware Bug"))
        .collect();
    ensure!(found.is_empty(), "{}", found.join("\n"));
    for pmu in [ctx.pmu()?, ctx.in_tree()?] {
        let mut event = pmu.open(Event::Instructions, Mode::User)?;
        let code = workload::tight_loop(1_000);
        code.measure(&event)?;
        super::expect_count(&code, event.read()?)?;
    }
    Ok(())
}
