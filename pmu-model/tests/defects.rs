// SPDX-License-Identifier: GPL-2.0

//! PMUs with a defect: the defect affects exactly what its documentation says.

use std::{collections::BTreeSet, num::NonZeroU64};

use pmu_model::{
    msr::*, Config, ConfigError, Defect, Mode, MsrError, PmiFault, Pmu, Retired, Vendor,
};
use proptest::prelude::*;

/// All versions of all vendors.
const VERSIONS: [(Vendor, u8); 11] = [
    (Vendor::Intel, 1),
    (Vendor::Intel, 2),
    (Vendor::Intel, 3),
    (Vendor::Intel, 4),
    (Vendor::Intel, 5),
    (Vendor::Intel, 6),
    (Vendor::Amd, 1),
    (Vendor::Amd, 2),
    (Vendor::Amd, 3),
    (Vendor::Hygon, 2),
    (Vendor::Zhaoxin, 2),
];

fn number(n: u64) -> NonZeroU64 {
    NonZeroU64::new(n).unwrap()
}

fn config((vendor, version): (Vendor, u8)) -> Config {
    Config::new(vendor, version).unwrap()
}

/// A PMU whose counter 0 samples instructions of both modes.
struct Sampling {
    pmu: Pmu,
    ctr: u32,
    eventsel: u32,
    period: u64,
}

impl Sampling {
    const ON: u64 = EventSel::EN | EventSel::INT | EventSel::USR | EventSel::OS | 0xc0;

    fn new(config: Config, defect: Defect, period: u64) -> Sampling {
        let (eventsel, ctr) = match config.vendor {
            Vendor::Intel | Vendor::Zhaoxin => (IA32_PERFEVTSEL0, IA32_PMC0),
            Vendor::Amd | Vendor::Hygon => (K7_PERF_CTL0, K7_PERF_CTR0),
        };
        let mut sampling = Sampling {
            pmu: Pmu::with_defect(config, defect).unwrap(),
            ctr,
            eventsel,
            period,
        };
        sampling.start();
        sampling
    }

    fn start(&mut self) {
        self.pmu.wrmsr(self.eventsel, Self::ON).unwrap();
        let value = self.period.wrapping_neg() & ((1 << 48) - 1);
        self.pmu.wrmsr(self.ctr, value).unwrap();
    }

    /// Retires `total` instructions within the budgets and starts the next period at each
    /// overflow, with or without a PMI. Returns the numbers of instructions after which a
    /// PMI was pending.
    fn run(&mut self, total: u64, modes: impl Iterator<Item = Mode>) -> BTreeSet<u64> {
        let mut pmis = BTreeSet::new();
        let mut retired = 0;
        for mode in modes {
            if retired == total {
                break;
            }
            let n = self.pmu.budget(mode)[mode as usize].min(total - retired);
            assert_ne!(n, 0);
            let mut report = [Retired::default(); 2];
            report[mode as usize].instructions = n;
            self.pmu.retire(&report);
            retired += n;
            if self.pmu.rdmsr(self.ctr) == Ok(0) {
                self.start();
            }
            if self.pmu.take_pmi() {
                pmis.insert(retired);
            }
        }
        pmis
    }

    fn count(&self) -> u64 {
        self.pmu.rdmsr(self.ctr).unwrap()
    }
}

/// The numbers of instructions after which a PMI must be pending, by the documentation of
/// [`Defect`].
fn expected_pmis(defect: Defect, period: u64, total: u64) -> BTreeSet<u64> {
    // The number of each PMI and the instruction at which it is requested.
    let requested = || (1..=total / period).map(move |k| (k, k * period));
    let affected = |k: u64, every: NonZeroU64| k % every == 0;
    let pmis: BTreeSet<u64> = match defect {
        Defect::None
        | Defect::Status(_)
        | Defect::GeneralProtection { .. }
        | Defect::MaskLvtpc
        | Defect::Garbage(_)
        | Defect::Foreign { .. } => requested().map(|(_, at)| at).collect(),
        Defect::Pmi {
            every,
            fault: PmiFault::Lose,
        } => requested()
            .filter(|&(k, _)| !affected(k, every))
            .map(|(_, at)| at)
            .collect(),
        Defect::Pmi {
            every,
            fault: PmiFault::Delay(delay),
        } => requested()
            .map(|(k, at)| if affected(k, every) { at + delay } else { at })
            .collect(),
        Defect::Pmi {
            every,
            fault: PmiFault::Repeat(delay),
        } => requested()
            .flat_map(|(k, at)| [at, if affected(k, every) { at + delay } else { at }])
            .collect(),
        Defect::Spurious(every) => requested()
            .map(|(_, at)| at)
            .chain((1..=total / every).map(|k| k * every.get()))
            .collect(),
    };
    pmis.into_iter().filter(|&at| at <= total).collect()
}

fn defect() -> impl Strategy<Value = Defect> {
    let every = || (1..6u64).prop_map(number);
    let delay = || prop_oneof![0..10u64, 0..3000u64];
    prop_oneof![
        Just(Defect::None),
        every().prop_map(|every| Defect::Pmi {
            every,
            fault: PmiFault::Lose
        }),
        (every(), delay()).prop_map(|(every, delay)| Defect::Pmi {
            every,
            fault: PmiFault::Delay(delay)
        }),
        (every(), delay()).prop_map(|(every, delay)| Defect::Pmi {
            every,
            fault: PmiFault::Repeat(delay)
        }),
        (1..3000u64).prop_map(|every| Defect::Spurious(number(every))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// PMIs arrive where the defect's documentation says, and the counter counts as without
    /// a defect. RESET starts everything again.
    #[test]
    fn pmis_arrive_as_documented(
        version in prop::sample::select(&VERSIONS[..]),
        defect in defect(),
        period in 2..2000u64,
        total in 0..20_000u64,
        modes in prop::collection::vec(prop::sample::select(&Mode::ALL[..]), 1..10),
    ) {
        let modes = || modes.iter().copied().cycle();
        let mut without_defect = Sampling::new(config(version), Defect::None, period);
        prop_assert_eq!(without_defect.run(total, modes()), expected_pmis(Defect::None, period, total));

        let mut sampling = Sampling::new(config(version), defect, period);
        for _ in 0..2 {
            prop_assert_eq!(sampling.run(total, modes()), expected_pmis(defect, period, total));
            prop_assert_eq!(sampling.count(), without_defect.count());
            sampling.pmu.reset();
            prop_assert!(!sampling.pmu.counting());
            prop_assert!(!sampling.pmu.take_pmi());
            sampling.start();
        }
    }

    /// A report that exceeds the budget makes at most one spurious PMI pending.
    #[test]
    fn spurious_pmis_beyond_the_budget(
        every in 1..1000u64,
        reports in prop::collection::vec(0..5000u64, 0..20),
    ) {
        let defect = Defect::Spurious(number(every));
        let mut sampling = Sampling::new(config((Vendor::Intel, 4)), defect, 1 << 30);
        let mut total = 0;
        for instructions in reports {
            let before = total / every;
            total += instructions;
            let retired = Retired { instructions, branches: 0, ..Retired::default() };
            sampling.pmu.retire(&[retired, Retired::default()]);
            prop_assert_eq!(sampling.pmu.take_pmi(), total / every > before);
        }
    }
}

/// Injected faults take precedence over the defect. The PMIs that they affect are numbered
/// like all others.
#[test]
fn injected_faults_and_a_defect() {
    let defect = Defect::Pmi {
        every: number(2),
        fault: PmiFault::Lose,
    };
    let mut sampling = Sampling::new(config((Vendor::Intel, 4)), defect, 100);
    for fault in [PmiFault::Delay(10), PmiFault::Repeat(10)] {
        sampling.pmu.inject(fault);
    }
    let pmis = sampling.run(450, std::iter::repeat(Mode::User));
    assert_eq!(Vec::from_iter(pmis), [110, 200, 210, 300]);
}

/// Only instructions that retire while a counter counts lead to a spurious PMI.
#[test]
fn no_spurious_pmi_while_no_counter_counts() {
    let defect = Defect::Spurious(number(1000));
    let mut sampling = Sampling::new(config((Vendor::Amd, 3)), defect, 1 << 30);
    let retire = |pmu: &mut Pmu, instructions| {
        let retired = Retired {
            instructions,
            branches: 0,
            ..Retired::default()
        };
        pmu.retire(&[Retired::default(), retired]);
        pmu.take_pmi()
    };
    assert!(!retire(&mut sampling.pmu, 999));
    sampling.pmu.wrmsr(sampling.eventsel, 0).unwrap();
    assert!(!sampling.pmu.counting());
    assert_eq!(sampling.pmu.budget(Mode::Kernel), [Pmu::UNLIMITED; 2]);
    assert!(!retire(&mut sampling.pmu, 5000));
    sampling.start();
    assert_eq!(sampling.pmu.budget(Mode::Kernel)[1], 1);
    assert!(retire(&mut sampling.pmu, 1));
    assert!(!retire(&mut sampling.pmu, 999));
}

#[test]
fn status_is_set_at_reset() {
    for version in VERSIONS {
        let config = config(version);
        let status = match version {
            (Vendor::Intel, 1) | (Vendor::Amd | Vendor::Hygon, 1 | 2) => None,
            (Vendor::Intel | Vendor::Zhaoxin, _) => {
                Some((IA32_PERF_GLOBAL_STATUS, IA32_PERF_GLOBAL_STATUS_RESET))
            }
            (Vendor::Amd | Vendor::Hygon, _) => {
                Some((PERF_CNTR_GLOBAL_STATUS, PERF_CNTR_GLOBAL_STATUS_CLR))
            }
        };
        let with = |bits| Pmu::with_defect(config, Defect::Status(bits));
        let Some((status, clear)) = status else {
            assert_eq!(with(1).err(), Some(ConfigError::Status), "{version:?}");
            continue;
        };
        for bits in [1 << 20, 1 << 40, 1 << 63, u64::MAX] {
            assert_eq!(with(bits).err(), Some(ConfigError::Status), "{version:?}");
        }
        let mut pmu = with(0b11).unwrap();
        for _ in 0..2 {
            assert_eq!(pmu.rdmsr(status), Ok(0b11));
            assert!(!pmu.take_pmi());
            pmu.wrmsr(clear, 0b01).unwrap();
            assert_eq!(pmu.rdmsr(status), Ok(0b10));
            pmu.reset();
        }
    }
}

const GP: MsrError = MsrError::GeneralProtection;

#[test]
fn a_register_faults_after_a_number_of_accesses() {
    for (version, msr, value) in [
        ((Vendor::Intel, 1), IA32_PERFEVTSEL0, 0x53_00c0),
        ((Vendor::Intel, 4), IA32_PERF_GLOBAL_CTRL, 0b101),
        ((Vendor::Intel, 6), IA32_PMC_GP0_CTR, 0x1234),
        ((Vendor::Amd, 1), K7_PERF_CTR0, 0x1234),
        ((Vendor::Amd, 3), PERF_CTL0, 0x53_0076),
        ((Vendor::Zhaoxin, 2), IA32_PMC0, 0x1234),
    ] {
        for after in 0..5 {
            let defect = Defect::GeneralProtection { msr, after };
            let mut pmu = Pmu::with_defect(config(version), defect).unwrap();
            for _ in 0..2 {
                let at_reset = Pmu::new(config(version)).unwrap().rdmsr(msr);
                // Writes and reads alternate.
                for access in 0..after {
                    match access % 2 {
                        0 => assert_eq!(pmu.wrmsr(msr, value), Ok(()), "{msr:#x}"),
                        _ => assert_eq!(pmu.rdmsr(msr), Ok(value), "{msr:#x}"),
                    }
                }
                let before = format!("{pmu:?}");
                for _ in 0..3 {
                    assert_eq!(pmu.rdmsr(msr), Err(GP), "{msr:#x}");
                    assert_eq!(pmu.wrmsr(msr, 0), Err(GP), "{msr:#x}");
                }
                // The writes that faulted changed nothing.
                assert_eq!(format!("{pmu:?}"), before);
                pmu.reset();
                if after != 0 {
                    assert_eq!(pmu.rdmsr(msr), at_reset);
                    pmu.reset();
                }
            }
        }
    }
}

#[test]
fn accesses_that_fault_anyway_are_not_counted() {
    let defect = Defect::GeneralProtection {
        msr: IA32_FIXED_CTR0,
        after: 1,
    };
    let mut pmu = Pmu::with_defect(config((Vendor::Intel, 4)), defect).unwrap();
    // Bits beyond the width of the counter are reserved.
    assert_eq!(pmu.wrmsr(IA32_FIXED_CTR0, 1 << 48), Err(GP));
    assert_eq!(pmu.wrmsr(IA32_FIXED_CTR0, 5), Ok(()));
    assert_eq!(pmu.rdmsr(IA32_FIXED_CTR0), Err(GP));
}

#[test]
fn only_the_faulty_address_faults() {
    let defect = Defect::GeneralProtection {
        msr: IA32_PMC0,
        after: 0,
    };
    let mut pmu = Pmu::with_defect(config((Vendor::Intel, 6)), defect).unwrap();
    assert_eq!(pmu.wrmsr(IA32_PMC0, 5), Err(GP));
    // Other addresses of the counter, RDPMC and the next counter work.
    assert_eq!(pmu.wrmsr(IA32_A_PMC0, 5), Ok(()));
    assert_eq!(pmu.rdmsr(IA32_PMC_GP0_CTR), Ok(5));
    assert_eq!(pmu.rdpmc(0, true, false), Ok(5));
    assert_eq!(pmu.wrmsr(IA32_PMC0 + 1, 5), Ok(()));
}

#[test]
fn a_faulty_register_must_exist() {
    for (version, msr) in [
        ((Vendor::Intel, 1), IA32_PERF_GLOBAL_CTRL),
        ((Vendor::Intel, 4), IA32_PMC0 + 4),
        ((Vendor::Intel, 4), 0x10),
        ((Vendor::Amd, 1), PERF_CTL0),
        ((Vendor::Amd, 3), IA32_PMC0),
    ] {
        let defect = Defect::GeneralProtection { msr, after: 1 };
        let error = Pmu::with_defect(config(version), defect).err();
        assert_eq!(error, Some(ConfigError::Msr), "{version:?} {msr:#x}");
    }
}

#[test]
fn lvtpc_is_masked_on_amd() {
    for version in VERSIONS {
        let without_defect = Pmu::new(config(version)).unwrap();
        let masking = Pmu::with_defect(config(version), Defect::MaskLvtpc);
        match version {
            (Vendor::Amd | Vendor::Hygon, _) => {
                let mut masking = masking.unwrap();
                assert!(!without_defect.pmi_masks_lvtpc());
                assert!(masking.pmi_masks_lvtpc());
                masking.reset();
                assert!(masking.pmi_masks_lvtpc());
            }
            (Vendor::Intel | Vendor::Zhaoxin, _) => {
                assert!(without_defect.pmi_masks_lvtpc());
                assert_eq!(masking.err(), Some(ConfigError::MaskLvtpc), "{version:?}");
            }
        }
    }
}
