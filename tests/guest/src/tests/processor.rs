// SPDX-License-Identifier: GPL-2.0
//! QEMU gives a processor that it knows by its signature the PMU of that processor.

use anyhow::{ensure, Result};

use crate::ctx::{Ctx, Test};
use crate::msr::Msrs;
use crate::pmu::{signature, CpuPmu};
use crate::tests;

pub const TESTS: &[Test] = tests![
    all need [EmulatedPmu];
    counters_of_the_processor,
    perf_capabilities: [Intel, Root, Msrs],
    misc_enable: [Intel, Root, Msrs],
    registers_of_the_processor: [Intel, Root, Msrs],
];

/// What a processor has: the version (0 on AMD), general counters, their bits, fixed
/// counters, full-width writes, and MSR_OFFCORE_RSP_1.
struct Processor {
    family: u32,
    model: u32,
    version: u32,
    general: u32,
    width: u32,
    fixed: u32,
    full_width: bool,
    /// LBR_FMT of PERF_CAPABILITIES (SDM vol. 3B, "LBR Stack"): addresses; with a register INFO; architectural.
    lbr_format: u64,
    offcore_rsp_1: bool,
}

/// Penryn, Kaby Lake, Gracemont, Zen 3.
const PROCESSORS: &[Processor] = &[
    Processor {
        family: 6,
        model: 0x17,
        version: 2,
        general: 2,
        width: 40,
        fixed: 3,
        full_width: false,
        lbr_format: 0x02,
        offcore_rsp_1: false,
    },
    Processor {
        family: 6,
        model: 0x9e,
        version: 4,
        general: 8,
        width: 48,
        fixed: 3,
        full_width: true,
        lbr_format: 0x05,
        offcore_rsp_1: true,
    },
    Processor {
        family: 6,
        model: 0xbe,
        version: 5,
        general: 6,
        width: 48,
        fixed: 3,
        full_width: true,
        lbr_format: 0x3f,
        offcore_rsp_1: true,
    },
    Processor {
        family: 0x19,
        model: 0x21,
        version: 0,
        general: 6,
        width: 48,
        fixed: 0,
        full_width: false,
        lbr_format: 0,
        offcore_rsp_1: false,
    },
];

fn this_one() -> Result<&'static Processor> {
    let (family, model) = signature();
    let mut all = PROCESSORS.iter();
    let found = all.find(|it| (it.family, it.model) == (family, model));
    found.ok_or_else(|| anyhow::anyhow!("family {family:#x} model {model:#x} is not in the table"))
}

/// CPUID shows the version, the counters and their width that the processor has.
fn counters_of_the_processor(_: &Ctx) -> Result<()> {
    let cpu = CpuPmu::probe();
    let expected = this_one()?;
    let found = (cpu.version, cpu.general, cpu.width, cpu.fixed);
    let expected = (
        expected.version,
        expected.general,
        expected.width,
        expected.fixed,
    );
    ensure!(found == expected, "{found:?}, expected {expected:?}");
    Ok(())
}

/// All of them have the register. Bits 5:0 are LBR_FMT, bit 13 is FW_WRITE, and nothing else is modelled.
fn perf_capabilities(_: &Ctx) -> Result<()> {
    const PERF_CAPABILITIES: u32 = 0x345;
    const FW_WRITE: u64 = 1 << 13;
    let processor = this_one()?;
    let full_width = if processor.full_width { FW_WRITE } else { 0 };
    let expected = processor.lbr_format | full_width;
    let found = Msrs::of_cpu(0)?.read(PERF_CAPABILITIES)?;
    ensure!(found == expected, "{found:#x}, expected {expected:#x}");
    Ok(())
}

/// SDM vol. 4, IA32_MISC_ENABLE: there is a PMU (bit 7), but neither a branch trace store
/// (bit 11) nor PEBS (bit 12). The bits are read-only.
fn misc_enable(_: &Ctx) -> Result<()> {
    const MISC_ENABLE: u32 = 0x1a0;
    const BITS: u64 = (1 << 7) | (1 << 11) | (1 << 12);
    let msrs = Msrs::of_cpu(0)?;
    let value = msrs.read(MISC_ENABLE)?;
    ensure!(value & BITS == BITS, "{value:#x}");
    msrs.write(MISC_ENABLE, value & !BITS)?;
    let after = msrs.read(MISC_ENABLE)?;
    ensure!(after == value, "{after:#x}, before {value:#x}");
    Ok(())
}

/// MSR_OFFCORE_RSP_1 keeps what is written but for reserved bits, or raises #GP.
fn registers_of_the_processor(_: &Ctx) -> Result<()> {
    const MSR_OFFCORE_RSP_1: u32 = 0x1a7;
    let msrs = Msrs::of_cpu(0)?;
    let write = |value| msrs.write(MSR_OFFCORE_RSP_1, value);
    if !this_one()?.offcore_rsp_1 {
        ensure!(write(0x11).is_err(), "there is such a register");
        return Ok(());
    }
    write(0x11)?;
    let value = msrs.read(MSR_OFFCORE_RSP_1)?;
    ensure!(write(1 << 63).is_err(), "bit 63 can be written");
    write(0)?;
    ensure!(value == 0x11, "{value:#x}");
    Ok(())
}
