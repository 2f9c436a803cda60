// SPDX-License-Identifier: GPL-2.0

//! libFuzzer for [`fuzz::branches`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run(fuzz::branches::check, data));
