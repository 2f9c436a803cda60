// SPDX-License-Identifier: GPL-2.0

//! The codes of references to caches and TLBs, and of misses in them: those by which Linux's driver counts
//! perf's cache events (`hw_cache_event_ids` in arch/x86/events/intel/core.c).
//!
//! Each load or store references the data cache and its TLB once, and each instruction those of
//! instructions. What misses in the TLB of instructions hits in the second-level TLB, or walks the page
//! tables.

use crate::event::Event;

/// L1D_CACHE_LD and L1D_CACHE_ST, DTLB_MISSES, L1I, ITLB, L2_LD and L2_ST.
pub(super) const CORE_2: &[(u64, Event)] = &[
    (0x0f40, Event::Loads),
    (0x0140, Event::LoadMisses),
    (0x0f41, Event::Stores),
    (0x0141, Event::StoreMisses),
    (0x0208, Event::LoadMisses),
    (0x0808, Event::StoreMisses),
    (0x0080, Event::Instructions),
    (0x0081, Event::Misses),
    (0x1282, Event::Misses),
    (0x4f29, Event::LlcReferences),
    (0x4129, Event::LlcMisses),
    (0x4f2a, Event::LlcReferences),
    (0x412a, Event::LlcMisses),
];

/// L1D_CACHE, DATA_TLB_MISSES, ICACHE, ITLB, L2_LD and L2_ST.
pub(super) const BONNELL: &[(u64, Event)] = &[
    (0x2140, Event::Loads),
    (0x2240, Event::Stores),
    (0x0508, Event::LoadMisses),
    (0x0608, Event::StoreMisses),
    (0x0380, Event::Instructions),
    (0x0280, Event::Misses),
    (0x0282, Event::Misses),
    (0x4f29, Event::LlcReferences),
    (0x4129, Event::LlcMisses),
    (0x4f2a, Event::LlcReferences),
    (0x412a, Event::LlcMisses),
];

/// L1D, L1D_CACHE_LD and L1D_CACHE_ST, L1D_PREFETCH.MISS, DTLB_LOAD_MISSES, MEM_STORE_RETIRED, L1I,
/// INST_RETIRED, ITLB_MISS_RETIRED and BPU_CLEARS.
pub(super) const NEHALEM: &[(u64, Event)] = &[
    (0x0151, Event::LoadMisses),
    (0x0251, Event::StoreMisses),
    (0x0f40, Event::Loads),
    (0x0f41, Event::Stores),
    (0x024e, Event::Misses),
    (0x0108, Event::LoadMisses),
    (0x010c, Event::StoreMisses),
    (0x0380, Event::Instructions),
    (0x0280, Event::Misses),
    (0x01c0, Event::Instructions),
    (0x20c8, Event::Misses),
    (0x03e8, Event::BranchMisses),
];

/// Nehalem's but for L1D_CACHE_LD, L1D_CACHE_ST and L1D_PREFETCH, and ITLB_MISSES.
pub(super) const WESTMERE: &[(u64, Event)] = &[
    (0x0151, Event::LoadMisses),
    (0x0251, Event::StoreMisses),
    (0x0108, Event::LoadMisses),
    (0x010c, Event::StoreMisses),
    (0x0380, Event::Instructions),
    (0x0280, Event::Misses),
    (0x01c0, Event::Instructions),
    (0x0185, Event::Misses),
    (0x03e8, Event::BranchMisses),
];

/// MEM_UOP_RETIRED with any TLB, L1D, DTLB_LOAD_MISSES and DTLB_STORE_MISSES, ICACHE and ITLB_MISSES.
pub(super) const SANDY_BRIDGE: &[(u64, Event)] = &[
    (0xf1d0, Event::Loads),
    (0xf2d0, Event::Stores),
    (0x0151, Event::LoadMisses),
    (0x0851, Event::StoreMisses),
    (0x0108, Event::LoadMisses),
    (0x0149, Event::StoreMisses),
    (0x0280, Event::Misses),
    (0x1085, Event::Misses),
    (0x0185, Event::PageWalks),
];

/// Sandy Bridge's, with another unit mask of DTLB_LOAD_MISSES.
pub(super) const IVY_BRIDGE: &[(u64, Event)] = &[
    (0xf1d0, Event::Loads),
    (0xf2d0, Event::Stores),
    (0x0151, Event::LoadMisses),
    (0x0851, Event::StoreMisses),
    (0x8108, Event::LoadMisses),
    (0x0149, Event::StoreMisses),
    (0x0280, Event::Misses),
    (0x1085, Event::Misses),
    (0x0185, Event::PageWalks),
];

/// L1D, DTLB_LOAD_MISSES and DTLB_STORE_MISSES, ICACHE and ITLB_MISSES.
pub(super) const HASWELL: &[(u64, Event)] = &[
    (0x0151, Event::LoadMisses),
    (0x0108, Event::LoadMisses),
    (0x0149, Event::StoreMisses),
    (0x0280, Event::Misses),
    (0x6085, Event::Misses),
    (0x0185, Event::PageWalks),
];

/// L1D, DTLB_LOAD_MISSES and DTLB_STORE_MISSES, ICACHE_64B and ITLB_MISSES.
pub(super) const SKYLAKE: &[(u64, Event)] = &[
    (0x0151, Event::LoadMisses),
    (0x0e08, Event::LoadMisses),
    (0x0e49, Event::StoreMisses),
    (0x0283, Event::Misses),
    (0x2085, Event::Misses),
    (0x0e85, Event::PageWalks),
];

/// L2_RQSTS, whose demands have missed in the first level, DTLB_LOAD_MISSES, DTLB_STORE_MISSES and
/// ITLB_MISSES.
///
/// Intel's list has no C4H and C5H with unit mask 04H. Where perf's output on such a CPU was published,
/// C5H had about as many as `branch-misses`.
pub(super) const GOLDEN_COVE: &[(u64, Event)] = &[
    (0xe124, Event::LoadMisses),
    (0xe424, Event::Misses),
    (0x0e12, Event::LoadMisses),
    (0x0e13, Event::StoreMisses),
    (0x0e11, Event::PageWalks),
    (0x04c4, Event::Branches),
    (0x04c5, Event::BranchMisses),
];

/// Golden Cove's, but for C4H and C5H. With unit mask 04H they count conditional branches that are not
/// taken (`super::retired`), and those that are mispredicted, which are not modelled.
pub(super) const PANTHER_COVE: &[(u64, Event)] = &[
    (0xe124, Event::LoadMisses),
    (0xe424, Event::Misses),
    (0x0e12, Event::LoadMisses),
    (0x0e13, Event::StoreMisses),
    (0x0e11, Event::PageWalks),
];

/// MEM_UOPS_RETIRED, ICACHE and PAGE_WALKS.
pub(super) const SILVERMONT: &[(u64, Event)] = &[
    (0x0104, Event::LoadMisses),
    (0x0804, Event::LoadMisses),
    (0x0380, Event::Instructions),
    (0x0280, Event::Misses),
    (0x0205, Event::Misses),
];

/// ICACHE and ITLB. Linux's driver has no misses of data.
pub(super) const GOLDMONT: &[(u64, Event)] = &[
    (0x0380, Event::Instructions),
    (0x0280, Event::Misses),
    (0x0481, Event::Misses),
];

/// Goldmont's, with DTLB_LOAD_MISSES and DTLB_STORE_MISSES.
pub(super) const GOLDMONT_PLUS: &[(u64, Event)] = &[
    (0x0e08, Event::LoadMisses),
    (0x0e49, Event::StoreMisses),
    (0x0380, Event::Instructions),
    (0x0280, Event::Misses),
    (0x0481, Event::Misses),
];
