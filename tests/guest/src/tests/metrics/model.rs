// SPDX-License-Identifier: GPL-2.0
//! What becomes of an event: its count of [`PATTERN`] on the model of this CPU, or the errno.

use std::fs;

use anyhow::{anyhow, bail, Context, Result};
use libc::{EINVAL, ENOENT};
use pmu_model::event::PATTERN_INSTRUCTIONS;
use pmu_model::{msr, Config, Retired, Signature};

use super::stat::Attr;
use crate::generic_events::{HARDWARE_EVENTS, PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE};
use crate::pmu::{signature, CpuPmu, Pmu};
use crate::program::{PATTERN, PATTERN_ROUNDS};

/// `enum perf_type_id` (`include/uapi/linux/perf_event.h`).
pub const PERF_TYPE_RAW: u32 = 4;

/// What [`PATTERN`] retires.
fn retired() -> Retired {
    const ROUNDS: u64 = PATTERN_ROUNDS;
    const JUMPS: u64 = 255;
    let conditional = 4 * ROUNDS;
    let near_unconditional = 3 * ROUNDS + JUMPS;
    Retired {
        instructions: PATTERN.instructions,
        // The last one is the system call.
        branches: conditional + near_unconditional + 1,
        conditional,
        conditional_taken: 2 * ROUNDS + ROUNDS / 2 - 1,
        near_unconditional,
        loads: 5 * ROUNDS,
        stores: 3 * ROUNDS,
    }
}

/// What a counter counts of [`PATTERN`] on the model of this CPU.
pub struct Model {
    config: Config,
    amd: bool,
}

impl Model {
    pub fn of_this_cpu() -> Result<Self> {
        let vendor = CpuPmu::probe().vendor;
        let (family, model) = signature();
        let signature = Signature {
            family: family as u16,
            model: model as u8,
            stepping: 0,
        };
        let config = Config::of_processor(vendor, signature, false);
        Ok(Self {
            config: config.context("the model does not know this CPU")?,
            amd: vendor.is_amd(),
        })
    }

    /// The count of a raw event: of a counter that can count it, as it is 0 on the others.
    fn count(&self, attr: &Attr, run: Run) -> Result<u64> {
        if attr.exclude_host {
            return Ok(0);
        }
        let (code, unit_mask) = (attr.config & 0xff, attr.config >> 8);
        if let (false, 0, 0x80..=0x87) = (self.amd, code, unit_mask) {
            return self.slots_of(unit_mask & 7, run);
        }
        let counters = 0..u32::from(self.config.shape.general);
        let counts = counters.map(|counter| self.count_on(counter, attr, run));
        let counts: Vec<_> = counts.collect::<Result<_>>()?;
        Ok(counts.into_iter().max().unwrap_or(0))
    }

    fn count_on(&self, counter: u32, attr: &Attr, run: Run) -> Result<u64> {
        const EVENTSEL: u64 = msr::EventSel::EN | msr::EventSel::USR;
        let mut registers = Vec::new();
        let address = if self.amd {
            // A pair counts all floating-point operations, and other events as one counter does.
            const MERGE: u64 = 0xf_0000_00ff;
            let ctl = msr::PERF_CTL0 + 2 * counter;
            if counter % 2 == 0 {
                registers.push((ctl + 2, MERGE | msr::EventSel::EN));
            }
            registers.push((ctl, attr.config | EVENTSEL));
            registers.push((msr::PERF_CNTR_GLOBAL_CTL, u64::MAX));
            msr::PERF_CTR0 + 2 * counter
        } else {
            match attr.config & 0xffff {
                0x01b7 | 0x012a => registers.push((msr::MSR_OFFCORE_RSP_0, attr.config1)),
                0x01bb | 0x012b => registers.push((msr::MSR_OFFCORE_RSP_1, attr.config1)),
                _ => {}
            }
            // What fixed counters count, by the codes that no general counter has.
            let config = match attr.config {
                0x0100 => 0x00c0,
                0x0200 => 0x003c,
                0x0300 => 0x013c,
                0x0400 => 0x01a4,
                config => config,
            };
            registers.push((msr::IA32_PERFEVTSEL0 + counter, config | EVENTSEL));
            registers.push((msr::IA32_PERF_GLOBAL_CTRL, 1 << counter));
            msr::IA32_PMC0 + counter
        };
        let [count] = self.read(&registers, run, [address])?;
        Ok(count)
    }

    /// The part of the slots that a field of PERF_METRICS says.
    fn slots_of(&self, field: u64, run: Run) -> Result<u64> {
        const USER: u64 = 2;
        const FIXED_3: u64 = 1 << 35;
        let registers = [
            (msr::IA32_FIXED_CTR_CTRL, USER << (3 * 4)),
            (msr::IA32_PERF_GLOBAL_CTRL, msr::PERF_METRICS_BIT | FIXED_3),
        ];
        let addresses = [msr::IA32_FIXED_CTR0 + 3, msr::MSR_PERF_METRICS];
        let [slots, metrics] = self.read(&registers, run, addresses)?;
        Ok(slots * ((metrics >> (8 * field)) & 0xff) / 0xff)
    }

    /// What is in registers after [`PATTERN`]. Others are written before, GLOBAL_CTRL as the last.
    fn read<const N: usize>(
        &self,
        write: &[(u32, u64)],
        run: Run,
        read: [u32; N],
    ) -> Result<[u64; N]> {
        let mut pmu = pmu_model::Pmu::new(self.config)?;
        let wrmsr = |pmu: &mut pmu_model::Pmu, register: u32, value: u64| -> Result<()> {
            let result = pmu.wrmsr(register, value);
            result.map_err(|error| anyhow!("WRMSR {register:#x}, {value:#x}: {error:?}"))
        };
        for (register, value) in write {
            wrmsr(&mut pmu, *register, *value)?;
        }
        let user = |retired| [retired, Retired::default()];
        let mut rest = retired();
        if let (Run::Interrupted, Some((global_ctrl, enabled))) = (run, write.last()) {
            // So many instructions, some of which are branches, and load and store.
            let some = |instructions, some| Retired {
                instructions,
                branches: some,
                loads: some,
                stores: some,
                ..Retired::default()
            };
            pmu.retire(&user(some(BEFORE, BEFORE)));
            wrmsr(&mut pmu, *global_ctrl, 0)?;
            pmu.retire(&user(some(PATTERN_INSTRUCTIONS - BEFORE, 1)));
            wrmsr(&mut pmu, *global_ctrl, *enabled)?;
            rest.instructions -= BEFORE;
            rest.branches -= BEFORE;
            rest.loads -= BEFORE;
            rest.stores -= BEFORE;
        }
        pmu.retire(&user(rest));
        let mut values = [0; N];
        for (value, register) in values.iter_mut().zip(read) {
            let result = pmu.rdmsr(register);
            *value = result.map_err(|error| anyhow!("RDMSR {register:#x}: {error:?}"))?;
        }
        Ok(values)
    }
}

/// How [`PATTERN`] runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Alone,
    /// Another task runs in user mode meanwhile. Every event that occurs once in some instructions,
    /// branches, loads or stores occurs there once instead.
    Interrupted,
}

/// The instructions of [`Run::Interrupted`] before the other task, all of which are branches, and
/// load and store. With one more there would be a mispredicted branch, and misses.
const BEFORE: u64 = 63;

/// What should become of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// It is opened, and counts this.
    Count {
        count: u64,
        /// Whether that is so if another task runs meanwhile.
        always: bool,
    },
    /// It is refused with this errno.
    Refused(i32),
    /// It is of another PMU than the CPU's.
    Other,
}

/// A cache event: its id (`perf_event_open(2)`), its code, and the value of the register that it
/// needs.
type CacheEvent = (u64, u64, u64);

/// The code of an event that makes no sense for the driver.
const INVALID: u64 = u64::MAX;

/// Those that metrics have and the CPU, too: `skl_hw_cache_event_ids` and `skl_hw_cache_extra_regs`
/// in arch/x86/events/intel/core.c.
const SKYLAKE_CACHE: &[CacheEvent] = &[
    (0x00000, 0x81d0, 0),
    (0x10000, 0x0151, 0),
    (0x10001, 0x0283, 0),
    (0x00002, 0x01b7, 0x3f_c001_0001),
    (0x10002, 0x01b7, 0x3f_fc02_0001),
    (0x00003, 0x81d0, 0),
    (0x10003, 0x0e08, 0),
    (0x00004, 0x2085, 0),
    (0x10004, 0x0e85, 0),
];

/// `glc_hw_cache_event_ids` and `glc_hw_cache_extra_regs`.
const GOLDEN_COVE_CACHE: &[CacheEvent] = &[
    (0x00000, 0x81d0, 0),
    (0x10000, 0xe124, 0),
    (0x10001, 0xe424, 0),
    (0x00002, 0x012a, 0x1_0001),
    (0x10002, 0x012a, 0x3f_bfc0_0001),
    (0x00003, 0x81d0, 0),
    (0x10003, 0x0e12, 0),
    (0x00004, INVALID, 0),
    (0x10004, 0x0e11, 0),
];

/// `amd_hw_cache_event_ids_f17h` in arch/x86/events/amd/core.c.
const ZEN_CACHE: &[CacheEvent] = &[
    (0x00000, 0x0040, 0),
    (0x10000, 0xc860, 0),
    (0x00200, 0xff5a, 0),
    (0x00001, 0x0080, 0),
    (0x10001, 0x0081, 0),
    (0x00003, 0xff45, 0),
    (0x10003, 0xf045, 0),
    (0x00004, 0x0084, 0),
    (0x10004, 0xff85, 0),
];

fn cache_events() -> Result<&'static [CacheEvent]> {
    Ok(match signature() {
        (6, 0x55) => SKYLAKE_CACHE,
        (6, 0x8f) => GOLDEN_COVE_CACHE,
        (0x19, 0x11) => ZEN_CACHE,
        (family, model) => bail!("family {family:#x} model {model:#x} is not in the table"),
    })
}

/// Finds out what should become of an event.
pub fn due(pmu: &Pmu, model: &Model, attr: &Attr) -> Result<Due> {
    let raw = |config, config1| Attr {
        type_: PERF_TYPE_RAW,
        config,
        config1,
        ..*attr
    };
    let attr = match attr.type_ {
        PERF_TYPE_RAW => *attr,
        PERF_TYPE_HARDWARE => {
            let file = HARDWARE_EVENTS
                .get(attr.config as usize)
                .context("no such event")?;
            let file = pmu.dir().join("events").join(file);
            match fs::read_to_string(file) {
                Ok(terms) => raw(pmu.encode(terms.trim_end())?, 0),
                Err(_) => return Ok(Due::Refused(ENOENT)),
            }
        }
        PERF_TYPE_HW_CACHE => {
            let mut events = cache_events()?.iter();
            match events.find(|event| event.0 == attr.config) {
                Some((_, INVALID, _)) => return Ok(Due::Refused(EINVAL)),
                Some((_, code, register)) => raw(*code, *register),
                None => return Ok(Due::Refused(ENOENT)),
            }
        }
        _ => return Ok(Due::Other),
    };
    let count = model.count(&attr, Run::Alone)?;
    Ok(Due::Count {
        count,
        always: model.count(&attr, Run::Interrupted)? == count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(vendor: pmu_model::Vendor, family: u16, model: u8) -> Model {
        let signature = Signature {
            family,
            model,
            stepping: 0,
        };
        let config = Config::of_processor(vendor, signature, false);
        Model {
            config: config.unwrap(),
            amd: vendor.is_amd(),
        }
    }

    /// The count of an event, and whether it is always the same.
    fn count(model: &Model, config: u64, config1: u64) -> (u64, bool) {
        let attr = Attr {
            type_: PERF_TYPE_RAW,
            config,
            config1,
            ..Attr::default()
        };
        let [count, other] = [Run::Alone, Run::Interrupted].map(|run| model.count(&attr, run));
        let count = count.unwrap();
        (count, count == other.unwrap())
    }

    /// The numbers are those of the formulas in `pmu-model/src/event/mod.rs`.
    #[test]
    fn counts_are_those_of_the_formulas() {
        let all = PATTERN.instructions;
        let sapphire_rapids = model(pmu_model::Vendor::Intel, 6, 0x8f);
        for (config, config1, expected) in [
            (0x00c0, 0, (all, true)),
            (0x0100, 0, (all, true)),
            (0x81d0, 0, (5 * PATTERN_ROUNDS, true)),
            (0x10c4, 0, (196_609, true)),
            (0x012a, 0x7, (4 * all, true)),
            // LLC-loads and LLC-load-misses: bit 22 is the lowest response.
            (0x012a, 0x1_0001, (2 * all, true)),
            (0x012a, 0x3f_bfc0_0001, (2 * (all / 64), false)),
            (0xe124, 0, (5 * PATTERN_ROUNDS / 64, false)),
            // MEM_LOAD_RETIRED.L1_HIT, which only some counters count.
            (0x01d1, 0, (all, true)),
            (0x003c, 0, (4_516_000, false)),
            (0x0300, 0, (3_387_000, false)),
            (0x00c5, 0, (14_340, false)),
            (0x412e, 0, (1_025, false)),
            (0x4f2e, 0, (16_400, false)),
            (0x0400, 0, (4 * 4_516_000, false)),
            (0x8000, 0, (4 * 4_516_000 * 59 / 255, false)),
            // Nothing.
            (0x9999, 0, (0, true)),
        ] {
            let found = count(&sapphire_rapids, config, config1);
            assert_eq!(found, expected, "{config:#x}");
        }
        let zen_4 = model(pmu_model::Vendor::Amd, 0x19, 0x11);
        for (config, expected) in [
            (0x00c0, (all, true)),
            (0x00c4, (721_151, true)),
            (0x1f03, (5 * 7 * all, true)),
            (0x0076, (4_516_000, false)),
            (0x0964, (1_025, false)),
        ] {
            assert_eq!(count(&zen_4, config, 0), expected, "{config:#x}");
        }
    }

    #[test]
    fn the_pattern_adds_the_same_wherever_it_starts() {
        let retired = retired();
        assert_eq!(retired.instructions % PATTERN_INSTRUCTIONS, 0);
        assert_eq!(retired.branches % 256, 0);
        assert!(retired.conditional + retired.near_unconditional < retired.branches);
        assert!(retired.conditional_taken < retired.conditional);
    }
}
