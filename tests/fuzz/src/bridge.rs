// SPDX-License-Identifier: GPL-2.0

//! The C interface of the PMU model: any configuration, and any bytes as a saved state.
//!
//! Nothing panics. A configuration that is refused has a message of one line. A state that is
//! refused changes nothing. A PMU with a state that was accepted works.

use arbitrary::{Result, Unstructured};
use pmu_bridge::*;
use std::{
    ffi::{c_char, CStr, CString},
    mem::MaybeUninit,
    ptr,
};

/// The texts that properties can have, which are changed here and there.
const FAULTS: [&str; 10] = [
    "lose:3",
    "delay:1:1000",
    "repeat:0x10:7",
    "spurious:100000",
    "status:0x70000000f",
    "gp:0x38f:4",
    "mask-lvtpc",
    "garbage:7",
    "foreign:counter:1000:0",
    "efficient:lose:1",
];
const HYBRID: [&str; 4] = ["1", "2", "1+1", "2+1"];
const REF_CYCLES: [&str; 2] = ["instructions", "tsc"];

fn text(u: &mut Unstructured<'_>, texts: &[&str]) -> Result<Option<CString>> {
    if u.ratio(1, 2)? {
        return Ok(None);
    }
    let mut text = u.choose(texts)?.as_bytes().to_vec();
    if u.ratio(1, 4)? {
        damage(u, &mut text)?;
    }
    text.retain(|byte| *byte != 0);
    Ok(CString::new(text).ok())
}

/// Changes some bytes.
fn damage(u: &mut Unstructured<'_>, bytes: &mut Vec<u8>) -> Result<()> {
    for _ in 0..u.int_in_range(1..=4)? {
        let at = u.int_in_range(0..=bytes.len())?;
        match u.int_in_range(0..=3)? {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, u.arbitrary()?),
            2 => bytes.insert(at, u.int_in_range(b'0'..=b'9')?),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = match byte.is_ascii_digit() {
                        true => u.int_in_range(b'0'..=b'9')?,
                        false => u.arbitrary()?,
                    };
                }
            }
        }
    }
    Ok(())
}

/// A pointer to the text that is valid as long as it, or NULL.
fn pointer(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(ptr::null(), |text| text.as_ptr())
}

/// Those that have a PMU, and two that have none.
const VENDORS: [Option<&CStr>; 7] = [
    Some(c"GenuineIntel"),
    Some(c"AuthenticAMD"),
    Some(c"HygonGenuine"),
    Some(c"CentaurHauls"),
    Some(c"  Shanghai  "),
    Some(c"TCGTCGTCGTCG"),
    None,
];

fn create(u: &mut Unstructured<'_>) -> Result<Option<Box<PmuBridge>>> {
    let fault = text(u, &FAULTS)?;
    let hybrid = text(u, &HYBRID)?;
    let ref_cycles = text(u, &REF_CYCLES)?;
    let processor = crate::config(u)?.signature;
    let processor = processor.filter(|_| hybrid.is_some() || u.ratio(1, 2).unwrap_or(true));
    let rarely = |u: &mut Unstructured<'_>| match u.ratio(1, 8)? {
        true => u.arbitrary::<u8>(),
        false => Ok(0),
    };
    let cpus = u.int_in_range(1..=8)?;
    let config = PmuConfig {
        vendor: u.choose(&VENDORS)?.map_or(ptr::null(), CStr::as_ptr),
        threads: u.int_in_range(0..=2)?,
        model: processor.map_or(0, |it| it.model),
        stepping: processor.map_or(0, |it| it.stepping),
        family: processor.map_or(0, |it| it.family),
        version: if processor.is_some() {
            0
        } else {
            u.int_in_range(0..=7)?
        },
        general: rarely(u)?,
        fixed: match u.ratio(1, 8)? {
            true => u.arbitrary()?,
            false => PMU_FIXED_DEFAULT,
        },
        width: rarely(u)?,
        full_width: rarely(u)?,
        lbr: match u.ratio(1, 8)? {
            true => u.arbitrary()?,
            false => PMU_LBR_DEFAULT,
        },
        general_mask: rarely(u)?.into(),
        cpus,
        cpu: u.int_in_range(0..=cpus - 1)?,
        hybrid: pointer(&hybrid),
        ref_cycles: pointer(&ref_cycles),
        fault: pointer(&fault),
        count_accesses: rarely(u)? != 0,
    };
    let mut error = MaybeUninit::<*const c_char>::uninit();
    // SAFETY: Each text is NULL or that of a CString above, which is still there.
    let pmu = unsafe { pmu_new(&config, &mut error) };
    if pmu.is_none() {
        // SAFETY: pmu_new() has returned NULL, so it has set `error` to a static string.
        let message = unsafe { CStr::from_ptr(error.assume_init()) };
        let message = message.to_str().expect("UTF-8");
        assert!(message.starts_with("pmu"), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
    Ok(pmu)
}

fn save(pmu: &PmuBridge) -> Vec<u8> {
    // SAFETY: 0 bytes need not be valid.
    let size = unsafe { pmu_save(pmu, ptr::null_mut(), 0) };
    let mut state = vec![0; size];
    // SAFETY: The vector has `size` bytes.
    let saved = unsafe { pmu_save(pmu, state.as_mut_ptr(), size) };
    assert_eq!(saved, size);
    state
}

/// Restores a state. If it is refused, the PMU is as it was.
fn restore(pmu: &mut PmuBridge, state: &[u8]) -> bool {
    let before = save(pmu);
    // SAFETY: The slice can be read.
    let message = unsafe { pmu_restore(pmu, state.as_ptr(), state.len()) };
    if message.is_null() {
        return true;
    }
    assert_eq!(save(pmu), before, "a state that is refused");
    false
}

/// Uses the PMU.
fn run(u: &mut Unstructured<'_>, pmu: &mut PmuBridge) -> Result<()> {
    for _ in 0..u.int_in_range(0..=20)? {
        let msr = crate::registers::address(u)?;
        let value = match u.arbitrary()? {
            true => u.arbitrary()?,
            false => (1 << u.int_in_range(0..=63)?) - 1,
        };
        let mut read = MaybeUninit::uninit();
        let known = pmu_rdmsr(pmu, msr, &mut read) != PMU_UNKNOWN_MSR;
        assert!(
            known || pmu_wrmsr(pmu, msr, value) == PMU_UNKNOWN_MSR,
            "{msr:#x}"
        );
        pmu_wrmsr(pmu, msr, value);
        let _ = pmu_rdpmc(pmu, u.arbitrary()?, true, true, &mut read);
        let [user, kernel] = [u64::from(u.arbitrary::<u16>()?), u.arbitrary()?];
        let [user, kernel] = [crate::retired(u, user)?, crate::retired(u, kernel)?];
        let counts = PmuCounts {
            instructions: [user.instructions, kernel.instructions],
            branches: [user.branches, kernel.branches],
            conditional: [user.conditional, kernel.conditional],
            conditional_taken: [user.conditional_taken, kernel.conditional_taken],
            near_unconditional: [user.near_unconditional, kernel.near_unconditional],
            loads: [user.loads, kernel.loads],
            stores: [user.stores, kernel.stores],
            tsc: [u.arbitrary::<u32>()?, u.arbitrary::<u32>()?].map(u64::from),
        };
        pmu_retire(pmu, &counts);
        let mut budget = MaybeUninit::new([0; 2]);
        for mode in 0..2 {
            pmu_budget(pmu, mode, &mut budget);
            // SAFETY: It was initialised above.
            assert!(unsafe { budget.assume_init() }[mode as usize] >= 1);
        }
        pmu_tsc_until_overflow(pmu, &mut budget);
        pmu_take_pmi(pmu);
        assert!(pmu_counting(pmu) || !pmu_counts_details(pmu));
    }
    Ok(())
}

/// The target.
pub fn check(u: &mut Unstructured<'_>) -> Result<()> {
    let Some(mut pmu) = create(u)? else {
        return Ok(());
    };
    run(u, &mut pmu)?;
    let state = save(&pmu);
    assert!(restore(&mut pmu, &state));
    assert_eq!(save(&pmu), state);
    let mut damaged = state;
    damage(u, &mut damaged)?;
    if restore(&mut pmu, &damaged) {
        run(u, &mut pmu)?;
        let state = save(&pmu);
        assert!(restore(&mut pmu, &state));
    }
    let bytes = u.bytes(u.len().min(100))?;
    restore(&mut pmu, bytes);
    pmu_free(Some(pmu));
    Ok(())
}
