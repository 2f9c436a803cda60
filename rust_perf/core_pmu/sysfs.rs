// SPDX-License-Identifier: GPL-2.0

//! The PMU's folders in sysfs.

use super::place::Naming;
use crate::{
    perf::{
        AttributeGroups,
        File, //
    },
    pmc::{
        lbr::BITS_OF_COUNT,
        Capabilities,
        Selectable, //
    },
    system::cpumask::CpuMask, //
};
use core::ops::ControlFlow;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The folders that the in-tree driver's `cpu` has, with the events that this CPU
/// can count. If there is a set of CPUs that the PMU is on, a file lists them. Task context, may
/// sleep.
pub(crate) fn attribute_groups(
    capabilities: &Capabilities,
    naming: Naming,
    only_on: Option<&Arc<CpuMask>>,
) -> Result<AttributeGroups> {
    let mut format = KVec::new();
    for field in capabilities.format() {
        format.push(
            File::new(field.name, fmt!("config:{}", field.bits))?,
            GFP_KERNEL,
        )?;
    }
    for field in capabilities.extra_format() {
        format.push(
            File::new(field.name, fmt!("config1:{}", field.bits))?,
            GFP_KERNEL,
        )?;
    }
    if capabilities.has_metrics_clear() {
        format.push(File::new(c"metrics_clear", fmt!("config1:0"))?, GFP_KERNEL)?;
    }

    if naming == Naming::Apart {
        finished(capabilities.for_each_selectable(&mut |bit, (name, _)| {
            push(&mut format, File::new(name, fmt!("config2:{bit}")))
        }))?;
    }

    let mut events = KVec::new();
    finished(
        capabilities.for_each_file(naming != Naming::InTree, &mut |(name, text)| {
            let event = File::prefixed(naming.prefix(), name, format_args!("{text}"));
            push(&mut events, event)
        }),
    )?;

    let mut caps = KVec::new();
    // Without PEBS a sample is where the PMI was taken.
    caps.push(File::new(c"max_precise", fmt!("0"))?, GFP_KERNEL)?;
    if let Some(lbr) = capabilities.lbr {
        caps.push(File::new(c"branches", fmt!("{}", lbr.depth))?, GFP_KERNEL)?;
        if let Some(last) = lbr.logged.into_iter().last() {
            let counters = last.index().wrapping_add(1);
            for (name, value) in [
                (c"branch_counter_nr", counters),
                (c"branch_counter_width", BITS_OF_COUNT as usize),
            ] {
                caps.push(File::new(name, fmt!("{value}"))?, GFP_KERNEL)?;
            }
        }
    }
    if let Some(name) = capabilities.pmu_name {
        caps.push(File::new(c"pmu_name", fmt!("{name}"))?, GFP_KERNEL)?;
    }

    let mut files = KVec::new();
    if let Some(cpus) = only_on {
        // perf treats a PMU that has a file `cpus` as the PMU of one type of core.
        let name = if naming.is_of_core() {
            c"cpus"
        } else {
            c"cpulist"
        };
        files.push(File::cpus(name, cpus.clone())?, GFP_KERNEL)?;
    } else if naming == Naming::OfCore {
        // perf knows the PMU of all cores by the name `cpu` or by this file.
        files.push(File::online_cpus(c"cpus")?, GFP_KERNEL)?;
    }
    let folders = [(c"format", format), (c"events", events), (c"caps", caps)];
    AttributeGroups::with_files(files, folders)
}

/// The events that bits of `config2` select by name, by these bits. Task context, may sleep.
pub(super) fn named(capabilities: &Capabilities, naming: Naming) -> Result<KVec<Selectable>> {
    let mut named = KVec::new();
    if naming == Naming::Apart {
        finished(capabilities.for_each_selectable(&mut |_, (_, text)| {
            let event = capabilities.event_of(text).ok_or(EINVAL);
            flow(event.and_then(|event| Ok(named.push(event, GFP_KERNEL)?)))
        }))?;
    }
    Ok(named)
}

/// Adds a file. Breaks with the error if that failed.
fn push(files: &mut KVec<File>, file: Result<File>) -> ControlFlow<Error> {
    flow(file.and_then(|file| Ok(files.push(file, GFP_KERNEL)?)))
}

/// Has a loop break with an error.
fn flow(result: Result) -> ControlFlow<Error> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// The error that a loop broke with.
fn finished(flow: ControlFlow<Error>) -> Result {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}
