// SPDX-License-Identifier: GPL-2.0

//! libFuzzer for [`fuzz::registers`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run(fuzz::registers::check, data));
