// SPDX-License-Identifier: GPL-2.0

//! The topdown events of Intel's models. In-tree: the files in `group_events_td`.

use super::super::topdown::{
    file,
    per_thread,
    Topdown,
    TopdownFile, //
};

/// Sandy Bridge to Broadwell, which have four slots a cycle. The threads of a core share them,
/// so with several threads the events that count for all of them are used, and half of each
/// is a thread's part.
pub(super) const SANDY_BRIDGE: Topdown = Topdown::events(&with_recovery(per_thread(
    c"topdown-recovery-bubbles",
    "event=0xd,umask=0x3,cmask=1",
    "event=0xd,umask=0x3,cmask=1,any=1",
)));

/// Skylake, where the bubbles have another unit mask. In-tree: `intel_pmu_init()`.
pub(super) const SKYLAKE: Topdown = Topdown::events(&with_recovery(per_thread(
    c"topdown-recovery-bubbles",
    "event=0xd,umask=0x1,cmask=1",
    "event=0xd,umask=0x1,cmask=1,any=1",
)));

const fn with_recovery(bubbles: TopdownFile) -> [TopdownFile; 7] {
    [
        file(c"topdown-slots-issued", "event=0xe,umask=0x1"),
        file(c"topdown-slots-retired", "event=0xc2,umask=0x2"),
        file(c"topdown-fetch-bubbles", "event=0x9c,umask=0x1"),
        per_thread(
            c"topdown-total-slots",
            "event=0x3c,umask=0x0",
            "event=0x3c,umask=0x0,any=1",
        ),
        per_thread(c"topdown-total-slots.scale", "4", "2"),
        bubbles,
        per_thread(c"topdown-recovery-bubbles.scale", "4", "2"),
    ]
}

/// Silvermont.
pub(super) const SILVERMONT: Topdown = Topdown::events(&[
    file(c"topdown-total-slots", "event=0x3c"),
    file(c"topdown-total-slots.scale", "2"),
    file(c"topdown-fetch-bubbles", "event=0xca,umask=0x50"),
    file(c"topdown-fetch-bubbles.scale", "2"),
    file(c"topdown-slots-issued", "event=0xc2,umask=0x10"),
    file(c"topdown-slots-retired", "event=0xc2,umask=0x10"),
]);

/// Goldmont, which has three slots a cycle.
pub(super) const GOLDMONT: Topdown = Topdown::events(&with_slots("3"));

/// Goldmont Plus, which has four.
pub(super) const GOLDMONT_PLUS: Topdown = Topdown::events(&with_slots("4"));

const fn with_slots(per_cycle: &'static str) -> [TopdownFile; 6] {
    [
        file(c"topdown-total-slots", "event=0x3c"),
        file(c"topdown-total-slots.scale", per_cycle),
        file(c"topdown-fetch-bubbles", "event=0x9c"),
        file(c"topdown-recovery-bubbles", "event=0xca,umask=0x02"),
        file(c"topdown-slots-issued", "event=0x0e"),
        file(c"topdown-slots-retired", "event=0xc2"),
    ]
}

/// Tremont and Gracemont.
pub(super) const TREMONT: Topdown = Topdown::events(&[
    file(c"topdown-fe-bound", "event=0x71,umask=0x0"),
    file(c"topdown-retiring", "event=0xc2,umask=0x0"),
    file(c"topdown-bad-spec", "event=0x73,umask=0x6"),
    file(c"topdown-be-bound", "event=0x74,umask=0x0"),
]);

/// Crestmont.
pub(super) const CRESTMONT: Topdown = Topdown::events(&[
    file(c"topdown-fe-bound", "event=0x71,umask=0x0"),
    file(c"topdown-retiring", "event=0x72,umask=0x0"),
    file(c"topdown-bad-spec", "event=0x73,umask=0x0"),
    file(c"topdown-be-bound", "event=0x74,umask=0x0"),
]);

/// Gracemont and Crestmont beside performance cores. In-tree: `adl_hybrid_events_attrs`, and
/// for Arrow Lake-H `arl_h_hybrid_events_attrs`.
pub(super) const HYBRID_GRACEMONT: Topdown = Topdown::events(&[
    file(c"topdown-fe-bound", "event=0x71,umask=0x0"),
    file(c"topdown-retiring", "event=0xc2,umask=0x0"),
    file(c"topdown-bad-spec", "event=0x73,umask=0x0"),
    file(c"topdown-be-bound", "event=0x74,umask=0x0"),
]);

/// Skymont, Darkmont and Arctic Wolf.
pub(super) const DARKMONT: Topdown = Topdown::events(&[
    file(c"topdown-fe-bound", "event=0x9c,umask=0x01"),
    file(c"topdown-retiring", "event=0xc2,umask=0x02"),
    file(c"topdown-bad-spec", "event=0x73,umask=0x0"),
    file(c"topdown-be-bound", "event=0xa4,umask=0x02"),
]);

/// Ice Lake: the metrics of level 1.
pub(super) const ICE_LAKE: Topdown = metrics(4);

/// Golden Cove and its successors: those of level 2 as well.
pub(super) const GOLDEN_COVE: Topdown = metrics(8);

const fn metrics(n: u8) -> Topdown {
    // Slots, and the metrics.
    let (files, _) = METRICS.split_at(n as usize + 1);
    Topdown { files, metrics: n }
}

/// Slots and the metrics, in the order of their fields in PERF_METRICS. The codes are
/// pseudo-encodings (`arch/x86/include/asm/perf_event.h`).
static METRICS: [TopdownFile; 9] = [
    file(c"slots", "event=0x00,umask=0x4"),
    file(c"topdown-retiring", "event=0x00,umask=0x80"),
    file(c"topdown-bad-spec", "event=0x00,umask=0x81"),
    file(c"topdown-fe-bound", "event=0x00,umask=0x82"),
    file(c"topdown-be-bound", "event=0x00,umask=0x83"),
    file(c"topdown-heavy-ops", "event=0x00,umask=0x84"),
    file(c"topdown-br-mispredict", "event=0x00,umask=0x85"),
    file(c"topdown-fetch-lat", "event=0x00,umask=0x86"),
    file(c"topdown-mem-bound", "event=0x00,umask=0x87"),
];
