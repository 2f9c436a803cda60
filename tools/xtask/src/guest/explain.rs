// SPDX-License-Identifier: GPL-2.0

//! What the user reads about a guest that did not end as it should.

use suites::log::complaint;

use super::{End, Guest, LimitOf, Outcome};
use crate::step::{indent, last_lines};

impl Guest<'_> {
    /// What to tell the user about a guest that did not end as it should.
    pub fn explain(&self, end: &End) -> String {
        let mut text = match end.outcome {
            Outcome::Exited(status) => return format!("the command exited with {status}"),
            Outcome::Unread => return "nobody reads the output".to_owned(),
            Outcome::TimedOut => format!(
                "the guest {} in {} s and was stopped (TIMEOUT= sets the limit).\n\
                 The registers and local APICs of its CPUs: {}\n\
                 The tasks, CPUs and timers of its kernel: {}\n\
                 The backtraces of QEMU's threads: {}",
                match self.limit {
                    LimitOf::Guest => "did not finish",
                    LimitOf::Silence => "reported nothing",
                },
                self.options.seconds(),
                self.logs.registers().display(),
                self.logs.sysrq().display(),
                self.logs.threads().display()
            ),
            Outcome::Died(status) => {
                format!("the guest ended before its command did; QEMU: {status}")
            }
        };
        if let Some(why) = &end.unsaved {
            text += &format!("\n{why}");
        }
        if !end.qemu.trim().is_empty() {
            text += &format!("\nQEMU said:\n{}", indent(last_lines(&end.qemu, 5)));
        }
        format!(
            "{text}\nThe end of the console, {}:\n{}",
            self.logs.console().display(),
            indent(&telling_end(&end.console))
        )
    }
}

/// The last lines of a console. After a complaint of the kernel's it is the beginning of
/// the first one, because the last lines are only the end of a stack.
fn telling_end(console: &str) -> String {
    complaint(console).unwrap_or_else(|| last_lines(console, 25).to_owned())
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
}
