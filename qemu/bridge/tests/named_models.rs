// SPDX-License-Identifier: GPL-2.0

//! The PMUs of QEMU's named models: `-cpu NAME,pmu=on`.
//!
//! The families, models and steppings are those of `builtin_x86_defs` in `target/i386/cpu.c` of
//! QEMU 10.0.

mod common;

use std::ffi::CStr;

use common::{cpuid, create};
use pmu_bridge::*;

const INTEL: &CStr = c"GenuineIntel";
const AMD: &CStr = c"AuthenticAMD";
const HYGON: &CStr = c"HygonGenuine";
const ZHAOXIN: &CStr = c"  Shanghai  ";

/// A PMU by its version, and the numbers of general-purpose and fixed-function counters.
type Pmu = (u32, u32, u32);

/// What a vendor has by default, for processors that the model does not know.
const UNKNOWN: Pmu = (4, 4, 3);

/// The models, and what they have without and with two threads in a core.
const MODELS: &[(&str, &CStr, u16, u8, u8, Pmu, Pmu)] = &[
    ("coreduo", INTEL, 6, 14, 8, (1, 2, 0), (1, 2, 0)),
    ("core2duo", INTEL, 6, 15, 11, (2, 2, 3), (2, 2, 3)),
    ("Conroe", INTEL, 6, 15, 3, (2, 2, 3), (2, 2, 3)),
    ("Penryn", INTEL, 6, 23, 3, (2, 2, 3), (2, 2, 3)),
    ("n270", INTEL, 6, 28, 2, (3, 2, 3), (3, 2, 3)),
    ("Nehalem", INTEL, 6, 26, 3, (3, 4, 3), (3, 4, 3)),
    ("Westmere", INTEL, 6, 44, 1, (3, 4, 3), (3, 4, 3)),
    ("SandyBridge", INTEL, 6, 42, 1, (3, 8, 3), (3, 4, 3)),
    ("IvyBridge", INTEL, 6, 58, 9, (3, 8, 3), (3, 4, 3)),
    ("Haswell", INTEL, 6, 60, 4, (3, 8, 3), (3, 4, 3)),
    ("Haswell-v2", INTEL, 6, 60, 1, (3, 8, 3), (3, 4, 3)),
    ("Broadwell", INTEL, 6, 61, 2, (3, 8, 3), (3, 4, 3)),
    ("Skylake-Client", INTEL, 6, 94, 3, (4, 8, 3), (4, 4, 3)),
    ("Skylake-Server", INTEL, 6, 85, 4, (4, 8, 3), (4, 4, 3)),
    ("Cascadelake-Server", INTEL, 6, 85, 6, (4, 8, 3), (4, 4, 3)),
    ("Cooperlake", INTEL, 6, 85, 10, (4, 8, 3), (4, 4, 3)),
    // It has the number of a Tremont.
    ("Icelake-Server", INTEL, 6, 134, 0, (5, 4, 3), (5, 4, 3)),
    ("Icelake-Server-v3", INTEL, 6, 106, 0, (5, 8, 4), (5, 8, 4)),
    ("SapphireRapids", INTEL, 6, 143, 4, (5, 8, 4), (5, 8, 4)),
    ("GraniteRapids", INTEL, 6, 173, 0, (5, 8, 4), (5, 8, 4)),
    ("SierraForest", INTEL, 6, 175, 0, (5, 8, 3), (5, 8, 3)),
    ("ClearwaterForest", INTEL, 6, 221, 0, (6, 8, 3), (6, 8, 3)),
    ("Denverton", INTEL, 6, 95, 1, (4, 4, 3), (4, 4, 3)),
    ("Snowridge", INTEL, 6, 134, 1, (5, 4, 3), (5, 4, 3)),
    ("KnightsMill", INTEL, 6, 133, 0, (3, 2, 3), (3, 2, 3)),
    // These processors have PMUs that the model does not have, or none.
    ("486", INTEL, 4, 8, 0, UNKNOWN, UNKNOWN),
    ("pentium", INTEL, 5, 4, 3, UNKNOWN, UNKNOWN),
    ("pentium2", INTEL, 6, 5, 2, UNKNOWN, UNKNOWN),
    ("pentium3", INTEL, 6, 7, 3, UNKNOWN, UNKNOWN),
    ("qemu32", INTEL, 6, 6, 3, UNKNOWN, UNKNOWN),
    ("kvm32 and kvm64", INTEL, 15, 6, 1, UNKNOWN, UNKNOWN),
    ("athlon", AMD, 6, 2, 3, (1, 4, 0), (1, 4, 0)),
    ("qemu64", AMD, 15, 107, 1, (1, 4, 0), (1, 4, 0)),
    ("Opteron_G1 and G2", AMD, 15, 6, 1, (1, 4, 0), (1, 4, 0)),
    ("phenom, Opteron_G3", AMD, 16, 2, 3, (1, 4, 0), (1, 4, 0)),
    ("Opteron_G4", AMD, 21, 1, 2, (2, 6, 0), (2, 6, 0)),
    ("Opteron_G5", AMD, 21, 2, 0, (2, 6, 0), (2, 6, 0)),
    ("EPYC", AMD, 23, 1, 2, (2, 6, 0), (2, 6, 0)),
    ("EPYC-Rome", AMD, 23, 49, 0, (2, 6, 0), (2, 6, 0)),
    ("Dhyana", HYGON, 24, 0, 1, (2, 6, 0), (2, 6, 0)),
    ("EPYC-Milan", AMD, 25, 1, 1, (2, 6, 0), (2, 6, 0)),
    ("EPYC-Genoa", AMD, 25, 17, 0, (3, 6, 0), (3, 6, 0)),
    ("YongFeng", ZHAOXIN, 7, 11, 3, (2, 2, 3), (2, 2, 3)),
    ("YongFeng-v2", ZHAOXIN, 7, 0x5b, 3, (2, 2, 3), (2, 2, 3)),
];

/// What CPUID reports.
fn found(pmu: &PmuBridge, vendor: &CStr) -> Pmu {
    if ![AMD, HYGON].contains(&vendor) {
        let [eax, _, _, edx] = cpuid(pmu, 0xa, 0).unwrap();
        return (eax & 0xff, (eax >> 8) & 0xff, edx & 0x1f);
    }
    match (cpuid(pmu, 0x8000_0022, 0), pmu_perfctr_core(pmu)) {
        (Some([eax, ebx, _, _]), true) => (2 + (eax & 1), ebx & 0xf, 0),
        (None, true) => (2, 6, 0),
        (None, false) => (1, 4, 0),
        (Some(_), false) => panic!("PerfMonV2 without PerfCtrExtCore"),
    }
}

#[test]
fn named_models() {
    for &(name, vendor, family, model, stepping, alone, with_threads) in MODELS {
        for (threads, expected) in [(1, alone), (2, with_threads)] {
            let config = PmuConfig {
                vendor: vendor.as_ptr(),
                threads,
                model,
                stepping,
                family,
                cpus: 2,
                ..common::INTEL
            };
            let pmu = create(&config).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(found(&pmu, vendor), expected, "{name}, {threads} threads");
        }
    }
}
