// SPDX-License-Identifier: GPL-2.0

//! The files of a guest in /run/xtask.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use suites::SystemEvent;
use terminal_size::{terminal_size, Height, Width};

use super::settings::Settings;
use super::{Guest, Parts};
use crate::bolt;
use crate::packages;

/// The script that the initramfs starts from /run/xtask.
const RUN: &str = include_str!("../../guest/run");

/// A function of this script and of the next one.
const FINISH: &str = include_str!("../../guest/finish");

/// The script that it goes on with in a guest that is to be saved.
const SAVED: &str = include_str!("../../guest/saved");

impl Guest<'_> {
    /// Makes the files of /run/xtask.
    pub fn fill(&self, run: &Path, parts: &Parts, settings: &Settings) -> Result<()> {
        let mut environment = String::new();
        let mut set = |name: &str, value: &str| {
            environment += &format!("export {name}={}\n", shell_words::quote(value));
        };
        if let Some(module) = self.module {
            strip(module, &run.join("rust_perf.ko"))?;
            set("RUST_PERF_KO", "/run/xtask/rust_perf.ko");
            if settings.load_module {
                set("LOAD", "1");
            }
            if settings.primary {
                set("PARAMETERS", "primary=1");
            }
        }
        if let Some(example) = self.example {
            let name = example.file_name().unwrap_or_default().to_string_lossy();
            let file = format!("/run/xtask/{name}");
            copy(example, &run.join(&*name))?;
            set("RUST_PERF_EXAMPLE_KO", &file);
            if settings.load_module && self.suite.is_none() {
                set("LOAD_EXAMPLE", "1");
            }
        }
        if let Some(module) = self.test_module {
            copy(module, &run.join("test.ko"))?;
            set("RUST_PERF_TEST_KO", "/run/xtask/test.ko");
        }
        if let Some(programs) = self.kernel_programs {
            let directory = run.join("kernel-programs");
            fs::create_dir(&directory)?;
            for file in fs::read_dir(programs)? {
                let file = file?;
                copy(&file.path(), &directory.join(file.file_name()))?;
            }
            set("RUST_PERF_KERNEL_PROGRAMS", "/run/xtask/kernel-programs");
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
        if self.tests.is_some() || self.bolt.is_some() {
            fs::create_dir(run.join("bin"))?;
        }
        if let Some(tests) = self.tests {
            copy(tests, &run.join("bin/guest-tests"))?;
        }
        if let Some(bolt) = self.bolt {
            bolt::provide(bolt, &run.join("bin"))?;
        }
        if let Some(suite) = self.suite {
            set("RUST_PERF_SUITE", suite.name);
            // What the tests wait for has shorter limits.
            set("RUST_PERF_TIMEOUT", &self.options.seconds().to_string());
            match suite.event {
                SystemEvent::Kexec => copy(&parts.initramfs, &run.join("initramfs"))?,
                // A shell needs what 9p has.
                SystemEvent::Saved if self.command.is_some() => set("SAVED", "1"),
                SystemEvent::None | SystemEvent::Saved | SystemEvent::Sleep => {}
            }
        }
        fs::write(run.join("environment"), environment)?;
        for (name, text) in [("run", RUN), ("finish", FINISH), ("saved", SAVED)] {
            fs::write(run.join(name), text)?;
        }
        Ok(())
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// Copies a module without its debug information. That is more than nine tenths of it, and the guest's
/// kernel reads it all each time the module is loaded.
fn strip(from: &Path, to: &Path) -> Result<()> {
    let mut strip = Command::new("strip");
    packages::output(strip.args(["--strip-debug", "-o"]).arg(to).arg(from))?;
    Ok(())
}
