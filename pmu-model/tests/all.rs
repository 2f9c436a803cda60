// SPDX-License-Identifier: GPL-2.0

//! All tests of the public interface, as one program: a program for each file would take much longer
//! to link.

mod accesses;
mod amd;
mod counting;
mod defects;
mod garbage;
mod kinds;
mod layers;
mod lbr;
mod metrics;
mod nehalem;
mod operations;
mod pairs;
mod processors;
mod ref_cycles;
mod reference;
mod registers;
mod saved;
mod selection;
mod smt;
mod zhaoxin;
