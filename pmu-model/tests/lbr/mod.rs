// SPDX-License-Identifier: GPL-2.0

//! LBRs: the rules for each kind, and all kinds against a reference.

mod amd;
mod arch;
mod legacy;
mod logging;
mod reference;
mod replay;
mod saved;
mod told_later;

use pmu_model::{
    msr::*, Branch, BranchKind, Config, Mode, MsrError, Pmu, Retired, Signature, Vendor,
};

const GP: Result<(), MsrError> = Err(MsrError::GeneralProtection);

fn branch(kind: BranchKind, from: u64, to: u64) -> Branch {
    Branch {
        kind,
        from,
        to,
        modes: [Mode::User; 2],
        retires: true,
        retired: [Retired::default(); 2],
    }
}

/// A processor of the table with its LBRs.
fn processor(vendor: Vendor, family: u16, model: u8) -> Config {
    let signature = Signature {
        family,
        model,
        stepping: 11,
    };
    let config = Config::of_processor(vendor, signature, false).unwrap();
    assert_eq!(config.lbrs, config.lbrs_of_processor());
    config
}

fn intel(model: u8) -> Config {
    processor(Vendor::Intel, 6, model)
}

/// Counter 0 raises a PMI after 10 instructions in user mode.
fn sample_ten(pmu: &mut Pmu, vendor: Vendor) {
    let eventsel = EventSel::EN | EventSel::INT | EventSel::USR | 0xc0;
    let [select, counter, enable] = match vendor {
        Vendor::Intel => [IA32_PERFEVTSEL0, IA32_PMC0, IA32_PERF_GLOBAL_CTRL],
        _ => [PERF_CTL0, PERF_CTR0, PERF_CNTR_GLOBAL_CTL],
    };
    pmu.wrmsr(select, eventsel).unwrap();
    pmu.wrmsr(counter, -10_i64 as u64).unwrap();
    pmu.wrmsr(enable, 1).unwrap();
}

fn retire_ten(pmu: &mut Pmu) {
    let ten = Retired {
        instructions: 10,
        branches: 1,
        ..Retired::default()
    };
    pmu.retire(&[ten, Retired::default()]);
}
