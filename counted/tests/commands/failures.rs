// SPDX-License-Identifier: GPL-2.0

//! What goes wrong has a clear message, and leaves nothing behind.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::mount::{mount, umount, MsFlags};

use crate::run::{expect, text, Counted};

/// Expects that the program does not run the command, for a reason that has this in it.
fn expect_refused(options: &[&str], why: &str) {
    let output = Counted::new(options).command(&["true"]).run();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(
        said.starts_with("counted: ") && said.contains(why),
        "{said}"
    );
}

#[test]
#[ignore = "needs a guest: make test-counted"]
fn no_such_directory_to_write() {
    expect_refused(&["--rw", "/no/such/directory"], "/no/such/directory");
    expect_refused(&["--rw", "/etc/passwd"], "it is no directory");
    expect_refused(&["--rw", "/"], "name directories below /");
    expect_refused(&["--rw", "/dev/shm"], "the guest has its own");
}

/// A name that is not UTF-8 cannot be told to the guest.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn directory_is_not_utf8() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join(OsStr::from_bytes(b"n\xe4me"));
    fs::create_dir(&directory).unwrap();
    let counted = Counted::new(&[]).command(&["true"]);
    let output = counted.with(|it| it.current_dir(&directory)).run();
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("current directory is not UTF-8"), "{said}");
}

/// With `--exact` standard input is a file, which must not be where the guest has files of its own. Without
/// any input it does not matter.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn input_in_a_directory_of_the_guest() {
    let shared = tempfile::tempdir_in("/dev/shm").unwrap();
    let start = || {
        let counted = Counted::new(&["--exact"]).command(&["cat"]);
        counted.with(|it| it.env("TMPDIR", shared.path()))
    };
    expect(&start().run(), 0, "", "");
    let mut cat = start().start();
    cat.child.stdin.take().unwrap().write_all(b"x").unwrap();
    assert_eq!(cat.end(), Some(125));
    assert!(fs::read_dir(shared.path()).unwrap().next().is_none());
}

#[test]
#[ignore = "needs a guest: make test-counted"]
fn qemu_refuses_the_cpu() {
    expect_refused(&["--cpu", "abacus"], "abacus");
}

#[test]
#[ignore = "needs a guest: make test-counted"]
fn too_little_memory() {
    expect_refused(&["--memory", "32M"], "the guest has ended by itself");
}

/// Without a directory for it, no guest is saved. With `--exact` there is one for the time being.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn no_home() {
    for options in [&[][..], &["--exact"]] {
        let counted = Counted::new(options).command(&["echo", "hello"]);
        let output = counted.with(|it| it.env_remove("XDG_CACHE_HOME").env_remove("HOME"));
        expect(&output.run(), 0, "hello\n", "");
    }
}

/// The only saved guest in a directory.
fn saved_guest(cache: &Path) -> PathBuf {
    let entries: Vec<_> = fs::read_dir(cache.join("counted")).unwrap().collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries[0].as_ref().unwrap().path().join("guest")
}

/// A saved guest that QEMU cannot restore is removed, the command runs in one that boots, and that is saved.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn a_broken_saved_guest() {
    let cache = tempfile::tempdir().unwrap();
    let run = || {
        let counted = Counted::with_cache(&["--smp", "1"], cache.path());
        expect(&counted.command(&["echo", "hello"]).run(), 0, "hello\n", "");
    };
    run();
    let guest = saved_guest(cache.path());
    let whole = fs::metadata(&guest).unwrap().len();
    fs::write(&guest, "no guest").unwrap();
    run();
    let new = fs::metadata(saved_guest(cache.path())).unwrap().len();
    assert!(new > whole / 2, "{new} bytes, {whole} before");
}

/// Without space for it the guest is not saved, and the command runs.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn full_disk() {
    let cache = tempfile::tempdir().unwrap();
    let size = Some("size=10M");
    mount(
        Some("cache"),
        cache.path(),
        Some("tmpfs"),
        MsFlags::empty(),
        size,
    )
    .unwrap();
    let counted = Counted::with_cache(&["--smp", "1"], cache.path());
    let output = counted.command(&["echo", "hello"]).run();
    let left: Vec<_> = fs::read_dir(cache.path().join("counted"))
        .unwrap()
        .collect();
    umount(cache.path()).unwrap();
    let said = text(&output.stderr);
    assert_eq!(text(&output.stdout), "hello\n", "{said}");
    assert!(said.starts_with("counted: cannot save the guest"), "{said}");
    assert!(left.is_empty(), "{left:?}");
}
