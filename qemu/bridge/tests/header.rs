// SPDX-License-Identifier: GPL-2.0

//! Checks that `pmu_bridge.h` matches `src/`. With BLESS=1 in the environment it
//! writes the header.

use std::{env, fs, path::Path};

#[test]
fn header_is_current() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = dir.join("pmu_bridge.h");
    let config = cbindgen::Config::from_file(dir.join("cbindgen.toml")).unwrap();
    let mut expected = Vec::new();
    // cbindgen reads the modules of a file as well.
    cbindgen::Builder::new()
        .with_src(dir.join("src/lib.rs"))
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut expected);
    let expected = String::from_utf8(expected).unwrap();
    if env::var_os("BLESS").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap();
    assert!(
        found == expected,
        "pmu_bridge.h is out of date, BLESS=1 writes it; expected:\n{expected}"
    );
}
