// SPDX-License-Identifier: GPL-2.0

//! Intel's architectural events. Those of each model are not known here: none
//! of perf's cache events is architectural.

use super::{
    architectural,
    fixed,
    Events,
    Name,
    NamedEvent, //
};
use crate::pmc::event::{
    Constraints,
    EventSel,
    INTEL_FIXED, //
};

pub(in super::super) static INTEL: Events = Events {
    named: &NAMED,
    cache: &[],
    constraints: Constraints {
        fixed: &INTEL_FIXED,
        general: &[],
    },
    // PC is ignored, but the in-tree driver names it.
    format: EventSel::COMMON | EventSel::PC,
};

/// SDM vol. 3, table "UMask and Event Select Encodings for Pre-Defined
/// Architectural Performance Events", and for `ref-cycles` and `slots` perf's
/// pseudo-encodings of what fixed counters 2 and 3 count.
static NAMED: [NamedEvent; 9] = [
    architectural(0, Name::CpuCycles, 0x003c),
    architectural(1, Name::Instructions, 0x00c0),
    architectural(3, Name::CacheReferences, 0x4f2e),
    architectural(4, Name::CacheMisses, 0x412e),
    architectural(5, Name::BranchInstructions, 0x00c4),
    architectural(6, Name::BranchMisses, 0x00c5),
    architectural(2, Name::BusCycles, 0x013c),
    fixed(2, Name::RefCycles, 0x0300),
    fixed(3, Name::Slots, 0x0400),
];
