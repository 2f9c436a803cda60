// SPDX-License-Identifier: GPL-2.0

//! The state of AMD's virtualization, which decides what some counters count.

use serde::{Deserialize, Serialize};

/// The state of AMD's virtualization (APM vol. 2, "Secure Virtual Machine").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Svm {
    /// EFER.SVME.
    pub(crate) enabled: bool,
    /// Whether a guest runs: between VMRUN and #VMEXIT.
    pub(crate) guest: bool,
}
