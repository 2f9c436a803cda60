// SPDX-License-Identifier: GPL-2.0

//! The branch records of the models that have no architectural LBRs (SDM vol. 3B, "Last Branch, Interrupt, and
//! Exception Recording"; `arch/x86/events/intel/lbr.c`).

use super::{
    super::{
        cpuid::Signature,
        lbr::{
            layout::{
                Format,
                Layout,
                Legacy, //
            },
            Lbr, //
        },
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
}

const fn model(models: &'static [u8], depth: u8, select: Select) -> Model {
    Model {
        models,
        depth,
        select,
    }
}

/// The models that `intel_pmu_init()` in `arch/x86/events/intel/core.c` knows.
const MODELS: [Model; 11] = [
    // Core 2.
    model(&[0x0f, 0x16, 0x17, 0x1d], 4, Select::Nothing),
    // Bonnell, Saltwell.
    model(&[0x1c, 0x26, 0x27, 0x35, 0x36], 8, Select::Nothing),
    // Silvermont, Airmont.
    model(&[0x37, 0x4a, 0x4c, 0x4d, 0x5a, 0x75], 8, Select::WithJumps),
    // Knights Landing, Knights Mill.
    model(&[0x57, 0x85], 8, Select::Kinds),
    // Nehalem, Westmere.
    model(&[0x1a, 0x1e, 0x2e, 0x25, 0x2c, 0x2f], 16, Select::WithJumps),
    // Sandy Bridge, Ivy Bridge.
    model(&[0x2a, 0x2d, 0x3a, 0x3e], 16, Select::Kinds),
    // Haswell.
    model(&HASWELL, 16, Select::CallStack),
    // Broadwell.
    model(&[0x3d, 0x47, 0x4f, 0x56], 16, Select::CallStack),
    // Skylake to Comet Lake.
    model(
        &[0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0xa5, 0xa6],
        32,
        Select::CallStack,
    ),
    // Ice Lake, Rocket Lake, Tiger Lake.
    model(
        &[0x6a, 0x6c, 0x7d, 0x7e, 0xa7, 0x8c, 0x8d],
        32,
        Select::CallStack,
    ),
    // Goldmont, Goldmont Plus, Tremont.
    model(&[0x5c, 0x5f, 0x7a, 0x86, 0x96, 0x9c], 32, Select::CallStack),
];

const HASWELL: [u8; 4] = [0x3c, 0x3f, 0x45, 0x46];
const KNIGHTS_LANDING: [u8; 2] = [0x57, 0x85];
const BONNELL: u8 = 0x1c;

/// The models whose records are at 40H and 60H.
const AT_40H: [u8; 15] = [
    0x0f, 0x16, 0x17, 0x1d, 0x1c, 0x26, 0x27, 0x35, 0x36, 0x37, 0x4a, 0x4c, 0x4d, 0x5a, 0x75,
];

/// The branch records of a CPU. `version`: that of performance monitoring. `format`: LBR_FMT. `None` if it
/// has none that the driver knows.
pub(super) fn detect(
    cpuid: impl Fn(u32, u32) -> CpuidLeaf,
    version: u8,
    format: u8,
) -> Option<Lbr> {
    let signature = Signature::of(&cpuid);
    let number = signature.model;
    let Model { depth, select, .. } = MODELS
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
    // Format 0 has both addresses in one register. No model above is known to have it.
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
    let (from, to) = match AT_40H.contains(&number) {
        true => (msr::LASTBRANCH_FROM_40H, msr::LASTBRANCH_TO_60H),
        false => (msr::LASTBRANCH_FROM, msr::LASTBRANCH_TO),
    };
    let has_select = *select != Select::Nothing;
    Some(Lbr {
        depth: *depth,
        layout: Layout::Legacy(Legacy {
            from,
            to,
            format,
            has_select,
            calls_need_jumps: *select == Select::WithJumps,
            pmi_clears_lbr: version < 4,
            doubles_aborts: HASWELL.contains(&number),
        }),
        selects_levels: has_select,
        selects_kinds: has_select,
        has_call_stack: *select == Select::CallStack,
        is_lost_in_deep_c: true,
        has_kind: false,
        has_cycles: matches!(format, Format::Cycles | Format::Info { .. }),
        has_prediction: format != Format::Addresses,
    })
}
