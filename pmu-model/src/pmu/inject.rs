// SPDX-License-Identifier: GPL-2.0

//! Faults that a host test injects.

use super::Pmu;
use crate::{
    msr::{Register, IA32_PERF_GLOBAL_STATUS, PERF_CNTR_GLOBAL_STATUS},
    pmi::PmiFault,
};

impl Pmu {
    /// Injects `fault` into the next PMI that has no injected fault yet.
    pub fn inject(&mut self, fault: PmiFault) {
        self.state.pmi.inject(fault);
    }

    /// Injects a spurious PMI, one that no counter has requested. It becomes pending after
    /// this many more instructions have retired in either mode.
    pub fn inject_spurious_pmi(&mut self, instructions: u64) {
        self.state.pmi.schedule(instructions);
    }

    /// Sets overflow bits in GLOBAL_STATUS, as if a previous user of the PMU had left them
    /// set. Bits that belong to no counter are ignored, and so are all bits if the PMU has
    /// no such register.
    pub fn inject_status(&mut self, bits: u64) {
        let has_status = [IA32_PERF_GLOBAL_STATUS, PERF_CNTR_GLOBAL_STATUS]
            .iter()
            .any(|&msr| self.register(msr) == Ok(Register::GlobalStatus));
        if has_status {
            self.state.global_status.0 |= bits & (self.shape.counters() | self.metrics_bit());
        }
    }
}
