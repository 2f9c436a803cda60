// SPDX-License-Identifier: GPL-2.0

//! CPUs for the tests: the PMU model as a CPU, and CPUID leaves by hand.

// Each test program uses a part of this.
#![allow(dead_code)]

pub mod emulated;
pub mod events;
pub mod recorder;

use pmc::{
    counter::{Counter, CounterSet},
    detect, detect_as,
    event::{EventSel, Modes},
    Capabilities, Counters, CpuidLeaf, Msr, Registers, Shadow,
};
use pmu_model::{Config, Defect, Pmu, Retired, Signature, Vendor};
use std::cell::{Cell, RefCell};

/// The PMU model as a CPU. It counts the accesses to its registers.
pub struct Cpu {
    /// The model.
    pub pmu: RefCell<Pmu>,
    vendor: Vendor,
    signature: Option<Signature>,
    /// The number of threads of its core.
    threads: u32,
    reads: Cell<u32>,
    writes: Cell<u32>,
}

impl Cpu {
    /// A CPU with this PMU, after a reset.
    pub fn new(config: Config) -> Self {
        Self::with_defect(config, Defect::None)
    }

    /// A CPU whose PMU has a defect.
    pub fn with_defect(config: Config, defect: Defect) -> Self {
        Cpu {
            pmu: RefCell::new(Pmu::with_defect(config, defect).unwrap()),
            vendor: config.vendor,
            signature: config.signature,
            threads: 1,
            reads: Cell::new(0),
            writes: Cell::new(0),
        }
    }

    /// A thread of a core that has so many.
    #[must_use]
    pub fn with_threads(self, threads: u32) -> Self {
        Cpu { threads, ..self }
    }

    /// What the driver detects.
    pub fn detect(&self) -> Option<Capabilities> {
        detect(
            |leaf, subleaf| self.cpuid(leaf, subleaf),
            self.perf_capabilities(),
        )
    }

    /// What the driver detects if it is restricted to this generation.
    pub fn detect_as(&self, generation: u8) -> Option<Capabilities> {
        detect_as(
            generation,
            |leaf, subleaf| self.cpuid(leaf, subleaf),
            self.perf_capabilities(),
        )
    }

    fn cpuid(&self, leaf: u32, subleaf: u32) -> CpuidLeaf {
        let pmu = self.pmu.borrow();
        if let Some([eax, ebx, ecx, edx]) = pmu.cpuid_count(leaf, subleaf) {
            return CpuidLeaf { eax, ebx, ecx, edx };
        }
        match (leaf, subleaf) {
            (0, _) => vendor(self.vendor.cpuid().as_bytes().try_into().unwrap()),
            (1, _) => CpuidLeaf {
                eax: self.signature.map_or(0, |it| {
                    let family = u32::from(it.family);
                    leaf_01_eax(family, it.model.into(), it.stepping.into())
                }),
                ..CpuidLeaf::default()
            },
            (7, 0) => CpuidLeaf {
                edx: (u32::from(pmu.hybrid()) << 15) | (u32::from(pmu.has_arch_lbrs()) << 19),
                ..CpuidLeaf::default()
            },
            (7, 1) => CpuidLeaf {
                eax: u32::from(pmu.perfmon_ext()) << 8,
                ..CpuidLeaf::default()
            },
            (0xb, 0) => CpuidLeaf {
                ebx: self.threads,
                ..CpuidLeaf::default()
            },
            // Linear addresses have 48 bits.
            (0x8000_0008, _) => CpuidLeaf {
                eax: 48 << 8,
                ..CpuidLeaf::default()
            },
            (0x8000_0001, _) if pmu.perfctr_core() => CpuidLeaf {
                ecx: 1 << 23,
                ..CpuidLeaf::default()
            },
            _ => CpuidLeaf::default(),
        }
    }

    fn perf_capabilities(&self) -> Option<u64> {
        self.pmu.borrow().perf_capabilities()
    }

    /// Retires instructions in user mode, none of them branches.
    pub fn run(&self, instructions: u64) {
        self.pmu.borrow_mut().retire(&[
            Retired {
                instructions,
                branches: 0,
                ..Retired::default()
            },
            Retired::default(),
        ]);
    }

    /// The number of RDMSRs and WRMSRs in `f`. RDPMC is not counted.
    pub fn cost(&self, f: impl FnOnce()) -> (u32, u32) {
        let before = (self.reads.get(), self.writes.get());
        f();
        (self.reads.get() - before.0, self.writes.get() - before.1)
    }
}

/// CPUID leaves by hand: (leaf, subleaf) and EAX to EDX. All others are 0.
#[derive(Debug)]
pub struct Cpuid(Vec<((u32, u32), [u32; 4])>);

impl Cpuid {
    /// A CPU of this vendor, family, model and stepping.
    pub fn new(name: &[u8; 12], family: u8, model: u8, stepping: u8) -> Self {
        let [family, model, stepping] = [family, model, stepping].map(u32::from);
        let signature = leaf_01_eax(family, model, stepping);
        let CpuidLeaf { eax, ebx, ecx, edx } = vendor(name);
        Cpuid(vec![
            ((0, 0), [eax, ebx, ecx, edx]),
            ((1, 0), [signature, 0, 0, 0]),
        ])
    }

    /// Adds a leaf.
    #[must_use]
    pub fn with(mut self, leaf: u32, subleaf: u32, registers: [u32; 4]) -> Self {
        self.0.push(((leaf, subleaf), registers));
        self
    }

    /// What the driver detects.
    pub fn detect(&self) -> Option<Capabilities> {
        detect(|leaf, subleaf| self.get(leaf, subleaf), None)
    }

    /// What the driver detects with this PERF_CAPABILITIES.
    pub fn detect_with(&self, perf_capabilities: u64) -> Option<Capabilities> {
        let cpuid = |leaf, subleaf| self.get(leaf, subleaf);
        detect(cpuid, Some(perf_capabilities))
    }

    /// What the driver detects if it is restricted to this generation.
    pub fn detect_as(&self, generation: u8) -> Option<Capabilities> {
        detect_as(generation, |leaf, subleaf| self.get(leaf, subleaf), None)
    }

    fn get(&self, leaf: u32, subleaf: u32) -> CpuidLeaf {
        let found = self.0.iter().find(|(at, _)| *at == (leaf, subleaf));
        found.map_or(CpuidLeaf::default(), |&(_, [eax, ebx, ecx, edx])| {
            CpuidLeaf { eax, ebx, ecx, edx }
        })
    }
}

/// EAX of CPUID leaf 1.
fn leaf_01_eax(family: u32, model: u32, stepping: u32) -> u32 {
    let base = family.min(0xf);
    stepping | ((model & 0xf) << 4) | (base << 8) | ((model >> 4) << 16) | ((family - base) << 20)
}

/// CPUID leaf 0 of the vendor with this name.
fn vendor(name: &[u8; 12]) -> CpuidLeaf {
    let word = |at: usize| u32::from_le_bytes(name[at..at + 4].try_into().unwrap());
    CpuidLeaf {
        eax: 0,
        ebx: word(0),
        edx: word(4),
        ecx: word(8),
    }
}

impl Registers for &Cpu {
    fn rdmsr(self, msr: Msr) -> u64 {
        self.reads.set(self.reads.get() + 1);
        self.pmu
            .borrow()
            .rdmsr(msr.address())
            .expect("RDMSR faults")
    }

    fn wrmsr(self, msr: Msr, value: u64) {
        self.writes.set(self.writes.get() + 1);
        self.pmu
            .borrow_mut()
            .wrmsr(msr.address(), value)
            .expect("WRMSR faults");
    }

    fn rdpmc(self, index: u32) -> u64 {
        self.pmu
            .borrow_mut()
            .rdpmc(index, true, false)
            .expect("RDPMC faults")
    }
}

/// Intel's PMU of this version, with these numbers of GP and fixed counters, each
/// of `width` bits.
pub fn config(version: u8, general: u8, fixed: u8, width: u8) -> Config {
    let mut config = Config::new(Vendor::Intel, version).unwrap();
    config.shape.general = general;
    config.shape.fixed = fixed;
    config.shape.width = width;
    config
}

/// The PMU of this model of Intel's family 6.
pub fn intel_model(model: u8) -> Config {
    let signature = Signature {
        family: 6,
        model,
        stepping: 0,
    };
    Config::of_processor(Vendor::Intel, signature, false).unwrap()
}

/// AMD's PMU of this version, as [`Config`] numbers them.
pub fn amd(version: u8, counters: u8) -> Config {
    let mut config = Config::new(Vendor::Amd, version).unwrap();
    config.shape.general = counters;
    config
}

/// AMD's PMU of this version, of a CPU of `family`: from 17H on a Zen.
pub fn amd_family(family: u16, version: u8, counters: u8) -> Config {
    let mut config = amd(version, counters);
    config.signature = Some(Signature {
        family,
        model: 1,
        stepping: 0,
    });
    config
}

/// Every generation, with the fewest and the most counters that it can have.
pub fn generations() -> Vec<Config> {
    let intel = [
        (1, 1, 0),
        (1, 8, 0),
        (2, 1, 0),
        (2, 8, 3),
        (3, 1, 0),
        (3, 8, 3),
        (4, 1, 0),
        (4, 8, 3),
        (5, 1, 0),
        (5, 8, 4),
    ];
    let amd_counters = [(1, 4), (2, 6), (3, 1), (3, 8)];
    let intel = intel.map(|(version, general, fixed)| config(version, general, fixed, 48));
    let amd = amd_counters.map(|(version, counters)| amd(version, counters));
    intel.into_iter().chain(amd).collect()
}

/// The event that every CPU of these tests has.
pub fn instructions() -> EventSel {
    EventSel::from_config(0xc0, EventSel::INTEL, Modes::ALL).unwrap()
}

/// A CPU whose counters the driver owns.
pub struct Driven {
    pub cpu: Cpu,
    pub shadow: Shadow,
    pub caps: Capabilities,
}

impl Driven {
    pub fn new(config: Config) -> Self {
        Self::of(Cpu::new(config))
    }

    /// Drives the counters of a CPU.
    pub fn of(cpu: Cpu) -> Self {
        let caps = cpu.detect().expect("counters that the driver knows");
        Self::take_over(cpu, caps)
    }

    /// Drives the counters as an older generation.
    pub fn new_as(config: Config, generation: u8) -> Self {
        let cpu = Cpu::new(config);
        let caps = cpu.detect_as(generation).expect("an older generation");
        Self::take_over(cpu, caps)
    }

    pub fn take_over(cpu: Cpu, caps: Capabilities) -> Self {
        let shadow = Shadow::default();
        let driven = Driven { cpu, shadow, caps };
        driven.counters().take_over();
        driven
    }

    pub fn counters(&self) -> Counters<'_, &Cpu> {
        Counters::new(&self.shadow, &self.caps, &self.cpu)
    }

    pub fn program(&self, counter: Counter, event: EventSel, value: u64) {
        let takes_pair = self.caps.needs_pair(event);
        self.counters().program(counter, event, takes_pair, value);
    }

    pub fn run(&self, run: CounterSet) {
        self.counters().run(run);
    }

    pub fn read(&self, counter: Counter) -> u64 {
        self.counters().read(counter)
    }

    pub fn take_overflows(&self, active: CounterSet) -> CounterSet {
        take_overflows(self.counters(), &self.caps, active)
    }
}

/// Takes the counters that have overflowed, as the NMI handler does.
pub fn take_overflows<R: Registers>(
    counters: Counters<'_, R>,
    caps: &Capabilities,
    active: CounterSet,
) -> CounterSet {
    if caps.has_global_control() {
        return counters.take_overflows(|_| ());
    }
    let has_wrapped = |&counter: &Counter| counters.wrapped(counter).is_some();
    active.into_iter().filter(has_wrapped).collect()
}

/// Counters that can count instructions.
pub fn count_instructions(driven: &Driven) -> CounterSet {
    driven.caps.counters_for(instructions())
}
