// SPDX-License-Identifier: GPL-2.0
//! The raw records of samples.

use anyhow::{bail, ensure, Context, Result};
use nix::unistd::gettid;
use perf_event::{ReadFormat, SampleFlag};

use super::{guest_probed, own_calls, own_place, probed, system_calls, SYSTEM_CALL};
use crate::ctx::Ctx;
use crate::pmu::Event;
use crate::probe::{kernel_address, Probe, Side};
use crate::tests::expect;
use crate::tests::sampling::{for_each_sample, RING};

/// The head of a record, before its words: what all trace events of the kernel have, the
/// number of what was hit, and the number of words.
const HEAD: usize = 16;

/// Samples each hit that `load` causes, and returns the words of each record.
fn records(probe: &Probe, number: u32, load: impl FnOnce()) -> Result<Vec<Vec<u64>>> {
    let counter = probe
        .event(Side::Ours)?
        .sample_period(1)
        .sample(SampleFlag::RAW | SampleFlag::TID)
        .build()?;
    let mut sampler = counter.sampled(RING)?;
    sampler.enable()?;
    load();
    sampler.disable()?;
    let mut all = Vec::new();
    for_each_sample(&mut sampler, |sample| {
        let raw = sample.raw().context("no record")?;
        let word32 = |at: usize| -> Result<u32> {
            let bytes = raw.get(at..at + 4).context("the record is too short")?;
            Ok(u32::from_ne_bytes(bytes.try_into()?))
        };
        expect(
            "record",
            "as process",
            word32(4)?.into(),
            gettid().as_raw() as u64,
        )?;
        expect("record", "as number", word32(8)?.into(), number.into())?;
        let len = word32(12)? as usize;
        let words = raw.get(HEAD..HEAD + 8 * len).context("words are missing")?;
        let rest = &raw[HEAD + 8 * len..];
        ensure!(
            rest.len() == 4 && rest.iter().all(|byte| *byte == 0),
            "{rest:?}"
        );
        let words = words.chunks_exact(8);
        let words = words.map(|word| Ok(u64::from_ne_bytes(word.try_into()?)));
        all.push(words.collect::<Result<_>>()?);
        Ok(())
    })?;
    Ok(all)
}

/// Records of a program's function have its address, as many arguments as asked for, and the value
/// that it returns.
pub(super) fn of_programs(_: &Ctx) -> Result<()> {
    let (path, offset) = own_place(probed())?;
    let probe = Probe::path(&path, offset);
    let load = || {
        for i in 0..5 {
            // SAFETY: the function adds two numbers.
            unsafe { guest_probed(i, 1_000) };
        }
    };
    // The function has two arguments. The other registers may hold anything.
    for args in 0..=6 {
        let entries = records(&probe.with_args(args as u64), 2, load)?;
        expect("entry", "records", entries.len() as u64, 5)?;
        for (i, words) in (0..).zip(entries) {
            ensure!(words.len() == 1 + args, "{args} arguments: {words:x?}");
            let known = words.len().min(3);
            ensure!(
                words[..known] == [probed(), i, 1_000][..known],
                "{args} arguments: {words:x?}"
            );
        }
    }
    let returns = records(&probe.of_return(), 6, load)?;
    expect("return", "records", returns.len() as u64, 5)?;
    let first = returns.first().context("none")?.clone();
    for (i, words) in (0..).zip(returns) {
        ensure!(words.len() == 3, "{words:x?}");
        ensure!(words[0] == probed() && words[2] == i + 1_000, "{words:x?}");
        // In the loop above, which may have been unrolled.
        ensure!(words[1].abs_diff(first[1]) < 4096, "{words:x?}");
    }
    Ok(())
}

/// Records of a kernel function have its address, as many arguments as asked for, and the value
/// that it returns.
pub(super) fn of_the_kernel(_: &Ctx) -> Result<()> {
    let address = kernel_address(SYSTEM_CALL.to_str()?)?;
    let probe = Probe::symbol(SYSTEM_CALL, 0);
    for (args, len) in [(0, 1), (6, 7)] {
        let entries = records(&probe.with_args(args), 1, || system_calls(5))?;
        expect("entry", "records", entries.len() as u64, 5)?;
        for words in entries {
            // Behind ENDBR64, or where it was.
            ensure!(
                words.len() == len && words[0].wrapping_sub(address) <= 4,
                "{words:x?}"
            );
        }
    }
    let returns = records(&probe.of_return(), 5, || system_calls(5))?;
    expect("return", "records", returns.len() as u64, 5)?;
    let parent = std::os::unix::process::parent_id();
    for words in returns {
        ensure!(
            words.len() == 3 && words[0].wrapping_sub(address) <= 4,
            "{words:x?}"
        );
        expect("getppid()", "as its value", words[2], parent.into())?;
        // The kernel's code is in the upper half.
        ensure!(words[1] >> 63 == 1, "{words:x?}");
    }
    Ok(())
}

/// A sample has the registers of the probed code, and a period is a number of hits.
pub(super) fn periods(_: &Ctx) -> Result<()> {
    let (path, offset) = own_place(probed())?;
    for (what, probe, ip) in [
        ("program", Probe::path(&path, offset), Some(probed())),
        ("kernel", Probe::symbol(SYSTEM_CALL, 0), None),
    ] {
        for side in crate::probe::SIDES {
            let counter = probe
                .event(side)?
                .sample_period(7)
                .sample(SampleFlag::IP)
                .build()?;
            let mut sampler = counter.sampled(RING)?;
            sampler.enable()?;
            system_calls(100);
            own_calls(100);
            sampler.disable()?;
            let mut samples = 0;
            for_each_sample(&mut sampler, |sample| {
                samples += 1;
                match ip {
                    Some(ip) => expect(what, "as place", sample.ip().context("no IP")?, ip),
                    None => Ok(()),
                }
            })?;
            expect(&format!("{what}, {side:?}"), "samples", samples, 100 / 7)?;
        }
    }
    Ok(())
}

/// A sample of a hit contains the counts of rust_pmu's events, which are exact: from one
/// call of a function to the next.
pub(super) fn instructions_at_each_hit(ctx: &Ctx) -> Result<()> {
    const CALLS: u64 = 50;
    let (path, offset) = own_place(probed())?;
    let mut sampler = Probe::path(&path, offset)
        .event(Side::Ours)?
        .sample_period(1)
        .sample(SampleFlag::READ)
        .read_format(ReadFormat::GROUP)
        .build()?
        .sampled(RING)?;
    let _instructions = ctx
        .pmu()?
        .event(Event::Instructions)
        .exclude_kernel(true)
        .enabled(true)
        .build_with_group(&mut *sampler)?;
    sampler.enable()?;
    for _ in 0..CALLS {
        own_calls(1);
    }
    sampler.disable()?;
    let mut values = Vec::new();
    for_each_sample(&mut sampler, |sample| {
        let group = sample.values().context("no READ")?;
        let entries: Vec<_> = group.entries().map(|entry| entry.value()).collect();
        let [hits, instructions] = entries[..] else {
            bail!("{entries:?}");
        };
        values.push((hits, instructions));
        Ok(())
    })?;
    expect("calls", "samples", values.len() as u64, CALLS)?;
    let steps: Vec<_> = values
        .windows(2)
        .map(|pair| pair[1].1 - pair[0].1)
        .collect();
    for ((hits, _), n) in values.iter().zip(1..) {
        expect("in order", "hits", *hits, n)?;
    }
    // Each round of the loop is the same code.
    ensure!(
        steps[0] > 0 && steps.iter().all(|step| *step == steps[0]),
        "instructions from call to call: {steps:?}"
    );
    Ok(())
}
