// SPDX-License-Identifier: GPL-2.0

//! Bonnell and Saltwell.

use super::{
    super::{
        cache::{
            counted,
            Cache,
            CacheEvents,
            Operation, //
        },
        named::Events, //
    },
    events::{
        with,
        NO_SUCH_OPERATION,
        SIMPLE, //
    }, //
};

/// The table of the models.
pub(super) static BONNELL: Events = with(SIMPLE).with_cache(&[&CACHE, &NO_SUCH_OPERATION]);

/// In-tree: `atom_hw_cache_event_ids`.
const CACHE: [CacheEvents; 9] = [
    counted(Cache::L1d, Operation::Read, 0x2140, 0),
    counted(Cache::L1d, Operation::Write, 0x2240, 0),
    counted(Cache::L1i, Operation::Read, 0x0380, 0x0280),
    counted(Cache::Ll, Operation::Read, 0x4f29, 0x4129),
    counted(Cache::Ll, Operation::Write, 0x4f2a, 0x412a),
    counted(Cache::Dtlb, Operation::Read, 0x2140, 0x0508),
    counted(Cache::Dtlb, Operation::Write, 0x2240, 0x0608),
    counted(Cache::Itlb, Operation::Read, 0x00c0, 0x0282),
    counted(Cache::Bpu, Operation::Read, 0x00c4, 0x00c5),
];
