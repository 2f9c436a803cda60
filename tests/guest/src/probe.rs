// SPDX-License-Identifier: GPL-2.0
//! Events of dynamic probes, on rust_trace and on the in-tree PMUs `kprobe` and `uprobe`.

use std::ffi::{CStr, CString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use perf_event::Builder;

use crate::pmu::{BuilderExt, Mode, Pmu};

/// The PMU under test.
pub const RUST_TRACE: &str = "rust_trace";

/// Which of the two implementations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The PMUs `kprobe` and `uprobe`.
    InTree,
    /// `rust_trace`.
    Ours,
}

/// Both sides.
pub const SIDES: [Side; 2] = [Side::InTree, Side::Ours];

/// Whose code has the probe, and what says where.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// The kernel's.
    Kernel,
    /// A program's, by its path.
    Program,
    /// A program's, by a file descriptor. Only rust_trace has this.
    Descriptor,
}

/// An event of a probe as the attributes say it, be it good or bad.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    pub kind: Kind,
    /// Whether it is of the return.
    pub of_return: bool,
    /// The address of the symbol or path, or the descriptor.
    pub config1: u64,
    /// The offset or address.
    pub config2: u64,
    /// Of a program's probe, the offset of the reference counter.
    pub ref_ctr_offset: u64,
    /// How many arguments records have. Only rust_trace has this.
    pub args: u64,
}

impl Probe {
    pub fn new(kind: Kind, config1: u64, config2: u64) -> Self {
        Self {
            kind,
            of_return: false,
            config1,
            config2,
            ref_ctr_offset: 0,
            args: 0,
        }
    }

    /// A place in a kernel function.
    pub fn symbol(name: &CStr, offset: u64) -> Self {
        Self::new(Kind::Kernel, name.as_ptr() as u64, offset)
    }

    /// An address of the kernel.
    pub fn address(address: u64) -> Self {
        Self::new(Kind::Kernel, 0, address)
    }

    /// A place in a file.
    pub fn path(path: &CStr, offset: u64) -> Self {
        Self::new(Kind::Program, path.as_ptr() as u64, offset)
    }

    /// A probe of the return from the function that begins at the place.
    pub fn of_return(self) -> Self {
        Self {
            of_return: true,
            ..self
        }
    }

    /// A probe whose records have this many arguments.
    pub fn with_args(self, args: u64) -> Self {
        Self { args, ..self }
    }

    /// Builds a disabled event of the calling thread.
    pub fn event(&self, side: Side) -> Result<Builder<'static>> {
        let (kind, in_tree) = match self.kind {
            Kind::Kernel => (1, "kprobe"),
            Kind::Program => (2, "uprobe"),
            Kind::Descriptor => (3, "uprobe"),
        };
        let ret = u64::from(self.of_return);
        let (pmu, mut config) = match side {
            Side::InTree => {
                let pmu = Pmu::find(in_tree)?;
                let config = pmu.encode(&format!("retprobe={ret:#x}"))?;
                (pmu, config)
            }
            Side::Ours => {
                let pmu = Pmu::find(RUST_TRACE)?;
                let config = pmu.encode(&format!(
                    "kind={kind:#x},ret={ret:#x},args={:#x}",
                    self.args
                ))?;
                (pmu, config)
            }
        };
        if self.ref_ctr_offset != 0 {
            config |= pmu.encode(&format!("ref_ctr_offset={:#x}", self.ref_ctr_offset))?;
        }
        let mut builder = pmu.raw(config);
        builder.filter(Mode::Both);
        let attrs = builder.attrs_mut();
        attrs.__bindgen_anon_3.config1 = self.config1;
        attrs.__bindgen_anon_4.config2 = self.config2;
        Ok(builder)
    }
}

/// The address of a symbol of the kernel.
pub fn kernel_address(symbol: &str) -> Result<u64> {
    fs::read_to_string("/proc/kallsyms")?
        .lines()
        .find_map(|line| {
            let mut fields = line.split_whitespace();
            let (address, _, name) = (fields.next()?, fields.next()?, fields.next()?);
            (name == symbol).then(|| u64::from_str_radix(address, 16))
        })
        .with_context(|| format!("the kernel has no symbol {symbol}"))?
        .context("/proc/kallsyms")
}

/// The file, and the offset in it, of code of this process.
pub fn place_of(code: u64) -> Result<(PathBuf, u64)> {
    fs::read_to_string("/proc/self/maps")?
        .lines()
        .find_map(|line| {
            let mut fields = line.split_whitespace();
            let (start, end) = fields.next()?.split_once('-')?;
            let offset = fields.nth(1)?;
            let path = fields.nth(2)?;
            let [start, end, offset] =
                [start, end, offset].map(|number| u64::from_str_radix(number, 16).unwrap_or(0));
            (start..end)
                .contains(&code)
                .then(|| (path.into(), code - start + offset))
        })
        .context("the code is in no file")
}

/// A path as C has it.
pub fn c_path(path: &Path) -> Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// The kernel's list of its probes. The addresses of optimised ones have another mark.
pub fn kernel_probes() -> Result<Vec<String>> {
    let list = fs::read_to_string("/sys/kernel/debug/kprobes/list").context("kprobes/list")?;
    let mut probes: Vec<_> = list
        .lines()
        .map(|line| line.split('[').next().unwrap_or(line).trim().to_string())
        .collect();
    probes.sort();
    Ok(probes)
}
