// SPDX-License-Identifier: GPL-2.0

//! The program that a user starts.

mod job;
mod kernel;
mod machine;
mod options;
mod ports;
mod session;
mod state;
mod tarball;
mod terminal;

use anyhow::{bail, ensure, Context as _, Result};
use clap::Parser as _;
use std::env;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::NamedTempFile;

use kernel::Kernel;
use options::Options;
use session::{Outcome, Session};
use state::State;

/// The exit status if the guest could not run the command.
const FAILED: u8 = 125;

/// Runs the command of the command line in a guest.
pub fn run() -> ExitCode {
    let mut options = Options::parse();
    match in_guest(&mut options) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("counted: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

fn in_guest(options: &mut Options) -> Result<u8> {
    for directory in &mut options.rw {
        *directory =
            writable(directory).with_context(|| format!("--rw {}", directory.display()))?;
    }
    let kernel = Kernel::find(options.kernel.as_deref())?;
    let kept = match options.boot {
        true => None,
        false => State::new(options, &kernel),
    };
    let mut temporary = None;
    let state = match kept {
        // Only a guest that is restored begins at the same time in each run.
        None if options.exact => {
            let all = tempfile::Builder::new().prefix("counted-").tempdir()?;
            let all = temporary.insert(all).path();
            State::new_in(all.to_owned(), options, &kernel)
        }
        kept => kept,
    };
    let input = match options.exact && !io::stdin().is_terminal() {
        true => Some(whole_input()?),
        false => None,
    };
    let input = match &input {
        Some(file) if file.as_file().metadata()?.len() == 0 => Some(Path::new("/dev/null")),
        file => file.as_ref().map(NamedTempFile::path),
    };
    let mut may_restore = true;
    let mut is_new = false;
    loop {
        let session = Session::start(options, &kernel, state.as_ref(), may_restore, input)?;
        match session.run()? {
            Outcome::Code(code) => return Ok(code),
            Outcome::Saved if is_new => bail!("the guest was saved, and is not there"),
            Outcome::Saved => {
                is_new = true;
                may_restore = true;
            }
            Outcome::NotRestored(why) if is_new => bail!("QEMU cannot restore a guest: {why}"),
            // The next one boots, and takes the place of what was saved.
            Outcome::NotRestored(_) => may_restore = false,
        }
    }
}

/// Whether a file of the host is where the guest has its own.
fn is_hidden(path: &Path) -> bool {
    ["/dev", "/proc", "/sys"]
        .iter()
        .any(|it| path.starts_with(it))
}

/// The real path of a directory that the guest is to write.
fn writable(directory: &Path) -> Result<PathBuf> {
    let real = directory.canonicalize()?;
    ensure!(real.to_str().is_some(), "its name is not UTF-8");
    ensure!(real.is_dir(), "it is no directory");
    ensure!(real != Path::new("/"), "name directories below /");
    ensure!(
        !is_hidden(&real),
        "the guest has its own {}",
        real.display()
    );
    Ok(real)
}

/// Copies all of standard input to a file, which the guest can read. With `--exact` it may not come in
/// pieces, at times that depend on the host.
fn whole_input() -> Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("counted-").tempfile()?;
    ensure!(
        file.path().to_str().is_some(),
        "the name of {} is not UTF-8: set TMPDIR to another directory",
        env::temp_dir().display()
    );
    let length = io::copy(&mut io::stdin(), &mut file).context("standard input")?;
    ensure!(
        length == 0 || !is_hidden(&file.path().canonicalize()?),
        "the guest does not see standard input, because it has its own {}: set TMPDIR to another directory",
        env::temp_dir().display()
    );
    Ok(file)
}
