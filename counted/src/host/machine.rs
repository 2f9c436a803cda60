// SPDX-License-Identifier: GPL-2.0

//! QEMU's command line.

use boot::qemu::{self, quoted};
use boot::tsc;
use std::path::Path;
use std::process::Command;

use super::kernel::Kernel;
use super::options::{Options, Place};
use crate::talk::{writable_tag, HOST_FILES, JOB_FILE, PORTS};

/// Short names of CPUs, and what QEMU calls them.
const CPUS: [(&str, &str); 8] = [
    ("nehalem", "Nehalem"),
    ("sandy-bridge", "SandyBridge"),
    ("haswell", "Haswell"),
    ("skylake", "Skylake-Server"),
    ("ice-lake", "Icelake-Server"),
    ("sapphire-rapids", "SapphireRapids"),
    ("zen3", "EPYC-Milan"),
    ("zen4", "EPYC-Genoa"),
];

/// What the kernel's command line has.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic no_timer_check \
                                nmi_watchdog=0 tsc=nowatchdog cryptomgr.notests=1";

/// What the kernel's command line has besides with `--exact`: no addresses are random.
const EXACT: &str = " nokaslr norandmaps counted_exact=1";

/// What it has besides without the kernel's own driver.
const PRIMARY: &str = " initcall_blacklist=init_hw_perf_events,pt_init,bts_init";

/// The sockets in the directory of a guest: of the monitor, and of the ports.
pub const MONITOR: &str = "monitor";

/// The file in the directory of a guest that is [`JOB_FILE`] of its firmware.
pub const JOB: &str = "job";

/// The log of the guest's console in the directory of a guest.
pub const CONSOLE: &str = "console";

/// What the guest is, but for its files: arguments of QEMU. A saved guest can be restored by a QEMU that has
/// the same ones.
pub fn hardware(options: &Options) -> Vec<String> {
    let known = CPUS.iter().find(|(name, _)| *name == options.cpu);
    let cpu = known.map_or(options.cpu.as_str(), |(_, of_qemu)| of_qemu);
    let mut arguments: Vec<String> = qemu::BARE.map(str::to_owned).into();
    let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    add("-m", options.memory.clone());
    // With `--exact` they would take turns.
    let cpus = options.smp.unwrap_or(if options.exact { 1 } else { 2 });
    add("-smp", cpus.to_string());
    add("-cpu", format!("{cpu},pmu=on"));
    if options.exact {
        add("-icount", "shift=0,sleep=off".to_owned());
        add("-rtc", "base=2026-01-01,clock=vm".to_owned());
        // By this the guest stops itself.
        add("-device", "pvpanic".to_owned());
        add("-action", "panic=pause".to_owned());
        // RDRAND gives the same numbers each time.
        add("-seed", "1".to_owned());
    } else {
        // When this number has changed, a restored kernel seeds its random numbers anew
        // (drivers/virt/vmgenid.c). Otherwise all guests from one state would have the same.
        add("-device", "vmgenid,guid=auto".to_owned());
    }
    add(
        "-device",
        format!("virtio-serial-pci{}", answers_at_once(options)),
    );
    for name in PORTS {
        add(
            "-device",
            format!("virtserialport,chardev={name},name={name}"),
        );
    }
    arguments
}

/// Properties of virtio devices. With `--exact` they do what the guest asks for while it waits. Otherwise it
/// would depend on how fast the host is, how many instructions the guest executes meanwhile.
fn answers_at_once(options: &Options) -> &'static str {
    match options.exact {
        true => ",ioeventfd=off",
        false => "",
    }
}

/// The kernel's command line. A kernel that is restored has read its own, so that the rate of the TSC, which
/// takes a tenth of a second to measure, is for one that boots.
fn kernel_arguments(options: &Options, boots: bool) -> String {
    let mut arguments = KERNEL_ARGUMENTS.to_owned();
    if options.module == Some(Place::Primary) {
        arguments += PRIMARY;
    }
    if options.exact {
        arguments += EXACT;
    } else if let Some(khz) = boots.then(tsc::khz).flatten() {
        // With `-icount` the guest's TSC counts its instructions.
        arguments += &format!(" tsc_early_khz={khz}");
    }
    arguments
}

/// The command that runs the guest, which boots or is restored. Its sockets and logs are in `directory`.
pub fn command(
    options: &Options,
    kernel: &Kernel,
    boots: bool,
    initramfs: &Path,
    directory: &Path,
) -> Command {
    let mut command = Command::new(options.qemu());
    // First, so that it is there when QEMU connects to the sockets of the ports.
    command.args(qemu::monitor(&directory.join(MONITOR)));
    for name in PORTS {
        command.args([
            "-chardev",
            &format!("socket,id={name},path={}", quoted(&directory.join(name))),
        ]);
    }
    command
        .args(hardware(options))
        .arg("-kernel")
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(initramfs)
        .args(["-append", &kernel_arguments(options, boots)])
        .arg("-serial")
        .arg(format!("file:{}", quoted(&directory.join(CONSOLE))));
    if options.exact {
        let file = quoted(&directory.join(JOB));
        command.args(["-fw_cfg", &format!("name={JOB_FILE},file={file}")]);
    }
    let at_once = answers_at_once(options);
    let mut share = |path: &Path, tag: &str, access: &str| {
        let of_host = format!(
            "local,id={tag},path={},security_model=none,multidevs=remap{access}",
            quoted(path)
        );
        let device = format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}{at_once}");
        command.args(["-fsdev", &of_host, "-device", &device]);
    };
    share(Path::new("/"), HOST_FILES, ",readonly=on");
    for (index, path) in options.rw.iter().enumerate() {
        share(path, &writable_tag(index), "");
    }
    command
}
