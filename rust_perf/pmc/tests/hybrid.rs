// SPDX-License-Identifier: GPL-2.0

//! Detection on the cores of hybrid CPUs, which the PMU model is.

use pmc::{
    counter::{Counter, CounterSet},
    detect,
    event::{EventSel, Modes},
    is_hybrid, CacheEvent, Capabilities, CoreType, CpuidLeaf,
};
use pmu_model::{Config, Pmu, Signature, Vendor};

/// A core of a hybrid CPU of family 6, or of one whose efficient cores are disabled.
struct Core {
    model: u8,
    pmu: Pmu,
}

impl Core {
    fn new(model: u8, core_type: Option<pmu_model::CoreType>) -> Self {
        let signature = Signature {
            family: 6,
            model,
            stepping: 0,
        };
        let config = match core_type {
            Some(core_type) => Config::of_hybrid(Vendor::Intel, signature, core_type).unwrap(),
            None => Config::of_processor(Vendor::Intel, signature, false).unwrap(),
        };
        Core {
            model,
            pmu: Pmu::new(config).unwrap(),
        }
    }

    fn cpuid(&self, leaf: u32, subleaf: u32) -> CpuidLeaf {
        let model = u32::from(self.model);
        let [eax, ebx, ecx, edx] = match (leaf, subleaf) {
            (0, _) => [0x23, 0x756e_6547, 0x6c65_746e, 0x4965_6e69],
            (1, _) => [0x600 | ((model & 0xf) << 4) | ((model >> 4) << 16), 0, 0, 0],
            (7, 0) => [0, 0, 0, u32::from(self.pmu.hybrid()) << 15],
            (7, 1) => [u32::from(self.pmu.perfmon_ext()) << 8, 0, 0, 0],
            _ => self.pmu.cpuid_count(leaf, subleaf).unwrap_or_default(),
        };
        CpuidLeaf { eax, ebx, ecx, edx }
    }

    fn core_type(&self) -> Option<CoreType> {
        CoreType::of(|leaf, subleaf| self.cpuid(leaf, subleaf))
    }

    fn detect(&self) -> Capabilities {
        let capabilities = self.pmu.perf_capabilities();
        detect(|leaf, subleaf| self.cpuid(leaf, subleaf), capabilities).unwrap()
    }
}

const PERFORMANCE: Option<pmu_model::CoreType> = Some(pmu_model::CoreType::Performance);
const EFFICIENT: Option<pmu_model::CoreType> = Some(pmu_model::CoreType::Efficient);
const LOW_POWER: Option<pmu_model::CoreType> = Some(pmu_model::CoreType::LowPower);

#[test]
fn each_type_has_its_name_and_counters() {
    let all = [
        (0x97, "alderlake_hybrid", PERFORMANCE, CoreType::Core, 8, 4),
        (0x97, "alderlake_hybrid", EFFICIENT, CoreType::Atom, 6, 3),
        (0xbf, "alderlake_hybrid", PERFORMANCE, CoreType::Core, 8, 4),
        (0xaa, "meteorlake_hybrid", PERFORMANCE, CoreType::Core, 8, 4),
        (0xb5, "meteorlake_hybrid", EFFICIENT, CoreType::Atom, 8, 3),
        (0xbd, "lunarlake_hybrid", PERFORMANCE, CoreType::Core, 8, 4),
        (0xbd, "lunarlake_hybrid", EFFICIENT, CoreType::Atom, 8, 3),
        (0xc6, "arrowlake_hybrid", EFFICIENT, CoreType::Atom, 8, 3),
        (0xc5, "arrowlake_h_hybrid", EFFICIENT, CoreType::Atom, 8, 3),
        (
            0xc5,
            "arrowlake_h_hybrid",
            LOW_POWER,
            CoreType::LowPower,
            8,
            3,
        ),
        (
            0xcc,
            "pantherlake_hybrid",
            PERFORMANCE,
            CoreType::Core,
            8,
            4,
        ),
    ];
    for (model, name, of_model, core_type, gp, fixed) in all {
        let core = Core::new(model, of_model);
        assert!(is_hybrid(|leaf, subleaf| core.cpuid(leaf, subleaf)));
        assert_eq!(core.core_type(), Some(core_type), "{model:#x}");
        let caps = core.detect();
        assert_eq!(caps.pmu_name, Some(name));
        let counters = CounterSet::first_gp(gp) | CounterSet::fixed((1 << fixed) - 1);
        assert_eq!(caps.counters, counters, "{model:#x} {core_type:?}");
        // All of them have registers.
        for msr in caps.registers() {
            assert!(core.pmu.rdmsr(msr.address()).is_ok(), "{msr:?}");
        }
    }
}

/// Without efficient cores leaf 0AH has all counters, whether CPUID still declares the CPU
/// hybrid or not.
#[test]
fn alder_lake_without_efficient_cores() {
    let core = Core::new(0x97, None);
    assert_eq!(core.core_type(), None);
    let all = CounterSet::first_gp(8) | CounterSet::fixed(0b1111);
    assert_eq!(core.detect().counters, all);
    assert_eq!(core.detect().pmu_name, Some("alderlake_hybrid"));

    let declared = |leaf, subleaf| match leaf {
        7 => CpuidLeaf {
            edx: 1 << 15,
            ..CpuidLeaf::default()
        },
        0x1a => CpuidLeaf {
            eax: 0x4000_0001,
            ..CpuidLeaf::default()
        },
        _ => core.cpuid(leaf, subleaf),
    };
    assert_eq!(CoreType::of(declared), Some(CoreType::Core));
    assert_eq!(detect(declared, None).unwrap().counters, all);
}

#[test]
fn other_types_are_not_known() {
    let core = Core::new(0x97, EFFICIENT);
    let other = |leaf, subleaf| match leaf {
        0x1a => CpuidLeaf {
            eax: 0x1000_0001,
            ..CpuidLeaf::default()
        },
        _ => core.cpuid(leaf, subleaf),
    };
    assert_eq!(CoreType::of(other), None);
}

/// The counters that can count AMX_OPS_RETIRED and the first event of CYCLE_ACTIVITY: Golden
/// Cove restricts them, Lion Cove the second one's neighbour, Gracemont none.
#[test]
fn each_type_has_its_constraints() {
    let counters = |core: &Core, config| {
        let event = EventSel::from_config(config, EventSel::INTEL, Modes::ALL).unwrap();
        let counters = core.detect().counters_for(event);
        counters.into_iter().map(Counter::index).collect::<Vec<_>>()
    };
    let all = |n| (0..n).collect::<Vec<usize>>();
    for (core, amx, stalls) in [
        (Core::new(0x97, PERFORMANCE), vec![0], all(4)),
        (Core::new(0x97, EFFICIENT), all(6), all(6)),
        (Core::new(0xaa, PERFORMANCE), vec![0], all(4)),
        (Core::new(0xaa, EFFICIENT), all(8), all(8)),
        (Core::new(0xbd, PERFORMANCE), all(8), vec![2]),
        (Core::new(0xbd, EFFICIENT), all(8), all(8)),
    ] {
        assert_eq!(counters(&core, 0x00ce), amx, "{:#x}", core.model);
        assert_eq!(counters(&core, 0x08a3), stalls, "{:#x}", core.model);
    }
}

/// perf's reads of the last cache: their event and what goes into OFFCORE_RSP.
#[test]
fn each_type_has_its_cache_events() {
    const READ_MISSES: u64 = 0x1_0002;
    for (model, of_model, config, config1) in [
        (0x97, PERFORMANCE, 0x012a, 0x3f_bfc0_0001),
        (0x97, EFFICIENT, 0x01b7, 0x3f_8440_0001),
        (0xaa, EFFICIENT, 0x01b7, 0x3f_bfc0_0001),
        (0xbd, PERFORMANCE, 0x012a, 0x9e7_fa00_0001),
        (0xc6, PERFORMANCE, 0x012a, 0xfe7_f800_0001),
        (0xc6, EFFICIENT, 0x01b7, 0x13f_bfc0_0001),
    ] {
        let event = Core::new(model, of_model).detect().cache_event(READ_MISSES);
        let found = match event {
            CacheEvent::Extra { config, config1 } => (config, config1),
            _ => panic!("{model:#x}"),
        };
        assert_eq!(found, (config, config1), "{model:#x}");
    }
}
