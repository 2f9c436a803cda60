// SPDX-License-Identifier: GPL-2.0

//! Detection on the cores of hybrid CPUs, which the PMU model is.

use pmc::{
    counter::{Counter, CounterSet},
    detect,
    event::{EventSel, Modes},
    is_hybrid, CacheEvent, Capabilities, CoreType, CpuidLeaf,
};
use pmu_model::{Config, Pmu, Signature, Vendor};
use std::ffi::CStr;

/// A core of a hybrid CPU, or of one whose efficient cores are disabled.
struct Core {
    family: u8,
    model: u8,
    pmu: Pmu,
}

impl Core {
    fn new(model: u8, core_type: Option<pmu_model::CoreType>) -> Self {
        Self::of_family(6, model, core_type)
    }

    fn of_family(family: u8, model: u8, core_type: Option<pmu_model::CoreType>) -> Self {
        let signature = Signature {
            family: family.into(),
            model,
            stepping: 0,
        };
        let config = match core_type {
            Some(core_type) => Config::of_hybrid(Vendor::Intel, signature, core_type).unwrap(),
            None => Config::of_processor(Vendor::Intel, signature, false).unwrap(),
        };
        Core {
            family,
            model,
            pmu: Pmu::new(config).unwrap(),
        }
    }

    fn cpuid(&self, leaf: u32, subleaf: u32) -> CpuidLeaf {
        let model = u32::from(self.model);
        let family = match u32::from(self.family) {
            family @ 0..=0xf => family << 8,
            family => 0xf00 | ((family - 0xf) << 20),
        };
        let [eax, ebx, ecx, edx] = match (leaf, subleaf) {
            (0, _) => [0x23, 0x756e_6547, 0x6c65_746e, 0x4965_6e69],
            (1, _) => [
                family | ((model & 0xf) << 4) | ((model >> 4) << 16),
                0,
                0,
                0,
            ],
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
        (0x01, "novalake_hybrid", PERFORMANCE, CoreType::Core, 8, 4),
        (0x03, "novalake_hybrid", EFFICIENT, CoreType::Atom, 8, 3),
    ];
    for (model, name, of_model, core_type, gp, fixed) in all {
        let family = if name == "novalake_hybrid" { 18 } else { 6 };
        let core = Core::of_family(family, model, of_model);
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

/// Leaf 0AH of Alder Lake has the counters of the efficient cores, or, if these are disabled, all.
#[test]
fn counters_that_leaf_0a_hides() {
    let core = Core::new(0x97, PERFORMANCE);
    for ((gp, fixed), expected) in [
        ((6, 3), (8, 4)),
        ((4, 2), (6, 3)),
        ((8, 4), (8, 4)),
        ((8, 3), (8, 3)),
        ((6, 4), (6, 4)),
    ] {
        let cpuid = |leaf, subleaf| match leaf {
            0xa => CpuidLeaf {
                eax: 0x0830_0005 | (gp << 8),
                ebx: 0,
                ecx: (1 << fixed) - 1,
                edx: 0x8600 | fixed,
            },
            _ => core.cpuid(leaf, subleaf),
        };
        let caps = detect(cpuid, Some(0)).unwrap();
        let (gp, fixed): (u8, u32) = expected;
        let counters = CounterSet::first_gp(gp) | CounterSet::fixed((1 << fixed) - 1);
        assert_eq!(caps.counters, counters);
        // PERF_CAPABILITIES says so.
        assert!(caps.metrics.is_empty());
    }
}

/// The CPUID of `core` with EDX of leaf 07H and EAX of leaf 1AH as given.
fn with_leaves(core: &Core, edx: u32, type_: u32) -> impl Fn(u32, u32) -> CpuidLeaf + '_ {
    move |leaf, subleaf| match leaf {
        7 if subleaf == 0 => CpuidLeaf {
            edx,
            ..CpuidLeaf::default()
        },
        0x1a => CpuidLeaf {
            eax: type_,
            ..CpuidLeaf::default()
        },
        _ => core.cpuid(leaf, subleaf),
    }
}

const HYBRID: u32 = 1 << 15;

/// Without efficient cores leaf 0AH has all counters, whether CPUID still declares the CPU
/// hybrid or not, and whether leaf 1AH has the type of the core or not.
#[test]
fn alder_lake_without_efficient_cores() {
    let core = Core::new(0x97, None);
    let all = CounterSet::first_gp(8) | CounterSet::fixed(0b1111);
    for edx in [0, HYBRID] {
        for type_ in [0, 0x4000_0001] {
            let cpuid = with_leaves(&core, edx, type_);
            assert!(is_hybrid(&cpuid));
            assert_eq!(CoreType::of(&cpuid), Some(CoreType::Core));
            let caps = detect(&cpuid, None).unwrap();
            assert_eq!(caps.counters, all);
            assert_eq!(caps.pmu_name, Some("alderlake_hybrid"));
        }
    }
}

/// Efficient cores are that, also if CPUID does not declare the CPU hybrid.
#[test]
fn alder_lake_without_performance_cores() {
    let core = Core::new(0x97, EFFICIENT);
    let six = CounterSet::first_gp(6) | CounterSet::fixed(0b111);
    for edx in [0, HYBRID] {
        let cpuid = with_leaves(&core, edx, 0x2000_0001);
        assert!(is_hybrid(&cpuid));
        assert_eq!(CoreType::of(&cpuid), Some(CoreType::Atom));
        assert_eq!(detect(&cpuid, None).unwrap().counters, six);
    }
}

/// A core whose leaf 1AH has no type: on Alder Lake and Raptor Lake it is a performance core, as
/// in-tree. Later ones have no PMU there if CPUID declares them hybrid. If it does not, a
/// hypervisor has hidden the types, and there is one PMU for all cores.
#[test]
fn cores_without_a_type() {
    for model in [0x97, 0x9a, 0xb7, 0xba, 0xbf] {
        let core = Core::new(model, PERFORMANCE);
        for edx in [0, HYBRID] {
            let cpuid = with_leaves(&core, edx, 0);
            assert_eq!(CoreType::of(&cpuid), Some(CoreType::Core), "{model:#x}");
            assert!(is_hybrid(&cpuid));
        }
        // Leaf 0AH has what all cores have, if they are declared to differ.
        let counters = |edx| detect(with_leaves(&core, edx, 0), None).unwrap().counters;
        assert_eq!(counters(HYBRID).gp_part().len(), 8);
        assert_eq!(counters(0).gp_part().len(), 6);
    }
    for (family, model) in [
        (6, 0xaa),
        (6, 0xb5),
        (6, 0xbd),
        (6, 0xc5),
        (6, 0xcc),
        (18, 1),
    ] {
        let core = Core::of_family(family, model, PERFORMANCE);
        let types = [0, HYBRID].map(|edx| {
            let cpuid = with_leaves(&core, edx, 0);
            (is_hybrid(&cpuid), CoreType::of(&cpuid))
        });
        assert_eq!(types, [(false, None), (true, None)], "{model:#x}");
        let caps = detect(with_leaves(&core, 0, 0), core.pmu.perf_capabilities()).unwrap();
        assert_eq!(caps.counters, core.detect().counters, "{model:#x}");
    }
}

#[test]
fn other_types_are_not_known() {
    let core = Core::new(0x97, EFFICIENT);
    assert_eq!(CoreType::of(with_leaves(&core, HYBRID, 0x1000_0001)), None);
    // With three types, the native model decides.
    let core = Core::new(0xc5, EFFICIENT);
    for (type_, expected) in [
        (0x2000_0002, Some(CoreType::LowPower)),
        (0x2000_0003, Some(CoreType::Atom)),
        (0x2000_0004, None),
        (0x4000_0004, Some(CoreType::Core)),
    ] {
        let found = CoreType::of(with_leaves(&core, HYBRID, type_));
        assert_eq!(found, expected, "{type_:#x}");
    }
    // A CPU without a table must declare it.
    let core = Core::new(0x97, EFFICIENT);
    let unknown = |edx| {
        let leaves = with_leaves(&core, edx, 0x2000_0001);
        move |leaf, subleaf| match leaf {
            1 => CpuidLeaf {
                eax: 0xf_06f0,
                ..CpuidLeaf::default()
            },
            _ => leaves(leaf, subleaf),
        }
    };
    assert_eq!(CoreType::of(unknown(0)), None);
    assert_eq!(CoreType::of(unknown(HYBRID)), Some(CoreType::Atom));
    assert!(!is_hybrid(unknown(0)) && is_hybrid(unknown(HYBRID)));
}

/// Performance cores have metrics, and slots as an event of their own. Efficient ones have the
/// same events as plain ones. In-tree: `adl_hybrid_events_attrs` and its successors.
#[test]
fn each_type_has_its_topdown_events() {
    let files = |core: &Core| -> Vec<_> {
        let caps = core.detect();
        let text = |(name, text): (&CStr, &str)| format!("{} {text}", name.to_str().unwrap());
        caps.topdown_files().map(text).collect()
    };
    let metrics = |core: &Core| core.detect().metrics;
    // Retiring, bound by the front end, and by the back end.
    let gracemont = ["0xc2,umask=0x0", "0x71,umask=0x0", "0x74,umask=0x0"];
    let skymont = ["0xc2,umask=0x02", "0x9c,umask=0x01", "0xa4,umask=0x02"];
    for (family, model, [retiring, fe_bound, be_bound]) in [
        (6, 0x97, gracemont),
        (6, 0xb7, gracemont),
        (6, 0xaa, gracemont),
        (6, 0xb5, gracemont),
        (6, 0xbd, skymont),
        (6, 0xc5, skymont),
        (6, 0xcc, skymont),
        (18, 3, skymont),
    ] {
        let core = Core::of_family(family, model, PERFORMANCE);
        let atom = Core::of_family(family, model, EFFICIENT);
        assert_eq!(metrics(&core), CounterSet::first_metrics(8), "{model:#x}");
        assert!(metrics(&atom).is_empty(), "{model:#x}");
        let of_core = files(&core);
        assert_eq!(of_core.len(), 9);
        assert_eq!(of_core[0], "slots event=0x00,umask=0x4");
        assert_eq!(of_core[1], "topdown-retiring event=0x00,umask=0x80");
        let expected = [
            format!("topdown-fe-bound event={fe_bound}"),
            format!("topdown-retiring event={retiring}"),
            "topdown-bad-spec event=0x73,umask=0x0".to_owned(),
            format!("topdown-be-bound event={be_bound}"),
        ];
        assert_eq!(files(&atom), expected, "{model:#x}");
    }
    let low_power = files(&Core::new(0xc5, LOW_POWER));
    assert_eq!(low_power, files(&Core::new(0x97, EFFICIENT)));
    // Without other cores they have others.
    assert_ne!(low_power, files(&Core::new(0xaf, None)));
}

/// RDPMC can clear the metrics from Lunar Lake on.
#[test]
fn each_type_may_clear_its_metrics() {
    for (family, model, expected) in [
        (6, 0x97, false),
        (6, 0xb5, false),
        (6, 0xbd, true),
        (6, 0xc6, true),
        (18, 1, true),
    ] {
        let has = |core_type| {
            let core = Core::of_family(family, model, core_type);
            core.detect().has_metrics_clear()
        };
        assert_eq!(has(PERFORMANCE), expected, "{model:#x}");
        assert!(!has(EFFICIENT), "{model:#x}");
    }
    let core = Core::new(0xbd, PERFORMANCE).detect();
    assert!(!core.without_metrics().has_metrics_clear());
    assert!(!core.without_fixed().has_metrics_clear());
}

/// Each register of Arctic Wolf belongs to a counter, so the counter depends on the register.
#[test]
fn registers_of_arctic_wolf_have_counters() {
    let caps = Core::of_family(18, 1, EFFICIENT).detect();
    let event = EventSel::from_config(0x01b7, caps.config_mask(), Modes::ALL).unwrap();
    let first = caps.extra(event, 1).unwrap().unwrap();
    let choices: Vec<_> = caps.extra_choices(event, first).collect();
    let counters = choices.into_iter().map(|extra| {
        let event = caps.event_in(event, extra.register);
        caps.counters_for(event).bits()
    });
    assert_eq!(counters.collect::<Vec<_>>(), [1, 2, 4, 8]);
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
