// SPDX-License-Identifier: GPL-2.0

//! How the guest of a suite starts: from a state in the cache, which an earlier run has saved, or by
//! booting.
//!
//! QEMU cannot save a guest that has mounted 9p. So the first process of a guest that boots stops
//! before that, and asks at a virtio port to be saved. The host saves the guest, which then goes on in
//! the same QEMU. A guest that is restored goes on from there, too: it finds an answer at the port.

#[cfg(test)]
mod tests;

use anyhow::{anyhow, Context as _, Result};
use boot::monitor::Monitor;
use serde_json::json;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::mem;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::SystemTime;
use suites::SystemEvent;

use super::command_line::monitor;
use super::{Guest, Parts};
use crate::cache::{self, Entry, Key, Making};
use crate::context::{Context, GuestLogs};
use crate::packages;
use crate::saver::Port;
use crate::signals;

/// The name of the virtio port.
const PORT: &str = "start";

/// Tells the first process of the guest that there is the port, by an environment variable. It is
/// port 1 of the first virtio device.
pub const KERNEL_ARGUMENT: &str = "start_port=vport0p1";

/// The first part of the names of all states in the cache.
const ENTRY: &str = "state";

/// The files of a state: the guest, compressed, and what its kernel wrote to the console.
const GUEST: &str = "guest.zst";
const CONSOLE: &str = "console.log";

/// How much space all states may take.
const MEGABYTES: u64 = 6_000;

/// QEMU's arguments for a guest with this directory that may be saved: the port, and a number that is
/// another in each QEMU. When the number has changed, the kernel seeds its random numbers anew
/// (drivers/virt/vmgenid.c). Otherwise all guests from one state would have the same.
pub fn arguments(run: &Path) -> Vec<String> {
    let mut arguments = Port::arguments(run, PORT, ",nr=1").to_vec();
    arguments.extend(["-device".to_owned(), "vmgenid,guid=auto".to_owned()]);
    arguments
}

impl Guest<'_> {
    /// Whether the guest may be saved, and start from what was saved.
    pub fn may_be_saved(&self, ctx: &Context, parts: &Parts) -> bool {
        // Other files may change while they keep their names.
        let made_of = [parts.qemu.binary(), &parts.image.vmlinux, &parts.initramfs];
        self.may_restore
            && self.options.are_usual()
            && self.suite.is_some_and(|it| it.event == SystemEvent::None)
            && parts.kernel.flavour.is_none()
            && made_of.iter().all(|it| it.starts_with(&ctx.cache))
            // CI keeps no cache.
            && env::var_os("CI").is_none_or(|it| it.is_empty())
    }
}

/// The start of a guest.
pub struct Start<'a> {
    ctx: &'a Context,
    /// The state that a QEMU is to restore, or has restored.
    state: Option<Entry<'static>>,
    /// Whether the guest was restored, and goes on.
    is_restored: Arc<AtomicBool>,
    port: Port,
}

impl<'a> Start<'a> {
    /// Decides how a guest with this directory starts. `command` starts its QEMU.
    pub fn new(ctx: &'a Context, command: &Command, run: &Path, logs: &GuestLogs) -> Result<Self> {
        let entry = Entry {
            name: ENTRY,
            key: key(Key::new(ctx).recipe(0), command).finish(),
            title: "saving a guest".to_owned(),
            // Before it is compressed, too.
            megabytes: 500,
        };
        let mut state = None;
        let mut making = None;
        let chosen = match entry.exists(ctx) {
            true => prepare(&dir(ctx, &entry), logs).map(|()| state = Some(entry)),
            false => entry.try_make(ctx).map(|it| making = it),
        };
        if let Err(error) = chosen {
            complain(&error);
        }
        let is_restored = Arc::new(AtomicBool::new(false));
        let mut server = Server {
            cache: ctx.cache.clone(),
            monitor: monitor(run),
            console: logs.console(),
            is_restoring: state.is_some(),
            making,
            is_restored: Arc::clone(&is_restored),
        };
        let port = Port::start(run, PORT, move |port| {
            server.serve(port);
            Ok(())
        })?;
        Ok(Self {
            ctx,
            state,
            is_restored,
            port,
        })
    }

    /// The arguments of the first QEMU: none if the guest boots.
    pub fn incoming(&self) -> Vec<String> {
        let Some(state) = &self.state else {
            return Vec::new();
        };
        let channel = json!({
            "channel-type": "main",
            "addr": {
                "transport": "exec",
                "args": ["/usr/bin/zstd", "-dcq", dir(self.ctx, state).join(GUEST)],
            },
        });
        vec!["-incoming".to_owned(), channel.to_string()]
    }

    /// Whether QEMU, which has ended, should have restored the guest, but has not. Then the state is
    /// removed, and the next QEMU boots the guest.
    pub fn is_refused(&mut self) -> bool {
        if self.is_restored.load(Ordering::Acquire) {
            return false;
        }
        let state = self.state.take();
        if let Some(state) = &state {
            refuse(self.ctx, state);
        }
        state.is_some()
    }

    /// Ends. QEMU must have ended. Returns whether the guest was restored.
    pub fn finish(self) -> bool {
        if let Err(error) = self.port.finish() {
            complain(&error);
        }
        let is_restored = self.is_restored.load(Ordering::Acquire);
        if let (false, Some(state)) = (is_restored, &self.state) {
            // It has hung. The next time it boots.
            refuse(self.ctx, state);
        }
        is_restored
    }
}

/// Removes a state that cannot be restored.
fn refuse(ctx: &Context, state: &Entry) {
    complain(&anyhow!("QEMU did not restore {}", state.full_name()));
    if let Err(error) = state.remove(ctx) {
        complain(&error);
    }
}

fn dir(ctx: &Context, state: &Entry) -> PathBuf {
    ctx.cache.join(state.full_name())
}

/// Says once why a guest boots that should not have to.
fn complain(error: &anyhow::Error) {
    static SAID: Once = Once::new();
    // The signal's thread has killed QEMU.
    signals::park_if_interrupted();
    SAID.call_once(|| {
        eprintln!("a guest boots, and is not restored: {error:#}");
    });
}

/// Adds to the key what the state depends on: all arguments of QEMU but for paths of properties.
/// The paths of QEMU, the kernel and the initramfs are names of the cache, which tell what is there.
fn key(key: Key, command: &Command) -> Key {
    let text = |it: &OsStr| it.to_string_lossy().into_owned();
    let is_path = |it: &&str| it.starts_with("path=") || it.starts_with("input-path=");
    command
        .get_args()
        .map(text)
        .fold(key.text(&text(command.get_program())), |key, argument| {
            let parts: Vec<_> = argument.split(',').filter(|it| !is_path(it)).collect();
            key.text(&parts.join(","))
        })
}

/// Begins the log of the console with what the guest had written, and notes that the state is used.
fn prepare(state: &Path, logs: &GuestLogs) -> Result<()> {
    fs::copy(state.join(CONSOLE), logs.console()).context("a saved console")?;
    Ok(File::open(state)?.set_modified(SystemTime::now())?)
}

/// The guest before it is compressed. That adds the suffix of [`GUEST`].
fn guest_of(making: &Making) -> PathBuf {
    making.path().join("guest")
}

/// What the thread of a [`Start`] has.
struct Server {
    cache: PathBuf,
    monitor: PathBuf,
    /// The log of the console.
    console: PathBuf,
    /// Whether the next QEMU restores the guest.
    is_restoring: bool,
    /// What is to be saved.
    making: Option<Making>,
    is_restored: Arc<AtomicBool>,
}

impl Server {
    /// Serves a QEMU. A guest that had no answer would wait for ever, so no error ends the thread.
    fn serve(&mut self, mut port: UnixStream) {
        if mem::take(&mut self.is_restoring) {
            let sent = port.write_all(b"restored\n");
            let goes_on = sent.is_ok() && matches!(port.read(&mut [0]), Ok(1));
            self.is_restored.store(goes_on, Ordering::Release);
        } else if matches!(port.read(&mut [0]), Ok(1)) {
            let making = self.making.take();
            let saved = making.map(|making| self.save(making));
            let _ = port.write_all(b"booted\n");
            let kept = saved.map(|saved| saved.and_then(|making| self.keep(making)));
            if let Some(Err(error)) = kept {
                complain(&error);
            }
        }
    }

    /// Saves the guest, which goes on afterwards.
    fn save(&self, making: Making) -> Result<Making> {
        let mut monitor = Monitor::connect(&self.monitor, None)?;
        let saved = monitor.save(&guest_of(&making));
        let copied = fs::copy(&self.console, making.path().join(CONSOLE));
        // If it was not saved it may run.
        let _ = monitor.execute(&json!({ "execute": "cont" }));
        saved?;
        copied?;
        Ok(making)
    }

    /// Compresses what was saved, and puts it in the cache.
    fn keep(&self, making: Making) -> Result<()> {
        let state = guest_of(&making);
        packages::output(Command::new("zstd").args(["-1", "-q", "--rm"]).arg(state))?;
        making.commit()?;
        cache::limit(&self.cache, ENTRY, MEGABYTES)
    }
}
