// SPDX-License-Identifier: GPL-2.0

//! The sum of the digits of numbers, and a test of what it costs.

/// The sum of the decimal digits of a number.
pub fn sum_of_digits(mut number: u64) -> u64 {
    let mut sum = 0;
    while number > 0 {
        sum += number % 10;
        number /= 10;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event::events::Hardware;
    use perf_event::Builder;
    use std::hint::black_box;
    use std::io;

    /// The instructions that the sum of a number's digits takes in user mode.
    fn instructions(number: u64) -> io::Result<u64> {
        let mut counter = Builder::new(Hardware::INSTRUCTIONS).build()?;
        counter.enable()?;
        black_box(sum_of_digits(black_box(number)));
        counter.disable()?;
        counter.read()
    }

    #[test]
    fn each_digit_takes_as_many_instructions() {
        let count = |number| instructions(number).expect("a counter");
        // The first call links the functions that it uses.
        count(1);
        let [two, three, four] = [10, 100, 1000].map(count);
        assert!(three > two);
        assert_eq!(four - three, three - two);
    }
}
