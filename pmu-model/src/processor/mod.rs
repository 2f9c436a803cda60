// SPDX-License-Identifier: GPL-2.0

//! Real processors, by the signature that CPUID leaf 1 reports.
//!
//! A generation (`crate::generation`) is what the manuals describe for all processors of
//! one version of the PMU. This table has what a version leaves to the processor.
//!
//! A processor that is not in the table is an architectural one: it has what its version
//! guarantees, and nothing else.

use core::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::{
    error::ConfigError,
    event::Event,
    lbr::Lbrs,
    msr::{EventSel, MSR_PERF_METRICS},
    shape::Shape,
    vendor::Vendor,
};
use constraint::{Constraint, GeneralCounters};

mod amd;
mod constraint;
mod hybrid;
mod intel;

pub use hybrid::CoreType;
pub(crate) use hybrid::{find_core, Core, Report};

/// What CPUID leaf 1 reports of a processor (SDM vol. 2A, CPUID, "INPUT EAX = 01H: Returns
/// Model, Family, Stepping Information"). AMD's leaf has the same fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// The family, extended family included.
    pub family: u16,
    /// The model, extended model included.
    pub model: u8,
    /// The stepping.
    pub stepping: u8,
}

/// Models of one family.
#[derive(Debug)]
enum Models {
    These(&'static [u8]),
    Ranges(&'static [RangeInclusive<u8>]),
    All,
}

impl Models {
    fn contains(&self, model: u8) -> bool {
        match self {
            Models::These(models) => models.contains(&model),
            Models::Ranges(ranges) => ranges.iter().any(|range| range.contains(&model)),
            Models::All => true,
        }
    }
}

/// The counters of a processor.
#[derive(Debug)]
struct Counters {
    /// The version, as [`Config`](crate::Config) numbers it.
    version: u8,
    /// The general-purpose counters of a logical processor, if its core has no other.
    general: u8,
    /// The general-purpose counters of a logical processor that shares its core with another one.
    general_of_thread: u8,
    fixed: u8,
    width: u8,
    full_width: bool,
    /// The number of fields of PERF_METRICS, 0 if it does not exist.
    metrics: u8,
    /// Whether RDPMC can clear them (PERF_CAPABILITIES.RDPMC_METRICS_CLEAR).
    metrics_clear: bool,
    /// Whether RDPMC of a counter can be disabled in user mode
    /// (CPUID.(23H,0):EBX.RDPMC_USER_DISABLE).
    rdpmc_user_disable: bool,
    /// Whether a general-purpose counter must be cleared before it counts a new event, see
    /// `crate::selection`.
    needs_clearing: bool,
}

/// Processors whose PMUs are the same.
#[derive(Debug)]
pub(crate) struct Processor {
    /// Their families and models.
    signatures: &'static [(u16, Models)],
    counters: Counters,
    /// The last branch records.
    lbrs: Option<Lbrs>,
    /// The registers of the PMU that are not architectural.
    msrs: &'static [ModelMsr],
    /// The events that only some general-purpose counters count. The first one that
    /// applies to an event counts.
    constraints: &'static [Constraint],
    /// The events of kinds of instructions that are not architectural, by what EVENTSEL has for each:
    /// the event select and the unit masks.
    retired: &'static [(u64, Event)],
    /// The events of caches and TLBs, by what EVENTSEL has for each.
    caches: &'static [(u64, Event)],
}

/// A register that exists on some processors only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModelMsr {
    address: u32,
    /// The bits that are not reserved.
    pub(crate) writable: u64,
    /// The events that it describes: the unit mask of each in the upper byte, and the event
    /// select. If there are none, it has no effect.
    codes: &'static [u16],
    /// Which of its bits mean what in these events.
    responses: ResponseBits,
    /// Whether the threads of a core have it in common.
    pub(crate) of_core: bool,
}

/// The bits of a register that describes responses, see [`crate::event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ResponseBits {
    /// The requests. All other bits are responses.
    requests: u64,
    /// The lowest response.
    lowest: u8,
    /// Any response, whatever other responses are set.
    any: u64,
}

impl ModelMsr {
    /// The event that the register describes with this value.
    pub(crate) fn responses(&self, value: u64) -> Event {
        let ResponseBits {
            requests,
            lowest,
            any,
        } = self.responses;
        let distance = match value & !requests {
            0 => 0,
            responses if responses & any != 0 => 0,
            responses => (responses.trailing_zeros() as u8).saturating_sub(lowest),
        };
        Event::Responses {
            each: 1 + (value & requests).count_ones() as u8,
            distance: distance.min(Event::FURTHEST),
        }
    }
}

/// The highest number of such registers that one processor has.
pub(crate) const MAX_MODEL_MSRS: usize = 7;

fn table(vendor: Vendor) -> &'static [Processor] {
    match vendor {
        Vendor::Intel => intel::PROCESSORS,
        Vendor::Amd | Vendor::Hygon => amd::PROCESSORS,
        // There is one version, and all processors have the same counters.
        Vendor::Zhaoxin => &[],
    }
}

/// The processor with this signature, `None` if the table does not have it.
pub(crate) fn find(vendor: Vendor, signature: Signature) -> Option<&'static Processor> {
    table(vendor)
        .iter()
        .find(|processor| processor.has(signature))
}

/// Whether some processor of the vendor has a register at this address. If one in the
/// table has none there, an access raises #GP.
pub(crate) fn is_model_msr(vendor: Vendor, address: u32) -> bool {
    table(vendor).iter().any(|processor| {
        let is_metrics = address == MSR_PERF_METRICS && processor.metrics() > 0;
        is_metrics || processor.msr_index(address).is_some()
    })
}

fn matches(signatures: &[(u16, Models)], signature: Signature) -> bool {
    let mut signatures = signatures.iter();
    signatures
        .any(|(family, models)| *family == signature.family && models.contains(signature.model))
}

impl Processor {
    fn has(&self, signature: Signature) -> bool {
        matches(self.signatures, signature)
    }

    /// The version and the counters. `smt` says whether two logical processors share a
    /// core.
    pub(crate) fn pmu(&self, smt: bool) -> (u8, Shape) {
        let Counters {
            version,
            general,
            general_of_thread,
            fixed,
            width,
            full_width,
            metrics: _,
            needs_clearing: _,
            metrics_clear: _,
            rdpmc_user_disable: _,
        } = self.counters;
        let shape = Shape {
            general: if smt { general_of_thread } else { general },
            missing: 0,
            fixed,
            width,
            full_width,
        };
        (version, shape)
    }

    /// The last branch records.
    pub(crate) fn lbrs(&self) -> Option<Lbrs> {
        self.lbrs
    }

    /// The number of fields of PERF_METRICS, 0 if it does not exist.
    pub(crate) fn metrics(&self) -> u8 {
        self.counters.metrics
    }

    /// Whether a general-purpose counter must be cleared before it counts a new event.
    pub(crate) fn needs_clearing(&self) -> bool {
        self.counters.needs_clearing
    }

    /// Whether RDPMC of a counter can be disabled in user mode.
    pub(crate) fn rdpmc_user_disable(&self) -> bool {
        self.counters.rdpmc_user_disable
    }

    /// Whether RDPMC can clear PERF_METRICS.
    pub(crate) fn metrics_clear(&self) -> bool {
        self.counters.metrics_clear
    }

    /// The event of a kind of instructions, or of a cache. `None` if it is no such event.
    pub(crate) fn listed(&self, eventsel: EventSel) -> Option<Event> {
        const CODE: u64 = 0xffff | EventSel::EVENT_HIGH | EventSel::UMASK2;
        let mut events = self.retired.iter().chain(self.caches);
        let (_, event) = events.find(|(code, _)| *code == eventsel.0 & CODE)?;
        Some(*event)
    }

    /// The general-purpose counters that count an event. `None` if the list
    /// does not restrict the event.
    pub(crate) fn constraint(&self, eventsel: EventSel) -> Option<GeneralCounters> {
        // The lists have no event of the second unit mask.
        if eventsel.0 & EventSel::UMASK2 != 0 {
            return None;
        }
        constraint::counters(self.constraints, eventsel)
    }

    /// Whether an event disturbs the other thread of the core, see [`crate::SmtCore`].
    pub(crate) fn disturbs(&self, eventsel: EventSel) -> bool {
        constraint::disturbs(self.constraints, eventsel)
    }

    /// The index of the register that describes an event, less than [`MAX_MODEL_MSRS`].
    pub(crate) fn msr_of(&self, eventsel: EventSel) -> Option<usize> {
        if eventsel.0 & EventSel::UMASK2 != 0 {
            return None;
        }
        let code = u16::from_le_bytes([eventsel.event(), eventsel.umask()]);
        self.msrs.iter().position(|msr| msr.codes.contains(&code))
    }

    /// The indices of the registers that the threads of a core have in common.
    pub(crate) fn msrs_of_core(&self) -> impl Iterator<Item = usize> {
        let msrs = self.msrs.iter().enumerate();
        msrs.filter(|(_, msr)| msr.of_core).map(|(index, _)| index)
    }

    /// The number of registers, at most [`MAX_MODEL_MSRS`].
    pub(crate) fn msr_count(&self) -> usize {
        self.msrs.len()
    }

    /// The index of the register at an address, less than [`MAX_MODEL_MSRS`].
    pub(crate) fn msr_index(&self, address: u32) -> Option<usize> {
        self.msrs.iter().position(|msr| msr.address == address)
    }

    /// The register of an index that [`Processor::msr_index`] has returned.
    pub(crate) fn msr(&self, index: usize) -> ModelMsr {
        self.msrs[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_in_the_table_once() {
        for table in [intel::PROCESSORS, amd::PROCESSORS] {
            for family in 0..0x20 {
                for model in 0..=u8::MAX {
                    let signature = Signature {
                        family,
                        model,
                        stepping: 0,
                    };
                    let entries = table.iter().filter(|it| it.has(signature));
                    assert!(entries.count() <= 1, "{signature:?}");
                }
            }
        }
    }

    #[test]
    fn registers_fit_and_are_in_a_list_once() {
        for processor in intel::PROCESSORS {
            let msrs = processor.msrs;
            assert!(msrs.len() <= MAX_MODEL_MSRS, "{processor:?}");
            for (i, msr) in msrs.iter().enumerate() {
                assert_eq!(processor.msr_index(msr.address), Some(i), "{processor:?}");
            }
        }
    }

    #[test]
    fn one_register_describes_an_event() {
        for processor in intel::PROCESSORS {
            for (i, msr) in processor.msrs.iter().enumerate() {
                for &code in msr.codes {
                    let eventsel = EventSel(EventSel::EN | EventSel::USR | u64::from(code));
                    assert_eq!(processor.msr_of(eventsel), Some(i), "{processor:?}");
                }
            }
        }
    }
}
