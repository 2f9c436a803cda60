// SPDX-License-Identifier: GPL-2.0

//! Secure Boot: which modules load on the machine with the packages, and what works there.
//!
//! The guest has UEFI firmware whose keys are that of DKMS on this machine and Debian's. So it boots
//! Debian's kernel as it is, which is locked down then and accepts modules with either key. On a
//! machine with Microsoft's keys, shim adds the same two.

use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::counting::{Counting, TESTS};
use super::machine::Machine;
use crate::context::Context;
use crate::guest::{self, Parts};
use crate::step::Step;

/// The firmware, and what reads and makes keys.
const TOOLS: &[&str] = &["ovmf", "python3-virt-firmware", "sbsigntool"];

const FIRMWARE: &str = "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd";
const VARIABLES: &str = "/usr/share/OVMF/OVMF_VARS_4M.fd";

/// The key that DKMS makes when it builds its first module.
const DKMS_KEY: Key<'static> = Key {
    private: "/var/lib/dkms/mok.key",
    certificate: "/var/lib/dkms/mok.pub",
};

/// Where the machine has the modules of the test.
const DIRECTORY: &str = "/root/secure-boot";

/// The owner of a key, a GUID that means nothing.
const OWNER: &str = "5a3c2f0e-7d1b-4c5e-9f60-1b2a3c4d5e6f";

/// What the guest does before the tests that run under the strictest lockdown.
const SCRIPT: &str = "\
busybox mount -t securityfs securityfs /sys/kernel/security
lockdown=/sys/kernel/security/lockdown
grep -q '\\[integrity\\]' $lockdown
# refused FILE WHY
refused() {
	busybox dmesg -c >/dev/null
	if insmod @DIRECTORY@/$1 2>/tmp/said; then
		echo \"$1 was loaded\" >&2
		exit 1
	fi
	busybox dmesg >>/tmp/said
	cat /tmp/said >&2
	grep -q 'Key was rejected by service' /tmp/said
	grep -q \"$2\" /tmp/said
}
refused unsigned.ko 'Loading of unsigned module is rejected'
refused other-key.ko 'Loading of module with unavailable key is rejected'
insmod @DIRECTORY@/own-key.ko
rmmod rust_perf
modprobe rust_perf
guest-tests @TESTS@ >&2
address=$(busybox awk '$3 == \"vfs_read\" { print $1 }' /proc/kallsyms)
probe=rust_trace/kprobe,address=0x$address/
perf stat -x , -o /tmp/count -e $probe true
cat /tmp/count >&2
grep -q '^[1-9][0-9]*,,rust_trace' /tmp/count
echo confidentiality >$lockdown
busybox dmesg -c >/dev/null
if perf stat -e $probe true >&2; then
	echo 'a probe of the kernel was placed' >&2
	exit 1
fi
busybox dmesg | grep 'use of kprobes is restricted' >&2
perf stat -x , -o /tmp/count -e rust_trace/sched_switch/ true
grep -q '^[0-9]*,,rust_trace' /tmp/count";

/// A key, by its files in the machine.
struct Key<'a> {
    private: &'a str,
    certificate: &'a str,
}

/// Runs the test on the machine, with its kernel. `unsigned` is a module for it.
pub fn test(
    ctx: &Context,
    machine: &Machine,
    parts: &Parts,
    program: &Path,
    unsigned: &Path,
) -> Result<()> {
    super::install(ctx, "secure-boot-tools", "Secure Boot: tools", TOOLS)?;
    let step = Step::start(ctx, "secure-boot-keys", "Secure Boot: keys and modules")?;
    let work = tempfile::tempdir()?;
    let variables = enroll(&step, machine, &parts.image.vmlinuz, work.path())?;
    sign_modules(&step, machine, &parts.kernel.release, unsigned)?;
    step.done();

    let options = guest::Options {
        qemu_args: format!(
            "-M q35,smm=on -global driver=cfi.pflash01,property=secure,value=on \
             -drive if=pflash,format=raw,unit=0,readonly=on,file={FIRMWARE} \
             -drive if=pflash,format=raw,unit=1,file={}",
            variables.display()
        ),
        ..guest::Options::default()
    };
    let script = SCRIPT
        .replace("@DIRECTORY@", DIRECTORY)
        .replace("@TESTS@", &TESTS.join(" "));
    Counting {
        parts,
        program,
        module: None,
        options: &options,
    }
    .run(ctx, "secure-boot-guest", "Secure Boot: guest", &script)?;
    fs::remove_dir_all(machine.path(Path::new(DIRECTORY)))?;
    Ok(())
}

/// Removes DKMS's key, which DKMS leaves when it is purged: firmware may know it.
pub fn remove_key(machine: &Machine) -> Result<()> {
    for file in [DKMS_KEY.private, DKMS_KEY.certificate] {
        let file = machine.path(Path::new(file));
        fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    }
    fs::remove_dir(machine.path(Path::new("/var/lib/dkms"))).context("DKMS left more than its key")
}

/// Makes variables of the firmware that switch Secure Boot on, with the machine's key and that of the
/// kernel.
fn enroll(step: &Step, machine: &Machine, vmlinuz: &Path, work: &Path) -> Result<PathBuf> {
    let own = work.join("own.pem");
    step.run(
        Command::new("openssl")
            .args(["x509", "-inform", "DER", "-in"])
            .arg(machine.path(Path::new(DKMS_KEY.certificate)))
            .arg("-out")
            .arg(&own),
    )
    .context("DKMS has made no key to sign with")?;

    let image = work.join("vmlinuz");
    let signature = work.join("signature");
    let of_kernel = work.join("kernel.pem");
    fs::copy(vmlinuz, &image)?;
    step.run(
        Command::new("sbattach")
            .arg("--detach")
            .arg(&signature)
            .arg(&image),
    )
    .context("the kernel's image is not signed")?;
    step.run(
        Command::new("openssl")
            .args(["pkcs7", "-inform", "DER", "-print_certs", "-in"])
            .arg(&signature)
            .arg("-out")
            .arg(&of_kernel),
    )?;

    let variables = work.join("variables.fd");
    let mut enroll = Command::new("virt-fw-vars");
    enroll.args(["--secure-boot", "--input", VARIABLES, "--output"]);
    enroll.arg(&variables);
    for (list, key) in [
        ("--set-pk", &own),
        ("--add-kek", &own),
        ("--add-db", &own),
        ("--add-db", &of_kernel),
    ] {
        enroll.args([list, OWNER]).arg(key);
    }
    step.run(&mut enroll)?;
    Ok(variables)
}

/// Puts three modules into the machine: one without a signature, one that is signed with a key that
/// the firmware does not know, and one that is signed with DKMS's as docs/install.md says.
fn sign_modules(step: &Step, machine: &Machine, release: &str, unsigned: &Path) -> Result<()> {
    fs::create_dir(machine.path(Path::new(DIRECTORY)))?;
    let [private, certificate] = ["key", "der"].map(|end| format!("{DIRECTORY}/other.{end}"));
    let other = Key {
        private: &private,
        certificate: &certificate,
    };
    step.run(
        machine
            .command("openssl")
            .args(["req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes"])
            .args(["-subj", "/CN=Unknown/", "-outform", "DER"])
            .args(["-keyout", other.private, "-out", other.certificate]),
    )?;
    for (name, key) in [
        ("unsigned.ko", None),
        ("other-key.ko", Some(&other)),
        ("own-key.ko", Some(&DKMS_KEY)),
    ] {
        let path = format!("{DIRECTORY}/{name}");
        let file = machine.path(Path::new(&path));
        fs::copy(unsigned, &file)?;
        let Some(key) = key else { continue };
        let sign_file = format!("/lib/modules/{release}/build/scripts/sign-file");
        let mut sign = machine.command(&sign_file);
        step.run(sign.args(["sha256", key.private, key.certificate, &path]))?;
        ensure!(
            fs::read(&file)?.ends_with(b"~Module signature appended~\n"),
            step.failure(&format!("{name} has no signature"))
        );
    }
    Ok(())
}
