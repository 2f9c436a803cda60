// SPDX-License-Identifier: GPL-2.0

//! The rules for AMD's registers, in every generation that has them.

use crate::operations::Operation;
use pmu_model::{
    msr::*, Config, ConfigError, GeneralProtection, Mode, MsrError, Pmu, Retired, Vendor,
};
use proptest::prelude::*;

const GP: Result<(), MsrError> = Err(MsrError::GeneralProtection);

const LEGACY: u8 = 1;
const CORE: u8 = 2;
const V2: u8 = 3;

/// The bits of a PERF_CTL that are not reserved.
const PERF_CTL_BITS: u64 = 0x030f_ffd7_ffff;

fn pmu(version: u8) -> Pmu {
    Pmu::new(Config::new(Vendor::Amd, version).unwrap()).unwrap()
}

fn config(version: u8, general: u8) -> Config {
    let mut config = Config::new(Vendor::Amd, version).unwrap();
    config.shape.general = general;
    config
}

/// The addresses of a counter's PERF_CTL and PERF_CTR that are new in the generation.
fn addresses(version: u8, counter: u32) -> (u32, u32) {
    match version {
        LEGACY => (K7_PERF_CTL0 + counter, K7_PERF_CTR0 + counter),
        _ => (PERF_CTL0 + 2 * counter, PERF_CTR0 + 2 * counter),
    }
}

fn user(instructions: u64, branches: u64) -> [Retired; 2] {
    [
        Retired {
            instructions,
            branches,
            ..Retired::default()
        },
        Retired::default(),
    ]
}

/// Makes counter 0 raise a PMI after `period` instructions in user mode.
fn sample(pmu: &mut Pmu, version: u8, period: i64) {
    let (ctl, ctr) = addresses(version, 0);
    let perf_ctl = EventSel::EN | EventSel::INT | EventSel::USR | 0xc0;
    pmu.wrmsr(ctl, perf_ctl).unwrap();
    pmu.wrmsr(ctr, -period as u64).unwrap();
}

#[test]
fn configurations() {
    for version in [0, 4] {
        assert_eq!(
            Config::new(Vendor::Amd, version),
            Err(ConfigError::Version),
            "{version}"
        );
    }
    for (version, least, most) in [(LEGACY, 4, 4), (CORE, 6, 6), (V2, 1, 15)] {
        for general in 0..17 {
            let valid = (least..=most).contains(&general);
            let error = (!valid).then_some(ConfigError::General);
            assert_eq!(Pmu::new(config(version, general)).err(), error);
        }
        let with = |fixed, width| {
            let mut config = Config::new(Vendor::Amd, version).unwrap();
            config.shape.fixed = fixed;
            config.shape.width = width;
            Pmu::new(config).err()
        };
        assert_eq!(with(0, 48), None);
        assert_eq!(with(1, 48), Some(ConfigError::Fixed));
        assert_eq!(with(0, 47), Some(ConfigError::Width));
        assert_eq!(with(0, 49), Some(ConfigError::Width));
    }
}

#[test]
fn cpuid_and_lvtpc() {
    for version in LEGACY..=V2 {
        let pmu = pmu(version);
        assert_eq!(pmu.perfctr_core(), version >= CORE);
        let leaf = (version == V2).then_some([1, 6, 0, 0]);
        assert_eq!(pmu.cpuid(0x8000_0022), leaf);
        assert_eq!(pmu.cpuid(0xa), None);
        assert_eq!(pmu.perf_capabilities(), None);
        assert!(!pmu.pmi_masks_lvtpc());
    }
    for general in 1..=15 {
        let pmu = Pmu::new(config(V2, general)).unwrap();
        assert_eq!(pmu.cpuid(0x8000_0022), Some([1, general.into(), 0, 0]));
    }
    let intel = Pmu::new(Config::new(Vendor::Intel, 4).unwrap()).unwrap();
    assert!(intel.pmi_masks_lvtpc());
    assert!(!intel.perfctr_core());
}

#[test]
fn registers_of_other_generations_and_counters_fault() {
    for (version, general) in [(LEGACY, 4), (CORE, 6), (V2, 1), (V2, 3), (V2, 6), (V2, 15)] {
        let mut pmu = Pmu::new(config(version, general)).unwrap();
        let general = u32::from(general);
        let check = |pmu: &mut Pmu, msr: u32, exists: bool| {
            let expect = if exists { Ok(()) } else { GP };
            assert_eq!(pmu.rdmsr(msr).map(drop), expect, "{version} {msr:#x}");
            assert_eq!(pmu.wrmsr(msr, 0), expect, "{version} {msr:#x}");
        };
        for i in 0..4 {
            check(&mut pmu, K7_PERF_CTL0 + i, i < general);
            check(&mut pmu, K7_PERF_CTR0 + i, i < general);
        }
        for i in 0..15 {
            check(&mut pmu, PERF_CTL0 + 2 * i, version >= CORE && i < general);
            check(&mut pmu, PERF_CTR0 + 2 * i, version >= CORE && i < general);
        }
        for msr in PERF_CNTR_GLOBAL_STATUS..=PERF_CNTR_GLOBAL_STATUS_SET {
            check(&mut pmu, msr, version == V2);
        }
        for msr in [
            K7_PERF_CTR0 + 4,
            PERF_CTL0 - 1,
            PERF_CTL0 + 30,
            PERF_CNTR_GLOBAL_STATUS - 1,
            PERF_CNTR_GLOBAL_STATUS_SET + 1,
            IA32_DEBUGCTL,
        ] {
            assert_eq!(pmu.rdmsr(msr), Err(MsrError::NotPmu), "{version} {msr:#x}");
        }
        // Intel's.
        for msr in [
            IA32_PERFEVTSEL0,
            IA32_PMC0,
            IA32_PERF_GLOBAL_CTRL,
            IA32_PERF_CAPABILITIES,
            IA32_PMC_GP0_CTR,
        ] {
            check(&mut pmu, msr, false);
        }
    }
}

#[test]
fn legacy_addresses_are_aliases() {
    for version in [CORE, V2] {
        let mut pmu = pmu(version);
        for i in 0..4 {
            let (ctl, ctr) = addresses(version, i);
            pmu.wrmsr(K7_PERF_CTL0 + i, 0x76 + u64::from(i)).unwrap();
            assert_eq!(pmu.rdmsr(ctl), Ok(0x76 + u64::from(i)));
            pmu.wrmsr(ctr, 0x1234_5678_9abc + u64::from(i)).unwrap();
            assert_eq!(
                pmu.rdmsr(K7_PERF_CTR0 + i),
                Ok(0x1234_5678_9abc + u64::from(i))
            );
        }
    }
}

#[test]
fn reserved_bits_are_ignored() {
    for version in LEGACY..=V2 {
        let mut pmu = pmu(version);
        let (ctl, ctr) = addresses(version, 3);
        pmu.wrmsr(ctl, u64::MAX).unwrap();
        assert_eq!(pmu.rdmsr(ctl), Ok(PERF_CTL_BITS));
        pmu.wrmsr(ctr, u64::MAX).unwrap();
        assert_eq!(pmu.rdmsr(ctr), Ok((1 << 48) - 1));
        for bit in 0..64 {
            pmu.wrmsr(ctl, 1 << bit).unwrap();
            let writable = !matches!(bit, 19 | 21 | 36..=39 | 42..);
            assert_eq!(pmu.rdmsr(ctl), Ok(u64::from(writable) << bit), "{bit}");
        }
    }
    let mut pmu = Pmu::new(config(V2, 5)).unwrap();
    pmu.wrmsr(PERF_CNTR_GLOBAL_CTL, u64::MAX).unwrap();
    assert_eq!(pmu.rdmsr(PERF_CNTR_GLOBAL_CTL), Ok(0x1f));
    pmu.wrmsr(PERF_CNTR_GLOBAL_STATUS_SET, u64::MAX).unwrap();
    assert_eq!(pmu.rdmsr(PERF_CNTR_GLOBAL_STATUS), Ok(0x1f));
}

#[test]
fn status_bits_are_cleared_one_by_one() {
    let mut pmu = pmu(V2);
    let status = |pmu: &Pmu| pmu.rdmsr(PERF_CNTR_GLOBAL_STATUS).unwrap();
    pmu.inject_status(0b1011);
    for written in [0, u64::MAX] {
        pmu.wrmsr(PERF_CNTR_GLOBAL_STATUS, written).unwrap();
        assert_eq!(status(&pmu), 0b1011);
    }
    pmu.wrmsr(PERF_CNTR_GLOBAL_STATUS_CLR, 0b0001).unwrap();
    assert_eq!(status(&pmu), 0b1010);
    // Linux's driver sets the reserved bits, too.
    pmu.wrmsr(PERF_CNTR_GLOBAL_STATUS_CLR, !0b0010).unwrap();
    assert_eq!(status(&pmu), 0b0010);
    pmu.wrmsr(PERF_CNTR_GLOBAL_STATUS_SET, 1 << 5).unwrap();
    assert_eq!(status(&pmu), 0b10_0010);
    for write_only in [PERF_CNTR_GLOBAL_STATUS_CLR, PERF_CNTR_GLOBAL_STATUS_SET] {
        assert_eq!(pmu.rdmsr(write_only), Ok(0));
    }
    assert!(!pmu.take_pmi());
}

#[test]
fn all_counters_are_enabled_at_reset() {
    for general in [1, 6, 15] {
        let mut pmu = Pmu::new(config(V2, general)).unwrap();
        let all = (1 << general) - 1;
        assert_eq!(pmu.rdmsr(PERF_CNTR_GLOBAL_CTL), Ok(all));
        sample(&mut pmu, V2, 1000);
        assert!(pmu.counting());
        pmu.wrmsr(PERF_CNTR_GLOBAL_CTL, all & !1).unwrap();
        assert!(!pmu.counting());
        pmu.retire(&user(5, 0));
        pmu.wrmsr(PERF_CNTR_GLOBAL_CTL, 1).unwrap();
        pmu.retire(&user(7, 0));
        assert_eq!(pmu.rdpmc(0, true, false), Ok((1 << 48) - 1000 + 7));
        pmu.reset();
        assert_eq!(pmu.rdmsr(PERF_CNTR_GLOBAL_CTL), Ok(all));
    }
}

#[test]
fn a_pmi_freezes_nothing() {
    for version in LEGACY..=V2 {
        let mut pmu = pmu(version);
        sample(&mut pmu, version, 10);
        assert_eq!(pmu.budget(Mode::User), [10, Pmu::UNLIMITED]);
        pmu.retire(&user(9, 0));
        assert!(!pmu.take_pmi());
        pmu.retire(&user(1, 0));
        assert!(pmu.take_pmi());
        assert!(!pmu.take_pmi());
        assert!(pmu.counting());
        pmu.retire(&user(5, 0));
        assert_eq!(pmu.rdpmc(0, true, false), Ok(5));
        if version == V2 {
            assert_eq!(pmu.rdmsr(PERF_CNTR_GLOBAL_STATUS), Ok(1));
            // A status bit that is still set does not suppress the next PMI.
            pmu.wrmsr(PERF_CTR0, -1_i64 as u64).unwrap();
            pmu.retire(&user(1, 0));
            assert!(pmu.take_pmi());
        }
    }
}

#[test]
fn overflow_without_int_raises_no_pmi() {
    let mut pmu = pmu(V2);
    sample(&mut pmu, V2, 10);
    pmu.wrmsr(PERF_CTL0, EventSel::EN | EventSel::USR | 0xc0)
        .unwrap();
    pmu.retire(&user(15, 0));
    assert!(!pmu.take_pmi());
    assert_eq!(pmu.rdmsr(PERF_CNTR_GLOBAL_STATUS), Ok(1));
    assert_eq!(pmu.rdmsr(PERF_CTR0), Ok(5));
}

#[test]
fn conditions_for_counting() {
    for version in LEGACY..=V2 {
        let mut pmu = pmu(version);
        let (ctl, _) = addresses(version, 2);
        let on = EventSel::EN | EventSel::USR | 0xc0;
        for (perf_ctl, counts) in [
            (on, true),
            (on & !EventSel::EN, false),
            (on & !EventSel::USR, false),
            (on | EventSel::OS, true),
            (on & !EventSel::USR | EventSel::OS, true),
            // EFER.SVME is clear.
            (on | EventSel::GUEST_ONLY, false),
            (on | EventSel::HOST_ONLY, false),
            (on | EventSel::GUEST_ONLY | EventSel::HOST_ONLY, false),
            // Another event.
            (on | (1 << 32), false),
            (on | (1 << 8), false),
        ] {
            pmu.wrmsr(ctl, perf_ctl).unwrap();
            assert_eq!(pmu.counting(), counts, "{version} {perf_ctl:#x}");
        }
    }
}

/// APM vol. 2, the table of HG_ONLY: without SVM, in the host, in a guest.
#[test]
fn host_and_guest_only() {
    const HOST: u64 = EventSel::HOST_ONLY;
    const GUEST: u64 = EventSel::GUEST_ONLY;
    for version in [LEGACY, CORE, V2] {
        let mut pmu = pmu(version);
        let (ctl, ctr) = addresses(version, 1);
        let on = EventSel::EN | EventSel::USR | 0xc0;
        for (bits, expected) in [
            (0, [true, true, true]),
            (HOST, [false, true, false]),
            (GUEST, [false, false, true]),
            (HOST | GUEST, [false, true, true]),
        ] {
            let states = [(false, false), (true, false), (true, true)];
            for ((svme, guest), counts) in states.into_iter().zip(expected) {
                // Whether SVM or the counter is set up first makes no difference.
                pmu.set_svm(svme, guest);
                pmu.wrmsr(ctl, on | bits).unwrap();
                pmu.wrmsr(ctr, 0).unwrap();
                pmu.retire(&user(1000, 0));
                pmu.set_svm(false, false);
                pmu.set_svm(svme, guest);
                pmu.retire(&user(234, 0));
                let count = if counts { 1234 } else { 0 };
                assert_eq!(
                    pmu.rdmsr(ctr),
                    Ok(count),
                    "{version} {bits:#x} {svme} {guest}"
                );
                assert_eq!(pmu.counting(), counts);
            }
        }
        // RESET clears EFER.SVME.
        pmu.reset();
        pmu.wrmsr(ctl, on | HOST).unwrap();
        assert!(!pmu.counting());
    }
}

#[test]
fn events() {
    // See the table in `pmu_model::event`.
    const CYCLES: u64 = 8192 + 15 * 64 + 100 * 2;
    for version in LEGACY..=V2 {
        for (event, count) in [
            (0x0076, CYCLES),
            (0x00c0, 8192),
            (0x00c2, 4096),
            (0x00c3, 64),
            (0x077d, 32),
            (0x037d, 32),
            (0xff60, 32),
            (0x077e, 2),
            (0x037e, 2),
            (0x0964, 2),
            (
                0x1_0000_0120,
                if version == V2 { CYCLES * 3 / 4 } else { 0 },
            ),
            // Stalled cycles, which are not modelled.
            (0x00d0, 0),
            (0x00d1, 0),
            (0x0187, 0),
            (0x0287, 0),
            (0x00a9, 0),
            // Intel's cycles and branches.
            (0x003c, 0),
            (0x00c4, 0),
        ] {
            let mut pmu = pmu(version);
            let (ctl, ctr) = addresses(version, 1);
            pmu.wrmsr(ctl, EventSel::EN | EventSel::USR | event)
                .unwrap();
            pmu.retire(&user(8192, 4096));
            assert_eq!(pmu.rdmsr(ctr), Ok(count), "{version} {event:#x}");
        }
    }
}

#[test]
fn rdpmc() {
    for (version, general) in [(LEGACY, 4), (CORE, 6), (V2, 1), (V2, 15)] {
        let mut pmu = Pmu::new(config(version, general)).unwrap();
        for i in 0..general.into() {
            let (_, ctr) = addresses(version, i);
            pmu.wrmsr(ctr, 0xcba9_8765_4320 + u64::from(i)).unwrap();
        }
        for ecx in 0..32 {
            let value = if ecx < general.into() {
                Ok(0xcba9_8765_4320 + u64::from(ecx))
            } else {
                Err(GeneralProtection)
            };
            assert_eq!(pmu.rdpmc(ecx, true, false), value);
            assert_eq!(pmu.rdpmc(ecx, false, true), value);
            assert_eq!(pmu.rdpmc(ecx, false, false), Err(GeneralProtection));
        }
        for ecx in [0x4000_0000, 0x8000_0000, 0x1_0000, u32::MAX] {
            assert_eq!(pmu.rdpmc(ecx, true, true), Err(GeneralProtection));
        }
    }
}

fn operation() -> impl Strategy<Value = Operation> {
    let msr = || {
        prop_oneof![
            4 => K7_PERF_CTL0..K7_PERF_CTR0 + 5,
            8 => PERF_CTL0..PERF_CTL0 + 32,
            8 => PERF_CNTR_GLOBAL_STATUS..PERF_CNTR_GLOBAL_STATUS_SET + 2,
            1 => any::<u32>(),
        ]
    };
    crate::operations::operation(msr, 0x76)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// For any sequence of operations: nothing panics, and an access that faults changes
    /// nothing. A write to an existing register does not fault, and all bits that are not
    /// reserved read back as written.
    #[test]
    fn any_accesses(
        version in LEGACY..=V2,
        general in 1..=15u8,
        operations in prop::collection::vec(operation(), 0..100),
    ) {
        let general = [4, 6, general][usize::from(version) - 1];
        let all = (1 << general) - 1;
        let mut pmu = Pmu::new(config(version, general)).unwrap();
        for operation in operations {
            match operation {
                Operation::Read(msr) => {
                    let _ = pmu.rdmsr(msr);
                }
                Operation::Write(msr, value) => {
                    let before = (pmu.rdmsr(msr), format!("{pmu:?}"));
                    match pmu.wrmsr(msr, value) {
                        Err(error) => {
                            prop_assert_eq!(&before, &(Err(error), format!("{pmu:?}")));
                        }
                        Ok(()) => {
                            let status = pmu.rdmsr(PERF_CNTR_GLOBAL_STATUS);
                            match msr {
                                PERF_CNTR_GLOBAL_STATUS => {
                                    prop_assert_eq!(before, (status, format!("{pmu:?}")));
                                }
                                PERF_CNTR_GLOBAL_STATUS_CLR => {
                                    prop_assert_eq!(status.unwrap() & value, 0);
                                }
                                PERF_CNTR_GLOBAL_STATUS_SET => {
                                    prop_assert_eq!(status.unwrap() & value, value & all);
                                }
                                _ => {
                                    let writable = match msr {
                                        PERF_CNTR_GLOBAL_CTL => all,
                                        K7_PERF_CTR0.. if msr < PERF_CTL0 => (1 << 48) - 1,
                                        PERF_CTL0.. if msr % 2 == 1 => (1 << 48) - 1,
                                        _ => PERF_CTL_BITS,
                                    };
                                    prop_assert_eq!(pmu.rdmsr(msr), Ok(value & writable));
                                }
                            }
                        }
                    }
                }
                Operation::ReadPmc(ecx, cpl0, pce) => {
                    let _ = pmu.rdpmc(ecx, cpl0, pce);
                }
                Operation::Retire(instructions) => pmu.retire(&instructions.map(|instructions| Retired {
                    instructions,
                    branches: instructions / 3,
                    ..Retired::default()
                })),
                Operation::Inject(fault) => pmu.inject(fault),
            }
            for mode in Mode::ALL {
                prop_assert!(pmu.budget(mode)[mode as usize] >= 1);
            }
            for ecx in 0..general.into() {
                prop_assert!(pmu.rdpmc(ecx, true, true).unwrap() >> 48 == 0);
            }
        }
    }
}
