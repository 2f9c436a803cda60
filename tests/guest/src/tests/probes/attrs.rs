// SPDX-License-Identifier: GPL-2.0
//! Calls of perf_event_open(), each for probes of rust_trace and for those of the in-tree
//! PMUs `kprobe` and `uprobe`. They return the same errno, and so do the ioctls of events that
//! are opened, which count the same, apart from what docs/differences.md lists.
//!
//! Where a probe is to be does not change here: errors.rs has those cases.

use anyhow::Result;
use fastrand::Rng;

use super::{own_calls, own_place, probed, system_calls, SYSTEM_CALL};
use crate::ctx::Ctx;
use crate::pmu::Pmu;
use crate::probe::{Kind, Probe, Side as Of, RUST_TRACE};
use crate::setting::Setting;
use crate::tests::compare::alike::{Comparison, Counts, Difference, Pair};
use crate::tests::compare::attr::{self, Attr, Field};
use crate::tests::compare::calls::{self, CHANGES};
use crate::tests::compare::case::{Case, Side};

/// What docs/differences.md says.
const DIFFERENCES: &[Difference] = &[
    Difference::Open("config3 and config4", |case| {
        case.seen(attr::CONFIG3) != 0 || case.seen(attr::CONFIG4) != 0
    }),
    Difference::Ioctl("SET_FILTER"),
];

/// The fields that say where a probe is.
const PLACE: [Field; 3] = [attr::CONFIG, attr::CONFIG1, attr::CONFIG2];

/// Calls for events of one probe.
struct Calls {
    comparison: Comparison,
    /// Its event on rust_trace, in the kernel, too.
    base: Case,
}

impl Calls {
    fn new(ctx: &Ctx, probe: &Probe) -> Result<Self> {
        let config = |of| -> Result<u64> { Ok(probe.event(of)?.attrs().config) };
        let (ours, theirs) = (config(Of::Ours)?, config(Of::InTree)?);
        let mut base = Case::own(ours);
        base.attr.set(attr::CONFIG1, probe.config1);
        base.attr.set(attr::CONFIG2, probe.config2);
        let leader: Attr = base.attr;
        base.attr.set(attr::EXCLUDE_KERNEL, 0);
        let in_tree = match probe.kind {
            Kind::Kernel => "kprobe",
            Kind::Program | Kind::Descriptor => "uprobe",
        };
        let pair = Pair {
            ours: Side::new(Pmu::find(RUST_TRACE)?, ours).led_by(leader),
            theirs: Side::with_configs(Pmu::find(in_tree)?, &[(ours, theirs)], u64::MAX)
                .led_by(leader),
            load: || {
                system_calls(3);
                own_calls(5);
            },
            counts: Counts::Same,
            counted: vec![ours],
            differences: DIFFERENCES,
        };
        Ok(Self {
            comparison: Comparison::new(ctx, pair)?,
            base,
        })
    }

    /// Makes a call, at the place of the probe.
    fn call(&mut self, mut case: Case) -> Result<()> {
        for field in PLACE {
            case.attr.set(field, self.base.attr.get(field));
        }
        self.comparison.call(case)
    }
}

/// Calls `f` with each kind of probe.
fn for_each_probe(mut f: impl FnMut(&Probe) -> Result<()>) -> Result<()> {
    let (path, offset) = own_place(probed())?;
    let (kernel, program) = (Probe::symbol(SYSTEM_CALL, 0), Probe::path(&path, offset));
    for probe in [kernel, kernel.of_return(), program, program.of_return()] {
        f(&probe)?;
    }
    Ok(())
}

/// Each change of the attribute has the result of the in-tree PMUs, but for the listed differences.
pub(super) fn changed_attrs(ctx: &Ctx) -> Result<()> {
    // Each event that is closed waits for RCU.
    let _expedited = Setting::change("/sys/kernel/rcu_expedited", 1)?;
    for_each_probe(|probe| {
        let mut calls = Calls::new(ctx, probe)?;
        for change in CHANGES {
            let mut case = calls.base;
            change(&mut case);
            calls.call(case)?;
        }
        calls.comparison.finish_with_all_differences()
    })
}

/// 100 random attributes of each kind of probe have the result of the in-tree PMUs.
pub(super) fn random_attrs(ctx: &Ctx) -> Result<()> {
    const CALLS: usize = 100;
    let _expedited = Setting::change("/sys/kernel/rcu_expedited", 1)?;
    let mut rng = Rng::with_seed(ctx.seed);
    println!("# seed {}", ctx.seed);
    for_each_probe(|probe| {
        let mut calls = Calls::new(ctx, probe)?;
        for _ in 0..CALLS {
            let mut case = calls.base;
            calls::change_randomly(&mut rng, &mut case, CHANGES);
            calls.call(case)?;
        }
        calls.comparison.finish()
    })
}

/// Of the user without privileges. One event opens, which the report wants.
pub(super) fn rights(ctx: &Ctx) -> Result<()> {
    for_each_probe(|probe| {
        let mut calls = Calls::new(ctx, probe)?;
        calls.call(calls.base)?;
        calls::rights(calls.base, CHANGES, |case| calls.call(case))?;
        calls.comparison.finish()
    })
}
