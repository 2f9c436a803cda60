// SPDX-License-Identifier: GPL-2.0

//! Conditional branches, which the processors in the tables count.

use pmu_model::{msr::*, Config, Mode, Pmu, Retired, Signature, Vendor};
use proptest::prelude::*;

mod nehalem;
use nehalem::clear_if_needed;

/// A processor of each kind that has the event, and the event's code.
const WITH: &[(Vendor, u16, u8, u64)] = &[
    (Vendor::Intel, 6, 0x1a, 0x01c4),
    (Vendor::Intel, 6, 0x2a, 0x01c4),
    (Vendor::Intel, 6, 0x9e, 0x01c4),
    (Vendor::Intel, 6, 0x6a, 0x11c4),
    (Vendor::Intel, 6, 0x8f, 0x11c4),
    (Vendor::Intel, 6, 0xbd, (1 << 40) | 0x11c4),
    (Vendor::Intel, 6, 0xcc, 0x07c4),
    (Vendor::Intel, 18, 0x01, 0x07c4),
    (Vendor::Intel, 6, 0x37, 0x7ec4),
    (Vendor::Intel, 6, 0xbe, 0x7ec4),
    (Vendor::Intel, 6, 0xaf, 0x7ec4),
    (Vendor::Intel, 6, 0xdd, 0x07c4),
    (Vendor::Amd, 0x17, 0x01, 0x00d1),
    (Vendor::Amd, 0x19, 0x61, 0x00d1),
];

/// Processors without it, and codes that others have.
const WITHOUT: &[(Vendor, u16, u8, u64)] = &[
    (Vendor::Intel, 6, 0x0f, 0x01c4),
    (Vendor::Intel, 6, 0x9e, 0x11c4),
    (Vendor::Intel, 6, 0xbd, 0x11c4),
    (Vendor::Intel, 6, 0x1c, 0x7ec4),
    (Vendor::Amd, 0x10, 0x02, 0x00d1),
    (Vendor::Amd, 0x17, 0x01, 0x01d1),
    (Vendor::Amd, 0x17, 0x01, (1 << 32) | 0x00d1),
];

/// The PMU of a processor whose counter 0 counts an event in user mode.
fn pmu((vendor, family, model, code): (Vendor, u16, u8, u64), fields: u64) -> Pmu {
    let signature = Signature {
        family,
        model,
        stepping: 0,
    };
    let config = Config::of_processor(vendor, signature, false).unwrap();
    let mut pmu = Pmu::new(config).unwrap();
    if family == 6 {
        clear_if_needed(&mut pmu, model);
    }
    let (select, counter) = match vendor {
        Vendor::Amd => (K7_PERF_CTL0, K7_PERF_CTR0),
        _ => (IA32_PERFEVTSEL0, IA32_PMC0),
    };
    pmu.wrmsr(
        select,
        EventSel::EN | EventSel::INT | EventSel::USR | fields | code,
    )
    .unwrap();
    if vendor == Vendor::Intel && config.version > 1 {
        pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 1).unwrap();
    }
    pmu.wrmsr(counter, 0).unwrap();
    pmu
}

fn count(pmu: &mut Pmu) -> u64 {
    pmu.rdpmc(0, true, false).unwrap()
}

fn retire(pmu: &mut Pmu, instructions: u64, branches: u64, conditional: u64) {
    let user = Retired {
        instructions,
        branches,
        conditional,
    };
    // Kernel mode is not counted.
    pmu.retire(&[user, user]);
}

#[test]
fn processors_count_them() {
    for processor in WITH {
        let mut pmu = pmu(*processor, 0);
        retire(&mut pmu, 1000, 200, 150);
        assert_eq!(count(&mut pmu), 150, "{processor:x?}");
        retire(&mut pmu, 7, 3, 2);
        assert_eq!(count(&mut pmu), 152, "{processor:x?}");
    }
}

#[test]
fn others_do_not() {
    for processor in WITHOUT {
        let mut pmu = pmu(*processor, 0);
        retire(&mut pmu, 1000, 200, 150);
        assert_eq!(count(&mut pmu), 0, "{processor:x?}");
    }
}

#[test]
fn cycles_without_one() {
    let mut pmu = pmu(WITH[2], EventSel::INV | (1 << 24));
    retire(&mut pmu, 40, 20, 15);
    assert_eq!(count(&mut pmu), 25);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A counter overflows with the conditional branch that makes it wrap, and never within a
    /// budget.
    #[test]
    fn overflow(
        period in 1..2_000_u64,
        program in prop::collection::vec(0..3_u8, 1..10_000),
    ) {
        let mut pmu = pmu(WITH[2], 0);
        pmu.wrmsr(IA32_PMC0, period.wrapping_neg()).unwrap();
        let mut rest = program.as_slice();
        let mut counted = 0;
        while !rest.is_empty() {
            let [budget, _] = pmu.budget(Mode::User);
            let budget = usize::try_from(budget).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at(budget);
            let conditional = now.iter().filter(|it| **it == 2).count() as u64;
            let branches = now.iter().filter(|it| **it != 0).count() as u64;
            let before = counted;
            counted += conditional;
            // The last instruction of a budget may be the one that overflows.
            prop_assert!(counted <= period || before >= period);
            let user = Retired { instructions: budget as u64, branches, conditional };
            pmu.retire(&[user, Retired::default()]);
            prop_assert_eq!(pmu.take_pmi(), before < period && counted == period);
            rest = later;
        }
    }
}
