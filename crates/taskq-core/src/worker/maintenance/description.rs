//! The sweeps, each described in one place.

use std::time::Duration;

use crate::store::Sweep;

/// How the leader runs one sweep. What a batch does is the store's business.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) sweep: Sweep,
    /// How often it is asked whether it has anything to do.
    pub(super) cadence: Duration,
    /// Whether it runs at the very moment its next row is due, and not with the next question.
    pub(super) punctual: bool,
    /// The most rows of a batch, unless a setting says otherwise.
    pub(super) batch: u32,
    /// How long a batch may take before the store gives it up.
    pub(super) timeout: Duration,
}

/// What a batch may take: short enough that the others are not kept waiting, long enough for a busy server.
const TIMEOUT: Duration = Duration::from_millis(1_750);

/// The sweeps in the order of their turns.
pub(super) const SWEEPS: [Description; Sweep::ALL.len()] = [
    Description {
        sweep: Sweep::Promote,
        cadence: Duration::from_secs(1),
        punctual: true,
        batch: 1_000,
        timeout: TIMEOUT,
    },
    // Before others are declared lost: what was lost before an outage comes first.
    Description {
        sweep: Sweep::Reclaim,
        cadence: Duration::from_secs(2),
        punctual: false,
        batch: 1_000,
        // It searches for half a second and then moves what it has found; with dead rows kept by somebody's snapshot one
        // slice of the search may take longer, and jobs of dead workers must be rescued all the same.
        timeout: Duration::from_secs(8),
    },
    Description {
        sweep: Sweep::MarkLost,
        cadence: Duration::from_secs(1),
        punctual: false,
        batch: 1_000,
        timeout: TIMEOUT,
    },
    Description {
        sweep: Sweep::Deadlines,
        cadence: Duration::from_secs(1),
        punctual: false,
        batch: 1_000,
        timeout: TIMEOUT,
    },
    Description {
        sweep: Sweep::Results,
        cadence: Duration::from_secs(5),
        punctual: false,
        batch: 1_000,
        timeout: TIMEOUT,
    },
    Description {
        sweep: Sweep::Events,
        cadence: Duration::from_secs(5),
        punctual: false,
        batch: 10_000,
        timeout: TIMEOUT,
    },
    // Before jobs are archived by stamps that are about to change.
    Description {
        sweep: Sweep::Restamp,
        cadence: Duration::from_secs(5),
        punctual: false,
        batch: 1_000,
        timeout: TIMEOUT,
    },
    Description {
        sweep: Sweep::Archive,
        cadence: Duration::from_secs(5),
        punctual: false,
        batch: 1_000,
        timeout: TIMEOUT,
    },
    Description {
        sweep: Sweep::ArchiveExpiry,
        cadence: Duration::from_mins(1),
        punctual: false,
        batch: 1,
        timeout: TIMEOUT,
    },
    Description {
        sweep: Sweep::IdempotencyKeys,
        cadence: Duration::from_mins(1),
        punctual: false,
        batch: 5_000,
        timeout: TIMEOUT,
    },
    Description {
        sweep: Sweep::Workers,
        cadence: Duration::from_mins(1),
        punctual: false,
        batch: 1_000,
        timeout: TIMEOUT,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sweep_is_described_once() {
        for sweep in Sweep::ALL {
            assert_eq!(SWEEPS.iter().filter(|it| it.sweep == sweep).count(), 1, "{sweep:?}");
        }
    }
}
