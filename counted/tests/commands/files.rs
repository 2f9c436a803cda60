// SPDX-License-Identifier: GPL-2.0

//! The files of the host, the user and the environment.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use nix::sys::stat::{umask, Mode};
use nix::unistd::{getgid, getuid};

use crate::run::{expect, Counted};

#[test]
#[ignore = "needs a guest: make test-counted"]
fn what_is_written_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "before").unwrap();
    let output = Counted::new(&[])
        .script("echo changed >file; cat file; echo new >another")
        .with(|it| it.current_dir(directory.path()))
        .run();
    expect(&output, 0, "changed\n", "");
    assert_eq!(fs::read_to_string(&file).unwrap(), "before");
    assert!(!directory.path().join("another").exists());
}

#[test]
#[ignore = "needs a guest: make test-counted"]
fn what_is_written_stays_in_directories_of_rw() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let output = Counted::new(&["--rw", path])
        .script("mkdir sub; echo kept >sub/file; ls")
        .with(|it| it.current_dir(directory.path()))
        .run();
    expect(&output, 0, "sub\n", "");
    let kept = fs::read_to_string(directory.path().join("sub/file")).unwrap();
    assert_eq!(kept, "kept\n");
}

#[test]
#[ignore = "needs a guest: make test-counted"]
fn directory_environment_and_user() {
    let directory = tempfile::tempdir().unwrap();
    let output = Counted::new(&[])
        .script("pwd; echo \"$WORDS\"; id -u; id -g")
        .with(|it| it.current_dir(directory.path()).env("WORDS", "two  words"))
        .run();
    let want = format!(
        "{}\ntwo  words\n{}\n{}\n",
        directory.path().display(),
        getuid(),
        getgid()
    );
    expect(&output, 0, &want, "");
}

/// The user's mask is that of the command.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn modes_of_new_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let before = umask(Mode::from_bits_truncate(0o077));
    let counted = Counted::new(&["--rw", path]).script("echo private >file");
    let output = counted.with(|it| it.current_dir(directory.path())).run();
    umask(before);
    expect(&output, 0, "", "");
    let mode = fs::metadata(directory.path().join("file")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Arguments keep their spaces and quotes.
#[test]
#[ignore = "needs a guest: make test-counted"]
fn arguments() {
    let output = Counted::new(&[])
        .command(&["printf", "%s|", "a b", "'\"$HOME", ""])
        .run();
    expect(&output, 0, "a b|'\"$HOME||", "");
}
