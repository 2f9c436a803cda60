// SPDX-License-Identifier: GPL-2.0
//! Model-specific registers, through the kernel's driver `msr`.
//!
//! Tests use this to look at what a driver left in the PMU's registers, and to write
//! them as other users of the PMU do. The driver reads and writes on the CPU that is
//! asked for, by an interrupt if the caller runs on another one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use anyhow::{bail, ensure, Context, Result};

use crate::pmu::CpuPmu;
use crate::setting::Setting;
use crate::waiting;

/// The driver's parameter that allows to write any MSR without a warning.
const ALLOW_WRITES: &str = "/sys/module/msr/parameters/allow_writes";

/// Loads the kernel's driver unless it is there. Needs root.
pub fn load_driver() -> Result<()> {
    if Path::new(ALLOW_WRITES).exists() {
        return Ok(());
    }
    let mut modprobe = Command::new("modprobe");
    let output = waiting::output(modprobe.args(["msr", "allow_writes=on"])).context("modprobe")?;
    ensure!(
        output.status.success(),
        "modprobe msr: {}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(())
}

/// The MSRs of one CPU.
pub struct Msrs {
    cpu: usize,
    file: File,
    _allow_writes: Setting,
}

impl Msrs {
    /// The MSRs of a CPU, which must be online.
    pub fn of_cpu(cpu: usize) -> Result<Self> {
        load_driver()?;
        let path = format!("/dev/cpu/{cpu}/msr");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .with_context(|| path.clone())?;
        Ok(Self {
            cpu,
            file,
            _allow_writes: Setting::change(ALLOW_WRITES, "on")?,
        })
    }

    /// The CPU.
    pub fn cpu(&self) -> usize {
        self.cpu
    }

    /// RDMSR. An error if the CPU has no such register.
    pub fn read(&self, address: u32) -> Result<u64> {
        let mut value = [0; 8];
        let result = self.file.read_exact_at(&mut value, address.into());
        self.check("RDMSR", address, result)?;
        Ok(u64::from_le_bytes(value))
    }

    /// WRMSR. An error if the CPU has no such register, or refuses the value.
    pub fn write(&self, address: u32, value: u64) -> Result<()> {
        let result = self.file.write_all_at(&value.to_le_bytes(), address.into());
        self.check("WRMSR", address, result)
            .with_context(|| format!("value {value:#x}"))
    }

    fn check(&self, what: &str, address: u32, result: io::Result<()>) -> Result<()> {
        match result {
            Ok(()) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EIO) => {
                bail!("{what} {address:#x} raises #GP on CPU {}", self.cpu)
            }
            Err(error) => {
                Err(error).with_context(|| format!("{what} {address:#x} on CPU {}", self.cpu))
            }
        }
    }
}

/// The addresses of the PMU's MSRs, by CPUID.
///
/// Intel: SDM vol. 4, table "IA-32 Architectural MSRs"; version 6 has these addresses,
/// too, for its first eight counters. AMD: APM vol. 2, appendix "MSR Cross-Reference".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmuMsrs {
    /// PERFEVTSEL or PERF_CTL: what each general counter counts.
    pub eventsels: Vec<u32>,
    /// The general counters.
    pub counters: Vec<u32>,
    /// FIXED_CTR_CTRL: what the fixed counters count.
    pub fixed_ctrl: Option<u32>,
    /// The fixed counters.
    pub fixed_counters: Vec<u32>,
    /// GLOBAL_CTRL: which counters count.
    pub global_ctrl: Option<u32>,
    /// GLOBAL_STATUS: which counters have overflowed.
    pub global_status: Option<u32>,
    /// The bits of all counters in GLOBAL_CTRL and GLOBAL_STATUS.
    pub all: u64,
}

impl PmuMsrs {
    /// The MSRs of the CPU that this runs on. All CPUs are alike here.
    pub fn of_this_cpu() -> Self {
        Self::of(&CpuPmu::probe())
    }

    /// The bits of the counters that may run.
    pub fn running(&self, msrs: &Msrs) -> Result<u64> {
        self.global_ctrl.map_or(Ok(u64::MAX), |it| msrs.read(it))
    }

    /// The EVENTSELs of the general counters that run, and the addresses of the counters. The
    /// EVENTSEL of a counter that is off may be anything.
    pub fn running_general(&self, msrs: &Msrs) -> Result<Vec<(u64, u32)>> {
        const EN: u64 = 1 << 22;
        let running = self.running(msrs)?;
        let mask = CpuPmu::probe().general_mask;
        let numbers = (0..64).filter(|i| mask & (1 << i) != 0);
        let mut general = Vec::new();
        for ((eventsel, counter), i) in self.eventsels.iter().zip(&self.counters).zip(numbers) {
            let eventsel = msrs.read(*eventsel)?;
            if running & (1 << i) != 0 && eventsel & EN != 0 {
                general.push((eventsel, *counter));
            }
        }
        Ok(general)
    }

    fn of(cpu: &CpuPmu) -> Self {
        let general = || (0..64).filter(|i| cpu.general_mask & (1 << i) != 0);
        let fixed = (0..16).filter(|i| cpu.fixed_mask & (1 << i) != 0);
        let global = |address| cpu.global_control.then_some(address);
        if cpu.is_amd() {
            let (eventsel, counter, stride) = match cpu.perfctr_core {
                true => (0xc001_0200, 0xc001_0201, 2),
                false => (0xc001_0000, 0xc001_0004, 1),
            };
            Self {
                eventsels: general().map(|i| eventsel + stride * i).collect(),
                counters: general().map(|i| counter + stride * i).collect(),
                fixed_ctrl: None,
                fixed_counters: Vec::new(),
                global_ctrl: global(0xc000_0301),
                global_status: global(0xc000_0300),
                all: cpu.general_mask,
            }
        } else {
            Self {
                eventsels: general().map(|i| 0x186 + i).collect(),
                counters: general().map(|i| 0xc1 + i).collect(),
                fixed_ctrl: (cpu.fixed > 0).then_some(0x38d),
                fixed_counters: fixed.map(|i| 0x309 + i).collect(),
                global_ctrl: global(0x38f),
                global_status: global(0x38e),
                all: cpu.general_mask | (cpu.fixed_mask << 32),
            }
        }
    }

    /// The registers that say what the counters count.
    pub fn controls(&self) -> impl Iterator<Item = u32> + '_ {
        self.eventsels.iter().copied().chain(self.fixed_ctrl)
    }

    /// The general and the fixed counters.
    pub fn all_counters(&self) -> impl Iterator<Item = u32> + '_ {
        self.counters.iter().chain(&self.fixed_counters).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmu::Vendor;

    const INTEL: CpuPmu = CpuPmu {
        vendor: Vendor::Intel,
        family: 6,
        version: 6,
        general: 4,
        general_mask: 0x2b,
        width: 48,
        fixed: 3,
        fixed_mask: 0b111,
        perfctr_core: false,
        global_control: true,
    };

    #[test]
    fn a_missing_counter_has_no_msrs() {
        let msrs = PmuMsrs::of(&INTEL);
        assert_eq!(msrs.eventsels, [0x186, 0x187, 0x189, 0x18b]);
        assert_eq!(msrs.counters, [0xc1, 0xc2, 0xc4, 0xc6]);
        assert_eq!(msrs.all, 0x7_0000_002b);
        assert_eq!(msrs.controls().last(), Some(0x38d));
        assert_eq!(msrs.all_counters().last(), Some(0x30b));
    }

    #[test]
    fn amd_has_two_layouts() {
        let amd = CpuPmu {
            vendor: Vendor::Amd,
            version: 0,
            general: 2,
            general_mask: 0b11,
            fixed: 0,
            fixed_mask: 0,
            global_control: false,
            ..INTEL
        };
        let msrs = PmuMsrs::of(&amd);
        assert_eq!(msrs.eventsels, [0xc001_0000, 0xc001_0001]);
        assert_eq!(msrs.counters, [0xc001_0004, 0xc001_0005]);
        assert_eq!(msrs.global_ctrl, None);
        let msrs = PmuMsrs::of(&CpuPmu {
            perfctr_core: true,
            ..amd
        });
        assert_eq!(msrs.eventsels, [0xc001_0200, 0xc001_0202]);
        assert_eq!(msrs.counters, [0xc001_0201, 0xc001_0203]);
    }
}
