// SPDX-License-Identifier: GPL-2.0

//! Intel's legacy LBRs.
//!
//! SDM vol. 3B, "Last Branch, Interrupt, and Exception Recording", the sections on each microarchitecture;
//! which processor has which is in `crate::processor`. The records are a ring: a new one is written at TOS +
//! 1, which is the new TOS. DEBUGCTL has the bit that enables them.
//!
//! LBR_SELECT suppresses branches by kind and by the CPL after them. FROM is never hidden. In call-stack mode
//! a near return clears the record at TOS, and TOS goes back. A call of the next instruction is recorded like
//! any other call.
//!
//! The processors have no TSX: its flags are 0.

use serde::{Deserialize, Serialize};

use super::{select::Select, Controls, Kind, Record, Taken};
use crate::{
    event::Mode,
    fields::DebugCtl,
    msr::{
        LbrField, LbrRegister, MSR_LASTBRANCH_0_FROM_IP, MSR_LASTBRANCH_0_FROM_IP_LOW,
        MSR_LASTBRANCH_0_TO_IP, MSR_LASTBRANCH_0_TO_IP_LOW, MSR_LASTBRANCH_TOS, MSR_LBR_INFO_0,
        MSR_LBR_SELECT,
    },
};

/// What FROM, TO and INFO have (SDM vol. 3B, "LBR Stack", PERF_CAPABILITIES bits 5:0). The names are those of
/// Linux's driver (arch/x86/events/perf_event.h). Addresses are sign-extended to the bits that belong to
/// nothing else. Linear addresses and offsets (EIP) are the same here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LbrFormat {
    /// 1: linear addresses.
    Lip,
    /// 2: offsets.
    Eip,
    /// 3: bit 63 of FROM is MISPRED.
    EipFlags,
    /// 4: bit 63 of FROM is MISPRED, and bits 62:61 are flags of TSX. Without TSX they are 0 in a record, but
    /// WRMSR takes them as a part of the sign extension: they must be copies of bit 60
    /// (`lbr_from_signext_quirk_wr()` in Linux).
    EipFlags2,
    /// 5: INFO has MISPRED and the cycles.
    Info,
    /// 6: bit 63 of FROM is MISPRED, and bits 63:48 of TO are the cycles.
    Time,
    /// 7: linear addresses, and INFO has MISPRED and the cycles.
    Info2,
    /// Knights Landing, which reports 1, but has 3 (`intel_pmu_lbr_init()` in Linux).
    LipFlags,
}

/// Where FROM and TO are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LbrAddresses {
    /// 40H and 60H. There can be 8 records.
    Low,
    /// 680H and 6C0H.
    High,
}

/// What LBR_SELECT has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LbrSelect {
    /// The register does not exist.
    None,
    /// Filters.
    Filters,
    /// Filters, and the call-stack mode.
    CallStack,
}

/// The legacy LBRs of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LegacyLbrs {
    /// The number of records: 4, 8, 16 or 32.
    pub depth: u8,
    /// What the records have.
    pub format: LbrFormat,
    /// Where they are.
    pub addresses: LbrAddresses,
    /// Which branches can be suppressed.
    pub select: LbrSelect,
}

/// FROM and INFO: MISPRED.
const MISPRED: u64 = 1 << 63;
/// FROM of format 4: the flags of TSX, and the highest bit of the address.
const SIGN_OF_FLAGS_2: u64 = 0b111 << 60;
/// FROM of format 4: the address.
const ADDRESS_OF_FLAGS_2: u64 = (1 << 61) - 1;
/// INFO: the cycles.
const CYCLES: u64 = 0xffff;
/// INFO: the flags of TSX.
const TSX: u64 = 0b11 << 61;
/// TO of format 6: the cycles begin here.
const CYCLES_SHIFT: u32 = 48;
/// LBR_SELECT: near returns remove records.
const EN_CALLSTACK: u64 = 1 << 9;

impl LbrFormat {
    /// PERF_CAPABILITIES, bits 5:0.
    const fn reported(self) -> u64 {
        match self {
            LbrFormat::Lip | LbrFormat::LipFlags => 1,
            LbrFormat::Eip => 2,
            LbrFormat::EipFlags => 3,
            LbrFormat::EipFlags2 => 4,
            LbrFormat::Info => 5,
            LbrFormat::Time => 6,
            LbrFormat::Info2 => 7,
        }
    }

    const fn has_info(self) -> bool {
        matches!(self, LbrFormat::Info | LbrFormat::Info2)
    }
}

impl Kind for LegacyLbrs {
    fn depth(&self) -> u8 {
        self.depth
    }

    /// At the low addresses, more than 8 records would include 79H, which updates the microcode.
    fn is_valid(&self) -> bool {
        match self.addresses {
            LbrAddresses::Low => matches!(self.depth, 4 | 8),
            LbrAddresses::High => matches!(self.depth, 4 | 8 | 16 | 32),
        }
    }

    fn has_tos(&self) -> bool {
        true
    }

    fn register(&self, msr: u32, used: u8) -> Option<LbrRegister> {
        let (from, to) = match self.addresses {
            LbrAddresses::Low => (MSR_LASTBRANCH_0_FROM_IP_LOW, MSR_LASTBRANCH_0_TO_IP_LOW),
            LbrAddresses::High => (MSR_LASTBRANCH_0_FROM_IP, MSR_LASTBRANCH_0_TO_IP),
        };
        let fields = [
            (LbrField::From, from),
            (LbrField::To, to),
            (LbrField::Info, MSR_LBR_INFO_0),
        ];
        let fields = match self.format.has_info() {
            true => &fields[..],
            false => &fields[..2],
        };
        match msr {
            MSR_LASTBRANCH_TOS => Some(LbrRegister::Tos),
            MSR_LBR_SELECT if self.select != LbrSelect::None => Some(LbrRegister::Select),
            _ => super::intel_register(fields, msr, used),
        }
    }

    fn writable_bits(&self, register: LbrRegister) -> u64 {
        match (register, self.select, self.format) {
            (LbrRegister::Select, LbrSelect::CallStack, _) => Select::ALL | EN_CALLSTACK,
            (LbrRegister::Select, LbrSelect::Filters, _) => Select::ALL,
            (LbrRegister::Tos, ..) => u64::from(self.depth) - 1,
            (LbrRegister::Record(LbrField::Info, _), _, LbrFormat::Info) => MISPRED | TSX | CYCLES,
            (LbrRegister::Record(LbrField::Info, _), _, LbrFormat::Info2) => MISPRED | CYCLES,
            (LbrRegister::Record(LbrField::From | LbrField::To, _), ..)
            | (LbrRegister::LastEvent(LbrField::From | LbrField::To), ..) => u64::MAX,
            _ => 0,
        }
    }

    fn accepts(&self, register: LbrRegister, value: u64) -> bool {
        let is_from = matches!(
            register,
            LbrRegister::Record(LbrField::From, _) | LbrRegister::LastEvent(LbrField::From)
        );
        let sign = value & SIGN_OF_FLAGS_2;
        !is_from || self.format != LbrFormat::EipFlags2 || sign == 0 || sign == SIGN_OF_FLAGS_2
    }

    fn perf_capabilities(&self) -> u64 {
        self.format.reported()
    }

    fn is_enabled(&self, _: &Controls, debugctl: DebugCtl) -> bool {
        debugctl.enables_lbrs()
    }

    fn stop(&self, _: &mut Controls, debugctl: &mut DebugCtl) {
        debugctl.stop_lbrs();
    }

    fn filter(&self, select: u64, mode: Mode) -> u8 {
        Select(select).filter(mode)
    }

    fn is_call_stack(&self, select: u64) -> bool {
        select & EN_CALLSTACK != 0
    }

    fn record(&self, _: u64, taken: &Taken<'_>) -> Record {
        let mispredicted = if taken.mispredicted { MISPRED } else { 0 };
        let cycles = u64::from(taken.cycles.unwrap_or(0));
        let (from, to) = (taken.branch.from, taken.branch.to);
        match self.format {
            LbrFormat::Lip | LbrFormat::Eip => Record { from, to, info: 0 },
            LbrFormat::EipFlags | LbrFormat::LipFlags => Record {
                from: mispredicted | (from & !MISPRED),
                to,
                info: 0,
            },
            LbrFormat::EipFlags2 => Record {
                from: mispredicted | (from & ADDRESS_OF_FLAGS_2),
                to,
                info: 0,
            },
            LbrFormat::Time => Record {
                from: mispredicted | (from & !MISPRED),
                to: (cycles << CYCLES_SHIFT) | (to & ((1 << CYCLES_SHIFT) - 1)),
                info: 0,
            },
            LbrFormat::Info | LbrFormat::Info2 => Record {
                from,
                to,
                info: mispredicted | cycles,
            },
        }
    }

    /// FROM has its flags. TO has no cycles: it is a pointer to the target (SDM vol. 4, MSR_LER_TO_LIP).
    fn last_event(&self, youngest: Record) -> Record {
        let Record { from, to, .. } = youngest;
        let unused = u64::BITS - CYCLES_SHIFT;
        let to = match self.format {
            LbrFormat::Time => ((to << unused) as i64 >> unused) as u64,
            _ => to,
        };
        Record { from, to, info: 0 }
    }
}
