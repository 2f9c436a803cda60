// SPDX-License-Identifier: GPL-2.0

//! Performance monitoring counters, apart from the kernel.
//!
//! What an event is ([`event`]), which counters can count it ([`constraint`]),
//! what it needs of them ([`needs`]), which one it gets, or which two ([`assign`], [`siblings`]), which register holds the rest of
//! it (`extra`), how a period is counted ([`period`]), and how the registers are written
//! ([`counters`]), two counters for one event (`pair`) and PERF_METRICS ([`metrics`]) with them, and what some
//! CPUs need before they count (`selection`), and whether someone else has written the registers
//! (`foreign`). How sysfs names the events is in `files`.
//! [`detect`] finds out what a CPU has.
//! Each vendor has a folder with its registers, generations, detection and
//! events. A new model is a file there with its table of events, and a line in
//! that folder's `mod.rs`. So is a new generation.
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
mod generation;
mod intel;
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
        FileText, //
    },
    generation::Generation,
    intel::{
        is_hybrid,
        CoreType,
        PERF_CAPABILITIES, //
    },
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
