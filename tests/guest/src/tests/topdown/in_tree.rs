// SPDX-License-Identifier: GPL-2.0
//! What in-tree events leave in the registers.

use anyhow::{ensure, Result};
use nix::sched::sched_getcpu;
use nix::unistd::gettid;

use super::super::rdpmc_orders::machine::{count_in_tree, Machine};
use super::super::user_read::{expect_child_succeeds, rdpmc, Page};
use crate::ctx::Ctx;
use crate::pmu::{Event, Mode};
use crate::setting::pin;

/// A task that has an event mapped finds 0 in all other registers that RDPMC reads after events of the
/// in-tree driver have counted in them, slots and metrics included.
pub(super) fn in_tree_events_leave_nothing(ctx: &Ctx) -> Result<()> {
    // On a hybrid CPU this is a core of the PMU's type.
    pin(gettid(), sched_getcpu()?)?;
    let machine = Machine::new(ctx)?;
    machine.check()?;
    count_in_tree(&machine.in_tree)?;
    expect_child_succeeds(|| {
        let mut event = machine.pmu.open(Event::Branches, Mode::User)?;
        event.enable()?;
        let page = Page::map(&event)?;
        let own = page.index()?;
        for &index in machine.registers.iter().filter(|index| **index != own) {
            // SAFETY: the register exists, and `page` allows RDPMC.
            let value = unsafe { rdpmc(index) };
            ensure!(value == 0, "register {index:#x} is {value:#x}");
        }
        Ok(())
    })
}
