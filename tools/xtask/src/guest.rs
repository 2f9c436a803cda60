// SPDX-License-Identifier: GPL-2.0

//! The guest: a stock Debian kernel whose userland is the build root itself.
//!
//! The root comes over 9p, read-only, as the lower layer of an overlay. What
//! the guest is told to do is in a directory of its own ("run"), shared too;
//! the command's output comes through two virtio ports, so that it is apart
//! from the kernel's console, which goes to a log.

use anyhow::{bail, ensure, Context as _, Result};
use clap::Args;
use cpio::newc::ModeFileType;
use cpio::{write_cpio, NewcBuilder};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::{self, Cursor, IsTerminal, Read, Write};
use std::iter;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use terminal_size::{terminal_size, Height, Width};

use crate::cache::{Entry, Key};
use crate::context::Context;
use crate::kernel::{self, Image, Kernel};
use crate::module;
use crate::qemu::Qemu;
use crate::signals::{self, TerminalModes};
use crate::step::{indent, last_lines};

/// The guest's init, in its initramfs.
const INIT: &str = include_str!("../guest/init");
/// What init hands over to.
const RUN: &str = include_str!("../guest/run");

/// The modules that init needs, with what they depend on.
const MODULES: &[&str] = &["9pnet_virtio", "9p", "overlay"];

/// What coreutils' timeout exits with, too.
const TIMED_OUT: u8 = 124;
/// What a shell says of a command that SIGPIPE ended.
const BROKEN_PIPE: u8 = 141;

/// The kernel command line of every guest.
///
/// `tsc=nowatchdog`: the clocksource watchdog of kernel 7.3 can deadlock at
/// boot, while clocksource_done_booting() switches away from jiffies in
/// stop_machine(); docs/clocksource-watchdog.md has the details.
const KERNEL_ARGS: &str = "console=ttyS0 loglevel=5 panic=-1 oops=panic \
                           no_timer_check nmi_watchdog=0 tsc=nowatchdog";

/// Files of a guest that is running, in its "run" directory.
const CONSOLE: &str = "console.log";
const QEMU_LOG: &str = "qemu.log";

/// What the user may say about a guest.
#[derive(Args, Clone, Default)]
// clap names a group after its struct, and "test" has Options of its own as well.
#[group(id = "guest")]
pub struct Options {
    /// A host directory, at /mnt/share in the guest; out/share if none is named.
    #[arg(long, env = "RUST_PERF_SHARE")]
    pub share: Option<PathBuf>,
    /// More arguments for QEMU.
    #[arg(
        long,
        env = "RUST_PERF_QEMU_ARGS",
        default_value = "",
        allow_hyphen_values = true
    )]
    pub qemu_args: String,
    /// Virtual CPUs; 2 if not said.
    #[arg(long, env = "RUST_PERF_SMP")]
    pub smp: Option<u32>,
    /// More kernel command line.
    #[arg(long, env = "RUST_PERF_APPEND", default_value = "")]
    pub append: String,
    /// QEMU's -cpu.
    #[arg(long, env = "RUST_PERF_CPU")]
    pub cpu: Option<String>,
    /// Do not load the module.
    #[arg(long)]
    pub no_module: bool,
    /// Seconds until the guest is stopped; an interactive one is not, by default.
    #[arg(long, env = "RUST_PERF_TIMEOUT")]
    pub timeout: Option<u64>,
}

impl Options {
    /// Whether they leave the guest as it is by default.
    pub fn are_usual(&self) -> bool {
        let Self {
            share: _,
            qemu_args,
            smp,
            append,
            cpu,
            no_module,
            timeout: _,
        } = self;
        qemu_args.is_empty() && smp.is_none() && append.is_empty() && cpu.is_none() && !no_module
    }

    /// The timeout of a guest that no one sits in front of.
    pub fn seconds(&self) -> u64 {
        self.timeout.unwrap_or(600)
    }

    /// The directory that the guest has at /mnt/share.
    pub fn share(&self, ctx: &Context) -> Result<PathBuf> {
        let share = self.share.clone().unwrap_or_else(|| ctx.out.join("share"));
        fs::create_dir_all(&share).with_context(|| format!("cannot make {}", share.display()))?;
        Ok(share)
    }
}

/// What a guest is made of: the same for all guests of a run.
pub struct Parts {
    /// QEMU with the PMU.
    pub qemu: Qemu,
    /// The kernel.
    pub kernel: Kernel,
    /// Its image and modules.
    pub image: Image,
    /// The initramfs.
    pub initramfs: PathBuf,
}

impl Parts {
    /// Makes what is not there yet.
    pub fn prepare(ctx: &Context, options: &kernel::Options, qemu: Qemu) -> Result<Self> {
        let kernel = kernel::resolve(ctx, options)?;
        let image = kernel::image(ctx, &kernel)?;
        Ok(Self {
            initramfs: initramfs(ctx, &kernel, &image)?,
            qemu,
            kernel,
            image,
        })
    }
}

/// A guest to run.
pub struct Guest<'a> {
    /// What its logs are called.
    pub name: &'a str,
    /// The module, to load unless the options say no.
    pub module: Option<&'a Path>,
    /// The command, for sh; interactive without one.
    pub command: Option<&'a str>,
    /// Files to put beside the command, in /run/xtask.
    pub files: &'a [&'a Path],
    /// The rest.
    pub options: &'a Options,
}

/// How a guest ended.
pub enum Outcome {
    /// The command exited, with this status.
    Exited(u8),
    /// The guest had to be stopped.
    TimedOut,
    /// No one reads what the command prints, as after `| head`: it was stopped.
    Unread,
    /// The guest ended before the command did: a panic, say, or a bad QEMU argument.
    Died,
}

/// What a guest left.
pub struct End {
    /// How it ended.
    pub outcome: Outcome,
    /// What its kernel said on the console.
    pub console: String,
    /// What QEMU said.
    qemu: String,
}

/// Where a guest's output goes.
pub type Sink = Box<dyn Write + Send>;

impl Guest<'_> {
    /// The log of the kernel's console.
    fn console(&self, ctx: &Context) -> PathBuf {
        ctx.logs.join(format!("{}.console.log", self.name))
    }

    /// Boots it and waits for its end.
    pub fn run(&self, ctx: &Context, parts: &Parts, stdout: Sink, stderr: Sink) -> Result<End> {
        fs::create_dir_all(&ctx.logs)?;
        let run = tempfile::tempdir()?;
        self.fill(run.path())?;
        let mut command = self.qemu(ctx, parts, run.path())?;

        let (tell, news) = mpsc::channel();
        let mut pumps = Vec::new();
        let interactive = self.command.is_none();
        if interactive {
            command.args([
                "-chardev",
                "stdio,id=tty,mux=on,signal=off",
                "-device",
                "virtconsole,chardev=tty",
            ]);
        } else {
            command.stdin(Stdio::null()).stdout(Stdio::null());
            for (name, sink) in [("stdout", stdout), ("stderr", stderr)] {
                let pump = Pump::start(run.path().join(name), sink, tell.clone())?;
                command
                    .arg("-chardev")
                    .arg(format!("socket,id={name},path={}", pump.path.display()))
                    .arg("-device")
                    .arg(format!("virtserialport,chardev={name},name={name}"));
                pumps.push(pump);
            }
        }
        let words = shell_words::split(&self.options.qemu_args).context("QEMU_ARGS")?;
        let log = File::create(run.path().join(QEMU_LOG))?;
        signals::park_if_interrupted();
        let _modes = TerminalModes::save();
        let child = command
            .args(words)
            .stderr(log)
            .spawn()
            .context("cannot run QEMU")?;

        let timeout = match self.options.timeout {
            None if interactive => None,
            _ => Some(Duration::from_secs(self.options.seconds())),
        };
        let stopped = wait(child, timeout, tell, &news)?;
        for pump in pumps {
            pump.finish()?;
        }
        let read = |name: &str| {
            let text = fs::read(run.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&text).into_owned()
        };
        let end = End {
            outcome: match stopped {
                Some(outcome) => outcome,
                None => read("status")
                    .trim()
                    .parse()
                    .map_or(Outcome::Died, Outcome::Exited),
            },
            console: read(CONSOLE),
            qemu: read(QEMU_LOG),
        };
        // A second guest of this name has its own until here.
        fs::write(self.console(ctx), &end.console)?;
        Ok(end)
    }

    /// What the guest's scripts read.
    fn fill(&self, run: &Path) -> Result<()> {
        let mut environment = String::new();
        let mut set = |name: &str, value: &str| {
            environment += &format!("export {name}={}\n", shell_words::quote(value));
        };
        if let Some(module) = self.module {
            fs::copy(module, run.join("rust_perf.ko"))
                .with_context(|| format!("cannot copy {}", module.display()))?;
            set("RUST_PERF_KO", "/run/xtask/rust_perf.ko");
            if !self.options.no_module {
                set("LOAD", "1");
            }
        }
        match self.command {
            Some(command) => fs::write(run.join("command"), command)?,
            None => {
                set("INTERACTIVE", "1");
                set(
                    "TERM",
                    &std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned()),
                );
                if let Some((Width(columns), Height(rows))) = terminal_size() {
                    set("ROWS", &rows.to_string());
                    set("COLUMNS", &columns.to_string());
                }
            }
        }
        for file in self.files {
            let name = file.file_name().context("a file without a name")?;
            fs::copy(file, run.join(name))?;
        }
        fs::write(run.join("environment"), environment)?;
        fs::write(run.join("run"), RUN)?;
        Ok(())
    }

    fn qemu(&self, ctx: &Context, parts: &Parts, run: &Path) -> Result<Command> {
        let options = self.options;
        let share = options.share(ctx)?;
        let mut command = parts.qemu.command();
        command
            .args([
                "-nodefaults",
                "-no-reboot",
                "-display",
                "none",
                "-nic",
                "none",
            ])
            .args(["-m", "1G", "-smp", &options.smp.unwrap_or(2).to_string()])
            .args(["-cpu", options.cpu.as_deref().unwrap_or(parts.qemu.cpu())])
            .arg("-kernel")
            .arg(&parts.image.vmlinuz)
            .arg("-initrd")
            .arg(&parts.initramfs)
            .arg("-append")
            .arg(format!("{KERNEL_ARGS} {}", options.append))
            .arg("-serial")
            .arg(format!("file:{}", run.join(CONSOLE).display()))
            .args(["-device", "virtio-serial-pci"]);
        for (tag, path, access) in [
            ("root", ctx.root.as_path(), ",readonly=on"),
            ("modules", &parts.image.modules, ",readonly=on"),
            ("checkout", &ctx.top, ",readonly=on"),
            ("run", run, ""),
            ("share", &share, ""),
        ] {
            command.arg("-virtfs").arg(format!(
                "local,path={},mount_tag={tag},security_model=none,multidevs=remap{access}",
                path.display().to_string().replace(',', ",,")
            ));
        }
        Ok(command)
    }

    /// What to tell about a guest that did not end by itself.
    pub fn explain(&self, ctx: &Context, end: &End) -> String {
        let what = match end.outcome {
            Outcome::Exited(status) => return format!("its command exited with {status}"),
            Outcome::Unread => return "no one reads its output".to_owned(),
            Outcome::TimedOut => format!(
                "the guest did not finish in {} s and was stopped (TIMEOUT= sets how long it may take)",
                self.options.seconds()
            ),
            Outcome::Died => "the guest ended before its command did".to_owned(),
        };
        let qemu = match indent(last_lines(&end.qemu, 5)) {
            nothing if nothing.is_empty() => nothing,
            said => format!("\nQEMU said:\n{said}"),
        };
        format!(
            "{what}{qemu}\nThe end of its console, {}:\n{}",
            self.console(ctx).display(),
            indent(&telling_end(&end.console))
        )
    }

    /// Runs it for the user: its output is ours, and its status too.
    pub fn run_for_user(&self, ctx: &Context, parts: &Parts) -> Result<ExitCode> {
        let end = self.run(ctx, parts, Box::new(io::stdout()), Box::new(io::stderr()))?;
        match end.outcome {
            Outcome::Exited(status) => Ok(ExitCode::from(status)),
            Outcome::Unread => Ok(ExitCode::from(BROKEN_PIPE)),
            Outcome::TimedOut => {
                eprintln!("rust_perf: {}", self.explain(ctx, &end));
                Ok(ExitCode::from(TIMED_OUT))
            }
            Outcome::Died => bail!("{}", self.explain(ctx, &end)),
        }
    }
}

/// The last lines of a console; of a kernel that complained, how the first
/// complaint begins, since the last lines are but the end of its stack.
fn telling_end(console: &str) -> String {
    complaint(console).unwrap_or_else(|| last_lines(console, 25).to_owned())
}

/// The kernel's first complaint, if there is one, and some of what follows.
pub fn complaint(console: &str) -> Option<String> {
    const COMPLAINTS: &[&str] = &["Kernel panic", "Oops", "BUG:", "WARNING:"];
    let mut lines = console.lines();
    let first = lines.find(|line| COMPLAINTS.iter().any(|what| line.contains(what)))?;
    let some: Vec<_> = iter::once(first).chain(lines.take(24)).collect();
    Some(some.join("\n"))
}

/// What ends the wait for a guest.
enum News {
    /// QEMU has ended.
    Ended,
    /// A [`Pump`] found that no one reads its output.
    Unread,
}

/// Waits for a child's end; kills it when that takes too long or is of no use,
/// and returns which.
fn wait(
    mut child: Child,
    timeout: Option<Duration>,
    tell: Sender<News>,
    news: &Receiver<News>,
) -> Result<Option<Outcome>> {
    let pid = Pid::from_raw(child.id().try_into()?);
    let waiter = thread::spawn(move || {
        let status = child.wait();
        // The receiver is there until we are joined.
        let _ = tell.send(News::Ended);
        status
    });
    let first = match timeout {
        Some(timeout) => news.recv_timeout(timeout),
        None => news.recv().map_err(RecvTimeoutError::from),
    };
    let stopped = match first {
        Ok(News::Ended) => None,
        Ok(News::Unread) => Some(Outcome::Unread),
        Err(_) => Some(Outcome::TimedOut),
    };
    if stopped.is_some() {
        // ESRCH if it has just ended.
        let _ = kill(pid, Signal::SIGKILL);
    }
    match waiter.join() {
        Ok(status) => status.map(|_| stopped).context("waiting for QEMU"),
        Err(_) => bail!("the thread that waits for QEMU panicked"),
    }
}

/// Copies what comes out of a virtio port, as it comes.
struct Pump {
    path: PathBuf,
    thread: JoinHandle<io::Result<()>>,
}

impl Pump {
    fn start(path: PathBuf, mut sink: Sink, tell: Sender<News>) -> Result<Self> {
        let listener = UnixListener::bind(&path)?;
        let thread = thread::spawn(move || {
            let (mut port, _) = listener.accept()?;
            let mut buffer = [0; 65536];
            let mut result = Ok(());
            loop {
                let n = port.read(&mut buffer)?;
                if n == 0 {
                    return result;
                }
                // After an error go on reading: a guest that cannot write its
                // output away waits for ever.
                if result.is_ok() {
                    result = sink.write_all(&buffer[..n]).and_then(|()| sink.flush());
                    if broken_pipe(&result) {
                        // The receiver is gone when QEMU is.
                        let _ = tell.send(News::Unread);
                    }
                }
            }
        });
        Ok(Self { path, thread })
    }

    /// Once QEMU has ended.
    fn finish(self) -> Result<()> {
        // A QEMU that ended early never connected: the thread still waits for it.
        drop(UnixStream::connect(&self.path));
        match self.thread.join() {
            Ok(result) if broken_pipe(&result) => Ok(()),
            Ok(result) => result.context("copying the guest's output"),
            Err(_) => bail!("the thread that copies the guest's output panicked"),
        }
    }
}

fn broken_pipe(result: &io::Result<()>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::BrokenPipe)
}

/// Makes the initramfs of a kernel: busybox, init and a few modules.
fn initramfs(ctx: &Context, kernel: &Kernel, image: &Image) -> Result<PathBuf> {
    let entry = Entry {
        name: "initramfs",
        key: Key::new(ctx)
            .recipe(0)
            .text(&kernel.release)
            .text(&kernel.version.to_string())
            .text(INIT)
            .texts(MODULES)
            .finish(),
        title: format!("initramfs for {}", kernel.release),
        megabytes: 20,
    }
    .get(ctx, |_, dir| {
        let modules = image.modules.join(&kernel.release);
        let dependencies = fs::read_to_string(modules.join("modules.dep"))?;
        let mut files = vec![(
            "bin/busybox".to_owned(),
            fs::read("/usr/bin/busybox").context("no busybox in the build root")?,
        )];
        let mut names = Vec::new();
        for path in load_order(&dependencies, MODULES)? {
            let contents = Command::new("xz")
                .arg("-dc")
                .arg(modules.join(path))
                .output()?;
            ensure!(contents.status.success(), "cannot decompress {path}");
            let name = path.rsplit('/').next().unwrap_or(path);
            let name = name.strip_suffix(".xz").unwrap_or(name).to_owned();
            files.push((name.clone(), contents.stdout));
            names.push(name);
        }
        files.push((
            "init".to_owned(),
            INIT.replace("@MODULES@", &names.join(" ")).into_bytes(),
        ));

        let entry = |name: &str, file_type, mode| {
            NewcBuilder::new(name)
                .set_mode_file_type(file_type)
                .mode(mode)
        };
        let mut archive = vec![(
            entry("bin", ModeFileType::Directory, 0o40755),
            Cursor::new(Vec::new()),
        )];
        for (name, contents) in files {
            archive.push((
                entry(&name, ModeFileType::Regular, 0o100755),
                Cursor::new(contents),
            ));
        }
        write_cpio(archive.into_iter(), File::create(dir.join("initramfs"))?)?;
        Ok(())
    })?;
    Ok(entry.join("initramfs"))
}

/// The paths of modules and of what they depend on, in the order to load them.
fn load_order<'a>(dependencies: &'a str, modules: &[&str]) -> Result<Vec<&'a str>> {
    let mut order = Vec::new();
    for module in modules {
        let suffix = format!("/{module}.ko");
        let (path, needs) = dependencies
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(path, _)| path.strip_suffix(".xz").unwrap_or(path).ends_with(&suffix))
            .with_context(|| format!("the kernel has no module {module}"))?;
        // modules.dep lists the most basic one last.
        for path in needs.split_whitespace().rev().chain([path]) {
            if !order.contains(&path) {
                order.push(path);
            }
        }
    }
    Ok(order)
}

/// `make guest`.
pub fn command(
    ctx: &Context,
    kernel: &kernel::Options,
    options: &Options,
    cmd: &str,
) -> Result<ExitCode> {
    user_guest(ctx, kernel, options, "guest", Some(cmd))
}

/// `make shell`.
pub fn shell(ctx: &Context, kernel: &kernel::Options, options: &Options) -> Result<ExitCode> {
    ensure!(
        io::stdin().is_terminal(),
        "make shell needs a terminal; for one command: make guest CMD='…'"
    );
    eprintln!(
        "The module is loaded, perf is there, {} is /mnt/share, the checkout /mnt/checkout.\n\
         exit or Ctrl-D powers off; Ctrl-A x ends the guest at once.",
        options.share(ctx)?.display()
    );
    user_guest(ctx, kernel, options, "shell", None)
}

fn user_guest(
    ctx: &Context,
    kernel: &kernel::Options,
    options: &Options,
    name: &str,
    command: Option<&str>,
) -> Result<ExitCode> {
    let parts = Parts::prepare(ctx, kernel, Qemu::patched(ctx)?)?;
    let module = match options.no_module {
        true => None,
        false => Some(module::for_kernel(ctx, &parts.kernel)?),
    };
    Guest {
        name,
        module: module.as_deref(),
        command,
        files: &[],
        options,
    }
    .run_for_user(ctx, &parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_shown_from_its_start() {
        let console = format!("boot\nKernel panic - not syncing\n{}", "stack\n".repeat(50));
        assert!(telling_end(&console).starts_with("Kernel panic"));
        assert_eq!(telling_end("MP-BIOS bug\nhung"), "MP-BIOS bug\nhung");
    }

    #[test]
    fn dependencies_are_loaded_first() {
        let dependencies =
            "kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz\n\
                            kernel/net/9p/9pnet.ko.xz: kernel/fs/netfs/netfs.ko.xz\n\
                            kernel/fs/netfs/netfs.ko.xz:\n";
        assert_eq!(
            load_order(dependencies, &["9pnet", "9p"]).unwrap(),
            [
                "kernel/fs/netfs/netfs.ko.xz",
                "kernel/net/9p/9pnet.ko.xz",
                "kernel/fs/9p/9p.ko.xz"
            ]
        );
        assert!(load_order(dependencies, &["p"]).is_err());
    }

    #[test]
    fn a_child_that_takes_too_long_is_killed() {
        let run = |time: &str, timeout| {
            let child = Command::new("sleep").arg(time).spawn().unwrap();
            let (tell, news) = mpsc::channel();
            wait(child, Some(timeout), tell, &news).unwrap()
        };
        assert!(matches!(
            run("60", Duration::from_millis(10)),
            Some(Outcome::TimedOut)
        ));
        assert!(run("0", Duration::from_secs(30)).is_none());
    }

    #[test]
    fn a_pump_ends_though_no_one_connected() {
        let dir = tempfile::tempdir().unwrap();
        let (tell, _news) = mpsc::channel();
        let pump = Pump::start(dir.path().join("p"), Box::new(io::sink()), tell).unwrap();
        pump.finish().unwrap();
    }

    #[test]
    fn a_pump_reads_on_when_no_one_reads_from_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        let (tell, news) = mpsc::channel();
        let (reader, writer) = UnixStream::pair().unwrap();
        drop(reader);
        let pump = Pump::start(path.clone(), Box::new(writer), tell).unwrap();
        let mut port = UnixStream::connect(path).unwrap();
        // More than a socket holds.
        port.write_all(&vec![0; 4 << 20]).unwrap();
        drop(port);
        assert!(matches!(news.recv(), Ok(News::Unread)));
        pump.finish().unwrap();
    }
}
