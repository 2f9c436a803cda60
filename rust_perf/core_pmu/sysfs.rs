// SPDX-License-Identifier: GPL-2.0

//! The PMU's folders in sysfs.

use super::place::Place;
use crate::{
    perf::{
        AttributeGroups,
        File, //
    },
    pmc::{
        Capabilities,
        EventName, //
    },
    system::cpumask::CpuMask, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The folders that the in-tree driver's `cpu` has, with the events that this CPU
/// can count. If there is a set of CPUs, perf opens events of this PMU on these only. Task
/// context, may sleep.
pub(crate) fn attribute_groups(
    capabilities: &Capabilities,
    place: Place,
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

    let mut events = KVec::new();
    for (name, text) in capabilities.topdown_files() {
        events.push(File::new(name, fmt!("{text}"))?, GFP_KERNEL)?;
    }
    for (name, text) in capabilities.transaction_files() {
        events.push(File::new(name, fmt!("{text}"))?, GFP_KERNEL)?;
    }
    let with_metrics = !capabilities.metrics.is_empty();
    for event in capabilities.events() {
        if event.name == EventName::Slots && with_metrics {
            continue;
        }
        let files = match place {
            Place::Beside { .. } => event.name.files(),
            // perf knows the other names of an event itself.
            Place::InTree => event.name.files().get(..1).unwrap_or_default(),
        };
        for name in files {
            events.push(
                File::new(name, format_args!("{}", event.terms()))?,
                GFP_KERNEL,
            )?;
        }
    }

    if let Some([umask, event]) = capabilities.auxiliary() {
        events.push(
            File::new(
                c"mem-loads-aux",
                fmt!("event=0x{event:02x},umask=0x{umask:02x}"),
            )?,
            GFP_KERNEL,
        )?;
    }

    let mut caps = KVec::new();
    // Without PEBS a sample is where the PMI was taken.
    caps.push(File::new(c"max_precise", fmt!("0"))?, GFP_KERNEL)?;
    if let Some(name) = capabilities.pmu_name {
        caps.push(File::new(c"pmu_name", fmt!("{name}"))?, GFP_KERNEL)?;
    }

    let mut files = KVec::new();
    // By this file perf knows the PMU of a kind of core.
    match (only_on, place) {
        (Some(cpus), _) => files.push(File::cpus(c"cpus", cpus.clone()), GFP_KERNEL)?,
        (None, Place::Beside { named_events: true }) => {
            files.push(File::online_cpus(c"cpus"), GFP_KERNEL)?;
        }
        (None, _) => {}
    }
    let folders = [(c"format", format), (c"events", events), (c"caps", caps)];
    AttributeGroups::with_files(files, folders)
}
