// SPDX-License-Identifier: GPL-2.0

//! Compares the symbols of rebuilt Rust crates with those of the stock kernel.

use anyhow::{bail, ensure, Context as _, Result};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Checks that the stock kernel exports all symbols of the rebuilt crates: a module is
/// built against these crates and loaded by that kernel. Returns a summary.
pub fn check_symbols(kdir: &Path) -> Result<String> {
    let symvers = fs::read_to_string(kdir.join("Module.symvers"))?;
    let stock = stock_symbols(&symvers);
    let mut summary = String::new();
    let mut missing = Vec::new();
    for krate in ["core", "kernel", "bindings", "helpers"] {
        let header = kdir.join(format!("rust/exports_{krate}_generated.h"));
        let header = fs::read_to_string(&header)
            .with_context(|| format!("cannot read {}", header.display()))?;
        let exported: Vec<&str> = exported_symbols(&header).collect();
        ensure!(!exported.is_empty(), "the {krate} crate exports nothing");
        let absent: Vec<_> = exported
            .iter()
            .filter(|&&name| !stock.contains(name))
            .collect();
        let found = exported.len() - absent.len();
        missing.extend(absent.into_iter().map(|name| name.to_string()));
        writeln!(summary, "{krate} {found}/{}", exported.len())?;
    }
    if missing.is_empty() {
        return Ok(summary);
    }
    bail!(
        "the rebuilt Rust crates differ from the stock kernel's, so no module would load. \
         Exported symbols found in its Module.symvers:\n{summary}the first that is missing: {}\n\
         The tool chain in the build root may be newer than the kernel's: make clean-cache, \
         or name another kernel with KERNEL=",
        missing[0]
    )
}

/// The names in `EXPORT_SYMBOL_RUST_GPL(name);` lines.
fn exported_symbols(header: &str) -> impl Iterator<Item = &str> {
    header.lines().filter_map(|line| {
        line.strip_prefix("EXPORT_SYMBOL_RUST_GPL(")?
            .strip_suffix(");")
    })
}

/// The names of symbols that vmlinux exports, from Module.symvers.
fn stock_symbols(symvers: &str) -> HashSet<&str> {
    symvers
        .lines()
        .filter_map(|line| {
            let mut fields = line.split('\t').skip(1);
            let name = fields.next()?;
            (fields.next()? == "vmlinux").then_some(name)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols() {
        let header = "EXPORT_SYMBOL_RUST_GPL(_RNvCs1_6kernel1a);\n/* no */\n";
        assert_eq!(
            exported_symbols(header).collect::<Vec<_>>(),
            ["_RNvCs1_6kernel1a"]
        );
        let stock = stock_symbols(
            "0x00000000\t_RNvCs1_6kernel1a\tvmlinux\tEXPORT_SYMBOL_GPL\t\n\
             0x00000000\tother\tdrivers/x\tEXPORT_SYMBOL\t\n",
        );
        assert!(stock.contains("_RNvCs1_6kernel1a") && !stock.contains("other"));
    }
}
