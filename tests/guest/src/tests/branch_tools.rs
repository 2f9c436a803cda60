// SPDX-License-Identifier: GPL-2.0
//! Programs that optimise by branch records: BOLT, and llvm-profgen, which makes profiles for compilers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, ensure, Context, Result};

use super::expect;
use crate::ctx::{Ctx, Test};
use crate::program::{Installed, DETOURS, NESTED, NESTED_CALLS, NESTED_LOOP};
use crate::setting::Affinity;
use crate::tests;
use crate::tool::{output, without_kernel_symbols, Perf};

pub const TESTS: &[Test] = tests![
    all need [Root, Module, PerfTool, ExactCounts];
    bolt,
    llvm_profgen,
    call_graph_lbr,
];

/// BR_INST_RETIRED.NEAR_TAKEN: the near branches that were taken.
const TAKEN: &str = "rust_pmu/event=0xc4,umask=0x20/u";

/// How often [`DETOURS`] goes through its eight rounds.
const EIGHTS: u64 = 40;

/// The functions of [`DETOURS`], and where they start in its code.
const START: Function = ("_start", 0);
const WORK: Function = ("work", 0x23);
type Function = (&'static str, u64);

/// A branch of [`DETOURS`]: the function and the offset in it of the branch and of its target, and how often
/// it is taken.
struct Edge {
    from: (Function, u64),
    to: (Function, u64),
    count: u64,
}

const fn edge(from: (Function, u64), to: (Function, u64), count: u64) -> Edge {
    Edge { from, to, count }
}

const BRANCHES: [Edge; 4] = [
    edge((START, 0x7), (WORK, 0), 8 * EIGHTS),
    edge((START, 0xe), (START, 0x7), 8 * EIGHTS - 1),
    edge((WORK, 0x6), (WORK, 0x10), 7 * EIGHTS),
    edge((WORK, 0x10), (WORK, 0xc), 7 * EIGHTS),
];
const RETURNS: [Edge; 2] = [
    edge((WORK, 0xb), (START, 0xc), EIGHTS),
    edge((WORK, 0xf), (START, 0xc), 7 * EIGHTS),
];
/// The conditional branch is not taken once in eight rounds. That has no record, but shows between the two
/// records around it. One of these pairs is in two samples.
const NOT_TAKEN: Edge = edge((WORK, 0x6), (WORK, 0x8), EIGHTS - 1);

/// The branches that [`DETOURS`] takes.
const BEFORE: u64 = 38 * EIGHTS - 1;
/// Those that it takes if its code is in the order in which it mostly runs: the calls, the returns, the
/// loop, and one branch in eight rounds.
const AFTER: u64 = (8 + 8 + 8 + 1) * EIGHTS - 1;

/// The number of branches between two samples. A sample has one record more: that of the return from the
/// PMI, which perf leaves out. So each branch is in one sample.
const PERIOD: u64 = 31;
const _: () = assert!(BEFORE % PERIOD == 0);

/// Counts the branches that a program takes. The program fails if it does not compute what it should.
fn taken(program: &Path) -> Result<u64> {
    let stat = Perf::stat().args(["-e", TAKEN, "--"]).args([program]);
    let rows = stat.rows()?;
    ensure!(rows.len() == 1, "{rows:?}");
    Ok(rows[0].value as u64)
}

/// Records all branches of the program. An interrupt during the run takes a record, so that one of the
/// program is missing: then it runs again.
fn recorded(program: &Installed) -> Result<PathBuf> {
    const ATTEMPTS: u32 = 50;
    let _hidden = without_kernel_symbols()?;
    // perf has an event for each CPU, and each has periods of its own.
    let _affinity = Affinity::pinned_to(0)?;
    let data = program.dir().join("perf.data");
    for _ in 0..ATTEMPTS {
        let record = Perf::record().args(["-j", "any,u", "-e", TAKEN]);
        let record = record.args(["-c", &PERIOD.to_string(), "-o"]).args([&data]);
        record.args(["--"]).args([program.path()]).run()?;
        let script = Perf::new("script").args(["-i"]).args([&data]);
        let samples = script.args(["-F", "brstack"]).text()?;
        let records = |line: &str| line.split_whitespace().count() as u64;
        let records: Vec<_> = samples.lines().map(records).filter(|n| *n > 0).collect();
        expect(
            "perf script",
            "samples",
            records.len() as u64,
            BEFORE / PERIOD,
        )?;
        if records.iter().all(|n| *n == PERIOD) {
            return Ok(data);
        }
    }
    bail!("{ATTEMPTS} runs were interrupted")
}

/// perf2bolt's profile has each branch as often as it was taken. With it BOLT makes the program take as
/// few branches as it can.
fn bolt(_: &Ctx) -> Result<()> {
    let program = DETOURS.install()?;
    expect("before", "branches", taken(program.path())?, BEFORE)?;
    let data = recorded(&program)?;
    let profile = program.dir().join("perf.fdata");
    let mut convert = Command::new("perf2bolt");
    convert.arg("-p").arg(&data).arg("-o").arg(&profile);
    output(convert.arg(program.path()))?;
    let edges = edges(&fs::read_to_string(&profile)?, edge_of_bolt)?;
    let known = BRANCHES.iter().chain([&NOT_TAKEN]);
    compare(&edges, known.map(Edge::named))?;

    let optimised = program.dir().join("optimised");
    let mut bolt = Command::new("llvm-bolt");
    bolt.arg(program.path()).arg("-o").arg(&optimised);
    bolt.arg("-data").arg(&profile);
    output(bolt.arg("-reorder-blocks=ext-tsp"))?;
    expect("after", "branches", taken(&optimised)?, AFTER)
}

/// Compares the counts that a profile has of each edge with the known ones.
fn compare<K>(found: &BTreeMap<K, u64>, known: impl Iterator<Item = (K, u64)>) -> Result<()>
where
    K: Ord + std::fmt::Debug,
{
    let known: BTreeMap<_, _> = known.collect();
    ensure!(*found == known, "found {found:x?}, expected {known:x?}");
    Ok(())
}

impl Edge {
    /// The edge as perf2bolt names it.
    fn named(&self) -> ([String; 2], u64) {
        let name = |((name, _), offset)| format!("{name} {offset:x}");
        ([name(self.from), name(self.to)], self.count)
    }

    /// The edge as llvm-profgen names it, by offsets in the code.
    fn located(&self) -> ([u64; 2], u64) {
        let location = |((_, start), offset)| start + offset;
        ([location(self.from), location(self.to)], self.count)
    }
}

/// The edges of a profile.
fn edges<K: Ord>(
    profile: &str,
    parse: impl Fn(&str) -> Option<(K, u64)>,
) -> Result<BTreeMap<K, u64>> {
    let edge = |line| parse(line).with_context(|| format!("{line:?} in\n{profile}"));
    profile.lines().map(edge).collect()
}

/// Parses a line of perf2bolt: `1 FUNCTION OFFSET 1 FUNCTION OFFSET MISPREDICTED COUNT`.
fn edge_of_bolt(line: &str) -> Option<([String; 2], u64)> {
    let words: Vec<_> = line.split(' ').collect();
    match words[..] {
        ["1", from, from_offset, "1", to, to_offset, _, count] => {
            let names = [format!("{from} {from_offset}"), format!("{to} {to_offset}")];
            Some((names, count.parse().ok()?))
        }
        _ => None,
    }
}

/// Parses a line of llvm-profgen: `FROM->TO:COUNT`.
fn edge_of_profgen(line: &str) -> Option<([u64; 2], u64)> {
    let (from, rest) = line.split_once("->")?;
    let (to, count) = rest.split_once(':')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some(([address(from)?, address(to)?], count.parse().ok()?))
}

/// llvm-profgen's profile has each branch as often as it was taken.
fn llvm_profgen(_: &Ctx) -> Result<()> {
    let program = DETOURS.install()?;
    let data = recorded(&program)?;
    let profile = program.dir().join("profile");
    let mut convert = Command::new("llvm-profgen-19");
    convert.arg("--perfdata").arg(&data);
    convert.arg("--binary").arg(program.path());
    // The program has no lines of source that the profile could name.
    convert.arg("--skip-symbolization");
    output(convert.arg("--output").arg(&profile))?;
    // The number of ranges, the ranges between branches, the number of branches, the branches.
    let profile = fs::read_to_string(&profile)?;
    let branches = profile.lines().filter(|line| line.contains("->"));
    let branches = branches.collect::<Vec<_>>().join("\n");
    let known = BRANCHES.iter().chain(&RETURNS);
    compare(
        &edges(&branches, edge_of_profgen)?,
        known.map(Edge::located),
    )
}

/// `perf record --call-graph lbr` and `perf script` show each call that a program is in, the last one first.
fn call_graph_lbr(_: &Ctx) -> Result<()> {
    const PERIOD: u64 = 100_003;
    let program = NESTED.install()?;
    let data = program.dir().join("perf.data");
    let record = Perf::record().args(["--call-graph", "lbr"]);
    let record = record.args(["-e", "rust_pmu/instructions/u"]);
    let record = record.args(["-c", &PERIOD.to_string(), "-o"]).args([&data]);
    record.args(["--"]).args([program.path()]).run()?;
    let script = Perf::new("script").args(["-i"]).args([&data]);
    let text = script.args(["-F", "ip,sym,symoff"]).text()?;
    let start = program.entry()?;
    let callers = ["third", "second", "first", "_start"];
    let callers: Vec<_> = NESTED_CALLS.iter().zip(callers).collect();
    let (_, innermost) = NESTED_CALLS[0];
    let mut samples = 0;
    for chain in text
        .split("\n\n")
        .map(str::trim)
        .filter(|it| !it.is_empty())
    {
        let mut lines = chain.lines().map(str::trim);
        let ip = lines.next().context("no address")?;
        let in_loop =
            NESTED_LOOP.map(|at| format!("{:x} innermost+{:#x}", start + at, at - innermost));
        ensure!(
            in_loop.iter().any(|it| it == ip),
            "«{ip}» is not in the loop"
        );
        // A call is the first instruction of each of these functions.
        let calls = callers
            .iter()
            .map(|((from, _), name)| format!("{:x} {name}+0x0", start + from));
        ensure!(lines.eq(calls), "sample {samples}:\n{chain}");
        samples += 1;
    }
    expect(
        "perf script",
        "samples",
        samples,
        NESTED.instructions / PERIOD,
    )
}
