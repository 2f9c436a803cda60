// SPDX-License-Identifier: GPL-2.0

//! Events in transactions: which CPUs have them, where they are counted, and which are refused.

use crate::common::{
    events::{amd_cpu, counters, fields},
    Cpuid,
};
use pmc::{
    event::{EventSel, Modes},
    Capabilities,
};

const IN_TX: u64 = 1 << 32;
const IN_TXCP: u64 = 1 << 33;
const ANY: u64 = 1 << 21;

const RTM: u32 = 1 << 11;
const RTM_ALWAYS_ABORT: u32 = 1 << 11;

/// Models with TSX, and how many files of its events they have (in-tree: `*_tsx_events_attrs`).
const MODELS: [(u8, u8, usize); 8] = [
    (6, 0x3c, 12),
    (6, 0x3d, 12),
    (6, 0x5e, 12),
    (6, 0x7e, 14),
    (6, 0x6a, 14),
    (6, 0x8f, 8),
    (6, 0xad, 8),
    (19, 0x01, 8),
];

/// A CPU with these bits in EBX and EDX of leaf 7.
fn cpu(family: u8, model: u8, ebx: u32, edx: u32) -> Capabilities {
    Cpuid::new(b"GenuineIntel", family, model, 0)
        .with(0xa, 0, [0x0830_0805, 0, 0b1111, 0x8604])
        .with(7, 0, [0, ebx, 0, edx])
        .detect()
        .unwrap()
}

fn event(caps: &Capabilities, config: u64) -> EventSel {
    EventSel::from_config(config, caps.config_mask(), Modes::ALL).unwrap()
}

#[test]
fn cpus_with_tsx_have_its_fields_and_events() {
    let field_names = ["in_tx", "in_tx_cp"];
    let named = |caps: &Capabilities| {
        let fields = fields(caps);
        field_names.map(|name| fields.iter().any(|(field, _)| *field == name))
    };
    for (family, model, files) in MODELS {
        let caps = cpu(family, model, RTM, 0);
        assert_eq!(named(&caps), [true; 2], "{family:#x} {model:#x}");
        assert_eq!(caps.transaction_files().len(), files);
        // The file's terms are fields that there are.
        let terms = caps.transaction_files().iter();
        for term in terms.flat_map(|(_, text)| text.split(',')) {
            let (name, _) = term.split_once('=').unwrap();
            assert!(fields(&caps).iter().any(|(field, _)| *field == name));
        }
        for (ebx, edx) in [(0, 0), (RTM, RTM_ALWAYS_ABORT)] {
            let caps = cpu(family, model, ebx, edx);
            assert_eq!(named(&caps), [false; 2], "{family:#x} {model:#x}");
            assert!(caps.transaction_files().is_empty());
            assert!(EventSel::from_config(0xc0 | IN_TX, caps.config_mask(), Modes::ALL).is_none());
        }
    }
    // Models that never had TSX.
    for model in [0x2a, 0x3a, 0x5c, 0xaf] {
        assert_eq!(named(&cpu(6, model, RTM, 0)), [false; 2], "{model:#x}");
    }
}

#[test]
fn checkpoints_need_counter_2() {
    for (family, model, _) in MODELS {
        let caps = cpu(family, model, RTM, 0);
        let all = caps.counters.gp_part().bits();
        // Not the fixed counter, which has no such bits.
        assert_eq!(counters(&caps, 0xc0 | IN_TX), Some(all));
        assert_eq!(counters(&caps, 0xc0 | IN_TXCP), Some(0b100));
        assert_eq!(counters(&caps, 0x3c | IN_TX | IN_TXCP), Some(0b100));
    }
    // CYCLE_ACTIVITY.CYCLES_L1D_PENDING is on counter 2, INST_RETIRED.PREC_DIST on counter 1.
    let caps = cpu(6, 0x3c, RTM, 0);
    assert_eq!(counters(&caps, 0x08a3 | IN_TXCP), Some(0b100));
    assert_eq!(counters(&caps, 0x01c0 | IN_TX), Some(0b010));
    assert_eq!(counters(&caps, 0x01c0 | IN_TXCP), Some(0));
}

#[test]
fn a_short_period_may_abort_for_ever() {
    let caps = cpu(6, 0x5e, RTM, 0);
    let allowed = |config, period| caps.is_transaction_allowed(event(&caps, config), period);
    for period in [0, 0x7fff_ffff, u64::MAX] {
        assert!(allowed(0xc0 | IN_TXCP, period));
    }
    for period in [1, 1000, 0x7fff_fffe] {
        assert!(!allowed(0xc0 | IN_TXCP, period));
        assert!(!allowed(0xc0 | IN_TX | IN_TXCP, period));
        assert!(allowed(0xc0 | IN_TX, period));
        assert!(allowed(0xc0, period));
    }
}

#[test]
fn transactions_are_of_one_thread() {
    // Version 4, which has AnyThread.
    let caps = Cpuid::new(b"GenuineIntel", 6, 0x5e, 0)
        .with(0xa, 0, [0x0830_0804, 0, 0, 0x603])
        .with(7, 0, [0, RTM, 0, 0])
        .detect()
        .unwrap();
    let allowed = |config| caps.is_transaction_allowed(event(&caps, config), 0);
    assert!(!allowed(0xc0 | ANY | IN_TX));
    assert!(!allowed(0xc0 | ANY | IN_TXCP));
    assert!(allowed(0xc0 | ANY));
}

/// On AMD the bits of `in_tx` and `in_tx_cp` belong to the event select.
#[test]
fn amds_events_are_no_transactions() {
    let caps = amd_cpu(0x19, 0x21)
        .with(7, 0, [0, RTM, 0, 0])
        .detect()
        .unwrap();
    let fields = fields(&caps);
    assert!(fields.contains(&("event", "0-7,32-35")));
    assert!(!fields.iter().any(|(name, _)| name.starts_with("in_tx")));
    let all = caps.counters.bits();
    for high in [IN_TX, IN_TXCP, IN_TX | IN_TXCP] {
        assert_eq!(counters(&caps, 0xc0 | high), Some(all));
        assert!(caps.is_transaction_allowed(event(&caps, 0xc0 | high), 1000));
    }
}
