// SPDX-License-Identifier: GPL-2.0

//! libFuzzer for [`fuzz::counts`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run(fuzz::counts::check, data));
