// SPDX-License-Identifier: GPL-2.0

//! Counts.

use std::fs;
use std::process::Command;

use crate::run::{text, Counted};

/// What perf counts while it runs a command.
fn counts(options: &[&str], events: &str, command: &[&str]) -> Vec<u64> {
    let output = Counted::new(options)
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

/// Three processes, pipes and files: each run has the same user instructions, and those of the kernel are
/// the same to a hundredth. The build root is an overlay, whose files may have other numbers in
/// each run, so that the kernel finds them after fewer or more steps in its tables.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn exact_runs_are_alike() {
    const EVENTS: &str = "instructions:u,instructions:k";
    const SCRIPT: &str = "ls /usr/bin | sort | gzip | wc -c";
    let run = || counts(&["--exact"], EVENTS, &["sh", "-c", SCRIPT]);
    // Some directories get their numbers when they are read for the first time.
    run();
    let first = run();
    assert!(first.iter().all(|it| *it > 1_000_000), "{first:?}");
    for _ in 0..2 {
        let next = run();
        let ([user, kernel], [next_user, next_kernel]) = (&first[..], &next[..]) else {
            panic!("{first:?} {next:?}")
        };
        assert_eq!(user, next_user);
        assert!(
            kernel.abs_diff(*next_kernel) <= kernel / 100,
            "{first:?} {next:?}"
        );
    }
}
