//! How large a sweep's batches are.

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

    /// Notes that a batch ended in time.
    pub(super) fn ended(&mut self) {
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

    #[test]
    fn a_batch_is_halved_and_grows_back() {
        let mut batch = Batch::new(1_000);
        for expected in [500, 250] {
            assert!(batch.halve());
            assert_eq!(batch.size(), expected);
        }
        let grown: Vec<u32> = (0..3 * PROOF)
            .map(|_| {
                batch.ended();
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
