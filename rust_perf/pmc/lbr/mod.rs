// SPDX-License-Identifier: GPL-2.0

//! Branch records: where a CPU has jumped last (last branch records, LBR).
//!
//! | question | module |
//! |---|---|
//! | What does a CPU record, and in which registers? | `layout`: [`Lbr`] |
//! | What does a user ask for? | `request` |
//! | Which of the branches that were recorded does he see? | `selection` |
//! | What is in a record? | `record`, `branch` |
//! | Which instructions are branches? | [`decode`] |
//! | What is to be recorded? | `control` |
//! | How are the registers written and read? | `registers` |
//!
//! There are three kinds of registers: architectural LBRs (`cpuid`), those of Intel's older models
//! (`intel/last_branch.rs`), and AMD's LbrExtV2 (`amd/last_branch.rs`).

mod branch;
mod control;
mod cpuid;
pub mod decode;
pub(super) mod layout;
mod record;
mod registers;
mod request;
mod selection;

pub use self::{
    branch::{
        is_kernel,
        Branch,
        BranchKind,
        Speculation,
        BITS_OF_COUNT,
        LOGGED_COUNTERS, //
    },
    control::is_call_stack,
    layout::Lbr,
    record::Record,
    registers::{
        BranchRecords,
        LbrShadow,
        Recording,
        MAX_DEPTH, //
    },
    request::{
        BranchRequest,
        RequestError, //
    },
    selection::Selection, //
};
