// SPDX-License-Identifier: GPL-2.0

//! Real processors, by the signature that CPUID leaf 1 reports.
//!
//! A generation (`crate::generation`) is what the manuals describe for all processors of
//! one version of the PMU. This table has what a version leaves to the processor.
//!
//! A processor that is not in the table is an architectural one: it has what its version
//! guarantees, and nothing else.

use crate::config::Vendor;

mod intel;

/// What CPUID leaf 1 reports of a processor (SDM vol. 2A, CPUID, "INPUT EAX = 01H: Returns
/// Model, Family, Stepping Information"). AMD's leaf has the same fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The family, extended family included.
    pub family: u16,
    /// The model, extended model included.
    pub model: u8,
    /// The stepping.
    pub stepping: u8,
}

/// Processors whose PMUs are the same.
#[derive(Debug)]
pub(crate) struct Processor {
    /// Their families and models.
    signatures: &'static [(u16, &'static [u8])],
    /// The registers of the PMU that are not architectural.
    msrs: &'static [ModelMsr],
}

/// A register that exists on some processors only. It has no effect: the events that it
/// describes are not modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModelMsr {
    address: u32,
    /// The bits that are not reserved.
    pub(crate) writable: u64,
}

/// The highest number of such registers that one processor has.
pub(crate) const MAX_MODEL_MSRS: usize = 6;

/// The processor with this signature, `None` if the table does not have it.
pub(crate) fn find(vendor: Vendor, signature: Signature) -> Option<&'static Processor> {
    let table: &[Processor] = match vendor {
        Vendor::Intel => intel::PROCESSORS,
        Vendor::Amd | Vendor::Zhaoxin => &[],
    };
    table.iter().find(|processor| processor.has(signature))
}

impl Processor {
    fn has(&self, signature: Signature) -> bool {
        let mut signatures = self.signatures.iter();
        signatures.any(|(family, models)| {
            *family == signature.family && models.contains(&signature.model)
        })
    }

    /// The index of the register at an address, less than [`MAX_MODEL_MSRS`].
    pub(crate) fn msr_index(&self, address: u32) -> Option<usize> {
        self.msrs.iter().position(|msr| msr.address == address)
    }

    /// The register of an index that [`Processor::msr_index`] has returned.
    pub(crate) fn msr(&self, index: usize) -> ModelMsr {
        self.msrs[index]
    }

    /// Whether another processor of the same vendor has a register at this address. If
    /// this one has none there, an access raises #GP.
    pub(crate) fn is_model_msr(address: u32) -> bool {
        intel::PROCESSORS
            .iter()
            .any(|processor| processor.msr_index(address).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_in_the_table_once() {
        let mut all: Vec<(u16, u8)> = intel::PROCESSORS
            .iter()
            .flat_map(|processor| processor.signatures)
            .flat_map(|(family, models)| models.iter().map(|model| (*family, *model)))
            .collect();
        let entries = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), entries);
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
}
