// SPDX-License-Identifier: GPL-2.0

//! The branch records of the models that have no architectural LBRs (SDM vol. 3B, "Last Branch, Interrupt, and
//! Exception Recording"; `arch/x86/events/intel/lbr.c`).

use super::{
    super::{
        counter::CounterSet,
        cpuid::Signature,
        lbr::{
            layout::{
                Format,
                Layout,
                Legacy,
                SelectRegister, //
            },
            Lbr, //
        },
        msr::MsrRange,
        CpuidLeaf, //
    },
    cpuid::Leaf07Ebx,
    msr, //
};

/// How a model selects branches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Select {
    /// It records all of them.
    Nothing,
    /// By LBR_SELECT. Calls need jumps.
    WithJumps,
    /// By LBR_SELECT.
    Kinds,
    /// By LBR_SELECT, which has a call-stack mode.
    CallStack,
}

/// The branch records of some models of family 6.
struct Model {
    models: &'static [u8],
    depth: u8,
    select: Select,
    from: MsrRange,
    to: MsrRange,
}

impl Model {
    /// From Nehalem on.
    const fn new(models: &'static [u8], depth: u8, select: Select) -> Self {
        Model {
            models,
            depth,
            select,
            from: msr::LASTBRANCH_FROM,
            to: msr::LASTBRANCH_TO,
        }
    }

    /// Older ones, and the Atoms that follow them.
    const fn at_40h(models: &'static [u8], depth: u8, select: Select) -> Self {
        Model {
            from: msr::LASTBRANCH_FROM_40H,
            to: msr::LASTBRANCH_TO_60H,
            ..Self::new(models, depth, select)
        }
    }
}

/// The models that `intel_pmu_init()` in `arch/x86/events/intel/core.c` knows.
const MODELS: [Model; 11] = [
    // Core 2.
    Model::at_40h(&[0x0f, 0x16, 0x17, 0x1d], 4, Select::Nothing),
    // Bonnell, Saltwell.
    Model::at_40h(&[BONNELL, 0x26, 0x27, 0x35, 0x36], 8, Select::Nothing),
    // Silvermont, Airmont.
    Model::at_40h(&[0x37, 0x4a, 0x4c, 0x4d, 0x5a, 0x75], 8, Select::WithJumps),
    Model::new(&KNIGHTS_LANDING, 8, Select::Kinds),
    Model::new(&NEHALEM, 16, Select::WithJumps),
    // Sandy Bridge, Ivy Bridge.
    Model::new(&[0x2a, 0x2d, 0x3a, 0x3e], 16, Select::Kinds),
    Model::new(&HASWELL, 16, Select::CallStack),
    Model::new(&BROADWELL, 16, Select::CallStack),
    Model::new(&SKYLAKE, 32, Select::CallStack),
    // Ice Lake, Rocket Lake, Tiger Lake.
    Model::new(
        &[0x6a, 0x6c, 0x7d, 0x7e, 0xa7, 0x8c, 0x8d],
        32,
        Select::CallStack,
    ),
    // Goldmont, Goldmont Plus, Tremont.
    Model::new(&[0x5c, 0x5f, 0x7a, 0x86, 0x96, 0x9c], 32, Select::CallStack),
];

const BONNELL: u8 = 0x1c;
/// Knights Landing, Knights Mill.
const KNIGHTS_LANDING: [u8; 2] = [0x57, 0x85];
/// Nehalem, Westmere.
const NEHALEM: [u8; 6] = [0x1a, 0x1e, 0x2e, 0x25, 0x2c, 0x2f];
const HASWELL: [u8; 4] = [0x3c, 0x3f, 0x45, 0x46];
const BROADWELL: [u8; 4] = [0x3d, 0x47, 0x4f, 0x56];
/// Skylake to Comet Lake.
const SKYLAKE: [u8; 7] = [0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0xa5, 0xa6];

/// The branch records of a CPU. `version`: that of performance monitoring. `format`: LBR_FMT. `None` if it
/// has none that the driver uses. `has_threads`: whether a core has several.
pub(super) fn detect(
    cpuid: impl Fn(u32, u32) -> CpuidLeaf,
    version: u8,
    format: u8,
    has_threads: bool,
) -> Option<Lbr> {
    let signature = Signature::of(&cpuid);
    let number = signature.model;
    let model = MODELS
        .iter()
        .find(|it| signature.family == 6 && it.models.contains(&number))?;
    // PMIs do not stop recording on earlier ones: an erratum. In-tree: `intel_pmu_lbr_init_atom()`.
    if number == BONNELL && signature.stepping < 10 {
        return None;
    }
    let format = match format {
        // These report it wrong. In-tree: `intel_pmu_lbr_init_knl()`.
        1 if KNIGHTS_LANDING.contains(&number) => 3,
        other => other,
    };
    let features = Leaf07Ebx::from_raw(cpuid(7, 0).ebx);
    let info = |has_transactions| Format::Info {
        registers: msr::LASTBRANCH_INFO,
        has_transactions,
    };
    // Format 0 has both addresses in one register. The driver does not read it.
    let format = match format {
        1 | 2 => Format::Addresses,
        3 => Format::Flags,
        4 => Format::Transactions {
            exist: features.has(Leaf07Ebx::RTM) || features.has(Leaf07Ebx::HLE),
        },
        5 => info(true),
        6 => Format::Cycles,
        7 => info(false),
        _ => return None,
    };
    let select = match model.select {
        Select::Nothing => SelectRegister::None,
        // In-tree: without `PMU_FL_NO_HT_SHARING`. Of the other models without it, none has both threads and
        // the register.
        _ if has_threads && NEHALEM.contains(&number) => SelectRegister::PerCore,
        _ => SelectRegister::PerCpu,
    };
    let can_select = select == SelectRegister::PerCpu;
    Some(Lbr {
        depth: model.depth,
        layout: Layout::Legacy(Legacy {
            from: model.from,
            to: model.to,
            format,
            select,
            calls_need_jumps: model.select == Select::WithJumps,
            pmi_clears_lbr: version < 4,
            doubles_aborts: HASWELL.contains(&number),
            excludes_pt: BROADWELL.contains(&number) || SKYLAKE.contains(&number),
        }),
        selects_levels: can_select,
        selects_kinds: can_select,
        has_call_stack: model.select == Select::CallStack,
        is_lost_in_deep_c: true,
        has_kind: false,
        has_cycles: matches!(format, Format::Cycles | Format::Info { .. }),
        has_prediction: format != Format::Addresses,
        logged: CounterSet::EMPTY,
    })
}
