// SPDX-License-Identifier: GPL-2.0
//! The kernel log: what it gained since a given moment, and whether that is bad, by the rules of
//! [`suites::log`].

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, PoisonError};

use anyhow::{ensure, Context, Result};
use suites::log::{reports, without_other_reports, Machine};

pub use suites::log::Record;

/// A reader of /dev/kmsg.
pub struct Kmsg(File);

impl Kmsg {
    /// Reads all records since boot that the ring buffer still has.
    pub fn from_boot() -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")
            .context("/dev/kmsg")?;
        Ok(Self(file))
    }

    /// Reads the records from now on.
    pub fn from_now() -> Result<Self> {
        let mut kmsg = Self::from_boot()?;
        kmsg.0.seek(SeekFrom::End(0)).context("seek in /dev/kmsg")?;
        Ok(kmsg)
    }

    /// The records since the last call.
    pub fn records(&mut self) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        let mut buffer = [0; 8192];
        loop {
            match self.0.read(&mut buffer) {
                Ok(len) => records.extend(Record::parse(&String::from_utf8_lossy(&buffer[..len]))),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(records),
                // The ring buffer has overwritten the next record. The next read continues
                // with the oldest one that is left.
                Err(e) if e.raw_os_error() == Some(libc::EPIPE) => {}
                Err(e) => return Err(e).context("read /dev/kmsg"),
            }
        }
    }

    /// The texts of the records since the last call.
    pub fn lines(&mut self) -> Result<Vec<String>> {
        let records = self.records()?.into_iter();
        Ok(records.map(|record| record.text).collect())
    }
}

/// The records that a test provoked and judged itself, by their sequence numbers.
static JUDGED: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// Makes [`check_clean`] leave these records out: a test provoked them and has checked
/// that they are as expected.
pub fn set_judged(records: &[Record]) {
    let mut judged = JUDGED.lock().unwrap_or_else(PoisonError::into_inner);
    judged.extend(records.iter().map(|record| record.sequence));
}

/// The texts of the bad records in the `log` of a guest since the last call.
pub fn bad_lines(log: &mut Kmsg) -> Result<Vec<String>> {
    let mut records = without_other_reports(log.records()?);
    records.retain(|record| record.is_bad(Machine::Guest));
    Ok(records.into_iter().map(|record| record.text).collect())
}

/// Fails if there are bad records in `log`, or in a guest trouble since boot.
pub fn check_clean(log: &mut Kmsg, machine: Machine) -> Result<()> {
    let judged = JUDGED.lock().unwrap_or_else(PoisonError::into_inner);
    let unjudged = |records| {
        let mut records = without_other_reports(records);
        records.retain(|record| !judged.contains(&record.sequence));
        records
    };
    let mut bad = Vec::new();
    if machine == Machine::Guest {
        bad = reports(unjudged(Kmsg::from_boot()?.records()?));
    }
    let new = unjudged(log.records()?).into_iter();
    bad.extend(new.filter(|record| record.is_bad(machine)));
    bad.sort_by_key(|record| record.sequence);
    bad.dedup();
    let lines: Vec<_> = bad.into_iter().map(|record| record.text).collect();
    ensure!(
        lines.is_empty(),
        "the kernel log has:\n{}",
        lines.join("\n")
    );
    Ok(())
}
