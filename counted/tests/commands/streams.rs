// SPDX-License-Identifier: GPL-2.0

//! Standard streams that are no terminal.

use std::io::{Read as _, Write as _};
use std::thread;
use std::time::Duration;

use crate::run::{expect, Counted};

#[test]
#[ignore = "needs a guest: make test-counted"]
fn output_and_errors_are_apart() {
    let output = Counted::new(&[])
        .script("echo to output; echo to errors >&2; echo again >/dev/stderr")
        .run();
    expect(&output, 0, "to output\n", "to errors\nagain\n");
}

#[test]
#[ignore = "needs a guest: make test-counted"]
fn no_stream_is_a_terminal() {
    let output = Counted::new(&[])
        .script("test -t 0 || test -t 1 || test -t 2")
        .run();
    expect(&output, 1, "", "");
}

/// Some megabytes, all byte values, go through the guest and come back.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn input_comes_as_it_is() {
    let sent: Vec<u8> = (0..3_000_000_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let mut started = Counted::new(&[]).command(&["cat"]).start();
    let mut input = started.child.stdin.take().unwrap();
    let mut output = started.child.stdout.take().unwrap();
    let mut received = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            input.write_all(&sent).unwrap();
            drop(input);
        });
        output.read_to_end(&mut received).unwrap();
    });
    assert_eq!(started.end(), Some(0));
    assert!(received == sent, "{} bytes", received.len());
}

/// What the command does not read does not keep it.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn input_may_stay_unread() {
    let mut started = Counted::new(&[]).command(&["true"]).start();
    let mut input = started.child.stdin.take().unwrap();
    // More than a pipe holds.
    let written = input.write_all(&[b'x'; 1 << 20]);
    assert_eq!(started.end(), Some(0));
    drop((input, written));
}

/// A reader that takes its time loses nothing.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn a_slow_reader() {
    let mut started = Counted::new(&[])
        .command(&["head", "-c", "300000", "/dev/zero"])
        .start();
    // Longer than what QEMU has to hand over the output.
    thread::sleep(Duration::from_secs(12));
    let mut output = Vec::new();
    let stdout = started.child.stdout.as_mut().unwrap();
    stdout.read_to_end(&mut output).unwrap();
    assert_eq!((started.end(), output.len()), (Some(0), 300_000));
}

#[test]
#[ignore = "needs a guest: make test-counted"]
fn a_hundred_megabytes_of_output() {
    let mut started = Counted::new(&[])
        .command(&["head", "-c", "100000000", "/dev/zero"])
        .start();
    let mut output = started.child.stdout.take().unwrap();
    let mut buffer = vec![0; 1 << 20];
    let mut length = 0;
    loop {
        let read = output.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        assert!(buffer[..read].iter().all(|it| *it == 0));
        length += read;
    }
    assert_eq!((started.end(), length), (Some(0), 100_000_000));
}
