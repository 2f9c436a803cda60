// SPDX-License-Identifier: GPL-2.0

//! Performance monitoring counters, apart from the kernel.
//!
//! | question | module |
//! |---|---|
//! | What does a CPU have? | [`detect`], `capabilities`, `generation` |
//! | What is an event? | [`event`], `named`, `cache`, `topdown`, `transactions` |
//! | How does sysfs name it? | `files` |
//! | Which counters can count it, and what does it need of them? | [`constraint`], [`needs`] |
//! | Which counter does it get, or which two? | [`assign`], [`siblings`] |
//! | Which register holds the rest of it? | `extra` |
//! | How is a period counted? | [`period`] |
//! | How are the registers written? | [`counters`], `shadow`; two counters for one event: `pair` |
//! | How is PERF_METRICS read? | [`metrics`] |
//! | What do some CPUs need before they count right? | `selection` |
//! | Has someone else written the registers? | `foreign` |
//! | When does the handler of a PMI unmask LVTPC? | `lvtpc` |
//! | Which branches has the CPU taken last? | [`lbr`] |
//!
//! Each vendor has a folder with its registers, generations, detection and events. A new model
//! is a file there with its table of events, and a line in that folder's `mod.rs`. A new
//! generation is a file and a line there, too.
//!
//! This is a module of the kernel module and also a crate for the host. Nothing
//! in here depends on the kernel: the hardware is reached through
//! [`Registers`], which is the CPU in the kernel and a model of it in the tests. The only file from
//! elsewhere is `system/local.rs`, which does not depend on it either.
//! Nothing allocates, recurses, or panics. All but [`assign`], [`siblings`] and
//! [`detect`] may be called in NMIs.

#![deny(unsafe_code)]

#[macro_use]
mod bitfield;

mod amd;
pub mod assign;
mod cache;
mod capabilities;
pub mod constraint;
pub mod counter;
pub mod counters;
mod cpuid;
mod detect;
pub mod event;
mod extra;
mod files;
mod foreign;
mod frequency;
mod generation;
mod intel;
pub mod lbr;
mod lvtpc;
pub mod metrics;
mod msr;
mod named;
pub mod needs;
mod pair;
pub mod period;
mod registers;
mod selection;
mod shadow;
pub mod siblings;
mod topdown;
mod transactions;
mod zhaoxin;

/// What the kernel module has at this path.
#[cfg(not(MODULE))]
#[path = "../system"]
#[allow(dead_code, unsafe_code)]
mod system {
    pub mod local;
}

pub use self::{
    bitfield::Field,
    cache::CacheEvent,
    capabilities::Capabilities,
    counters::Counters,
    cpuid::{
        core_number,
        CpuidLeaf,
        Leaf01Ecx, //
    },
    detect::{
        detect,
        detect_as, //
    },
    extra::{
        Extra,
        ExtraError,
        ExtraField,
        ExtraInUse,
        ExtraRegister, //
    },
    files::{
        EventFile,
        FileText,
        Selectable, //
    },
    frequency::Rate,
    generation::Generation,
    intel::{
        is_hybrid,
        CoreType,
        PERF_CAPABILITIES, //
    },
    lvtpc::LvtpcOrder,
    msr::Msr,
    named::{
        EventName,
        FormatField,
        NamedEvent, //
    },
    registers::Registers,
    shadow::Shadow,
    topdown::TopdownFile, //
};
