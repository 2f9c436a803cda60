// SPDX-License-Identifier: GPL-2.0

//! States of LBRs that no PMU has.

use super::{intel, processor, reference::machines};
use pmu_model::{Config, RestoreError, SavedPmu, Vendor};
use serde_json::Value;

#[test]
fn a_state_that_no_pmu_has_is_refused() {
    const BIT_63: u64 = 1 << 63;
    let arch = intel(0x8f);
    let core_2 = intel(0x17);
    let nehalem = intel(0x1a);
    let goldmont_plus = intel(0x7a);
    let zen_4 = processor(Vendor::Amd, 0x19, 0x11);
    let without = Config {
        lbrs: None,
        ..nehalem
    };
    for (config, field, value) in [
        (arch, "controls/select", 1 << 4),
        (arch, "controls/debug_extn_ctl", 1 << 6),
        (arch, "ring/depth", 24),
        (arch, "ring/depth", 33),
        (arch, "ring/newest", 32),
        (arch, "ring/records/0/info", 1 << 16),
        (arch, "last", 1),
        (core_2, "controls/select", 1),
        (core_2, "ring/depth", 8),
        (core_2, "ring/newest", 4),
        (core_2, "ring/records/4/from", 1),
        (core_2, "ring/records/0/info", 1),
        (nehalem, "controls/select", 1 << 9),
        (nehalem, "ring/newest", 255),
        (goldmont_plus, "ring/records/31/info", 1 << 62),
        (zen_4, "controls/select", 1 << 9),
        (zen_4, "controls/debug_extn_ctl", 1),
        (zen_4, "ring/records/0/from", 1 << 62),
        (zen_4, "ring/records/0/to", 1 << 61),
        (zen_4, "ring/records/0/info", BIT_63),
        (zen_4, "ring/records/16/to", BIT_63),
        (without, "controls/select", 1),
        (without, "ring/depth", 16),
        (without, "ring/records/0/from", 1),
    ] {
        refused(config, &format!("/state/lbrs/{field}"), value);
    }
    // DEBUGCTL.LBR reads as 0 with architectural LBRs, and AMD's has other bits.
    refused(arch, "/state/debugctl", 1);
    refused(zen_4, "/state/debugctl", 1 << 8);
}

fn refused(config: Config, field: &str, value: u64) {
    let mut pmu = pmu_model::Pmu::new(config).unwrap();
    let good = serde_json::to_value(pmu.save()).unwrap();
    let mut state = good.clone();
    *state.pointer_mut(field).unwrap() = Value::from(value);
    let saved: SavedPmu = serde_json::from_value(state).unwrap();
    let error = pmu.restore(&saved).unwrap_err();
    assert_eq!(error, RestoreError::Impossible, "{field}: {value:#x}");
    assert_eq!(serde_json::to_value(pmu.save()).unwrap(), good, "{field}");
}

/// The state of one kind of LBRs is not that of another one.
#[test]
fn a_state_of_other_lbrs_is_refused() {
    let machines = machines();
    for (i, from) in machines.iter().enumerate() {
        for (j, to) in machines.iter().enumerate() {
            let restored = to.pmu().restore(&from.pmu().save());
            assert_eq!(restored.is_ok(), i == j, "{from:?}, {to:?}");
        }
    }
}
