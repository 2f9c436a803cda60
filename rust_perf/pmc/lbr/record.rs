// SPDX-License-Identifier: GPL-2.0

//! What the registers of a record hold, and the branch that this is.

use super::{
    super::bitfield::Field,
    branch::{
        Branch,
        Info,
        Speculation, //
    },
    control::LbrCtl,
    layout::{
        Amd,
        Format,
        Layout,
        Lbr, //
    }, //
};

/// The registers of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Where the branch was. 0 if there is none.
    pub from: u64,
    /// Where it led to.
    pub to: u64,
    /// The further register, 0 if there is none or if it was not read.
    pub info: u64,
}

bitfield! {
    /// FROM of the formats that have flags in it (SDM vol. 3B, "LBR Stack").
    pub(super) struct From(u64) {
        /// The branch was mispredicted.
        63:63 MISPREDICTED;
        /// The branch was in a transaction, if the format says so.
        62:62 IN_TRANSACTION;
        /// The branch is the abort of a transaction, if the format says so.
        61:61 ABORT;
        /// Both of them.
        62:61 TRANSACTION;
        /// The sign of the address, if the format has all three flags.
        60:60 SIGN;
    }

    /// TO of the format that has cycles in it (SDM vol. 3B, "LBR Stack for Goldmont").
    struct To(u64) {
        /// The cycles since the record before.
        63:48 CYCLES;
    }

    /// LastBranchStackFromIp (APM vol. 2, "Last Branch Stack Registers").
    struct AmdFrom(u64) {
        /// The branch was mispredicted.
        63:63 MISPREDICTED;
    }

    /// LastBranchStackToIp.
    pub(super) struct AmdTo(u64) {
        /// VALID and SPECULATIVE, both 0 if there is no record.
        63:62 STATE;
        /// The record is wrong. In-tree: erratum 1452.
        61:61 WRONG;
    }
}

impl Lbr {
    /// The branch of a record. `None` if the record is wrong.
    #[inline(always)]
    pub fn branch(&self, record: Record, control: u64) -> Option<Branch> {
        let Record { from, to, info } = record;
        match &self.layout {
            Layout::Architectural => Some(Branch {
                from,
                to,
                info: Info::from_raw(info),
                ..Branch::default()
            }),
            Layout::Legacy(legacy) => Some(Branch {
                is_unpredicted: LbrCtl::from_raw(control).has(LbrCtl::NO_INFO),
                ..legacy_branch(legacy.format, record)
            }),
            Layout::Amd(amd) => amd_branch(amd, from, to),
        }
    }
}

#[inline(never)]
fn legacy_branch(format: Format, Record { from, to, info }: Record) -> Branch {
    let flags = From::from_raw(from);
    let mispredicted = Info::default().with(Info::MISPREDICTED, flags.get(From::MISPREDICTED));
    // The bits of FROM and of TO that are no part of the address, and what they say.
    let (from_bits, to_bits, info) = match format {
        Format::Addresses => (0, 0, Info::default()),
        Format::Flags => (1, 0, mispredicted),
        Format::Transactions { .. } => {
            let info = mispredicted
                .with(Info::IN_TRANSACTION, flags.get(From::IN_TRANSACTION))
                .with(Info::ABORT, flags.get(From::ABORT));
            (3, 0, info)
        }
        Format::Cycles => {
            let cycles = To::from_raw(to).get(To::CYCLES);
            (1, 16, mispredicted.with(Info::CYCLES, cycles))
        }
        Format::Info {
            has_transactions, ..
        } => {
            let all = Info::from_raw(info).with(Info::KIND, 0);
            let info = match has_transactions {
                true => all,
                false => all.with(Info::IN_TRANSACTION, 0).with(Info::ABORT, 0),
            };
            (0, 0, info)
        }
    };
    Branch {
        from: sign_extend(from, from_bits),
        to: sign_extend(to, to_bits),
        info: info.with(Info::CYCLES_VALID, 1),
        ..Branch::default()
    }
}

#[inline(never)]
fn amd_branch(amd: &Amd, from: u64, to: u64) -> Option<Branch> {
    let state = AmdTo::from_raw(to);
    if state.has(AmdTo::WRONG) {
        return None;
    }
    let unused = u64::BITS.saturating_sub(amd.address_bits.into());
    let mispredicted = AmdFrom::from_raw(from).get(AmdFrom::MISPREDICTED);
    Some(Branch {
        from: sign_extend(from, unused),
        to: sign_extend(to, unused),
        info: Info::default().with(Info::MISPREDICTED, mispredicted),
        speculation: match state.get(AmdTo::STATE) {
            0b01 => Speculation::WrongPath,
            0b10 => Speculation::None,
            0b11 => Speculation::RightPath,
            _ => Speculation::Unknown,
        },
        ..Branch::default()
    })
}

/// The address in a register whose highest `others` bits are something else.
const fn sign_extend(value: u64, others: u32) -> u64 {
    (value.wrapping_shl(others) as i64).wrapping_shr(others) as u64
}
