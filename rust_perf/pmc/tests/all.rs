// SPDX-License-Identifier: GPL-2.0

//! All tests of the public interface, as one program: a program for each file would take much longer
//! to link.

mod alike;
mod branch_call_stacks;
mod branch_layouts;
mod branch_logging;
mod branch_records;
mod branch_requests;
mod branch_select;
mod common;
mod constraints;
mod counters;
mod detect;
mod extra_registers;
mod extra_writes;
mod files;
mod foreign;
mod frequency;
mod hybrid;
mod intel_models;
mod intel_quirks;
mod lvtpc;
mod metrics;
mod misses;
mod model_events;
mod pairs;
mod pmi_faults;
mod sampling;
mod selection;
mod shared_registers;
mod siblings;
mod transactions;
mod vendors;
