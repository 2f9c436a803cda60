// SPDX-License-Identifier: GPL-2.0
//! Builds each `programs/*.S` as a static executable without a C library: all of its
//! instructions are in its source, so that their number is known. Lists what the tests assert.

mod asserts;

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    programs(out)?;
    fs::write(out.join("asserts.rs"), asserts::table(Path::new("src"))?)?;
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the rule is for tests, and this is none"
)]
fn programs(out: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=programs");
    let gcc = cc::Build::new().get_compiler();
    for entry in fs::read_dir("programs")? {
        let source = entry?.path();
        let name = source.file_stem().ok_or("a program without a name")?;
        let status = gcc
            .to_command()
            .args(["-nostdlib", "-static", "-no-pie", "-Wl,-z,noexecstack"])
            // BOLT moves only code that has relocations.
            .arg("-Wl,--emit-relocs")
            .arg(&source)
            .arg("-o")
            .arg(out.join(name))
            .status()?;
        if !status.success() {
            return Err(format!("{}: {status}", source.display()).into());
        }
    }
    Ok(())
}
