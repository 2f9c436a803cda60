// SPDX-License-Identifier: GPL-2.0

//! The table of machines, but for those of [`CPUS`](crate::CPUS).

use super::{Machine, Pmu, Vendor};

/// The machine of a guest without a suite: see [`BASE_CPU`].
pub const DEFAULT: Machine = Machine {
    mitigations: true,
    ..Machine::intel("Intel v4 4+3", Pmu::DEFAULT)
};
/// That machine without mitigations, for suites in which these show nothing.
pub const V4: Machine = Machine::intel("Intel v4 4+3, no mitigations", Pmu::DEFAULT);
/// No PMU at all.
pub const NO_PMU: Machine = Machine {
    pmu: None,
    ..Machine::intel("no PMU", Pmu::DEFAULT)
};

/// Counters of 32 bits.
pub const V4_32_BITS: Machine = Machine::intel("Intel v4, 32 bits 4+3", Pmu::DEFAULT.width(32));
/// Counters of 40 bits.
pub const V4_40_BITS: Machine = Machine::intel("Intel v4, 40 bits 4+3", Pmu::DEFAULT.width(40));
/// A write to a general counter is sign-extended from bit 31.
pub const V4_SIGN_EXTENDED: Machine = Machine::intel(
    "Intel v4, sign-extended writes 4+3",
    Pmu::DEFAULT.sign_extended(),
);
/// Reference cycles are those of the TSC.
pub const V4_TSC: Machine = Machine::intel(
    "Intel v4, reference cycles of the TSC 4+3",
    Pmu::DEFAULT.ref_cycles_of_tsc(),
);

// Of each generation: as few counters as it can have, the default, and the most.
pub const V1_FEWEST: Machine = Machine::intel("Intel v1 1", Pmu::version(1).counters(1).width(32));
pub const V1: Machine = Machine::intel("Intel v1 2", Pmu::version(1));
pub const V1_MOST: Machine = Machine::intel("Intel v1 8", Pmu::version(1).counters(8));
pub const V2_FEWEST: Machine = Machine::intel(
    "Intel v2 1+0",
    Pmu::version(2).counters(1).fixed(0).width(32),
);
pub const V2_FEW: Machine = Machine::intel(
    "Intel v2 2+1",
    Pmu::version(2).counters(2).fixed(1).width(32),
);
pub const V2: Machine = Machine::intel("Intel v2 2+3", Pmu::version(2));
pub const V2_MOST: Machine = Machine::intel("Intel v2 8+3", Pmu::version(2).counters(8).fixed(3));
pub const V3_FEWEST: Machine = Machine::intel("Intel v3 1+0", Pmu::version(3).counters(1).fixed(0));
pub const V3: Machine = Machine::intel("Intel v3 4+3", Pmu::version(3));
pub const V3_MOST: Machine = Machine::intel("Intel v3 8+3", Pmu::version(3).counters(8).fixed(3));
pub const V4_FEWEST: Machine = Machine::intel("Intel v4 1+0", Pmu::version(4).counters(1).fixed(0));
pub const V4_MOST: Machine = Machine::intel("Intel v4 8+3", Pmu::version(4).counters(8).fixed(3));
pub const V5_FEWEST: Machine = Machine::intel(
    "Intel v5 1+0",
    Pmu::version(5).counters(1).fixed(0).width(40),
);
/// Not below version 5: there the in-tree driver takes "no fixed counters" for 64.
pub const V5_NO_FIXED: Machine =
    Machine::intel("Intel v5 8+0", Pmu::version(5).counters(8).fixed(0));
pub const V5_MOST: Machine = Machine::intel("Intel v5 8+4", Pmu::version(5).counters(8).fixed(4));
pub const V6_FEWEST: Machine = Machine::intel("Intel v6 1+0", Pmu::version(6).counters(1).fixed(0));
/// Counters 2 and 4 are missing.
pub const V6_GAPS: Machine = Machine::intel("Intel v6 4+4", Pmu::version(6).counter_mask(0x2b));
pub const V6_MOST: Machine = Machine::intel("Intel v6 8+4", Pmu::version(6).counters(8).fixed(4));

// Models of Intel, each with a table of constraints of its own.
/// Yonah.
pub const CORE: Machine =
    Machine::intel("Intel v1, Core 2", Pmu::version(1)).signature(6, 0x0e, None);
/// Penryn.
pub const CORE2: Machine =
    Machine::intel("Intel v2, Core 2 2+3", Pmu::version(2)).signature(6, 0x17, None);
pub const NEHALEM: Machine =
    Machine::intel("Intel v3, Nehalem 4+3", Pmu::version(3)).signature(6, 0x1a, None);
pub const WESTMERE: Machine =
    Machine::intel("Intel v3, Westmere 4+3", Pmu::version(3)).signature(6, 0x2c, None);
/// Without Hyper-Threading, like the others with eight counters until Skylake.
pub const SANDY_BRIDGE: Machine =
    Machine::intel("Intel v3, Sandy Bridge 8+3", Pmu::version(3).counters(8))
        .signature(6, 0x2a, None);
pub const IVY_BRIDGE: Machine =
    Machine::intel("Intel v3, Ivy Bridge 8+3", Pmu::version(3).counters(8))
        .signature(6, 0x3a, None);
pub const HASWELL: Machine =
    Machine::intel("Intel v3, Haswell 8+3", Pmu::version(3).counters(8)).signature(6, 0x3c, None);
pub const BROADWELL: Machine =
    Machine::intel("Intel v3, Broadwell 8+3", Pmu::version(3).counters(8)).signature(6, 0x3d, None);
pub const SKYLAKE: Machine =
    Machine::intel("Intel v4, Skylake 8+3", Pmu::version(4).counters(8)).signature(6, 0x5e, None);
pub const ICE_LAKE: Machine =
    Machine::intel("Intel v5, Ice Lake 8+4", Pmu::version(5)).signature(6, 0x7e, None);
pub const SAPPHIRE_RAPIDS: Machine =
    Machine::intel("Intel v5, Sapphire Rapids 8+4", Pmu::version(5)).signature(6, 0x8f, None);
/// Sierra Forest.
pub const CRESTMONT: Machine =
    Machine::intel("Intel v6, Crestmont 8+3", Pmu::version(6).fixed(3)).signature(6, 0xaf, None);
/// With version 5, whose counters the kernel arbitrates: both drivers can have branch records.
pub const CRESTMONT_V5: Machine =
    Machine::intel("Intel v5, Crestmont 8+3", Pmu::version(5).fixed(3)).signature(6, 0xaf, None);
/// Diamond Rapids, with two counters less.
pub const PANTHER_COVE: Machine =
    Machine::intel("Intel v6, Panther Cove 8+4", Pmu::version(6)).signature(0x13, 1, None);

// Models with the PMU that QEMU gives them.
/// Its counters have 40 bits, and a write to one is sign-extended from bit 31.
pub const PENRYN_DEFAULT: Machine =
    Machine::intel("Intel v2, Penryn 2+3", Pmu::DEFAULT).signature(6, 0x17, None);
/// With two threads in a core, which share registers.
pub const NEHALEM_DEFAULT: Machine =
    Machine::intel("Intel v3, Nehalem with threads 4+3", Pmu::DEFAULT).signature(6, 0x1a, None);
/// With two threads in a core.
pub const SANDY_BRIDGE_DEFAULT: Machine =
    Machine::intel("Intel v3, Sandy Bridge 4+3", Pmu::DEFAULT).signature(6, 0x2a, None);
/// With two threads in a core.
pub const HASWELL_DEFAULT: Machine =
    Machine::intel("Intel v3, Haswell 4+3", Pmu::DEFAULT).signature(6, 0x3c, None);
pub const SKYLAKE_DEFAULT: Machine =
    Machine::intel("Intel v4, Kaby Lake 8+3", Pmu::DEFAULT).signature(6, 0x9e, None);
pub const GRACEMONT_DEFAULT: Machine =
    Machine::intel("Intel v5, Gracemont 6+3", Pmu::DEFAULT).signature(6, 0xbe, None);
/// Two performance cores and two efficient ones.
pub const ALDER_LAKE: Machine = Machine::intel("Intel v5, Alder Lake 8+4, 6+3", Pmu::DEFAULT)
    .signature(6, 0x97, None)
    .hybrid(2, 0);
/// Performance cores only, and CPUID does not say that the CPU is hybrid.
pub const ALDER_LAKE_ALONE: Machine =
    Machine::intel("Intel v5, Alder Lake 8+4", Pmu::DEFAULT).signature(6, 0x97, None);
/// As Alder Lake. PERF_CAPABILITIES hides that it has PERF_METRICS.
pub const METEOR_LAKE: Machine = Machine::intel("Intel v5, Meteor Lake 8+4, 8+3", Pmu::DEFAULT)
    .signature(6, 0xaa, None)
    .hybrid(2, 0);
/// As Meteor Lake. RDPMC can clear PERF_METRICS.
pub const LUNAR_LAKE: Machine = Machine::intel("Intel v6, Lunar Lake 8+4, 8+3", Pmu::DEFAULT)
    .signature(6, 0xbd, None)
    .hybrid(2, 0);
/// As Lunar Lake.
pub const NOVA_LAKE: Machine = Machine::intel("Intel v6, Nova Lake 8+4, 8+3", Pmu::DEFAULT)
    .signature(0x12, 1, None)
    .hybrid(2, 0);
pub const ZEN_3_DEFAULT: Machine =
    Machine::new("AMD core, Zen 3 6", Vendor::Amd, Pmu::DEFAULT).signature(0x19, 0x21, Some(0));

// Servers of which perf has metrics. Their steppings are those of QEMU's models of the same name.
/// Not Cascade Lake, which has other steppings and metrics.
pub const SKYLAKE_SERVER_DEFAULT: Machine =
    Machine::intel("Intel v4, Skylake SP 8+3", Pmu::DEFAULT).signature(6, 0x55, Some(4));
/// With one thread in a core.
pub const SAPPHIRE_RAPIDS_DEFAULT: Machine = Machine::intel(
    "Intel v5, Sapphire Rapids without threads 8+4",
    Pmu::DEFAULT,
)
.signature(6, 0x8f, Some(4));
pub const SILVERMONT_DEFAULT: Machine =
    Machine::intel("Intel v3, Silvermont", Pmu::DEFAULT).signature(6, 0x37, None);
pub const KNIGHTS_LANDING_DEFAULT: Machine =
    Machine::intel("Intel v3, Knights Landing", Pmu::DEFAULT).signature(6, 0x57, None);
pub const GOLDMONT_DEFAULT: Machine =
    Machine::intel("Intel v4, Goldmont", Pmu::DEFAULT).signature(6, 0x5c, None);
pub const TREMONT_DEFAULT: Machine =
    Machine::intel("Intel v5, Tremont", Pmu::DEFAULT).signature(6, 0x86, None);
pub const ZEN_4_DEFAULT: Machine =
    Machine::new("AMD v2, Zen 4 6", Vendor::Amd, Pmu::DEFAULT).signature(0x19, 0x11, Some(1));

pub const AMD_LEGACY: Machine = Machine::new("AMD legacy 4", Vendor::Amd, Pmu::version(1));
/// Zen 2.
pub const AMD_CORE: Machine =
    Machine::new("AMD core 6", Vendor::Amd, Pmu::version(2)).signature(0x17, 0x31, Some(0));
/// Zen 5, as the others of PerfMonV2.
pub const AMD_V2_FEWEST: Machine =
    Machine::new("AMD v2 1", Vendor::Amd, Pmu::DEFAULT.counters(1)).signature(0x1a, 2, Some(1));
pub const AMD_V2: Machine =
    Machine::new("AMD v2 6", Vendor::Amd, Pmu::DEFAULT).signature(0x1a, 2, Some(1));
pub const AMD_V2_MOST: Machine =
    Machine::new("AMD v2 15", Vendor::Amd, Pmu::DEFAULT.counters(15)).signature(0x1a, 2, Some(1));
pub const AMD_V2_TSC: Machine = Machine::new(
    "AMD v2, reference cycles of the TSC 6",
    Vendor::Amd,
    Pmu::DEFAULT.ref_cycles_of_tsc(),
)
.signature(0x1a, 2, Some(1));
pub const HYGON: Machine =
    Machine::new("Hygon 6", Vendor::Hygon, Pmu::version(2)).signature(0x18, 0, Some(1));
pub const ZHAOXIN: Machine =
    Machine::new("Zhaoxin 2+3", Vendor::Zhaoxin, Pmu::version(2)).signature(7, 0x1b, None);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_of_cpu() {
        for (machine, properties) in [
            (DEFAULT, ""),
            (NO_PMU, "pmu=off"),
            (V4_32_BITS, "pmu-width=32"),
            (V4_40_BITS, "pmu-width=40"),
            (V1_FEWEST, "pmu-version=1,pmu-counters=1,pmu-width=32"),
            (V1, "pmu-version=1"),
            (V1_MOST, "pmu-version=1,pmu-counters=8"),
            (
                V2_FEWEST,
                "pmu-version=2,pmu-counters=1,pmu-fixed=0,pmu-width=32",
            ),
            (
                V2_FEW,
                "pmu-version=2,pmu-counters=2,pmu-fixed=1,pmu-width=32",
            ),
            (V2, "pmu-version=2"),
            (V2_MOST, "pmu-version=2,pmu-counters=8,pmu-fixed=3"),
            (V3, "pmu-version=3"),
            (V3_FEWEST, "pmu-version=3,pmu-counters=1,pmu-fixed=0"),
            (V3_MOST, "pmu-version=3,pmu-counters=8,pmu-fixed=3"),
            (V4_FEWEST, "pmu-version=4,pmu-counters=1,pmu-fixed=0"),
            (V4_MOST, "pmu-version=4,pmu-counters=8,pmu-fixed=3"),
            (
                V5_FEWEST,
                "pmu-version=5,pmu-counters=1,pmu-fixed=0,pmu-width=40",
            ),
            (V5_NO_FIXED, "pmu-version=5,pmu-counters=8,pmu-fixed=0"),
            (V5_MOST, "pmu-version=5,pmu-counters=8,pmu-fixed=4"),
            (V6_FEWEST, "pmu-version=6,pmu-counters=1,pmu-fixed=0"),
            (V6_GAPS, "pmu-version=6,pmu-counter-mask=0x2b"),
            (V6_MOST, "pmu-version=6,pmu-counters=8,pmu-fixed=4"),
            (
                SANDY_BRIDGE,
                "family=0x6,model=0x2a,pmu-version=3,pmu-counters=8",
            ),
            (ALDER_LAKE, "family=0x6,model=0x97,pmu-hybrid=2"),
            (
                ALDER_LAKE.hybrid(1, 1),
                "family=0x6,model=0x97,pmu-hybrid=1+1",
            ),
            (V4_SIGN_EXTENDED, "pmu-full-width=off"),
            (V4_TSC, "pmu-ref-cycles=tsc"),
            (PENRYN_DEFAULT, "family=0x6,model=0x17"),
            (PANTHER_COVE, "family=0x13,model=0x1,pmu-version=6"),
            (AMD_LEGACY, "vendor=AuthenticAMD,pmu-version=1"),
            (
                AMD_CORE,
                "vendor=AuthenticAMD,family=0x17,model=0x31,stepping=0,pmu-version=2",
            ),
            (
                AMD_V2_FEWEST,
                "vendor=AuthenticAMD,family=0x1a,model=0x2,stepping=1,pmu-counters=1",
            ),
            (
                AMD_V2,
                "vendor=AuthenticAMD,family=0x1a,model=0x2,stepping=1",
            ),
            (
                AMD_V2_MOST,
                "vendor=AuthenticAMD,family=0x1a,model=0x2,stepping=1,pmu-counters=15",
            ),
            (
                HYGON,
                "vendor=HygonGenuine,family=0x18,model=0x0,stepping=1,pmu-version=2",
            ),
            (
                ZHAOXIN,
                "vendor=  Shanghai  ,family=0x7,model=0x1b,pmu-version=2",
            ),
        ] {
            assert_eq!(machine.properties(), properties, "{}", machine.name);
        }
    }

    #[test]
    fn only_the_default_machine_has_mitigations() {
        assert_eq!(DEFAULT.kernel_arguments(), "");
        for machine in [NO_PMU, V1, AMD_V2, ZHAOXIN] {
            assert_eq!(machine.kernel_arguments(), "mitigations=off");
        }
    }
}
