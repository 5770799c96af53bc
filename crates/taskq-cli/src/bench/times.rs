//! How long things took, as a histogram.

use hdrhistogram::Histogram;

use super::clock::seconds;

/// Times up to an hour are told apart, to three digits.
const LONGEST_NS: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;

/// Durations in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Times(Histogram<u64>);

impl Times {
    /// Begins without any.
    pub(super) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are constants that fit"))
    }

    /// Adds one.
    pub(super) fn note(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Adds those of another.
    pub(super) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// Counts them.
    pub(super) fn len(&self) -> u64 {
        self.0.len()
    }

    /// Returns the duration that a share of them does not exceed, in milliseconds.
    pub(super) fn at_ms(&self, share: f64) -> f64 {
        seconds(self.0.value_at_quantile(share)) * 1_000.0
    }

    /// Returns the longest, in milliseconds.
    pub(super) fn max_ms(&self) -> f64 {
        seconds(self.0.max()) * 1_000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_to_three_digits() {
        let mut times = Times::new();
        (1..=1_000).for_each(|ms| times.note(ms * 1_000_000));
        assert_eq!(times.len(), 1_000);
        assert!((times.at_ms(0.5) - 500.0).abs() < 1.0, "{}", times.at_ms(0.5));
        assert!((times.max_ms() - 1_000.0).abs() < 1.0, "{}", times.max_ms());
    }
}
