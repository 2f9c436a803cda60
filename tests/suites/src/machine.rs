// SPDX-License-Identifier: GPL-2.0

//! The CPUs that suites run on, as QEMU's `-cpu` describes them.

mod table;

pub use pmu_model::Vendor;
pub use table::*;

/// QEMU's `-cpu` without a suite: version 4, 4 general and 3 fixed counters.
/// The properties of a [`Machine`] come after it; of two equal ones the last counts.
///
/// The vendor must be named: under TCG, `max` is an AMD CPU.
pub const BASE_CPU: &str = "max,vendor=GenuineIntel,pmu=on";

/// What CPUID leaf 1 says of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The family, extended family included.
    pub family: u8,
    /// The model, extended model included.
    pub model: u8,
    /// The stepping, unless it does not matter.
    pub stepping: Option<u8>,
}

/// The general counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counters {
    /// So many.
    Count(u8),
    /// Those whose bits are set; needs version 6 if there are gaps.
    Mask(u32),
}

/// What differs from the PMU that QEMU gives the signature, or else the vendor, by default
/// (qemu/README.md has the defaults and the ranges).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pmu {
    /// The generation: see [`Vendor`].
    pub version: Option<u8>,
    /// The general counters.
    pub counters: Option<Counters>,
    /// How many fixed counters there are.
    pub fixed: Option<u8>,
    /// How many bits a counter has.
    pub width: Option<u8>,
    /// Whether there are aliases for full-width writes.
    pub full_width: Option<bool>,
    /// Whether reference cycles are those of the TSC, and not a function of the instructions.
    pub ref_cycles_of_tsc: bool,
}

impl Pmu {
    /// The vendor's default.
    pub const DEFAULT: Self = Self {
        version: None,
        counters: None,
        fixed: None,
        width: None,
        full_width: None,
        ref_cycles_of_tsc: false,
    };

    /// A generation, with its default counters.
    pub const fn version(version: u8) -> Self {
        Self {
            version: Some(version),
            ..Self::DEFAULT
        }
    }

    /// With so many general counters.
    pub const fn counters(self, count: u8) -> Self {
        Self {
            counters: Some(Counters::Count(count)),
            ..self
        }
    }

    /// With the general counters whose bits are set.
    pub const fn counter_mask(self, mask: u32) -> Self {
        Self {
            counters: Some(Counters::Mask(mask)),
            ..self
        }
    }

    /// With so many fixed counters.
    pub const fn fixed(self, count: u8) -> Self {
        Self {
            fixed: Some(count),
            ..self
        }
    }

    /// Without aliases for full-width writes.
    pub const fn sign_extended(self) -> Self {
        Self {
            full_width: Some(false),
            ..self
        }
    }

    /// With reference cycles of the TSC.
    pub const fn ref_cycles_of_tsc(self) -> Self {
        Self {
            ref_cycles_of_tsc: true,
            ..self
        }
    }

    /// With counters of so many bits.
    pub const fn width(self, bits: u8) -> Self {
        Self {
            width: Some(bits),
            ..self
        }
    }
}

/// What keeps the in-tree driver from coming up, on the kernel's command line: the driver of
/// the core PMU, and those of Intel PT and BTS, whose interrupts it would handle.
pub const WITHOUT_IN_TREE: &str = "initcall_blacklist=init_hw_perf_events,pt_init,bts_init";

/// A CPU to run suites on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The heading of its column in docs/results/generations.md: the generation, the number
    /// of general counters and, behind a `+`, that of fixed ones.
    pub name: &'static str,
    /// The vendor.
    pub vendor: Vendor,
    /// Family, model and stepping; QEMU's `max` without.
    pub signature: Option<Signature>,
    /// How many of the virtual CPUs are efficient cores. They come behind the performance cores. 0
    /// if the CPU is not a hybrid one.
    pub efficient: u32,
    /// How many are low-power cores, which come last.
    pub low_power: u32,
    /// The PMU, if there is one.
    pub pmu: Option<Pmu>,
    /// Whether the kernel's mitigations of CPU vulnerabilities stay on.
    pub mitigations: bool,
}

impl Machine {
    /// A machine without mitigations: on an emulated CPU they cost much time, and the
    /// kernel warns of a Zen 3 or later that lacks the microcode for them.
    const fn new(name: &'static str, vendor: Vendor, pmu: Pmu) -> Self {
        Self {
            name,
            vendor,
            signature: None,
            efficient: 0,
            low_power: 0,
            pmu: Some(pmu),
            mitigations: false,
        }
    }

    const fn intel(name: &'static str, pmu: Pmu) -> Self {
        Self::new(name, Vendor::Intel, pmu)
    }

    /// A machine with the PMU that QEMU gives the CPU of this signature.
    pub(crate) const fn cpu(
        name: &'static str,
        vendor: Vendor,
        family: u8,
        model: u8,
        stepping: u8,
    ) -> Self {
        Self::new(name, vendor, Pmu::DEFAULT).signature(family, model, Some(stepping))
    }

    const fn signature(self, family: u8, model: u8, stepping: Option<u8>) -> Self {
        Self {
            signature: Some(Signature {
                family,
                model,
                stepping,
            }),
            ..self
        }
    }

    /// With so many efficient and low-power cores.
    pub(crate) const fn hybrid(self, efficient: u32, low_power: u32) -> Self {
        Self {
            efficient,
            low_power,
            ..self
        }
    }

    /// The properties to append to [`BASE_CPU`], separated by commas.
    pub fn properties(&self) -> String {
        let mut properties = Vec::new();
        let mut add = |name: &str, value: String| properties.push(format!("{name}={value}"));
        if self.vendor != Vendor::Intel {
            add("vendor", self.vendor.cpuid().to_owned());
        }
        if let Some(signature) = self.signature {
            add("family", format!("{:#x}", signature.family));
            add("model", format!("{:#x}", signature.model));
            if let Some(stepping) = signature.stepping {
                add("stepping", stepping.to_string());
            }
        }
        match (self.efficient, self.low_power) {
            (0, _) => {}
            (efficient, 0) => add("pmu-hybrid", efficient.to_string()),
            (efficient, low_power) => add("pmu-hybrid", format!("{efficient}+{low_power}")),
        }
        match self.pmu {
            None => add("pmu", "off".to_owned()),
            Some(pmu) => {
                if let Some(version) = pmu.version {
                    add("pmu-version", version.to_string());
                }
                match pmu.counters {
                    Some(Counters::Count(count)) => add("pmu-counters", count.to_string()),
                    Some(Counters::Mask(mask)) => add("pmu-counter-mask", format!("{mask:#x}")),
                    None => {}
                }
                if let Some(fixed) = pmu.fixed {
                    add("pmu-fixed", fixed.to_string());
                }
                if let Some(width) = pmu.width {
                    add("pmu-width", width.to_string());
                }
                if let Some(full_width) = pmu.full_width {
                    let value = if full_width { "on" } else { "off" };
                    add("pmu-full-width", value.to_owned());
                }
                if pmu.ref_cycles_of_tsc {
                    add("pmu-ref-cycles", "tsc".to_owned());
                }
            }
        }
        properties.join(",")
    }

    /// What its kernel's command line has besides.
    pub const fn kernel_arguments(&self) -> &'static str {
        if self.mitigations {
            ""
        } else {
            "mitigations=off"
        }
    }
}
