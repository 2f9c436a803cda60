// SPDX-License-Identifier: GPL-2.0

//! The events of transactions. In-tree: the files in `group_events_tsx`.

use super::super::transactions::Files;

/// Haswell, Broadwell and Skylake. In-tree: `hsw_tsx_events_attrs`.
pub(super) const HASWELL: Files = &[
    (c"tx-start", "event=0xc9,umask=0x1"),
    (c"tx-commit", "event=0xc9,umask=0x2"),
    (c"tx-abort", "event=0xc9,umask=0x4"),
    (c"tx-capacity", "event=0x54,umask=0x2"),
    (c"tx-conflict", "event=0x54,umask=0x1"),
    (c"el-start", "event=0xc8,umask=0x1"),
    (c"el-commit", "event=0xc8,umask=0x2"),
    (c"el-abort", "event=0xc8,umask=0x4"),
    (c"el-capacity", "event=0x54,umask=0x2"),
    (c"el-conflict", "event=0x54,umask=0x1"),
    (c"cycles-t", "event=0x3c,in_tx=1"),
    (c"cycles-ct", "event=0x3c,in_tx=1,in_tx_cp=1"),
];

/// Ice Lake, where reads and writes exceed the capacity separately. In-tree:
/// `icl_tsx_events_attrs`.
pub(super) const ICE_LAKE: Files = &[
    (c"tx-start", "event=0xc9,umask=0x1"),
    (c"tx-abort", "event=0xc9,umask=0x4"),
    (c"tx-commit", "event=0xc9,umask=0x2"),
    (c"tx-capacity-read", "event=0x54,umask=0x80"),
    (c"tx-capacity-write", "event=0x54,umask=0x2"),
    (c"tx-conflict", "event=0x54,umask=0x1"),
    (c"el-start", "event=0xc8,umask=0x1"),
    (c"el-abort", "event=0xc8,umask=0x4"),
    (c"el-commit", "event=0xc8,umask=0x2"),
    (c"el-capacity-read", "event=0x54,umask=0x80"),
    (c"el-capacity-write", "event=0x54,umask=0x2"),
    (c"el-conflict", "event=0x54,umask=0x1"),
    (c"cycles-t", "event=0x3c,in_tx=1"),
    (c"cycles-ct", "event=0x3c,in_tx=1,in_tx_cp=1"),
];

/// Golden Cove, which has no hardware lock elision any more, and its successors. In-tree:
/// `glc_tsx_events_attrs` and `adl_hybrid_tsx_attrs`.
pub(super) const GOLDEN_COVE: Files = &[
    (c"tx-start", "event=0xc9,umask=0x1"),
    (c"tx-abort", "event=0xc9,umask=0x4"),
    (c"tx-commit", "event=0xc9,umask=0x2"),
    (c"tx-capacity-read", "event=0x54,umask=0x80"),
    (c"tx-capacity-write", "event=0x54,umask=0x2"),
    (c"tx-conflict", "event=0x54,umask=0x1"),
    (c"cycles-t", "event=0x3c,in_tx=1"),
    (c"cycles-ct", "event=0x3c,in_tx=1,in_tx_cp=1"),
];
