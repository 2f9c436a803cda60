// SPDX-License-Identifier: GPL-2.0
//! perf's generic events: their names, and how each PMU has them.

use std::fs;

use anyhow::Result;
use perf_event::Builder;

use crate::ctx::RUST_PMU;
use crate::pmu::Pmu;

/// `enum perf_type_id` (`include/uapi/linux/perf_event.h`).
pub const PERF_TYPE_HARDWARE: u32 = 0;
/// See [`PERF_TYPE_HARDWARE`].
pub const PERF_TYPE_HW_CACHE: u32 = 3;

/// The files of perf's hardware events, in the order of `enum perf_hw_id`
/// (`include/uapi/linux/perf_event.h`).
pub const HARDWARE_EVENTS: [&str; 10] = [
    "cpu-cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branch-instructions",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];

/// The numbers of perf's cache events, and the names by which perf lists them, in lower case.
pub fn cache_event_names() -> impl Iterator<Item = (u64, String)> {
    let ids = (0..7).flat_map(|cache| {
        (0..3).flat_map(move |operation| {
            (0..2).map(move |result| cache | (operation << 8) | (result << 16))
        })
    });
    ids.filter_map(|id| Some((id, generic_name(PERF_TYPE_HW_CACHE, id)?)))
}

/// The name by which perf lists a generic event, in lower case.
fn generic_name(type_: u32, id: u64) -> Option<String> {
    if type_ == PERF_TYPE_HARDWARE {
        let id = usize::try_from(id).ok()?;
        return HARDWARE_EVENTS.get(id).map(|name| name.to_string());
    }
    let [cache, operation, result, rest @ ..] = id.to_le_bytes();
    let caches = [
        "l1-dcache",
        "l1-icache",
        "llc",
        "dtlb",
        "itlb",
        "branch",
        "node",
    ];
    let cache = caches.get(usize::from(cache))?;
    let operations = [
        ["loads", "load-misses"],
        ["stores", "store-misses"],
        ["prefetches", "prefetch-misses"],
    ];
    let operation = operations.get(usize::from(operation))?;
    let what = operation.get(usize::from(result))?;
    (rest == [0; 5]).then(|| format!("{cache}-{what}"))
}

impl Pmu {
    /// The `config` and `config1` of one of perf's generic events, `PERF_TYPE_HARDWARE` or
    /// `PERF_TYPE_HW_CACHE`, by its name in `events/`. `None` if it has none.
    ///
    /// Beside the in-tree driver rust_pmu has generic events by name only.
    pub fn generic_by_name(&self, type_: u32, id: u64) -> Result<Option<[u64; 2]>> {
        let Some(name) = generic_name(type_, id) else {
            return Ok(None);
        };
        let file = self.event_file(&name);
        if !file.exists() {
            return Ok(None);
        }
        let terms = fs::read_to_string(&file)?;
        Ok(Some(self.encode_all(terms.trim_end())?))
    }

    /// Builds one of perf's generic events of the calling thread, disabled, for user mode: by its name
    /// if the PMU has it by name only.
    pub fn generic(&self, type_: u32, id: u64) -> Result<Builder<'static>> {
        let by_name = match self.has_names_only() {
            true => self.generic_by_name(type_, id)?,
            false => None,
        };
        let Some([config, config1]) = by_name else {
            return Ok(self.generic_by_number(type_, id));
        };
        let mut builder = self.raw(config);
        builder.attrs_mut().__bindgen_anon_3.config1 = config1;
        Ok(builder)
    }

    /// Builds one of perf's generic events with the number of this PMU, which only some PMUs take.
    pub fn generic_by_number(&self, type_: u32, id: u64) -> Builder<'static> {
        let mut builder = self.raw((u64::from(self.type_) << 32) | id);
        builder.attrs_mut().type_ = type_;
        builder
    }

    /// Whether the PMU refuses generic events, and has these by name only.
    pub fn has_names_only(&self) -> bool {
        self.name.starts_with(RUST_PMU)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_generic_events() {
        let hardware = |id| generic_name(PERF_TYPE_HARDWARE, id);
        assert_eq!(hardware(4).as_deref(), Some("branch-instructions"));
        assert_eq!(hardware(10), None);
        let cache = |id| generic_name(PERF_TYPE_HW_CACHE, id);
        assert_eq!(cache(0).as_deref(), Some("l1-dcache-loads"));
        assert_eq!(cache(0x1_0103).as_deref(), Some("dtlb-store-misses"));
        assert_eq!(cache(0x0206).as_deref(), Some("node-prefetches"));
        for id in [7, 0x0300, 0x2_0000, 1 << 24] {
            assert_eq!(cache(id), None, "{id:#x}");
        }
        assert_eq!(cache_event_names().count(), 42);
    }
}
