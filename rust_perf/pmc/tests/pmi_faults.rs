// SPDX-License-Identifier: GPL-2.0

//! PMIs that are lost, late, doubled or invented, and a register that raises #GP: counts are exact on
//! every generation, and no sample is taken twice.

use crate::common::{amd, config, generations, instructions, take_overflows, Cpu};
use pmc::{
    counter::{Counter, CounterSet},
    period, Counters, Msr, Registers, Shadow,
};
use pmu_model::{Config, Defect, Mode, PmiFault};
use std::num::NonZeroU64;

const PERIOD: u64 = 1_000;
const TOTAL: u64 = 20_500;
/// Every third PMI has the fault.
const EVERY: u64 = 3;

/// A CPU on which an access that raises #GP reads as 0 or writes nothing, as the kernel has it.
struct Tolerant(Cpu);

impl Registers for &Tolerant {
    fn rdmsr(self, msr: Msr) -> u64 {
        self.0.pmu.borrow().rdmsr(msr.address()).unwrap_or(0)
    }

    fn wrmsr(self, msr: Msr, value: u64) {
        let _ = self.0.pmu.borrow_mut().wrmsr(msr.address(), value);
    }

    fn rdpmc(self, index: u32) -> u64 {
        self.0.rdpmc(index)
    }
}

/// What came of sampling [`TOTAL`] instructions.
#[derive(Debug, PartialEq)]
struct Sampled {
    /// After how many instructions each sample was taken.
    samples: Vec<u64>,
    /// The PMIs for which no counter had overflowed.
    without_cause: usize,
    /// The instructions that were counted.
    count: u64,
}

/// Samples instructions as the module does, and stops the counter in the end.
fn sample(config: Config, defect: Defect, which: impl Fn(CounterSet) -> Counter) -> Sampled {
    let cpu = Tolerant(Cpu::with_defect(config, defect));
    let caps = cpu.0.detect().unwrap();
    let shadow = Shadow::default();
    let counters = Counters::new(&shadow, &caps, &cpu);
    counters.take_over();
    let counter = which(caps.counters_for(instructions()));
    let (set, width) = (CounterSet::of(counter), caps.width(counter));
    let mut sampled = Sampled {
        samples: Vec::new(),
        without_cause: 0,
        count: 0,
    };
    let (mut left, mut previous) = (PERIOD as i64, 0);
    let arm = |left: &mut i64, previous: &mut u64| {
        let step = period::rearm(*left, PERIOD, caps.max_period());
        *left = step.period_left;
        *previous = period::start_value(step.until_wrap, width);
        counters.program(counter, instructions(), false, *previous);
        step.period_ended
    };
    let update = |previous: &mut u64| {
        let now = counters.read(counter);
        let delta = period::delta(*previous, now, width);
        *previous = now;
        delta
    };
    arm(&mut left, &mut previous);
    counters.run(set);
    let mut done = 0;
    while done < TOTAL {
        let budget = cpu.0.pmu.borrow().budget(Mode::User)[0];
        let step = budget.min(TOTAL - done);
        cpu.0.run(step);
        done += step;
        if !cpu.0.pmu.borrow_mut().take_pmi() {
            continue;
        }
        counters.run(CounterSet::EMPTY);
        if take_overflows(counters, &caps, set).contains(counter) {
            let delta = update(&mut previous);
            sampled.count += delta;
            left -= delta as i64;
            if arm(&mut left, &mut previous) {
                sampled.samples.push(done);
            }
        } else {
            sampled.without_cause += 1;
        }
        counters.run(set);
    }
    counters.run(CounterSet::EMPTY);
    sampled.count += update(&mut previous);
    sampled
}

/// The general counter that comes first, and the fixed counter if there is one.
fn on_each_counter(config: Config, defect: Defect, check: impl Fn(Sampled, &str)) {
    let first = |set: CounterSet| set.gp_part().into_iter().next().unwrap();
    let last = |set: CounterSet| set.into_iter().last().unwrap();
    check(
        sample(config, defect, first),
        &format!("{config:?}, general"),
    );
    check(sample(config, defect, last), &format!("{config:?}, last"));
}

fn every_third(fault: PmiFault) -> Defect {
    Defect::Pmi {
        every: NonZeroU64::new(EVERY).unwrap(),
        fault,
    }
}

fn periods() -> impl Iterator<Item = u64> {
    1..=TOTAL / PERIOD
}

/// After the PMI that is lost the counter goes on, and does not overflow again.
#[test]
fn lost() {
    for config in generations() {
        on_each_counter(config, every_third(PmiFault::Lose), |sampled, what| {
            let expected = Sampled {
                samples: vec![PERIOD, 2 * PERIOD],
                without_cause: 0,
                count: TOTAL,
            };
            assert_eq!(sampled, expected, "{what}");
        });
    }
}

/// What is counted until the PMI arrives belongs to the next period.
#[test]
fn late() {
    for late in [1, 150, 999] {
        for config in generations() {
            on_each_counter(
                config,
                every_third(PmiFault::Delay(late)),
                |sampled, what| {
                    let place = |k| k * PERIOD + if k % EVERY == 0 { late } else { 0 };
                    let expected = Sampled {
                        samples: periods().map(place).collect(),
                        without_cause: 0,
                        count: TOTAL,
                    };
                    assert_eq!(sampled, expected, "{what}, {late}");
                },
            );
        }
    }
}

#[test]
fn doubled() {
    for later in [1, 150, 999] {
        for config in generations() {
            on_each_counter(
                config,
                every_third(PmiFault::Repeat(later)),
                |sampled, what| {
                    let repeated = periods().filter(|k| k % EVERY == 0);
                    let expected = Sampled {
                        samples: periods().map(|k| k * PERIOD).collect(),
                        without_cause: repeated.count(),
                        count: TOTAL,
                    };
                    assert_eq!(sampled, expected, "{what}, {later}");
                },
            );
        }
    }
}

#[test]
fn invented() {
    let every = 501;
    let defect = Defect::Spurious(NonZeroU64::new(every).unwrap());
    for config in generations() {
        on_each_counter(config, defect, |sampled, what| {
            let expected = Sampled {
                samples: periods().map(|k| k * PERIOD).collect(),
                without_cause: (TOTAL / every) as usize,
                count: TOTAL,
            };
            assert_eq!(sampled, expected, "{what}");
        });
    }
}

/// Without GLOBAL_STATUS, or without a way to clear it, samples are lost, but no count is.
#[test]
fn general_protection() {
    const INTEL: [u32; 2] = [0x38e, 0x390];
    const AMD: [u32; 2] = [0xc000_0300, 0xc000_0302];
    for (config, [status, clear]) in [(config(4, 4, 3, 48), INTEL), (amd(3, 6), AMD)] {
        for after in [1, 2, 9] {
            for msr in [status, clear] {
                let defect = Defect::GeneralProtection { msr, after };
                on_each_counter(config, defect, |sampled, what| {
                    assert_eq!(sampled.count, TOTAL, "{what}, {msr:#x}");
                    let allowed: Vec<u64> = periods().map(|k| k * PERIOD).collect();
                    let is_prefix = allowed.starts_with(&sampled.samples);
                    assert!(is_prefix, "{what}, {msr:#x}: {:?}", sampled.samples);
                });
            }
        }
    }
}
