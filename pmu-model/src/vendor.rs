// SPDX-License-Identifier: GPL-2.0

//! The vendors of processors.

use serde::{Deserialize, Serialize};

/// The vendor of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Vendor {
    /// Intel: architectural performance monitoring, versions 1 to 6.
    Intel,
    /// AMD: the core performance counters. Version 1 is the legacy counters, 2 PerfCtrExtCore and 3
    /// PerfMonV2.
    Amd,
    /// Hygon, with AMD's PMU.
    Hygon,
    /// Zhaoxin and Centaur: version 2 of Intel's, with other events.
    Zhaoxin,
}

impl Vendor {
    /// All vendors.
    pub const ALL: [Vendor; 4] = [Vendor::Intel, Vendor::Amd, Vendor::Hygon, Vendor::Zhaoxin];

    /// The names in CPUID leaf 0: EBX, EDX and ECX. The first one is [`Vendor::cpuid`].
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Vendor::Intel => &["GenuineIntel"],
            Vendor::Amd => &["AuthenticAMD"],
            Vendor::Hygon => &["HygonGenuine"],
            Vendor::Zhaoxin => &["  Shanghai  ", "CentaurHauls"],
        }
    }

    /// A name in CPUID leaf 0.
    pub const fn cpuid(self) -> &'static str {
        self.names()[0]
    }

    /// The vendor with this name in CPUID leaf 0, `None` if the model has no PMU of it.
    pub fn of_cpuid(name: &[u8]) -> Option<Vendor> {
        Vendor::ALL.into_iter().find(|vendor| {
            let mut names = vendor.names().iter();
            names.any(|it| it.as_bytes() == name)
        })
    }

    /// Whether the PMU is AMD's.
    pub const fn is_amd(self) -> bool {
        matches!(self, Vendor::Amd | Vendor::Hygon)
    }

    /// The version of the PMU of no particular processor.
    pub const fn default_version(self) -> u8 {
        match self {
            Vendor::Intel => 4,
            Vendor::Amd | Vendor::Hygon => 3,
            Vendor::Zhaoxin => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_of_its_vendor() {
        for vendor in Vendor::ALL {
            for name in vendor.names() {
                assert_eq!(name.len(), 12, "{name:?}");
                assert_eq!(Vendor::of_cpuid(name.as_bytes()), Some(vendor));
            }
        }
        assert_eq!(Vendor::of_cpuid(b"TCGTCGTCGTCG"), None);
    }
}
