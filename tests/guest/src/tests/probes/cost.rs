// SPDX-License-Identifier: GPL-2.0
//! What a hit of a probe costs, in instructions. With `-icount` the TSC counts them.

use anyhow::Result;

use super::{own_calls, own_place, probed, system_calls, BEHIND_FTRACE, SYSTEM_CALL};
use crate::ctx::Ctx;
use crate::probe::{Probe, Side};
use crate::tests::cost::{expect_no_row_above, rows_of_hits};

/// No hit costs more than with the in-tree PMUs.
pub(super) fn cost_of_a_hit(_: &Ctx) -> Result<()> {
    let (path, offset) = own_place(probed())?;
    let kernel = Probe::symbol(SYSTEM_CALL, 0);
    let within = Probe::symbol(SYSTEM_CALL, BEHIND_FTRACE);
    let program = Probe::path(&path, offset);
    let call: fn() = || system_calls(1);
    let own: fn() = || {
        own_calls(1);
    };
    let mut rows = Vec::new();
    for (what, probe, work) in [
        ("kprobe", kernel, call),
        ("kprobe within", within, call),
        ("kretprobe", kernel.of_return(), call),
        ("uprobe", program, own),
        ("uretprobe", program.of_return(), own),
    ] {
        let sides = [Side::Ours, Side::InTree];
        rows.extend(rows_of_hits(what, sides, |side| probe.event(*side), work)?);
    }
    expect_no_row_above(&rows)
}
