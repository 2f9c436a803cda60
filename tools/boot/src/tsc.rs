// SPDX-License-Identifier: GPL-2.0
//! The frequency of the host's TSC, which is that of the guest's TSC as well, unless QEMU
//! counts instructions (`-icount`).
//!
//! Linux measures it against the PIT when it boots. On a busy host a vCPU can lose its time
//! slice between the two readings. A guest that measured a tenth of the frequency had a
//! clock ten times too fast, and spent all its time in timer interrupts.

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use quanta::Clock;

/// The frequency in kHz, as a whole number of MHz, so that two runs have the guest boot with the same
/// command line. `None` if this host has no TSC of a constant frequency.
pub fn khz() -> Option<u64> {
    static KHZ: OnceLock<Option<u64>> = OnceLock::new();
    *KHZ.get_or_init(|| {
        let clock = Clock::new();
        let start = Reading::take(&clock);
        thread::sleep(Duration::from_millis(100));
        let end = Reading::take(&clock);
        let ns = end.at.duration_since(start.at).as_nanos();
        let khz = u128::from(end.cycles - start.cycles) * 1_000_000 / ns;
        // Without such a TSC, quanta reads the system's clock, in nanoseconds.
        let is_tsc = khz.abs_diff(1_000_000) > 100;
        let rounded = (khz + 500) / 1000 * 1000;
        is_tsc.then(|| u64::try_from(rounded).ok()).flatten()
    })
}

/// The TSC and the system's clock at one time.
struct Reading {
    at: Instant,
    cycles: u64,
}

impl Reading {
    /// Reads both clocks some times, and takes the readings that are closest to each other.
    fn take(clock: &Clock) -> Self {
        let read = || {
            let at = Instant::now();
            let cycles = clock.raw();
            (at.elapsed(), Self { at, cycles })
        };
        let readings = (0..100).map(|_| read());
        let closest = readings.min_by_key(|(elapsed, _)| *elapsed);
        closest.expect("100 readings").1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_frequency() {
        // Anything from a slow CPU of 1995 to a fast one.
        assert!(khz().is_none_or(|khz| (50_000..10_000_000).contains(&khz)));
        assert_eq!(khz(), khz());
    }
}
