// SPDX-License-Identifier: GPL-2.0

//! Counts.

use std::fs;
use std::process::Command;

use crate::run::{text, Counted};

/// What perf counts while it runs a command.
fn counts(options: &[&str], events: &str, command: &[&str]) -> Vec<u64> {
    counts_of(Counted::new(options), events, command)
}

fn counts_of(counted: Counted, events: &str, command: &[&str]) -> Vec<u64> {
    let output = counted
        .command(&["perf", "stat", "-x,", "-e", events])
        .command(command)
        .run();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines = text(&output.stderr).lines();
    lines
        .map(|line| line.split(',').next().unwrap().parse().unwrap())
        .collect()
}

/// A program that executes 2 * `ROUNDS` + 4 instructions.
const PROGRAM: &str = "
    .globl _start
_start:
    mov $ROUNDS, %ecx
1:  dec %ecx
    jnz 1b
    mov $60, %eax
    xor %edi, %edi
    syscall
";

/// A loop of a million rounds has two million instructions.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn user_instructions_are_exact() {
    let directory = tempfile::tempdir().unwrap();
    let [source, program] = ["loop.s", "loop"].map(|it| directory.path().join(it));
    fs::write(&source, PROGRAM).unwrap();
    let status = Command::new("cc")
        .args(["-nostdlib", "-static", "-Wa,--defsym,ROUNDS=1000000", "-o"])
        .args([&program, &source])
        .status();
    assert!(status.unwrap().success());
    let program = program.to_str().unwrap();
    for cpu in ["max", "skylake", "zen4"] {
        let counts = counts(&["--cpu", cpu], "instructions:u,branches:u", &[program]);
        // A system call is a branch, too.
        assert_eq!(counts, [2_000_004, 1_000_001], "{cpu}");
    }
}

/// On each CPU perf's events of the data cache count loads, one in 64 of which misses.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn caches_have_misses() {
    // Nobody else runs who reads what it prints.
    const QUIET: &str = "exec ls / >/dev/null";
    // The misses of each CPU follow from its own loads.
    let of_each: [&[&str]; 3] = [
        &["--smp", "1"],
        &["--smp", "1", "--cpu", "sapphire-rapids"],
        &["--smp", "1", "--cpu", "zen4"],
    ];
    for options in of_each {
        let events = "L1-dcache-loads:u,L1-dcache-load-misses:u";
        let counts = counts(options, events, &["sh", "-c", QUIET]);
        let [loads, misses] = counts[..] else {
            panic!("{options:?}: {counts:?}");
        };
        assert!(loads > 10_000, "{options:?}: {counts:?}");
        // Where the rule begins to count is not known.
        assert!(
            (64 * misses).abs_diff(loads) < 64,
            "{options:?}: {counts:?}"
        );
    }
}

/// Four processes, pipes and files: each run has the same instructions, those of the kernel included.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn exact_runs_are_alike() {
    const EVENTS: &str = "instructions:u,instructions:k";
    const SCRIPT: &str = "ls /usr/bin | sort | gzip | wc -c";
    // The environment is a part of what the command is given, so it must be the same, too.
    let temporary = tempfile::tempdir().unwrap();
    let run = || {
        let counted = Counted::new(&["--exact"]);
        let counted = counted.with(|it| it.env("TMPDIR", temporary.path()));
        let counts = counts_of(counted, EVENTS, &["sh", "-c", SCRIPT]);
        assert!(fs::read_dir(temporary.path()).unwrap().next().is_none());
        counts
    };
    let first = run();
    assert!(first.iter().all(|it| *it > 1_000_000), "{first:?}");
    for _ in 0..2 {
        assert_eq!(run(), first);
    }
}
