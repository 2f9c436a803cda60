// SPDX-License-Identifier: GPL-2.0
//! Cuts a failing sequence down.
//!
//! proptest shrinks a list by one element at a time. Each attempt is a round of processes here, so
//! this is delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
//! Input"): it leaves out halves first, then quarters, and so on.

/// Finds a short part of `items` that `fails`, in at most `attempts` calls. `items` must fail.
pub fn shrink<T: Clone>(
    items: &[T],
    mut attempts: usize,
    mut fails: impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut items = items.to_vec();
    let mut parts = 2;
    while items.len() > 1 && attempts > 0 {
        let length = items.len().div_ceil(parts);
        let mut shorter = None;
        for start in (0..items.len()).step_by(length) {
            if attempts == 0 {
                break;
            }
            attempts -= 1;
            let end = items.len().min(start + length);
            let rest = [&items[..start], &items[end..]].concat();
            if fails(&rest) {
                shorter = Some(rest);
                break;
            }
        }
        match shorter {
            Some(rest) => {
                items = rest;
                parts = (parts - 1).max(2);
            }
            None if length == 1 => break,
            None => parts = (2 * parts).min(items.len()),
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_elements_that_matter() {
        let items: Vec<u32> = (0..400).collect();
        let mut calls = 0;
        let found = shrink(&items, 1_000, |part| {
            calls += 1;
            [3, 170, 399].iter().all(|item| part.contains(item))
        });
        assert_eq!(found, [3, 170, 399]);
        assert!(calls < 200, "{calls}");
    }

    #[test]
    fn finds_the_only_element() {
        assert_eq!(shrink(&[1, 2, 3, 4, 5], 100, |part| part.contains(&4)), [4]);
        assert_eq!(shrink(&[7], 100, |_| true), [7]);
    }

    #[test]
    fn stops_after_the_last_attempt() {
        let items: Vec<u32> = (0..100).collect();
        let mut calls = 0;
        let found = shrink(&items, 5, |part| {
            calls += 1;
            part.contains(&99)
        });
        assert_eq!(calls, 5);
        assert!(found.contains(&99) && found.len() < 100);
    }
}
