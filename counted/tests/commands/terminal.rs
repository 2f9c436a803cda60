// SPDX-License-Identifier: GPL-2.0

//! A command at a terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;

use nix::libc::TIOCSWINSZ;
use nix::pty::{openpty, Winsize};
use nix::sys::signal::{kill, Signal};
use nix::sys::termios::{tcgetattr, LocalFlags};
use nix::unistd::Pid;

use crate::run::Counted;

nix::ioctl_write_ptr_bad!(set_size, TIOCSWINSZ, Winsize);

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// Reads until there is this text, and returns all.
fn read_until(terminal: &mut File, end: &str) -> String {
    let mut all = String::new();
    let mut buffer = [0; 1024];
    while !all.contains(end) {
        let length = terminal.read(&mut buffer).unwrap();
        all += std::str::from_utf8(&buffer[..length]).unwrap();
    }
    all
}

/// The command has a terminal of the same size, which follows changes, and the keys are for the command.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn size_and_keys() {
    let pty = openpty(Some(&size(40, 100)), None).unwrap();
    let mut terminal = File::from(pty.master);
    let script = "trap 'stty size; echo changed' WINCH; trap 'echo interrupted; exit 6' INT
                  tty; stty size; echo ready; while :; do sleep 0.1; done";
    let slave = || pty.slave.try_clone().unwrap();
    let mut started = Counted::new(&[])
        .script(script)
        .with(|it| it.stdin(slave()).stdout(slave()).stderr(slave()))
        .start_as_it_is();
    let first = read_until(&mut terminal, "ready");
    assert!(first.contains("/dev/pts/"), "{first}");
    assert!(first.contains("40 100"), "{first}");
    // SAFETY: the descriptor is open, and the size is valid during the call.
    unsafe { set_size(terminal.as_raw_fd(), &size(50, 120)) }.unwrap();
    // The kernel would send it if the terminal were that of the process's session.
    let pid = Pid::from_raw(started.child.id() as i32);
    kill(pid, Signal::SIGWINCH).unwrap();
    let second = read_until(&mut terminal, "changed");
    assert!(second.contains("50 120"), "{second}");
    terminal.write_all(b"\x03").unwrap();
    read_until(&mut terminal, "interrupted");
    // The terminal is as it was.
    started.child.wait().unwrap();
    let modes = tcgetattr(&pty.slave).unwrap();
    assert!(modes
        .local_flags
        .contains(LocalFlags::ICANON | LocalFlags::ECHO));
    assert_eq!(started.end(), Some(6));
}
