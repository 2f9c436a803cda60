// SPDX-License-Identifier: GPL-2.0
//! What processes are doing, by /proc.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// A process, by /proc/PID/stat (proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Process {
    parent: i32,
    group: i32,
    /// When it was started, in ticks.
    start: u64,
}

impl Process {
    fn parse(stat: &str) -> Option<Self> {
        // The name, in parentheses, may have any characters.
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<_> = rest.split_whitespace().collect();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }
}

/// The numbers in a folder of /proc.
fn numbers(folder: &Path) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<_> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// The processes that the process `tests` has started, with theirs, whether or not those between have ended.
/// The process `watchdog` is not one of them.
pub fn started_by(tests: i32, watchdog: i32) -> Vec<i32> {
    let process = |pid: i32| Process::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
    let all = numbers(Path::new("/proc")).into_iter();
    let all = all.filter_map(|pid| Some((pid, process(pid)?))).collect();
    descendants(&all, tests, watchdog)
}

/// [`started_by`] of `all` processes.
fn descendants(all: &BTreeMap<i32, Process>, tests: i32, watchdog: i32) -> Vec<i32> {
    // Who takes care of orphans is the parent of the watchdog, whose own has ended.
    let reaper = all.get(&watchdog).map(|it| it.parent);
    let is_orphan = |it: &Process| {
        let younger = |tests: &Process| it.group == tests.group && it.start > tests.start;
        Some(it.parent) == reaper && all.get(&tests).is_some_and(younger)
    };
    let mut found = Vec::new();
    loop {
        let before = found.len();
        for (pid, process) in all {
            let is_known = [tests, watchdog].contains(pid) || found.contains(pid);
            let is_child = process.parent == tests || found.contains(&process.parent);
            if !is_known && (is_child || is_orphan(process)) {
                found.push(*pid);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// The states, system calls and stacks of the threads of a process.
pub fn describe(pid: i32) -> String {
    let mut text = String::new();
    let folder = Path::new("/proc").join(pid.to_string()).join("task");
    for thread in numbers(&folder) {
        let read = |name: &str| {
            let content = fs::read_to_string(folder.join(thread.to_string()).join(name));
            content.unwrap_or_default().trim_end().to_owned()
        };
        let stat = read("stat");
        let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let state = state.split(' ').next().unwrap_or_default();
        let _ = writeln!(
            text,
            "{pid}/{thread} {}: {state}, in {}, system call {}",
            read("comm"),
            read("wchan"),
            read("syscall")
        );
        for line in read("stack").lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stat() {
        let stat = "42 (a) b) S 7 40 40 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 345 2416640 1";
        let want = Process {
            parent: 7,
            group: 40,
            start: 345,
        };
        assert_eq!(Process::parse(stat), Some(want));
        assert_eq!(Process::parse("42"), None);
    }

    #[test]
    fn descendants_and_orphans() {
        let process = |parent, group, start| Process {
            parent,
            group,
            start,
        };
        let all = BTreeMap::from([
            (1, process(0, 1, 0)),
            // The shell, and what it has started in the same group.
            (5, process(1, 5, 1)),
            (9, process(5, 5, 3)),
            // The tests and the watchdog.
            (10, process(5, 5, 2)),
            (11, process(1, 5, 3)),
            // A child, its child, whose number is lower, and an orphan.
            (20, process(10, 20, 4)),
            (7, process(20, 7, 5)),
            (21, process(1, 5, 4)),
            // Others.
            (30, process(1, 30, 6)),
            (4, process(1, 5, 1)),
        ]);
        let mut found = descendants(&all, 10, 11);
        found.sort_unstable();
        assert_eq!(found, [7, 20, 21]);
    }

    #[test]
    fn this_process_is_described() {
        let text = describe(std::process::id() as i32);
        assert!(text.contains(": R, in "), "{text}");
    }
}
