// SPDX-License-Identifier: GPL-2.0

//! perf's generic cache events.
//!
//! The tables are in the vendors' folders.

use core::ffi::CStr;

/// `enum perf_hw_cache_id` (`include/uapi/linux/perf_event.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cache {
    L1d,
    L1i,
    Ll,
    Dtlb,
    Itlb,
    Bpu,
    Node,
}

/// `enum perf_hw_cache_op_id` (`include/uapi/linux/perf_event.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
    Prefetch,
}

/// What a CPU has for a generic cache event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheEvent {
    /// The event with this encoding in `attr.config`.
    Config(u64),
    /// The event with this encoding, which has the rest of it in `attr.config1`.
    Extra {
        /// `attr.config`.
        config: u64,
        /// `attr.config1`.
        config1: u64,
    },
    /// No event counts it.
    Missing,
    /// The cache has no such operation.
    Invalid,
}

/// The events for one operation of one cache.
pub(super) struct CacheEvents {
    cache: Cache,
    operation: Operation,
    access: CacheEvent,
    miss: CacheEvent,
}

/// The encodings that count accesses and misses, 0 where no event counts them.
pub(super) const fn counted(
    cache: Cache,
    operation: Operation,
    access: u64,
    miss: u64,
) -> CacheEvents {
    const fn event(config: u64) -> CacheEvent {
        match config {
            0 => CacheEvent::Missing,
            _ => CacheEvent::Config(config),
        }
    }
    CacheEvents {
        cache,
        operation,
        access: event(access),
        miss: event(miss),
    }
}

/// perf's names of an operation of a cache: for accesses and misses.
type Names = [&'static CStr; 2];

/// The names by which perf lists cache events (`tools/perf/pmu-events/make_legacy_cache.py`), in lower
/// case: perf finds a file of mixed case in no spelling.
static NAMES: [[Names; 3]; 7] = {
    const fn name(text: &'static str) -> &'static CStr {
        match CStr::from_bytes_with_nul(text.as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!(),
        }
    }
    macro_rules! names {
        ($cache:literal) => {
            [
                [
                    name(concat!($cache, "-loads\0")),
                    name(concat!($cache, "-load-misses\0")),
                ],
                [
                    name(concat!($cache, "-stores\0")),
                    name(concat!($cache, "-store-misses\0")),
                ],
                [
                    name(concat!($cache, "-prefetches\0")),
                    name(concat!($cache, "-prefetch-misses\0")),
                ],
            ]
        };
    }
    [
        names!("l1-dcache"),
        names!("l1-icache"),
        names!("llc"),
        names!("dtlb"),
        names!("itlb"),
        names!("branch"),
        names!("node"),
    ]
};

/// A cache event with perf's name of it.
#[derive(Clone, Copy)]
pub(super) struct NamedCacheEvent {
    pub(super) name: &'static CStr,
    /// `attr.config`.
    pub(super) config: u64,
    /// `attr.config1`.
    pub(super) config1: u64,
}

/// The cache events of a table that are counted.
pub(super) fn named(
    table: &'static [&'static [CacheEvents]],
) -> impl Iterator<Item = NamedCacheEvent> {
    let rows = table.iter().copied().flatten();
    rows.flat_map(|row| {
        let names = NAMES.get(row.cache as usize);
        let names = names.and_then(|names| names.get(row.operation as usize));
        let events = [row.access, row.miss];
        names
            .into_iter()
            .flatten()
            .zip(events)
            .filter_map(|(name, event)| {
                let (config, config1) = match event {
                    CacheEvent::Config(config) => (config, 0),
                    CacheEvent::Extra { config, config1 } => (config, config1),
                    CacheEvent::Missing | CacheEvent::Invalid => return None,
                };
                Some(NamedCacheEvent {
                    name,
                    config,
                    config1,
                })
            })
    })
}

/// An operation that the cache does not have.
pub(super) const fn invalid(cache: Cache, operation: Operation) -> CacheEvents {
    CacheEvents {
        cache,
        operation,
        access: CacheEvent::Invalid,
        miss: CacheEvent::Invalid,
    }
}

/// The accesses and misses that `config` counts with these values of `attr.config1`, 0
/// where no event counts them.
pub(super) const fn offcore(
    cache: Cache,
    operation: Operation,
    config: u64,
    access: u64,
    miss: u64,
) -> CacheEvents {
    const fn event(config: u64, config1: u64) -> CacheEvent {
        match config1 {
            0 => CacheEvent::Missing,
            _ => CacheEvent::Extra { config, config1 },
        }
    }
    CacheEvents {
        cache,
        operation,
        access: event(config, access),
        miss: event(config, miss),
    }
}

/// An operation of which only the misses are events. This is the encoding that counts
/// them.
pub(super) const fn misses(cache: Cache, operation: Operation, config: u64) -> CacheEvents {
    CacheEvents {
        cache,
        operation,
        access: CacheEvent::Invalid,
        miss: CacheEvent::Config(config),
    }
}

/// The cache event with this number in the parts of a table: cache, operation and result,
/// one byte each (`include/uapi/linux/perf_event.h`). The upper bytes are ignored, as by
/// the in-tree driver.
pub(super) fn find(table: &[&[CacheEvents]], id: u64) -> CacheEvent {
    let [cache, operation, result, ..] = id.to_le_bytes();
    if cache > Cache::Node as u8 || operation > Operation::Prefetch as u8 || result > 1 {
        return CacheEvent::Invalid;
    }
    let mut rows = table.iter().copied().flatten();
    rows.find(|row| row.cache as u8 == cache && row.operation as u8 == operation)
        .map_or(CacheEvent::Missing, |row| match result {
            0 => row.access,
            _ => row.miss,
        })
}

#[cfg(test)]
mod tests {
    use super::super::{
        amd,
        intel,
        zhaoxin, //
    };
    use super::*;

    #[test]
    fn no_row_of_a_table_hides_another() {
        let tables = intel::all().chain(amd::all()).chain(zhaoxin::ALL);
        for events in tables {
            let rows = || events.cache.iter().copied().flatten();
            for row in rows() {
                let same = |other: &&CacheEvents| {
                    other.cache == row.cache && other.operation == row.operation
                };
                assert_eq!(
                    rows().filter(same).count(),
                    1,
                    "{:?} {:?}",
                    row.cache,
                    row.operation
                );
            }
        }
    }
}
