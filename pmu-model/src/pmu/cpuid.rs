// SPDX-License-Identifier: GPL-2.0

//! CPUID, and PERF_CAPABILITIES.

use super::Pmu;
use crate::{
    accesses::CPUID_ACCESSES,
    generation,
    lbr::Lbrs,
    msr::{FW_WRITE, IA32_PERF_CAPABILITIES, PERF_METRICS_AVAILABLE, RDPMC_METRICS_CLEAR},
    processor::Report,
    shape::Shape,
};

/// Leaf 23H, EBX: RDPMC_USER_DISABLE.
const RDPMC_USER_DISABLE_CPUID: u32 = 1 << 2;

impl Pmu {
    /// Returns EAX, EBX, ECX and EDX of subleaf 0 of a CPUID leaf, or `None` if the leaf
    /// does not belong to the PMU.
    pub fn cpuid(&self, leaf: u32) -> Option<[u32; 4]> {
        self.cpuid_count(leaf, 0)
    }

    /// Returns EAX, EBX, ECX and EDX of a CPUID subleaf. All subleaves of a leaf that has none are
    /// subleaf 0.
    pub fn cpuid_count(&self, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        if leaf == CPUID_ACCESSES {
            return self.counted.as_ref().map(|it| it.cpuid(subleaf));
        }
        if leaf == 0x1c {
            return self.leaf_1ch();
        }
        let [eax, ebx, ecx, edx] = self.cpuid_of_generation(leaf, subleaf)?;
        let added = match (leaf, subleaf, self.config.lbrs) {
            (0x23, 0, _) if self.has_rdpmc_user_disable() => [0, RDPMC_USER_DISABLE_CPUID],
            (0x8000_0022, _, Some(Lbrs::Amd(lbrs))) => lbrs.leaf_8000_0022h(),
            _ => [0; 2],
        };
        Some([eax | added[0], ebx | added[1], ecx, edx])
    }

    fn cpuid_of_generation(&self, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        let of_generation = |shape| self.generation.cpuid(shape, leaf, subleaf);
        let Some(core) = self.core else {
            return of_generation(&self.shape);
        };
        match (leaf, core.report()) {
            (0x1a, _) => Some(core.leaf_1ah()),
            (0xa, Report::Common { general, fixed }) => of_generation(&Shape {
                general: general.min(self.shape.general),
                fixed: fixed.min(self.shape.fixed),
                ..self.shape
            }),
            // Without the fields that version 6 adds.
            (0x23, Report::Leaf23h) if !self.generation.has_leaf_23h() => {
                Some(generation::leaf_23h(&self.shape, subleaf, 0))
            }
            _ => of_generation(&self.shape),
        }
    }

    /// CPUID.(7,1):EAX.ArchPerfMonExt: whether leaf 23H exists.
    pub fn perfmon_ext(&self) -> bool {
        let of_core = self.core.map(|core| core.report());
        self.generation.has_leaf_23h() || of_core == Some(Report::Leaf23h)
    }

    /// Whether there is a MISC_ENABLE, which says whether there is a PMU. AMD has no such register.
    pub fn has_misc_enable(&self) -> bool {
        !self.config.vendor.is_amd()
    }

    /// CPUID.(7,0):EDX.Hybrid: whether the processor is hybrid, and leaf 1AH exists.
    pub fn hybrid(&self) -> bool {
        self.core.is_some()
    }

    /// The value of PERF_CAPABILITIES, `None` if the register does not exist, which is when
    /// CPUID.1:ECX.PDCM is clear.
    pub fn perf_capabilities(&self) -> Option<u64> {
        self.register(IA32_PERF_CAPABILITIES).ok()?;
        let full_width = if self.shape.full_width { FW_WRITE } else { 0 };
        let metrics = match (self.metrics_fields(), self.core) {
            (0, _) => 0,
            (_, Some(core)) if core.hides_metrics() => 0,
            _ => PERF_METRICS_AVAILABLE,
        };
        let clear = match self.has_metrics_clear() {
            true => RDPMC_METRICS_CLEAR,
            false => 0,
        };
        let lbr_format = self
            .config
            .lbrs
            .map_or(0, |it| it.kind().perf_capabilities());
        Some(lbr_format | full_width | metrics | clear)
    }
}
