// SPDX-License-Identifier: GPL-2.0

//! The LBRs of Intel's processors.
//!
//! The numbers of records, their addresses and what LBR_SELECT has are from `intel_pmu_lbr_init_*()` in Linux
//! (arch/x86/events/intel/lbr.c), and so is MISPRED of Knights Landing. Call-stack mode begins with Haswell.
//! SDM vol. 3B, "Last Branch, Interrupt, and Exception Recording", has the formats of Nehalem, Haswell,
//! Skylake and Goldmont. Those of Core 2, Bonnell, Silvermont and of the other processors are not in a public
//! manual that this project has read: they are those of the processors before.

use crate::lbr::{
    ArchLbrs, LbrAddresses, LbrFormat, LbrSelect,
    Lbrs::{self, Architectural, Legacy},
    LegacyLbrs,
};

const CORE_2_LBRS: LegacyLbrs = LegacyLbrs {
    depth: 4,
    format: LbrFormat::Eip,
    addresses: LbrAddresses::Low,
    select: LbrSelect::None,
};

const NEHALEM_LBRS: LegacyLbrs = LegacyLbrs {
    depth: 16,
    format: LbrFormat::EipFlags,
    addresses: LbrAddresses::High,
    select: LbrSelect::Filters,
};

const SKYLAKE_LBRS: LegacyLbrs = LegacyLbrs {
    depth: 32,
    format: LbrFormat::Info,
    addresses: LbrAddresses::High,
    select: LbrSelect::CallStack,
};

pub(super) const CORE_2: Option<Lbrs> = Some(Legacy(CORE_2_LBRS));

pub(super) const BONNELL: Option<Lbrs> = Some(Legacy(LegacyLbrs {
    depth: 8,
    ..CORE_2_LBRS
}));

pub(super) const SILVERMONT: Option<Lbrs> = Some(Legacy(LegacyLbrs {
    depth: 8,
    format: LbrFormat::Lip,
    select: LbrSelect::Filters,
    ..CORE_2_LBRS
}));

pub(super) const KNIGHTS_LANDING: Option<Lbrs> = Some(Legacy(LegacyLbrs {
    depth: 8,
    format: LbrFormat::LipFlags,
    ..NEHALEM_LBRS
}));

/// To Ivy Bridge.
pub(super) const NEHALEM: Option<Lbrs> = Some(Legacy(NEHALEM_LBRS));

/// And Broadwell.
pub(super) const HASWELL: Option<Lbrs> = Some(Legacy(LegacyLbrs {
    format: LbrFormat::EipFlags2,
    select: LbrSelect::CallStack,
    ..NEHALEM_LBRS
}));

/// To Tiger Lake.
pub(super) const SKYLAKE: Option<Lbrs> = Some(Legacy(SKYLAKE_LBRS));

pub(super) const GOLDMONT: Option<Lbrs> = Some(Legacy(LegacyLbrs {
    format: LbrFormat::Time,
    ..SKYLAKE_LBRS
}));

/// And Tremont.
pub(super) const GOLDMONT_PLUS: Option<Lbrs> = Some(Legacy(LegacyLbrs {
    format: LbrFormat::Info2,
    ..SKYLAKE_LBRS
}));

/// From Golden Cove and Gracemont on.
pub(super) const ARCHITECTURAL: Option<Lbrs> = Some(Architectural(ArchLbrs {
    depth: 32,
    logged: 0,
}));

/// From Lion Cove on, and from Sierra Forest on. CPUID of Arrow Lake's cores says so, and Linux says that Sierra
/// Forest was the first one. The processors after Arrow Lake are assumed to have it.
pub(super) const LOGGED: Option<Lbrs> = Some(Architectural(ArchLbrs {
    depth: 32,
    logged: 0b1111,
}));
