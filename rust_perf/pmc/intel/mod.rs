// SPDX-License-Identifier: GPL-2.0

//! Intel's architectural performance monitoring, versions 1 to 6, and which counters of
//! a model can count which events.

mod arctic_wolf;
mod bonnell;
mod broadwell;
mod core2;
pub(super) mod cpuid;
mod darkmont;
mod events;
mod golden_cove;
mod goldmont;
mod gracemont;
mod haswell;
mod hybrid;
mod ice_lake;
mod ivy_bridge;
mod knights_landing;
mod last_branch;
mod lion_cove;
pub(super) mod msr;
mod nehalem;
mod panther_cove;
mod sandy_bridge;
mod silvermont;
mod skylake;
mod topdown;
mod transactions;
mod tremont;
mod v1;
pub(super) mod v2;
mod v6;
mod westmere;

#[cfg(test)]
pub(super) use self::events::CONSTRAINTS as INTEL_CONSTRAINTS;
pub use self::{
    hybrid::{
        is_hybrid,
        CoreType, //
    },
    msr::PERF_CAPABILITIES, //
};

use self::{
    cpuid::{
        Leaf07Ebx,
        Leaf07Edx,
        Leaf0aEax,
        Leaf0aEdx, //
    },
    hybrid::Hybrid,
    msr::PerfCapabilities, //
};
use super::{
    counter::CounterSet,
    cpuid::{
        has_threads,
        Signature, //
    },
    event::EventSel,
    extra::ExtraSet,
    generation::Generation,
    lbr::Lbr,
    named::Events,
    pair::Pairs,
    transactions::FIELDS as TRANSACTIONS,
    Capabilities,
    CpuidLeaf, //
};

/// The version of architectural performance monitoring, 0 if there is none.
pub(super) fn version(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> u8 {
    Leaf0aEax::from_raw(cpuid(0xa, 0).eax).get(Leaf0aEax::VERSION) as u8
}

/// Reads CPUID leaves 0AH and 23H, and `perf_capabilities`, the value of
/// IA32_PERF_CAPABILITIES. What came after version `newest` is left out.
pub(super) fn detect(
    cpuid: impl Fn(u32, u32) -> CpuidLeaf,
    perf_capabilities: Option<u64>,
    newest: u8,
) -> Option<Capabilities> {
    let leaf = cpuid(0xa, 0);
    let has_global = version(&cpuid) >= 2;
    let version = version(&cpuid).min(newest);

    // Without full-width writes a write extends bit 31 to the bits above (SDM vol. 3,
    // "Full-Width Writes to Performance Counter Registers").
    let perf_capabilities = PerfCapabilities::from_raw(perf_capabilities.unwrap_or(0));
    let full_width = perf_capabilities.has(PerfCapabilities::FW_WRITE);
    let generation = match (version, full_width) {
        (0, _) => return None,
        (1, false) => &v1::V1,
        (1, true) => &v1::V1_FULL_WIDTH,
        (2..=5, false) => &v2::V2,
        (2..=5, true) => &v2::V2_FULL_WIDTH,
        (6.., _) => &v6::V6,
    };
    let signature = Signature::of(&cpuid);
    // A hypervisor may hide the types of a hybrid model. Then they are performance cores.
    let core_type = CoreType::of(&cpuid).unwrap_or(CoreType::Core);
    let hybrid = Hybrid::of(&signature).map(|it| (it, core_type));
    let model = match hybrid {
        Some((hybrid, core_type)) => Some((hybrid.name, hybrid.events(core_type))),
        None => Model::of(&signature).map(|model| (model.name, model.events)),
    };
    let events = model.map_or(&events::EVENTS, |(_, events)| events);
    let mut caps = architectural(leaf, version, generation, events)?;
    if let Some((hybrid, core_type)) = hybrid.filter(|_| hybrid::is_declared(&cpuid)) {
        caps.counters = hybrid.counters(core_type, caps.counters);
    }
    if needs_counter_3_for_transactions(&cpuid) {
        caps.counters = caps.counters & !CounterSet::gp(1 << 3);
    }
    if full_width || version >= 6 {
        caps.writable_width = caps.gp_width;
    }
    caps.bypassed_global = (version < 2 && has_global).then_some(&v2::GLOBAL);
    if version >= 3 && !Leaf0aEdx::from_raw(leaf.edx).has(Leaf0aEdx::ANYTHREAD_DEPRECATED) {
        caps.format |= EventSel::ANY.mask();
    }
    if has_transactions(&cpuid) && !events.transactions.is_empty() {
        caps.format |= TRANSACTIONS;
    }
    // In-tree: `exra_is_visible()`.
    caps.names_extra = has_global;
    caps.pmu_name = Some(match (model, version) {
        (Some((name, _)), _) => name,
        (None, 1) => "generic_arch_v1",
        (None, 2..=4) => "generic_arch_v2+",
        (None, _) => "generic_arch_v5+",
    });

    caps.threads = has_threads(&cpuid);
    let format = perf_capabilities.get(PerfCapabilities::LBR_FMT) as u8;
    let legacy = || last_branch::detect(&cpuid, version, format, caps.threads);
    caps.lbr = match version {
        ..=1 => None,
        2..=3 => legacy(),
        4.. => Lbr::detect(&cpuid).or_else(legacy),
    };
    // In-tree: `fixup_ht_bug()`.
    caps.exclusive = caps.threads && events.constraints.any_exclusive();
    let has_metrics = perf_capabilities.has(PerfCapabilities::PERF_METRICS);
    if has_metrics || hybrid.is_some_and(|(it, core_type)| it.has_metrics(core_type)) {
        caps.metrics = CounterSet::first_metrics(events.topdown.metrics);
        caps.metrics_clear = perf_capabilities.has(PerfCapabilities::RDPMC_METRICS_CLEAR);
    }

    if let (6.., Some(extended)) = (newest, v6::extended_leaf(cpuid)) {
        caps.format |= extended.fields;
        caps.hides_counters = extended.rdpmc_user_disable;
        caps.counters = extended.counters.unwrap_or(caps.counters);
        caps.missing_events = extended.missing_events.unwrap_or(caps.missing_events);
    }
    caps.check()
}

/// Whether programs can use transactions. In-tree: `boot_cpu_has(X86_FEATURE_RTM)`.
fn has_transactions(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> bool {
    let leaf = cpuid(7, 0);
    let has_rtm = Leaf07Ebx::from_raw(leaf.ebx).has(Leaf07Ebx::RTM);
    has_rtm && !Leaf07Edx::from_raw(leaf.edx).has(Leaf07Edx::RTM_ALWAYS_ABORT)
}

/// Whether microcode uses GP counter 3 for transactions, unless TSX_FORCE_ABORT makes them abort
/// ("Performance Monitoring Impact of Intel Transactional Synchronization Extension Memory
/// Ordering Issue", Intel document 604224). In-tree: `PMU_FL_TFA`.
fn needs_counter_3_for_transactions(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> bool {
    let edx = Leaf07Edx::from_raw(cpuid(7, 0).edx);
    edx.has(Leaf07Edx::TSX_FORCE_ABORT) && !edx.has(Leaf07Edx::RTM_ALWAYS_ABORT)
}

/// As [`detect`], restricted to version `generation`. `None` if the CPU does not
/// have it.
pub(super) fn detect_as(
    generation: u8,
    cpuid: impl Fn(u32, u32) -> CpuidLeaf,
    perf_capabilities: Option<u64>,
) -> Option<Capabilities> {
    if generation > version(&cpuid) {
        return None;
    }
    detect(cpuid, perf_capabilities, generation)
}

/// What leaf 0AH enumerates for a CPU of this version.
pub(super) fn architectural(
    leaf: CpuidLeaf,
    version: u8,
    generation: &'static Generation,
    events: &'static Events,
) -> Option<Capabilities> {
    let eax = Leaf0aEax::from_raw(leaf.eax);
    let edx = Leaf0aEdx::from_raw(leaf.edx);
    let contiguous = !u32::MAX.wrapping_shl(edx.get(Leaf0aEdx::FIXED_COUNTERS));
    let fixed = match version {
        1 => 0,
        2..=4 => contiguous,
        _ => contiguous | leaf.ecx,
    };
    // Events beyond the length of the bit vector are missing, too.
    let beyond = u32::MAX
        .checked_shl(eax.get(Leaf0aEax::EVENTS))
        .unwrap_or(0);
    let gp = eax.get(Leaf0aEax::GP_COUNTERS) as u8;
    Capabilities {
        generation,
        bypassed_global: None,
        counters: CounterSet::first_gp(gp) | CounterSet::fixed(fixed),
        existing_gp: CounterSet::EMPTY,
        gp_width: eax.get(Leaf0aEax::GP_WIDTH) as u8,
        fixed_width: edx.get(Leaf0aEdx::FIXED_WIDTH) as u8,
        writable_width: 32,
        events,
        format: events.format,
        extra: ExtraSet::ALL,
        names_extra: false,
        missing_events: leaf.ebx | beyond,
        reservable: eax.get(Leaf0aEax::VERSION) < 6,
        svm: false,
        metrics: CounterSet::EMPTY,
        metrics_clear: false,
        threads: false,
        pairs: Pairs::NotNeeded,
        exclusive: false,
        hides_counters: false,
        lbr: None,
        pmu_name: None,
    }
    .check()
}

/// Models of a family with the same name and events.
struct Model {
    /// `caps/pmu_name` of the in-tree driver.
    name: &'static str,
    family: u8,
    models: &'static [u8],
    events: &'static Events,
}

impl Model {
    const fn new(
        name: &'static str,
        family: u8,
        models: &'static [u8],
        events: &'static Events,
    ) -> Self {
        Model {
            name,
            family,
            models,
            events,
        }
    }

    fn of(signature: &Signature) -> Option<&'static Self> {
        MODELS.iter().find(|model| {
            model.family == signature.family && model.models.contains(&signature.model)
        })
    }
}

/// The models that `intel_pmu_init()` in `arch/x86/events/intel/core.c` names, except for
/// hybrid ones (`arch/x86/include/asm/intel-family.h`), which `hybrid.rs` has.
static MODELS: &[Model] = &[
    Model::new("core", 6, &[0x0e], &core2::CORE),
    Model::new("core2", 6, &[0x0f, 0x16, 0x17, 0x1d], &core2::CORE2),
    Model::new("nehalem", 6, &[0x1a, 0x1e, 0x2e], &nehalem::NEHALEM),
    Model::new("westmere", 6, &[0x25, 0x2c, 0x2f], &westmere::WESTMERE),
    Model::new("sandybridge", 6, &[0x2a], &sandy_bridge::SANDY_BRIDGE),
    Model::new("sandybridge", 6, &[0x2d], &sandy_bridge::SANDY_BRIDGE_EP),
    Model::new("ivybridge", 6, &[0x3a], &ivy_bridge::IVY_BRIDGE),
    Model::new("ivybridge", 6, &[0x3e], &ivy_bridge::IVY_BRIDGE_EP),
    Model::new("haswell", 6, &[0x3c, 0x3f, 0x45, 0x46], &haswell::HASWELL),
    Model::new(
        "broadwell",
        6,
        &[0x3d, 0x47, 0x4f, 0x56],
        &broadwell::BROADWELL,
    ),
    Model::new(
        "skylake",
        6,
        &[0x4e, 0x55, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6],
        &skylake::SKYLAKE,
    ),
    Model::new(
        "icelake",
        6,
        &[0x7d, 0x7e, 0x8c, 0x8d, 0xa7],
        &ice_lake::ICE_LAKE,
    ),
    Model::new("icelake", 6, &[0x6a, 0x6c], &ice_lake::ICE_LAKE_SERVER),
    Model::new(
        "sapphire_rapids",
        6,
        &[0x8f, 0xcf],
        &golden_cove::GOLDEN_COVE,
    ),
    Model::new(
        "granite_rapids",
        6,
        &[0xad, 0xae],
        &golden_cove::REDWOOD_COVE,
    ),
    Model::new("panthercove", 19, &[0x01], &panther_cove::PANTHER_COVE),
    // Atom.
    Model::new(
        "bonnell",
        6,
        &[0x1c, 0x26, 0x27, 0x35, 0x36],
        &bonnell::BONNELL,
    ),
    Model::new(
        "silvermont",
        6,
        &[0x37, 0x4a, 0x4c, 0x4d, 0x5a, 0x75],
        &silvermont::SILVERMONT,
    ),
    Model::new("goldmont", 6, &[0x5c, 0x5f], &goldmont::GOLDMONT),
    Model::new("goldmont_plus", 6, &[0x7a], &goldmont::GOLDMONT_PLUS),
    Model::new("Tremont", 6, &[0x86, 0x96, 0x9c], &tremont::TREMONT),
    Model::new("gracemont", 6, &[0xbe], &gracemont::GRACEMONT),
    Model::new("crestmont", 6, &[0xaf, 0xb6], &gracemont::CRESTMONT),
    Model::new("darkmont", 6, &[0xdd], &darkmont::DARKMONT),
    // Xeon Phi.
    Model::new(
        "knights-landing",
        6,
        &[0x57, 0x85],
        &knights_landing::KNIGHTS_LANDING,
    ),
];

/// All tables of events.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static Events> {
    MODELS
        .iter()
        .map(|model| model.events)
        .chain(hybrid::all())
        .chain([&events::EVENTS])
}
