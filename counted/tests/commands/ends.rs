// SPDX-License-Identifier: GPL-2.0

//! How commands end.

use std::io::{BufRead as _, BufReader, Read as _};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

use crate::run::{expect, processes_of, text, Counted};

#[test]
#[ignore = "needs a guest: make test-counted"]
fn exit_status() {
    expect(&Counted::new(&[]).command(&["true"]).run(), 0, "", "");
    expect(&Counted::new(&[]).script("exit 3").run(), 3, "", "");
}

#[test]
#[ignore = "needs a guest: make test-counted"]
fn what_cannot_be_run() {
    let output = Counted::new(&[]).command(&["/no/such/program"]).run();
    let missing = "counted: /no/such/program: No such file or directory (os error 2)\n";
    expect(&output, 127, "", missing);
    let output = Counted::new(&[]).command(&["/etc/passwd"]).run();
    let denied = "counted: /etc/passwd: Permission denied (os error 13)\n";
    expect(&output, 126, "", denied);
}

#[test]
#[ignore = "needs a guest: make test-counted"]
fn killed_by_a_signal() {
    let output = Counted::new(&[]).script("kill -KILL $$").run();
    expect(&output, 128 + 9, "", "");
}

#[test]
#[ignore = "needs a guest: make test-counted"]
fn what_a_command_leaves_running_ends_with_it() {
    let output = Counted::new(&[]).script("sleep 1000 & echo done").run();
    expect(&output, 0, "done\n", "");
    // It writes all the time.
    let output = Counted::new(&[]).script("yes >&2 & echo done").run();
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(0), "done\n")
    );
}

#[test]
#[ignore = "needs a guest: make test-counted"]
fn a_command_may_close_its_output() {
    let output = Counted::new(&[])
        .script("echo before; exec >&- 2>&-; exit 4")
        .run();
    expect(&output, 4, "before\n", "");
}

#[test]
#[ignore = "needs a guest: make test-counted"]
fn time_limit() {
    let said = "counted: the command took longer than the time limit\n";
    // On a busy host the command may not have printed anything when the first is over.
    for seconds in ["4", "16", "64"] {
        let output = Counted::new(&["--timeout", seconds])
            .script("echo ready; sleep 1000")
            .run();
        if !output.stdout.is_empty() || seconds == "64" {
            return expect(&output, 124, "ready\n", said);
        }
        expect(&output, 124, "", said);
    }
}

/// A signal for this program is one for the command.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn signals_reach_the_command() {
    let mut started = Counted::new(&[])
        .script("trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.1; done")
        .start();
    let mut output = BufReader::new(started.child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    kill(Pid::from_raw(started.child.id() as i32), Signal::SIGTERM).unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "got it\n");
    assert_eq!(started.end(), Some(5));
}

/// A pipe whose reader has ended ends the command, as it would without a guest.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn nobody_reads_the_output() {
    let mut started = Counted::new(&[]).command(&["yes"]).start();
    let mut output = started.child.stdout.take().unwrap();
    output.read_exact(&mut [0; 4]).unwrap();
    drop(output);
    assert_eq!(started.end(), Some(128 + 13));
}

/// Only what writes gets to know.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn a_shell_goes_on_when_nobody_reads() {
    let mut started = Counted::new(&[])
        .script("yes; echo after it >&2; exit 7")
        .start();
    let mut output = started.child.stdout.take().unwrap();
    output.read_exact(&mut [0; 4]).unwrap();
    drop(output);
    let mut errors = String::new();
    let stderr = started.child.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut errors).unwrap();
    assert_eq!(errors, "after it\n");
    assert_eq!(started.end(), Some(7));
}

#[test]
#[ignore = "needs a guest: make test-counted"]
fn qemu_ends_with_this_program() {
    let mut started = Counted::new(&[]).script("echo ready; sleep 1000").start();
    let mut output = BufReader::new(started.child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    let directory = started.temporary();
    assert_eq!(processes_of(&directory).len(), 1);
    started.child.kill().unwrap();
    started.child.wait().unwrap();
    // QEMU gets a signal when this program has ended.
    for _ in 0..600 {
        if processes_of(&directory).is_empty() {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("{:?}", processes_of(&directory));
}
