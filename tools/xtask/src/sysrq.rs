// SPDX-License-Identifier: GPL-2.0

//! What the kernel of a silent guest says of its tasks, CPUs and timers: by its sysrq keys
//! (Documentation/admin-guide/sysrq.rst) over the serial console, a break and a character each.
//!
//! The kernel listens only while a process has the console open: the guest's script `run` has.

use anyhow::{Context as _, Result};
use boot::monitor::Monitor;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::json;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::context::GuestLogs;
use crate::monitor::PATIENCE;

/// The name of QEMU's character device that is the console.
pub const CONSOLE: &str = "console";

/// The keys: print all levels, blocked tasks, CPUs, timers, all tasks.
const KEYS: &[u8] = b"9wlqt";

/// An answer has ended if there is nothing more for so long.
const PAUSE: Duration = Duration::from_secs(1);

/// The file of the console's input in the directory of a guest.
pub fn input(run: &Path) -> PathBuf {
    run.join("console.input")
}

/// The keyboard of a guest's console.
pub struct Keyboard {
    /// A FIFO, which QEMU reads.
    input: File,
}

impl Keyboard {
    /// Makes the console's input. QEMU must be started after this.
    pub fn new(run: &Path) -> Result<Self> {
        let path = input(run);
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).context("mkfifo")?;
        // Open for both, so that neither this nor QEMU waits for the other.
        let input = File::options().read(true).write(true).open(path)?;
        Ok(Self { input })
    }

    /// Presses the keys, and moves what the kernel answers from the console's log to one of its own. What
    /// cannot be had is said there instead.
    pub fn save(&mut self, logs: &GuestLogs, monitor: &Path) -> Result<()> {
        let console = Console::of(&logs.console())?;
        let pressed = self.press(&console, monitor);
        let mut answer = console.take_new()?;
        if let Err(error) = pressed {
            writeln!(answer, "{error:#}")?;
        } else if answer.is_empty() {
            writeln!(answer, "The kernel does not answer.")?;
        }
        fs::write(logs.sysrq(), answer)?;
        Ok(())
    }

    fn press(&mut self, console: &Console, monitor: &Path) -> Result<()> {
        let mut monitor = Monitor::connect(monitor, Some(PATIENCE))?;
        let send_break = json!({
            "execute": "chardev-send-break",
            "arguments": { "id": CONSOLE },
        });
        for key in KEYS {
            monitor.execute(&send_break)?;
            self.input.write_all(&[*key])?;
            console.wait_for_pause();
        }
        Ok(())
    }
}

/// The log of a console.
struct Console {
    log: PathBuf,
    /// How long it was.
    length: u64,
}

impl Console {
    fn of(log: &Path) -> Result<Self> {
        Ok(Self {
            log: log.to_owned(),
            length: fs::metadata(log)?.len(),
        })
    }

    /// Waits until nothing has been added for a while.
    fn wait_for_pause(&self) {
        let length = || fs::metadata(&self.log).map_or(0, |it| it.len());
        let started = Instant::now();
        let (mut last, mut since) = (length(), Instant::now());
        while since.elapsed() < PAUSE && started.elapsed() < PATIENCE {
            thread::sleep(PAUSE / 10);
            let now = length();
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
    }

    /// Removes what has been added, and returns it.
    fn take_new(&self) -> Result<Vec<u8>> {
        let mut log = File::options().read(true).write(true).open(&self.log)?;
        let mut new = Vec::new();
        log.seek(SeekFrom::Start(self.length))?;
        log.read_to_end(&mut new)?;
        // QEMU adds at the end, wherever that is.
        log.set_len(self.length)?;
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::tests::serve;
    use serde_json::Value;
    use std::os::unix::net::UnixListener;

    /// Presses the keys of a guest whose monitor answers so. Returns the logs of the console and of sysrq.
    fn save(answer: &Value, says: &str) -> (String, String) {
        let dir = tempfile::tempdir().unwrap();
        let logs = GuestLogs::of(dir.path(), "guest");
        fs::write(logs.console(), "booted\n").unwrap();
        let path = dir.path().join("monitor");
        let listener = UnixListener::bind(&path).unwrap();
        let mut keyboard = Keyboard::new(dir.path()).unwrap();
        let mut keys = File::open(input(dir.path())).unwrap();
        thread::scope(|scope| {
            let guest = scope.spawn(|| {
                serve(&listener, |command| {
                    if command["execute"] == "qmp_capabilities" {
                        return json!({ "return": {} });
                    }
                    assert_eq!(command["arguments"]["id"], CONSOLE);
                    let mut log = File::options().append(true).open(logs.console()).unwrap();
                    log.write_all(says.as_bytes()).unwrap();
                    answer.clone()
                });
            });
            keyboard.save(&logs, &path).unwrap();
            guest.join().unwrap();
        });
        drop(keyboard);
        let mut pressed = Vec::new();
        keys.read_to_end(&mut pressed).unwrap();
        assert!(pressed.is_empty() || pressed == KEYS);
        let read = |path: PathBuf| fs::read_to_string(path).unwrap();
        (read(logs.console()), read(logs.sysrq()))
    }

    #[test]
    fn answers_have_a_log_of_their_own() {
        let (console, sysrq) = save(&json!({ "return": {} }), "sysrq: Show Blocked State\n");
        assert_eq!(console, "booted\n");
        assert_eq!(sysrq, "sysrq: Show Blocked State\n".repeat(KEYS.len()));
    }

    #[test]
    fn a_kernel_that_does_not_answer() {
        let (console, sysrq) = save(&json!({ "return": {} }), "");
        assert_eq!(console, "booted\n");
        assert_eq!(sysrq, "The kernel does not answer.\n");
    }

    #[test]
    fn a_monitor_that_refuses() {
        let (_, sysrq) = save(&json!({ "error": { "desc": "no device" } }), "");
        assert!(sysrq.contains("no device"), "{sysrq}");
    }
}
