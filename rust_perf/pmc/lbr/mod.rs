// SPDX-License-Identifier: GPL-2.0

//! Branch records: where a CPU has jumped last (last branch records, LBR).
//!
//! | question | module |
//! |---|---|
//! | What does a CPU record? | [`Lbr`] |
//! | What does a user ask for? | `request` |
//! | Which of the branches that were recorded does he see? | `selection` |
//! | What is in a record? | `branch` |
//! | Which instructions are branches? | [`decode`] |
//! | How are the registers written and read? | `registers` |
//!
//! All of it is for architectural LBRs (SDM vol. 3B, "Last Branch Records").

mod branch;
mod cpuid;
pub mod decode;
mod registers;
mod request;
mod selection;

pub use self::{
    branch::{
        is_kernel,
        Branch,
        BranchKind, //
    },
    cpuid::Lbr,
    registers::{
        is_call_stack,
        records_kernel,
        BranchRecords,
        LbrShadow,
        MAX_DEPTH, //
    },
    request::{
        BranchRequest,
        RequestError, //
    },
    selection::Selection, //
};
