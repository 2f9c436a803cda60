// SPDX-License-Identifier: GPL-2.0

//! AMD's LBR stack, LbrExtV2.
//!
//! APM vol. 2, "Debug and Performance Resources", sections "Last Branch Stack Registers" and
//! "Debug-Extension-Control MSR (DebugExtnCtl)". Record 0 is the youngest, and a new one moves all others on.
//! LastBranchStackSelect suppresses branches by kind and by the CPL after them.
//!
//! No branch is recorded before it retires, so that ToIp always has V and never SPEC. FromIp is always the
//! branch itself; a real processor may have the instruction before, if it has fused the two.
//!
//! DebugCtl.LBR, and the four registers that it loads (LastBranchFromIp to LastIntToIp), are not modelled:
//! the bit can be written and has no effect.

use serde::{Deserialize, Serialize};

use super::{ring::MAX_DEPTH, select::Select, Controls, Kind, Record, Taken};
use crate::{
    event::Mode,
    fields::DebugCtl,
    msr::{
        debugctl, global_status, LbrField, LbrRegister, DEBUG_EXTN_CTL,
        LAST_BRANCH_STACK_FROM_IP_0, LAST_BRANCH_STACK_SELECT, LBRSE,
    },
};

/// The LBR stack of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AmdLbrs {
    /// The number of records: 1 to 32. Zen 4 has 16.
    pub depth: u8,
    /// Whether a PMI can freeze the stack and the counters (CPUID.80000022H:EAX.LbrAndPmcFreeze).
    pub freeze: bool,
}

/// FromIp: the branch was mispredicted.
const MISPREDICT: u64 = 1 << 63;
/// ToIp: the record is valid.
const VALID: u64 = 1 << 63;
/// ToIp: the record was speculative.
const SPEC: u64 = 1 << 62;
/// FromIp and ToIp: the address.
const IP: u64 = (1 << 57) - 1;
/// DebugCtl: single-stepping on branches, and debug exceptions for bus locks. The bits can be written and
/// have no effect.
const TRAPS: u64 = 0b11 << 1;
/// DebugCtl: reserved bits that raise #GP. The other ones are ignored.
const DEBUGCTL_MBZ: u64 = 0b1111 << 3;

impl AmdLbrs {
    /// The bits of EAX and EBX in CPUID leaf 80000022H (APM vol. 3, CPUID, "Extended Performance Monitoring
    /// and Debug"): LbrStack, LbrAndPmcFreeze, and the number of records.
    pub(crate) fn leaf_8000_0022h(&self) -> [u32; 2] {
        let eax = (1 << 1) | (u32::from(self.freeze) << 2);
        [eax, u32::from(self.depth) << 4]
    }
}

impl Kind for AmdLbrs {
    fn depth(&self) -> u8 {
        self.depth
    }

    /// CPUID can report up to 63.
    fn is_valid(&self) -> bool {
        (1..=MAX_DEPTH).contains(&self.depth)
    }

    fn register(&self, msr: u32, used: u8) -> Option<LbrRegister> {
        match msr {
            LAST_BRANCH_STACK_SELECT => Some(LbrRegister::Select),
            DEBUG_EXTN_CTL => Some(LbrRegister::DebugExtnCtl),
            _ => {
                let offset = msr.checked_sub(LAST_BRANCH_STACK_FROM_IP_0)?;
                let index = (offset / 2) as usize;
                let field = match offset % 2 {
                    0 => LbrField::From,
                    _ => LbrField::To,
                };
                (index < used.into()).then_some(LbrRegister::Record(field, index))
            }
        }
    }

    fn writable_bits(&self, register: LbrRegister) -> u64 {
        match register {
            LbrRegister::Select => Select::ALL,
            LbrRegister::DebugExtnCtl => LBRSE,
            LbrRegister::Record(LbrField::From, _) => MISPREDICT | IP,
            LbrRegister::Record(LbrField::To, _) => VALID | SPEC | IP,
            _ => 0,
        }
    }

    fn must_be_zero(&self, register: LbrRegister) -> u64 {
        match register {
            LbrRegister::DebugExtnCtl => !LBRSE,
            _ => 0,
        }
    }

    fn debugctl(&self) -> Option<[u64; 2]> {
        let freeze = debugctl::FREEZE_LBRS_ON_PMI | debugctl::FREEZE_PERFMON_ON_PMI;
        let freeze = if self.freeze { freeze } else { 0 };
        Some([debugctl::LBR | TRAPS | freeze, DEBUGCTL_MBZ])
    }

    fn status_bits(&self) -> u64 {
        match self.freeze {
            true => global_status::LBR_FRZ | global_status::CTR_FRZ,
            false => 0,
        }
    }

    fn is_enabled(&self, controls: &Controls, _: DebugCtl) -> bool {
        controls.debug_extn_ctl & LBRSE != 0
    }

    fn stop(&self, controls: &mut Controls, _: &mut DebugCtl) {
        controls.debug_extn_ctl &= !LBRSE;
    }

    fn filter(&self, select: u64, mode: Mode) -> u8 {
        Select(select).filter(mode)
    }

    fn record(&self, _: u64, taken: &Taken<'_>) -> Record {
        let mispredicted = if taken.mispredicted { MISPREDICT } else { 0 };
        Record {
            from: mispredicted | (taken.branch.from & IP),
            to: VALID | (taken.branch.to & IP),
            info: 0,
        }
    }
}
