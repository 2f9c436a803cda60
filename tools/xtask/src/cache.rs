// SPDX-License-Identifier: GPL-2.0

//! The cache. An entry is either complete or not there.
//!
//! An entry `<step>-<key>` is a directory. Its key is a hash of its inputs. It is made
//! as `.staging-<step>-<key>` and renamed when it is complete, under a lock of its own,
//! so that any number of runs can share the cache. Lock files stay: if one were removed,
//! two runs could hold two files of its name.

use anyhow::{ensure, Context as _, Result};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::statvfs::statvfs;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::signals::Staging;
use crate::step::Step;

/// A hash of the inputs of an entry.
pub struct Key(Sha256);

impl Key {
    /// A key that depends on the build root, whose tools make every entry.
    pub fn new(ctx: &Context) -> Self {
        Self(Sha256::new()).text(&ctx.root.file_name().unwrap_or_default().to_string_lossy())
    }

    /// A key that depends on nothing, for tests.
    #[cfg(test)]
    pub fn empty() -> Self {
        Self(Sha256::new())
    }

    /// Adds how often the code that makes the entry has changed in a way that nothing
    /// else in the key shows, such as the entry's layout.
    pub fn recipe(self, changes: u32) -> Self {
        (0..changes).fold(self, |key, _| key.text("recipe"))
    }

    /// Adds a text.
    pub fn text(mut self, text: &str) -> Self {
        // The length keeps "ab", "c" apart from "a", "bc".
        self.0.update(text.len().to_le_bytes());
        self.0.update(text);
        self
    }

    /// Adds texts.
    pub fn texts<T: AsRef<str>>(self, texts: impl IntoIterator<Item = T>) -> Self {
        texts
            .into_iter()
            .fold(self, |key, text| key.text(text.as_ref()))
    }

    /// Adds a file's contents.
    pub fn file(mut self, path: &Path) -> Result<Self> {
        let contents = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        self.0.update(contents.len().to_le_bytes());
        self.0.update(contents);
        Ok(self)
    }

    /// The key as a part of a name.
    pub fn finish(self) -> String {
        let hash = self.0.finalize();
        let start = hash.iter().take(8);
        start.fold(String::new(), |name, byte| format!("{name}{byte:02x}"))
    }
}

/// An entry that may have to be made.
pub struct Entry<'a> {
    /// The first part of its name, and the name of its log.
    pub name: &'a str,
    /// A hash of its inputs.
    pub key: String,
    /// What the user reads while it is made.
    pub title: String,
    /// The space that making it takes.
    pub megabytes: u64,
}

impl Entry<'_> {
    /// Its name in the cache.
    pub fn full_name(&self) -> String {
        format!("{}-{}", self.name, self.key)
    }

    /// Whether it is there.
    pub fn exists(&self, ctx: &Context) -> bool {
        ctx.cache.join(self.full_name()).is_dir()
    }

    /// Returns the entry's directory. If it is not there, `input` gets what `make` needs, as a
    /// step of its own, and `make` fills the directory.
    pub fn get_from<T>(
        &self,
        ctx: &Context,
        input: impl FnOnce() -> Result<T>,
        make: impl FnOnce(&Step, &Path, &T) -> Result<()>,
    ) -> Result<PathBuf> {
        if self.exists(ctx) {
            return Ok(ctx.cache.join(self.full_name()));
        }
        let input = input()?;
        self.get(ctx, |step, dir| make(step, dir, &input))
    }

    /// Returns the entry's directory. If it is not there, `make` fills it.
    pub fn get(
        &self,
        ctx: &Context,
        make: impl FnOnce(&Step, &Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let name = self.full_name();
        let entry = ctx.cache.join(&name);
        if entry.is_dir() {
            return Ok(entry);
        }
        let lock = lock(&lock_of(ctx, &name), &self.title)?;
        if entry.is_dir() {
            return Ok(entry);
        }
        need_space(&ctx.cache, self.megabytes, &self.title)?;
        let step = Step::start(ctx, self.name, &self.title)?;
        let making = Making::start(ctx, &name, lock)?;
        make(&step, making.path())
            .and_then(|()| making.commit())
            .map_err(|error| step.explain(error))?;
        step.done();
        Ok(entry)
    }

    /// Begins to make the entry, which is not there. `None` if another run does so.
    pub fn try_make(&self, ctx: &Context) -> Result<Option<Making>> {
        let name = self.full_name();
        let Some(lock) = try_lock(&lock_of(ctx, &name))? else {
            return Ok(None);
        };
        need_space(&ctx.cache, self.megabytes, &self.title)?;
        Making::start(ctx, &name, lock).map(Some)
    }

    /// Removes the entry, unless another run makes it again.
    pub fn remove(&self, ctx: &Context) -> Result<()> {
        remove(&ctx.cache, &self.full_name())
    }
}

/// An entry that is being made. Unless it is committed, nothing of it stays.
pub struct Making {
    staging: Staging,
    entry: PathBuf,
    _lock: Flock<File>,
}

impl Making {
    fn start(ctx: &Context, name: &str, lock: Flock<File>) -> Result<Self> {
        Ok(Self {
            staging: Staging::create(staging_of(&ctx.cache, name))?,
            entry: ctx.cache.join(name),
            _lock: lock,
        })
    }

    /// The directory to fill.
    pub fn path(&self) -> &Path {
        self.staging.path()
    }

    /// The entry is complete.
    pub fn commit(self) -> Result<()> {
        Ok(self.staging.commit(&self.entry)?)
    }
}

fn staging_of(cache: &Path, name: &str) -> PathBuf {
    cache.join(format!(".staging-{name}"))
}

/// Removes an entry, unless another run makes it again. At no time it is there in part.
fn remove(cache: &Path, name: &str) -> Result<()> {
    let Some(_lock) = try_lock(&cache.join(format!(".lock-{name}")))? else {
        return Ok(());
    };
    let staging = Staging::create(staging_of(cache, name))?;
    match fs::rename(cache.join(name), staging.path()) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Removes entries of this name, those first that were used least recently, until the others
/// take no more than `megabytes`. The modification time of an entry says when it was used.
pub fn limit(cache: &Path, name: &str, megabytes: u64) -> Result<()> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(cache)? {
        let entry = entry?;
        let full_name = entry.file_name().to_string_lossy().into_owned();
        let is_one = full_name
            .rsplit_once('-')
            .is_some_and(|(first, _)| first == name);
        // Another run may remove it meanwhile.
        let size = |path: &Path| -> io::Result<u64> {
            fs::read_dir(path)?.try_fold(0, |sum, file| Ok(sum + file?.metadata()?.len()))
        };
        let read = || Ok::<_, io::Error>((entry.metadata()?.modified()?, size(&entry.path())?));
        if let (true, Ok((used, size))) = (is_one, read()) {
            entries.push((used, size, full_name));
        }
    }
    entries.sort_by(|a, b| b.cmp(a));
    let mut sum = 0;
    for (_, size, name) in entries {
        sum += size;
        if sum > megabytes * 1_000_000 {
            remove(cache, &name)?;
        }
    }
    Ok(())
}

/// The lock file of an entry, or of something else in the cache.
pub fn lock_of(ctx: &Context, name: &str) -> PathBuf {
    ctx.cache.join(format!(".lock-{name}"))
}

fn lock_file(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("cannot write {}", path.display()))
}

/// Takes a lock. `None` if another run has it.
fn try_lock(path: &Path) -> Result<Option<Flock<File>>> {
    match Flock::lock(lock_file(path)?, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(errno.into()),
    }
}

/// Takes a lock. Tells the user if another run has it.
pub fn lock(path: &Path, title: &str) -> Result<Flock<File>> {
    match Flock::lock(lock_file(path)?, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(lock),
        Err((file, Errno::EWOULDBLOCK)) => {
            eprintln!("{title}: waiting for its lock");
            Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
        }
        Err((_, errno)) => Err(errno.into()),
    }
}

/// Removes the staging directories of runs that were killed.
pub fn sweep(ctx: &Context) -> Result<()> {
    for file in fs::read_dir(&ctx.cache)? {
        let file = file?;
        let name = file.file_name();
        let Some(entry) = name.to_str().and_then(|n| n.strip_prefix(".staging-")) else {
            continue;
        };
        let lock = Flock::lock(
            lock_file(&lock_of(ctx, entry))?,
            FlockArg::LockExclusiveNonblock,
        );
        if lock.is_ok() {
            // A directory that stays does no harm.
            let _ = fs::remove_dir_all(file.path());
        }
    }
    Ok(())
}

fn need_space(dir: &Path, megabytes: u64, title: &str) -> Result<()> {
    let stat = statvfs(dir)?;
    let free = stat.blocks_available() * stat.fragment_size() / 1_000_000;
    ensure!(
        free >= megabytes,
        "{title} needs {megabytes} MB in {}, which has {free} MB left: \
         free some, or set XDG_CACHE_HOME to where there is more",
        dir.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    fn key() -> Key {
        Key(Sha256::new())
    }

    #[test]
    fn a_key_tells_boundaries() {
        assert_ne!(
            key().text("ab").text("c").finish(),
            key().text("a").text("bc").finish()
        );
        assert_eq!(
            key().texts(["a", "b"]).finish(),
            key().text("a").text("b").finish()
        );
        assert_ne!(key().recipe(1).finish(), key().recipe(2).finish());
        assert_eq!(key().finish().len(), 16);
    }

    #[test]
    fn a_file_counts_by_its_contents() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        let hash = || key().file(&file).unwrap().finish();
        fs::write(&file, "1").unwrap();
        let one = hash();
        fs::write(&file, "2").unwrap();
        assert_ne!(one, hash());
    }

    #[test]
    fn entries_that_were_used_last_stay() {
        let dir = tempfile::tempdir().unwrap();
        for (name, seconds) in [("a-1", 1), ("a-3", 3), ("a-2", 2), ("b-0", 0)] {
            let entry = dir.path().join(name);
            fs::create_dir(&entry).unwrap();
            let file = File::create(entry.join("file")).unwrap();
            file.set_len(1_000_000).unwrap();
            let used = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            File::open(&entry).unwrap().set_modified(used).unwrap();
        }
        limit(dir.path(), "a", 2).unwrap();
        let there = |name| dir.path().join(name).exists();
        assert_eq!(
            ["a-1", "a-2", "a-3", "b-0"].map(there),
            [false, true, true, true]
        );
        assert!(!there(".staging-a-1"));
    }

    #[test]
    fn too_little_space_is_said_beforehand() {
        let error = need_space(Path::new("/"), u64::MAX / 1_000_000, "QEMU").unwrap_err();
        assert!(error.to_string().starts_with("QEMU needs "));
    }
}
