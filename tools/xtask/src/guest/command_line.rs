// SPDX-License-Identifier: GPL-2.0

//! QEMU's command line for a guest, but for the ports of its output.

use anyhow::Result;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use suites::SystemEvent;

use super::settings::Settings;
use super::{start, Guest, Parts};
use crate::context::Context;
use crate::sysrq::{self, CONSOLE};
use boot::{qemu, tsc};

/// The socket of QEMU's monitor in the directory of a guest.
pub fn monitor(run: &Path) -> PathBuf {
    run.join("monitor")
}

impl Guest<'_> {
    /// The command that starts QEMU.
    pub fn qemu(
        &self,
        ctx: &Context,
        parts: &Parts,
        run: &Path,
        settings: &Settings,
    ) -> Result<Command> {
        let share = self.options.share(ctx)?;
        let mut kernel_command_line = settings.kernel_command_line.clone();
        // With `-icount` the guest's TSC counts its instructions.
        if let Some(khz) = tsc::khz().filter(|_| !settings.qemu_args.contains("-icount")) {
            write!(kernel_command_line, " tsc_early_khz={khz}")?;
        }
        // Without a suite the guest is a user's, who may suspend it.
        let suspends = self
            .suite
            .is_none_or(|suite| suite.event == SystemEvent::Sleep);
        let kernel = match suspends {
            true => &parts.image.vmlinuz,
            false => &parts.image.vmlinux,
        };
        let may_be_saved = self.may_be_saved(ctx, parts);
        if may_be_saved {
            write!(kernel_command_line, " {}", start::KERNEL_ARGUMENT)?;
        }
        let mut command = parts.qemu.command();
        command
            .args(qemu::BARE)
            .args(["-m", parts.kernel.memory(), "-smp"])
            .arg(format!("{},threads={}", settings.cpus, settings.threads))
            .args(["-cpu", &settings.cpu])
            .arg("-kernel")
            .arg(kernel)
            .arg("-initrd")
            .arg(&parts.initramfs)
            .args(["-append", &kernel_command_line])
            .arg("-chardev")
            // A QEMU that restores the guest adds to it.
            .arg(format!(
                "file,id={CONSOLE},append=on,path={},input-path={}",
                self.logs.console().display(),
                sysrq::input(run).display()
            ))
            .args(["-serial", &format!("chardev:{CONSOLE}")])
            .args(["-device", "virtio-serial-pci"])
            .args(qemu::monitor(&monitor(run)));
        if may_be_saved {
            command.args(start::arguments(run));
        }
        for (tag, path, access) in [
            ("root", parts.root.as_path(), ",readonly=on"),
            ("modules", &parts.image.modules, ",readonly=on"),
            ("checkout", &ctx.top, ",readonly=on"),
            ("run", run, ""),
            ("share", &share, ""),
        ] {
            command.arg("-virtfs").arg(format!(
                "local,path={},mount_tag={tag},security_model=none,multidevs=remap{access}",
                qemu::quoted(path)
            ));
        }
        Ok(command)
    }
}
