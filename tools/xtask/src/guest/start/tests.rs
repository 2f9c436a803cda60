// SPDX-License-Identifier: GPL-2.0

use super::*;
use crate::monitor::tests::serve;
use serde_json::Value;
use std::os::unix::net::UnixListener;
use std::thread;
use tempfile::TempDir;

fn key_of(arguments: &[&str]) -> String {
    let mut command = Command::new("qemu");
    command.args(arguments);
    key(Key::empty(), &command).finish()
}

#[test]
fn a_state_depends_on_the_machine_and_not_on_paths() {
    let machine = |path| {
        let device = format!("local,path={path},mount_tag=run,security_model=none");
        let console = format!("file,id=console,path={path},input-path={path}.in");
        key_of(&["-m", "1G", "-virtfs", &device, "-chardev", &console])
    };
    assert_eq!(machine("/tmp/a"), machine("/tmp/b"));
    assert_ne!(key_of(&["-m", "1G"]), key_of(&["-m", "2G"]));
    assert_ne!(key_of(&["-kernel", "/a"]), key_of(&["-kernel", "/b"]));
}

/// A cache, and the directory of a guest.
struct Host {
    dir: TempDir,
    ctx: Context,
    run: TempDir,
    logs: GuestLogs,
}

impl Host {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let ctx = Context {
            top: path.clone(),
            cache: path.join("cache"),
            root: path.clone(),
            fresh: path.clone(),
            other: path.clone(),
            out: path.clone(),
            logs: path.join("logs"),
            is_aside: false,
            in_lines: false,
        };
        fs::create_dir(&ctx.cache).unwrap();
        Self {
            dir,
            logs: ctx.guest_logs("guest").unwrap(),
            ctx,
            run: tempfile::tempdir().unwrap(),
        }
    }

    /// The next guest.
    fn next(&mut self) {
        self.logs = self.ctx.guest_logs("guest").unwrap();
        self.run = tempfile::tempdir().unwrap();
    }

    fn start(&self) -> Start<'_> {
        Start::new(
            &self.ctx,
            &Command::new("qemu"),
            self.run.path(),
            &self.logs,
        )
        .unwrap()
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(self.run.path().join(PORT)).unwrap()
    }

    /// What the first process of a guest does. Returns the answer that it gets.
    fn ask(&self) -> String {
        let mut port = self.connect();
        port.write_all(b"\n").unwrap();
        read_line(&mut port)
    }

    /// Boots a guest whose QEMU answers so to `migrate`. Returns which commands it got.
    fn boot(&self, migrate: &Value) -> Vec<String> {
        let start = self.start();
        assert!(start.incoming().is_empty());
        fs::write(self.logs.console(), "Linux\n").unwrap();
        let listener = UnixListener::bind(monitor(self.run.path())).unwrap();
        let qemu = thread::spawn({
            let migrate = migrate.clone();
            move || {
                let mut commands = Vec::new();
                serve(&listener, |command| {
                    let name = command["execute"].as_str().unwrap().to_owned();
                    commands.push(name.clone());
                    if name == "migrate" {
                        let uri = command["arguments"]["uri"].as_str().unwrap();
                        fs::write(uri.strip_prefix("file:").unwrap(), "memory").unwrap();
                        return migrate.clone();
                    }
                    json!({ "return": { "status": "completed" } })
                });
                commands
            }
        });
        assert_eq!(self.ask(), "booted");
        assert!(!start.finish());
        qemu.join().unwrap()
    }

    /// The names in the cache, but for the locks.
    fn cached(&self) -> Vec<String> {
        let files = fs::read_dir(&self.ctx.cache).unwrap();
        files
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .filter(|it| !it.starts_with(".lock-"))
            .collect()
    }
}

fn read_line(port: &mut UnixStream) -> String {
    let mut line = String::new();
    let mut byte = [0];
    while port.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        line.push(byte[0].into());
    }
    line
}

fn good() -> Value {
    json!({ "return": {} })
}

#[test]
fn a_guest_is_saved_goes_on_and_is_restored() {
    let mut host = Host::new();
    let commands = host.boot(&good());
    assert_eq!(commands.last().map(String::as_str), Some("cont"));
    let [state] = &host.cached()[..] else {
        panic!("{:?}", host.cached());
    };
    assert!(state.starts_with("state-"));

    host.next();
    let start = host.start();
    let incoming = start.incoming();
    assert_eq!(incoming[0], "-incoming");
    let channel: Value = serde_json::from_str(&incoming[1]).unwrap();
    let file = host.ctx.cache.join(state).join(GUEST);
    assert_eq!(channel["addr"]["args"][2], file.to_str().unwrap());
    let mut unpack = Command::new("zstd");
    assert_eq!(
        packages::output(unpack.arg("-dcq").arg(file)).unwrap(),
        "memory"
    );
    let mut port = host.connect();
    assert_eq!(read_line(&mut port), "restored");
    port.write_all(b"\n").unwrap();
    drop(port);
    assert!(start.finish());
    assert_eq!(fs::read_to_string(host.logs.console()).unwrap(), "Linux\n");
    assert_eq!(host.cached().len(), 1);
    drop(host.dir);
}

#[test]
fn a_guest_that_cannot_be_saved_goes_on() {
    let host = Host::new();
    let commands = host.boot(&json!({ "error": { "desc": "blocked" } }));
    assert_eq!(commands.last().map(String::as_str), Some("cont"));
    assert!(host.cached().is_empty());
}

#[test]
fn a_guest_whose_state_is_refused_boots() {
    let mut host = Host::new();
    host.boot(&good());
    host.next();
    let mut start = host.start();
    drop(host.connect());
    assert!(start.is_refused() && !start.is_refused());
    assert!(host.cached().is_empty());
    assert!(start.incoming().is_empty());
    assert_eq!(host.ask(), "booted");
    assert!(!start.finish());
}

#[test]
fn one_of_two_guests_is_saved() {
    let mut host = Host::new();
    let context = host.ctx.clone();
    let first = Start::new(&context, &Command::new("qemu"), host.run.path(), &host.logs).unwrap();
    let run = host.run.path().to_owned();
    let saving = context.cache.join(host.cached().remove(0));
    assert!(saving.is_dir());
    let old = std::mem::replace(&mut host.run, tempfile::tempdir().unwrap());
    let second = host.start();
    assert_eq!(host.ask(), "booted");
    assert!(!second.finish());
    assert!(saving.is_dir() && run.is_dir());
    assert!(!first.finish());
    assert!(!saving.exists());
    drop(old);
}
