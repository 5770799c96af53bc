//! How large a sweep's batches are.

use std::time::Duration;

/// How many batches in a row must end in time before a batch that was halved grows again.
const PROOF: u32 = 8;

/// The size of a sweep's next batch: halved when one takes too long, doubled again when several did not.
pub(super) struct Batch {
    usual: u32,
    size: u32,
    in_time: u32,
}

impl Batch {
    pub(super) const fn new(usual: u32) -> Self {
        Self { usual, size: usual, in_time: 0 }
    }

    pub(super) const fn size(&self) -> u32 {
        self.size
    }

    /// Sets the size that it has while nothing takes too long.
    pub(super) fn set_usual(&mut self, usual: u32) {
        if self.size == self.usual {
            self.size = usual;
        }
        self.usual = usual;
        self.size = self.size.min(usual);
    }

    /// Notes that a batch took too long. Returns whether it can be smaller.
    pub(super) fn halve(&mut self) -> bool {
        self.in_time = 0;
        let before = self.size;
        self.size = (before / 2).max(1);
        self.size < before
    }

    /// Notes that a batch ended, and how long it took of what it may take. One that took more than half is made smaller
    /// before it is given up: the other sweeps wait for it. One that took more than a quarter does not grow.
    pub(super) fn ended(&mut self, took: Duration, limit: Duration) {
        if took > limit / 2 {
            self.halve();
            return;
        }
        if took > limit / 4 {
            self.in_time = 0;
            return;
        }
        if self.size == self.usual {
            return;
        }
        self.in_time += 1;
        if self.in_time == PROOF {
            self.in_time = 0;
            self.size = self.size.saturating_mul(2).min(self.usual);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    #[test]
    fn a_batch_that_is_slow_is_halved_before_it_is_given_up() {
        let mut batch = Batch::new(1_000);
        batch.ended(LIMIT * 6 / 10, LIMIT);
        assert_eq!(batch.size(), 500);
        for _ in 0..PROOF * 2 {
            batch.ended(LIMIT * 3 / 10, LIMIT);
        }
        assert_eq!(batch.size(), 500, "it does not grow back into what was too slow");
        for _ in 0..PROOF {
            batch.ended(LIMIT / 10, LIMIT);
        }
        assert_eq!(batch.size(), 1_000);
    }

    #[test]
    fn a_batch_is_halved_and_grows_back() {
        let mut batch = Batch::new(1_000);
        for expected in [500, 250] {
            assert!(batch.halve());
            assert_eq!(batch.size(), expected);
        }
        let grown: Vec<u32> = (0..3 * PROOF)
            .map(|_| {
                batch.ended(Duration::ZERO, LIMIT);
                batch.size()
            })
            .collect();
        assert_eq!(grown[PROOF as usize - 2..=PROOF as usize], [250, 500, 500]);
        assert_eq!(grown[2 * PROOF as usize - 1..], [1_000; PROOF as usize + 1]);
    }

    #[test]
    fn it_stops_at_one_row_and_follows_its_setting() {
        let mut batch = Batch::new(3);
        assert!(batch.halve());
        assert!(!batch.halve());
        assert_eq!(batch.size(), 1);
        batch.set_usual(10);
        assert_eq!(batch.size(), 1, "a setting is no proof that it is in time");
        let mut batch = Batch::new(3);
        batch.set_usual(10);
        assert_eq!(batch.size(), 10);
        batch.set_usual(2);
        assert_eq!(batch.size(), 2);
    }
}
