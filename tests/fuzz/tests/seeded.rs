// SPDX-License-Identifier: GPL-2.0

//! Each fuzz target with inputs that follow from a seed.

use fuzz::{run, TARGETS};
use std::panic;

/// For a target that is called `RUST_PERF_FUZZ_INPUTS` times, or this often.
const INPUTS: u64 = 1000;

/// The longest input.
const BYTES: usize = 1500;

fn input(seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut data = vec![0; random.usize(..BYTES)];
    random.fill(&mut data);
    data
}

fn inputs(name: &str) {
    let (_, check) = *TARGETS.iter().find(|(it, _)| *it == name).unwrap();
    let inputs = std::env::var("RUST_PERF_FUZZ_INPUTS");
    let inputs = inputs.map_or(INPUTS, |n| n.parse().expect("a number of inputs"));
    for seed in 0..inputs {
        let result = panic::catch_unwind(|| run(check, &input(seed)));
        assert!(result.is_ok(), "{name}: the input of seed {seed}");
    }
}

#[test]
fn attributes() {
    inputs("attributes");
}

#[test]
fn branches() {
    inputs("branches");
}

#[test]
fn registers() {
    inputs("registers");
}

#[test]
fn counts() {
    inputs("counts");
}

#[test]
fn bridge() {
    inputs("bridge");
}
