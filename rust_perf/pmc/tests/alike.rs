// SPDX-License-Identifier: GPL-2.0

//! CPUs that are said to have the tables of another have them.

use crate::common::emulated::{core_types, detected, emulated};
use pmc::{
    event::{EventSel, Modes},
    Capabilities,
};
use suites::CPUS;

/// All that the guest tests of these suites compare.
fn tables(caps: &Capabilities) -> impl PartialEq {
    let codes: Vec<_> = (0..=u16::MAX)
        .map(|code| {
            let event = EventSel::from_config(code.into(), caps.config_mask(), Modes::ALL);
            let event = event.unwrap_or_default();
            (
                caps.counters_for(event).bits(),
                caps.extra(event, 0).is_ok_and(|it| it.is_some()),
                caps.extra(event, u64::MAX).is_ok(),
                caps.limit_period(event, 1),
            )
        })
        .collect();
    let cache: Vec<_> = (0..0x2_0808).map(|id| caps.cache_event(id)).collect();
    let hardware: Vec<_> = (0..16).map(|id| caps.hardware_event(id)).collect();
    let format: Vec<_> = caps.format().map(|it| (it.name, it.bits)).collect();
    let extra: Vec<_> = caps.extra_format().map(|it| (it.name, it.bits)).collect();
    let topdown: Vec<_> = caps.topdown_files().collect();
    let metrics = (caps.metrics, caps.has_metrics_clear());
    let auxiliary = (
        (caps.auxiliary(), caps.shares_extra(), caps.pmu_name),
        (caps.counters, metrics),
    );
    (codes, cache, hardware, (format, extra, topdown), auxiliary)
}

#[test]
fn cpus_that_are_said_to_be_alike_are() {
    for suite in CPUS {
        let Some(like) = suite.like else { continue };
        let like = CPUS.iter().find(|other| other.name == like).unwrap();
        assert!(like.like.is_none(), "{} is like another", like.name);
        let core_types = core_types(suite);
        assert_eq!(core_types, self::core_types(like));
        for core_type in core_types {
            let emulated = |suite| emulated(suite, core_type).unwrap();
            assert!(
                emulated(suite).has_processor_of(&emulated(like)),
                "{}: the emulated processor is that of {}",
                suite.name,
                like.name
            );
            let tables = |suite| tables(&detected(suite, core_type).unwrap());
            assert!(
                tables(suite) == tables(like),
                "{}: the tables are those of {}",
                suite.name,
                like.name
            );
        }
    }
}
