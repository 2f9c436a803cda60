// SPDX-License-Identifier: GPL-2.0

//! Which vCPUs are threads of the same core.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use pmu_model::SmtCore;

/// The cores of which there is a PMU, by the number of their threads, which is the same for all
/// in QEMU, and by their own numbers.
static CORES: Mutex<BTreeMap<[u32; 2], Weak<SmtCore>>> = Mutex::new(BTreeMap::new());

/// The core of a vCPU, and the number of its thread there. QEMU numbers the `threads` of a core,
/// which are not 0, in a row.
pub(crate) fn thread(cpu: u32, threads: u32) -> (Arc<SmtCore>, usize) {
    // A panic leaves the map as it was, or with an entry more.
    let mut cores = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = cores.entry([threads, cpu / threads]).or_default();
    let core = entry.upgrade().unwrap_or_else(|| {
        let core = Arc::new(SmtCore::new(threads as usize));
        *entry = Arc::downgrade(&core);
        core
    });
    (core, (cpu % threads) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vcpus_in_a_row_are_a_core() {
        for threads in [2, 3, 4] {
            let vcpus: Vec<_> = (0..3 * threads).map(|cpu| thread(cpu, threads)).collect();
            for (i, (core, number)) in vcpus.iter().enumerate() {
                assert_eq!(*number, i % threads as usize);
                assert_eq!(core.threads(), threads as usize);
                for (j, (other, _)) in vcpus.iter().enumerate() {
                    let same = i / threads as usize == j / threads as usize;
                    assert_eq!(Arc::ptr_eq(core, other), same, "{i} and {j} of {threads}");
                }
            }
        }
    }
}
