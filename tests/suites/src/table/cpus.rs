// SPDX-License-Identifier: GPL-2.0

//! The CPUs that the in-tree driver knows by family and model.
//!
//! There is a suite for each, which compares the two drivers' tables. Its guest has the PMU
//! that QEMU gives that CPU, and of a hybrid one a core of each type. docs/results/cpus.md is made from
//! the reports.

use super::shared::{CPU, HYBRID_CPU};
use crate::machine::{Machine, Vendor};
use crate::suite::Suite;

impl Suite {
    /// The suite of a CPU.
    const fn cpu(name: &'static str, machine: Machine) -> Self {
        Self::new(name, CPU).on(machine).cpus(1).with_all()
    }

    /// On a hybrid CPU with a performance core and so many others.
    const fn hybrid(self, efficient: u32, low_power: u32) -> Self {
        self.on(self.machine.hybrid(efficient, low_power))
            .cpus(1 + efficient + low_power)
            .testing(HYBRID_CPU)
    }
}

macro_rules! cpus {
    ($(
        $vendor:ident $family:literal $model:literal $stepping:literal $name:literal
            $([$efficient:literal + $low_power:literal])? $(= $like:literal)?,
    )*) => {
        /// The suites, in the order of their signatures.
        pub const CPUS: &[Suite] = &[$(
            Suite::cpu(
                concat!("cpu-", stringify!($family), "-", stringify!($model)),
                Machine::cpu($name, Vendor::$vendor, $family, $model, $stepping),
            )$(.hybrid($efficient, $low_power))?$(.like(concat!("cpu-", stringify!($family), "-", stringify!($like))))?,
        )*];
    };
}

// Vendor, family, model, stepping, and names: of the microarchitecture, and where they differ
// of the products (arch/x86/include/asm/intel-family.h; AMD's PPRs and BKDGs). In brackets are
// the numbers of efficient and of low-power cores that a hybrid CPU has besides a performance core.
// A CPU that has the tables of an earlier one, in rust_pmu and in the emulator, names its model
// after `=`.
cpus! {
    // intel_pmu_init().
    Intel 6 0x0e 0 "Yonah",
    Intel 6 0x0f 0 "Merom",
    Intel 6 0x16 0 "Merom L" = 0x0f,
    Intel 6 0x17 0 "Penryn" = 0x0f,
    Intel 6 0x1d 0 "Dunnington" = 0x0f,
    Intel 6 0x1a 0 "Nehalem EP",
    Intel 6 0x1e 0 "Nehalem" = 0x1a,
    Intel 6 0x2e 0 "Nehalem EX" = 0x1a,
    Intel 6 0x25 0 "Westmere",
    Intel 6 0x2c 0 "Westmere EP" = 0x25,
    Intel 6 0x2f 0 "Westmere EX" = 0x25,
    Intel 6 0x2a 0 "Sandy Bridge",
    Intel 6 0x2d 0 "Sandy Bridge EP",
    Intel 6 0x3a 0 "Ivy Bridge",
    Intel 6 0x3e 0 "Ivy Bridge EP",
    Intel 6 0x3c 0 "Haswell",
    Intel 6 0x3f 0 "Haswell EP" = 0x3c,
    Intel 6 0x45 0 "Haswell ULT" = 0x3c,
    Intel 6 0x46 0 "Haswell, Iris Pro" = 0x3c,
    Intel 6 0x3d 0 "Broadwell",
    Intel 6 0x47 0 "Broadwell, Iris Pro" = 0x3d,
    Intel 6 0x4f 0 "Broadwell EP" = 0x3d,
    Intel 6 0x56 0 "Broadwell DE" = 0x3d,
    Intel 6 0x4e 0 "Skylake mobile",
    Intel 6 0x5e 0 "Skylake" = 0x4e,
    Intel 6 0x55 0 "Skylake SP, Cascade Lake, Cooper Lake" = 0x4e,
    Intel 6 0x8e 0 "Kaby Lake mobile" = 0x4e,
    Intel 6 0x9e 0 "Kaby Lake, Coffee Lake" = 0x4e,
    Intel 6 0xa5 0 "Comet Lake" = 0x4e,
    Intel 6 0xa6 0 "Comet Lake mobile" = 0x4e,
    Intel 6 0x7d 0 "Ice Lake",
    Intel 6 0x7e 0 "Ice Lake mobile" = 0x7d,
    Intel 6 0x6a 0 "Ice Lake SP",
    Intel 6 0x6c 0 "Ice Lake DE" = 0x6a,
    Intel 6 0x8c 0 "Tiger Lake mobile" = 0x7d,
    Intel 6 0x8d 0 "Tiger Lake" = 0x7d,
    Intel 6 0xa7 0 "Rocket Lake" = 0x7d,
    Intel 6 0x8f 0 "Sapphire Rapids",
    Intel 6 0xcf 0 "Emerald Rapids" = 0x8f,
    Intel 6 0xad 0 "Granite Rapids",
    Intel 6 0xae 0 "Granite Rapids D" = 0xad,
    Intel 19 0x01 0 "Diamond Rapids",
    Intel 6 0x1c 0 "Bonnell",
    Intel 6 0x26 0 "Bonnell, Lincroft" = 0x1c,
    Intel 6 0x27 0 "Saltwell, Penwell" = 0x1c,
    Intel 6 0x35 0 "Saltwell, Cloverview" = 0x1c,
    Intel 6 0x36 0 "Saltwell, Cedarview" = 0x1c,
    Intel 6 0x37 0 "Silvermont, Bay Trail",
    Intel 6 0x4a 0 "Silvermont, Merrifield" = 0x37,
    Intel 6 0x4d 0 "Silvermont, Avoton" = 0x37,
    Intel 6 0x5a 0 "Silvermont, Anniedale" = 0x37,
    Intel 6 0x4c 0 "Airmont" = 0x37,
    Intel 6 0x75 0 "Airmont, Lightning Mountain" = 0x37,
    Intel 6 0x5c 0 "Goldmont, Apollo Lake",
    Intel 6 0x5f 0 "Goldmont, Denverton" = 0x5c,
    Intel 6 0x7a 0 "Goldmont Plus",
    Intel 6 0x86 0 "Tremont, Jacobsville",
    Intel 6 0x96 0 "Tremont, Elkhart Lake" = 0x86,
    Intel 6 0x9c 0 "Tremont, Jasper Lake" = 0x86,
    Intel 6 0xbe 0 "Gracemont",
    Intel 6 0xaf 0 "Crestmont, Sierra Forest",
    Intel 6 0xb6 0 "Crestmont, Grand Ridge" = 0xaf,
    Intel 6 0xdd 0 "Darkmont, Clearwater Forest",
    Intel 6 0x57 0 "Knights Landing",
    Intel 6 0x85 0 "Knights Mill" = 0x57,
    // Hybrid CPUs. Raptor Lake and Meteor Lake hide PERF_METRICS.
    Intel 6 0x97 0 "Alder Lake" [1 + 0],
    Intel 6 0x9a 0 "Alder Lake mobile" [1 + 0] = 0x97,
    Intel 6 0xb7 0 "Raptor Lake" [1 + 0],
    Intel 6 0xba 0 "Raptor Lake mobile" [1 + 0] = 0xb7,
    Intel 6 0xbf 0 "Raptor Lake S" [1 + 0] = 0xb7,
    Intel 6 0xac 0 "Meteor Lake" [1 + 0],
    Intel 6 0xaa 0 "Meteor Lake mobile" [1 + 0] = 0xac,
    Intel 6 0xb5 0 "Arrow Lake U" [1 + 0],
    Intel 6 0xbd 0 "Lunar Lake" [1 + 0],
    Intel 6 0xc6 0 "Arrow Lake" [1 + 0],
    Intel 6 0xc5 0 "Arrow Lake H" [1 + 1],
    Intel 6 0xcc 0 "Panther Lake" [1 + 0],
    Intel 6 0xd5 0 "Wildcat Lake" [1 + 0] = 0xcc,
    Intel 18 0x01 0 "Nova Lake" [1 + 0],
    Intel 18 0x03 0 "Nova Lake mobile" [1 + 0] = 0x01,
    // amd_pmu_init().
    Amd 6 0x08 0 "K7",
    Amd 0x0f 0x41 0 "K8",
    Amd 0x10 0x04 0 "K10",
    Amd 0x11 0x03 0 "Griffin",
    Amd 0x12 0x01 0 "Llano",
    Amd 0x14 0x02 0 "Bobcat",
    Amd 0x15 0x02 0 "Piledriver",
    Amd 0x16 0x00 0 "Jaguar",
    Amd 0x17 0x01 0 "Zen",
    Amd 0x17 0x08 0 "Zen+" = 0x01,
    Amd 0x17 0x71 0 "Zen 2",
    Hygon 0x18 0x00 1 "Dhyana",
    Amd 0x19 0x21 0 "Zen 3",
    Amd 0x19 0x61 0 "Zen 4",
    Amd 0x1a 0x44 0 "Zen 5",
    // zhaoxin_pmu_init().
    Zhaoxin 6 0x19 0 "ZX-C",
    Zhaoxin 7 0x1b 0 "ZX-D",
    Zhaoxin 7 0x3b 0 "ZX-E",
}
