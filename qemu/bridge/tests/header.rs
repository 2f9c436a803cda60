// SPDX-License-Identifier: GPL-2.0

//! `pmu_bridge.h` says what `src/lib.rs` does.

use std::{env, fs, path::Path};

#[test]
fn header_is_current() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = dir.join("pmu_bridge.h");
    let config = cbindgen::Config::from_file(dir.join("cbindgen.toml")).unwrap();
    let mut wanted = Vec::new();
    cbindgen::Builder::new()
        .with_src(dir.join("src/lib.rs"))
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut wanted);
    let wanted = String::from_utf8(wanted).unwrap();
    if env::var_os("BLESS").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap();
    assert!(
        found == wanted,
        "pmu_bridge.h is out of date; set BLESS=1 to write it anew:\n{wanted}"
    );
}
