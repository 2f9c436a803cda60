// SPDX-License-Identifier: GPL-2.0

//! Four threads that sort numbers, and add up under a lock what they find.

use std::sync::Mutex;
use std::thread;

fn main() {
    let sum = Mutex::new(0u64);
    thread::scope(|scope| {
        for seed in 1..=4u64 {
            let sum = &sum;
            scope.spawn(move || {
                let mut state = seed;
                let mut numbers: Vec<u64> = (0..200_000)
                    .map(|_| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        state >> 33
                    })
                    .collect();
                numbers.sort_unstable();
                for chunk in numbers.chunks(1_000) {
                    *sum.lock().unwrap() += chunk[0];
                }
            });
        }
    });
    println!("{}", sum.into_inner().unwrap());
}
