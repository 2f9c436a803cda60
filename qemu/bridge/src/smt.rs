// SPDX-License-Identifier: GPL-2.0

//! Which vCPUs are threads of the same core.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use pmu_model::SmtCore;

/// The threads of a core. Intel's processors with SMT have two, and QEMU numbers the vCPUs of a
/// core in a row.
const THREADS: usize = 2;

/// The cores of which there is a PMU, by their numbers.
static CORES: Mutex<BTreeMap<usize, Weak<SmtCore>>> = Mutex::new(BTreeMap::new());

/// The core of a vCPU, and the number of its thread there.
pub(crate) fn thread(cpu: u32) -> (Arc<SmtCore>, usize) {
    let cpu = cpu as usize;
    // A panic leaves the map as it was, or with an entry more.
    let mut cores = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = cores.entry(cpu / THREADS).or_default();
    let core = entry.upgrade().unwrap_or_else(|| {
        let core = Arc::new(SmtCore::new(THREADS));
        *entry = Arc::downgrade(&core);
        core
    });
    (core, cpu % THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_vcpus_in_a_row_are_a_core() {
        let [(first, 0), (second, 1), (third, 0)] = [1000, 1001, 1002].map(thread) else {
            panic!("the numbers of the threads");
        };
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&first, &third));
        assert!(Arc::ptr_eq(&third, &thread(1003).0));
    }
}
