// SPDX-License-Identifier: GPL-2.0

//! The first process of the guest.

mod command;
mod mounts;
mod network;
mod port;

use anyhow::{ensure, Context as _, Result};
use nix::sys::reboot::{reboot, RebootMode};
use nix::sys::time::TimeSpec;
use nix::time::{clock_gettime, clock_nanosleep, clock_settime, ClockId, ClockNanosleepFlags};
use nix::unistd::{sethostname, sync};
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::talk::{Job, ToHost, CONTROL, JOB_FILE};
use port::Port;

/// The name that the kernel starts it by.
pub const PROGRAM: &str = "/init";

/// The directory of the initramfs with the modules to load. Their names are in the order to load them.
pub const MODULES: &str = "/modules";

/// The file of the initramfs with rust_perf, if the host has it in no place where modprobe looks.
pub const RUST_PERF: &str = "/rust_perf.ko";

/// Settings of the kernel for programs that measure: who may use perf is the host's business.
const SETTINGS: [(&str, &str); 4] = [
    ("kernel/perf_event_paranoid", "-1"),
    ("kernel/kptr_restrict", "0"),
    ("kernel/nmi_watchdog", "0"),
    ("kernel/perf_cpu_time_max_percent", "0"),
];

/// Runs the command, and turns the guest off.
pub fn run() -> ExitCode {
    if let Err(error) = serve() {
        // The host shows the end of the console's log.
        eprintln!("counted: {error:#}");
    }
    let _ = reboot(RebootMode::RB_POWER_OFF);
    ExitCode::FAILURE
}

fn serve() -> Result<()> {
    mounts::early()?;
    mounts::load_modules()?;
    let control = Port::open(CONTROL)?;
    let mut lines = BufReader::new(control.file()?);
    // From the kernel's command line.
    let job = match env::var_os("counted_exact") {
        Some(_) => exact_job(&control)?,
        None => job(&control, &mut lines)?,
    };
    control.say(&ToHost::HasJob)?;
    let ended = prepare(&job).and_then(|()| command::run(&job, lines));
    // The host ends QEMU when it knows.
    sync();
    control.say(&match ended {
        Ok(ended) => ended,
        Err(error) => ToHost::Failed(format!("{error:#}")),
    })?;
    control.wait_until_closed()
}

/// Gets the job by the port.
fn job(control: &Port, lines: &mut impl BufRead) -> Result<Job> {
    // Here the host may save the guest, or have it restored.
    control.say(&ToHost::Ready)?;
    let mut line = String::new();
    lines.read_line(&mut line)?;
    serde_json::from_str(&line).context("the job")
}

/// Gets the job by its file. The guest never waits for the host: with `--exact` any time passes at once
/// while it does. So it stops, is saved, and goes on when there is a job.
fn exact_job(control: &Port) -> Result<Job> {
    control.say(&ToHost::Ready)?;
    wait_for_the_minute()?;
    stop()?;
    serde_json::from_slice(&firmware_file(JOB_FILE)?).context("the job")
}

/// Reads a file of the firmware up to the zeros at its end. To read a page, the kernel reads all pages
/// before.
fn firmware_file(name: &str) -> Result<Vec<u8>> {
    let directory = Path::new("/sys/firmware/qemu_fw_cfg/by_name").join(name);
    let mut file = File::open(directory.join("raw")).context("a file of the firmware")?;
    let mut text = Vec::new();
    let mut page = [0; 4096];
    while text.last() != Some(&0) {
        file.read_exact(&mut page)
            .context("a file of the firmware")?;
        text.extend(page);
    }
    text.retain(|byte| *byte != 0);
    Ok(text)
}

/// Has QEMU stop the guest, which goes on when it is restored. At once, so that no guest that is saved has
/// executed more than another.
fn stop() -> Result<()> {
    /// The register of the device pvpanic (docs/specs/pvpanic.rst of QEMU), and its bit "panicked".
    const REGISTER: u64 = 0x505;
    const PANICKED: u8 = 1;
    let ports = OpenOptions::new().write(true).open("/dev/port")?;
    ports
        .write_all_at(&[PANICKED], REGISTER)
        .context("/dev/port")
}

/// Waits until the time since the start is a whole number of minutes, so that what comes next begins at the
/// same time in each run. With `--exact` it takes next to no time.
fn wait_for_the_minute() -> Result<()> {
    const MINUTE: i64 = 60;
    let clock = ClockId::CLOCK_MONOTONIC;
    let minutes = clock_gettime(clock)?.tv_sec() / MINUTE;
    let next = TimeSpec::new((minutes + 1) * MINUTE, 0);
    clock_nanosleep(clock, ClockNanosleepFlags::TIMER_ABSTIME, &next)?;
    Ok(())
}

/// Loads rust_perf: that of the initramfs, or the one that is installed for this kernel.
fn load_rust_perf(own: Option<&File>, parameters: &[String]) -> Result<()> {
    if let Some(own) = own {
        return mounts::load_module(own, &parameters.join(" ")).context("cannot load rust_perf");
    }
    let mut modprobe = Command::new("/sbin/modprobe");
    let output = modprobe.arg("rust_perf").args(parameters).output();
    let output = output.context("cannot run modprobe")?;
    ensure!(
        output.status.success(),
        "cannot load rust_perf: is the package rust-perf-dkms installed? {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// Makes the guest look like the host.
fn prepare(job: &Job) -> Result<()> {
    // Afterwards the root is another.
    let rust_perf = match File::open(RUST_PERF) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        file => Some(file.context(RUST_PERF)?),
    };
    mounts::host_files(job)?;
    clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::from(job.time)).context("the clock")?;
    mounts::writable(job)?;
    sethostname("counted")?;
    network::loopback()?;
    if let Some(parameters) = &job.module {
        load_rust_perf(rust_perf.as_ref(), parameters)?;
    }
    for (name, value) in SETTINGS {
        // A kernel may lack one.
        let _ = fs::write(format!("/proc/sys/{name}"), value);
    }
    match job.exact {
        true => wait_for_the_minute(),
        false => Ok(()),
    }
}
