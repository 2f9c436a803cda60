// SPDX-License-Identifier: GPL-2.0

//! A named step: it shows progress and elapsed time, keeps a log, and explains a
//! failure.

use anyhow::{bail, Context as _, Error, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::context::Context;
use crate::hints;
use crate::signals;

/// How many lines of its log a failure shows.
const TAIL_LINES: usize = 15;

/// A step that has started.
pub struct Step {
    title: String,
    log: PathBuf,
    started: Instant,
    bar: ProgressBar,
    /// Whether the title is on the screen, and the rest of its line is to follow.
    shows_title: bool,
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Step {
    /// Starts a step whose log is `name`.log.
    pub fn start(ctx: &Context, name: &str, title: &str) -> Result<Self> {
        fs::create_dir_all(&ctx.logs)?;
        let log = ctx.logs.join(format!("{name}.log"));
        File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;

        let bar = match ctx.in_lines {
            true => ProgressBar::hidden(),
            false => ProgressBar::new_spinner(),
        }
        .with_style(ProgressStyle::with_template(
            "{prefix:43} {elapsed:>4} {wide_msg:.dim}",
        )?)
        .with_prefix(title.to_owned());
        let shows_title = bar.is_hidden() && !ctx.in_lines;
        if shows_title {
            eprint!("{title:43} ");
        }
        Ok(Self {
            title: title.to_owned(),
            ticker: Some(ticker(bar.clone(), log.clone())),
            log,
            started: Instant::now(),
            bar,
            shows_title,
        })
    }

    /// Runs a command. Its output goes to the log.
    pub fn run(&self, command: &mut Command) -> Result<()> {
        let mut log = self.log_file()?;
        writeln!(log, "+ {}", describe(command))?;
        signals::park_if_interrupted();
        let status = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .status()
            .with_context(|| format!("cannot run {}", describe(command)))?;
        if status.success() {
            return Ok(());
        }
        bail!(self.failure(&format!("{} ({status})", describe(command))))
    }

    /// The path of its log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    fn log_file(&self) -> Result<File> {
        Ok(File::options().append(true).open(&self.log)?)
    }

    /// What the user is told when the step fails: the end of the log, and a hint.
    pub fn failure(&self, what: &str) -> Failure {
        self.bar.finish_and_clear();
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let hint = hints::hint(last_lines(&log, 100))
            .or_else(|| hints::hint(what))
            .unwrap_or("read the log; the next run starts this step again");
        Failure(format!(
            "{} failed: {what}\n{}\n  log: {}\n  try: {hint}",
            self.title,
            indent(last_lines(&log, TAIL_LINES)),
            self.log.display(),
        ))
    }

    /// Makes a [`Failure`] of an error that is none yet.
    pub fn explain(&self, error: Error) -> Error {
        match error.is::<Failure>() {
            true => error,
            false => self.failure(&format!("{error:#}")).into(),
        }
    }

    /// Ends the step and prints how long it took.
    pub fn done(self) {
        self.end("");
    }

    /// Ends the step and prints how long it took and what came of it.
    pub fn end(self, result: &str) {
        let seconds = self.started.elapsed().as_secs_f64();
        let mut text = format!("{seconds:5.0} s");
        if !result.is_empty() {
            text = format!("{text}  {result}");
        }
        if self.shows_title {
            eprintln!("{text}");
        } else {
            self.bar.finish_and_clear();
            eprintln!("{:43} {text}", self.title);
        }
    }
}

/// What the user is told when a step fails.
#[derive(Debug)]
pub struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl Drop for Step {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.ticker.take() {
            drop(stop);
            // The step does not fail because its ticker panicked.
            let _ = thread.join();
        }
        if !self.bar.is_finished() {
            self.bar.finish_and_clear();
        }
    }
}

/// Shows the last line of the log beside the elapsed time.
fn ticker(bar: ProgressBar, log: PathBuf) -> (Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = mpsc::channel();
    let thread = thread::spawn(move || {
        while stopped.recv_timeout(Duration::from_millis(250)) == Err(RecvTimeoutError::Timeout) {
            if let Some(line) = last_line(&log) {
                bar.set_message(line);
            }
            bar.tick();
        }
    });
    (stop, thread)
}

fn last_line(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let len = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(512))).ok()?;
    let mut end = Vec::new();
    file.read_to_end(&mut end).ok()?;
    let end = String::from_utf8_lossy(&end);
    end.split(['\n', '\r'])
        .rfind(|line| !line.trim().is_empty())
        .map(|line| line.trim().to_owned())
}

/// A command as a user would type it.
pub fn describe(command: &Command) -> String {
    shell_words::join(
        std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| word.to_string_lossy()),
    )
}

/// The last `n` lines of a text.
pub fn last_lines(text: &str, n: usize) -> &str {
    let text = text.trim_end();
    match text.rmatch_indices('\n').nth(n.saturating_sub(1)) {
        Some((at, _)) => &text[at + 1..],
        None => text,
    }
}

/// Quotes lines of a log.
pub fn indent(text: &str) -> String {
    text.lines()
        .map(|line| format!("  | {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The exit code that a shell gives for a process.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitCode::from(code as u8),
        (None, signal) => ExitCode::from(128 + signal.unwrap_or(0) as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("a\n", 2), "a");
        assert_eq!(last_lines("", 2), "");
        assert_eq!(indent("a\nb"), "  | a\n  | b");
    }

    #[test]
    fn commands_are_quoted_for_a_shell() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo hi"]);
        assert_eq!(describe(&command), "sh -c 'echo hi'");
    }
}
