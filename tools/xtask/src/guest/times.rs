// SPDX-License-Identifier: GPL-2.0

//! Where the time of a guest goes.
//!
//! The guest leaves marks in its directory as it goes on: empty files, and at last its exit status.
//! The host made them when the guest asked for that by 9p, so that their times are the host's.

use std::fmt;
use std::fs;
use std::ops::AddAssign;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Where the time of a guest goes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// How many guests were restored.
    pub restored: usize,
    /// From the start of QEMU to the script that loads the module, in a guest that boots.
    boot: Duration,
    /// From the start of QEMU to the script that loads the module, in a guest that is restored.
    restoring: Duration,
    /// Loading the module.
    module: Duration,
    /// The command.
    command: Duration,
    /// From the end of the command to that of QEMU.
    power_off: Duration,
}

impl Times {
    /// Reads the marks that a guest has left in its directory. What came after the last mark is the
    /// time of what was to leave the next one.
    pub fn read(run: &Path, started: SystemTime, ended: SystemTime, has_status: bool) -> Self {
        let mark = |name: &str| {
            fs::metadata(run.join(name))
                .and_then(|it| it.modified())
                .ok()
        };
        let status = mark("status").filter(|_| has_status).unwrap_or(ended);
        let loaded = mark("loaded").unwrap_or(status);
        let booted = mark("booted").unwrap_or(loaded);
        // The clock of the host may have been set meanwhile.
        let between = |from, to: SystemTime| to.duration_since(from).unwrap_or_default();
        Self {
            restored: 0,
            boot: between(started, booted),
            restoring: Duration::ZERO,
            module: between(booted, loaded),
            command: between(loaded, status),
            power_off: between(status, ended),
        }
    }

    /// The times of one guest that has not booted, if it was restored.
    pub fn restored(self, is_restored: bool) -> Self {
        match is_restored {
            false => self,
            true => Self {
                restored: 1,
                boot: Duration::ZERO,
                restoring: self.boot,
                ..self
            },
        }
    }
}

impl AddAssign for Times {
    fn add_assign(&mut self, other: Self) {
        self.restored += other.restored;
        self.boot += other.boot;
        self.restoring += other.restoring;
        self.module += other.module;
        self.command += other.command;
        self.power_off += other.power_off;
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, time) in [("boot", self.boot), ("restoring", self.restoring)] {
            // One guest does one of the two.
            if !time.is_zero() {
                write!(f, "{what} {:.1} s, ", time.as_secs_f64())?;
            }
        }
        write!(
            f,
            "loading the module {:.1} s, tests {:.1} s, power-off {:.1} s",
            self.module.as_secs_f64(),
            self.command.as_secs_f64(),
            self.power_off.as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    const STARTED: SystemTime = SystemTime::UNIX_EPOCH;

    fn at(seconds: u64) -> SystemTime {
        STARTED + Duration::from_secs(seconds)
    }

    fn times(marks: &[(&str, u64)], has_status: bool) -> [u64; 4] {
        let dir = tempfile::tempdir().unwrap();
        for (name, seconds) in marks {
            let file = File::create(dir.path().join(name)).unwrap();
            file.set_modified(at(*seconds)).unwrap();
        }
        let times = Times::read(dir.path(), STARTED, at(20), has_status);
        [times.boot, times.module, times.command, times.power_off].map(|it| it.as_secs())
    }

    #[test]
    fn time_is_divided_by_the_marks() {
        let marks = [("booted", 9), ("loaded", 10), ("status", 18)];
        assert_eq!(times(&marks, true), [9, 1, 8, 2]);
        // The guest had written its status before the tests.
        assert_eq!(times(&marks, false), [9, 1, 10, 0]);
    }

    #[test]
    fn a_guest_that_did_not_end_has_the_rest_where_it_was() {
        assert_eq!(times(&[], true), [20, 0, 0, 0]);
        assert_eq!(times(&[("booted", 9)], true), [9, 11, 0, 0]);
        assert_eq!(times(&[("booted", 9), ("loaded", 10)], true), [9, 1, 10, 0]);
    }

    #[test]
    fn a_guest_that_was_restored_has_not_booted() {
        let second = Duration::from_secs(1);
        let booted = Times {
            boot: second,
            ..Times::default()
        };
        assert_eq!(booted.restored(false), booted);
        let restored = booted.restored(true);
        let start = |times: Times| {
            times
                .to_string()
                .split(", loading")
                .next()
                .map(str::to_owned)
        };
        assert_eq!(start(restored).as_deref(), Some("restoring 1.0 s"));
        let mut both = booted;
        both += restored;
        assert_eq!(both.restored, 1);
        assert_eq!(start(both).as_deref(), Some("boot 1.0 s, restoring 1.0 s"));
    }

    #[test]
    fn times_are_added() {
        let second = Duration::from_secs(1);
        let mut sum = Times {
            boot: second,
            ..Times::default()
        };
        sum += Times {
            boot: second,
            power_off: second / 2,
            ..Times::default()
        };
        assert_eq!(
            sum.to_string(),
            "boot 2.0 s, loading the module 0.0 s, tests 0.0 s, power-off 0.5 s"
        );
    }
}
