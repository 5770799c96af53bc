//! What became of the sweeps, on its way to where everybody can read it.
//!
//! It is written when something happened and then no more than every few seconds: a row that is written often would
//! itself leave dead versions behind, and an idle fleet writes nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::model::Json;
use crate::store::{Sweep, SweepFailure, SweepKey, SweepNote, SweepRun, Swept};

/// How long at least from one note to the next.
const INTERVAL: Duration = Duration::from_secs(5);

/// What is not yet written down.
#[derive(Clone, Default)]
pub(super) struct Record {
    pending: BTreeMap<Sweep, Pending>,
    /// When notes may be written again.
    not_before: Option<Instant>,
}

#[derive(Clone, Default)]
struct Pending {
    run: Option<Run>,
    rows_since: u64,
    error: Option<(String, Instant)>,
    changed: bool,
}

/// A run: the batches of a sweep without a pause between them.
#[derive(Clone, Copy)]
struct Run {
    rows: u64,
    took: Duration,
    ended: Instant,
    is_over: bool,
}

/// What a note tells of a sweep apart from what happened.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) batch: u32,
    pub(super) reached: Option<SweepKey>,
    pub(super) overrides: Option<Json>,
}

impl Record {
    /// Notes a batch. `heals` says that the one before failed, so that also a batch without rows is worth a note.
    pub(super) fn batch(&mut self, sweep: Sweep, swept: &Swept, took: Duration, now: Instant, heals: bool) {
        let pending = self.pending.entry(sweep).or_default();
        if swept.rows > 0 || swept.problems > 0 || heals {
            let earlier = pending.run.filter(|run| !run.is_over);
            let (rows, before) = earlier.map_or((0, Duration::ZERO), |run| (run.rows, run.took));
            let run = Run { rows: rows + swept.rows, took: before + took, ended: now, is_over: !swept.more };
            pending.run = Some(run);
            pending.rows_since += swept.rows;
            pending.changed = true;
        } else if let Some(run) = &mut pending.run {
            run.is_over |= !swept.more;
        }
        if let Some(problem) = &swept.problem {
            let message = format!("{} rows were passed over, the first: {problem}", swept.problems);
            pending.error = Some((message, now));
        }
    }

    /// Notes a failure.
    pub(super) fn failure(&mut self, sweep: Sweep, message: String, now: Instant) {
        let pending = self.pending.entry(sweep).or_default();
        pending.error = Some((message, now));
        pending.changed = true;
    }

    /// Notes that something else of a sweep is to be told.
    pub(super) fn tell(&mut self, sweep: Sweep) {
        self.pending.entry(sweep).or_default().changed = true;
    }

    /// Takes what is to be written now; empty when there is nothing, or it is too early.
    pub(super) fn take(&mut self, now: Instant, mut facts: impl FnMut(Sweep) -> Facts) -> Vec<SweepNote> {
        if self.not_before.is_some_and(|at| now < at) {
            return Vec::new();
        }
        let mut notes = Vec::new();
        for (sweep, pending) in &mut self.pending {
            if !std::mem::take(&mut pending.changed) {
                continue;
            }
            let rows_since = std::mem::take(&mut pending.rows_since);
            let run = pending.run.map(|run| SweepRun {
                ago: now.saturating_duration_since(run.ended),
                took: run.took,
                rows: run.rows,
                rows_since,
            });
            let error = pending.error.take();
            let error =
                error.map(|(message, at)| SweepFailure { ago: now.saturating_duration_since(at), message });
            let Facts { batch, reached, overrides } = facts(*sweep);
            notes.push(SweepNote { sweep: *sweep, run, error, batch, reached, overrides });
            if pending.run.is_some_and(|run| run.is_over) {
                pending.run = None;
            }
        }
        if !notes.is_empty() {
            self.not_before = Some(now + INTERVAL);
        }
        notes
    }

    /// When there may be something to write; `None` when nothing waits.
    pub(super) fn due(&self) -> Option<Instant> {
        self.pending.values().any(|pending| pending.changed).then_some(self.not_before).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn swept(rows: u64, more: bool) -> Swept {
        Swept { rows, more, ..Swept::default() }
    }

    fn take(record: &mut Record, now: Instant) -> Vec<SweepNote> {
        record.take(now, |_| Facts::default())
    }

    #[test]
    fn a_run_is_its_batches_until_one_is_not_full() {
        let (mut record, now) = (Record::default(), Instant::now());
        record.batch(Sweep::Promote, &swept(10, true), SECOND, now, false);
        record.batch(Sweep::Promote, &swept(3, false), SECOND, now, false);
        record.batch(Sweep::Promote, &swept(5, false), SECOND, now, false);
        let run = take(&mut record, now + SECOND).remove(0).run.unwrap();
        assert_eq!((run.rows, run.rows_since, run.took, run.ago), (5, 18, SECOND, SECOND));
        assert_eq!(take(&mut record, now + SECOND * 60), []);
    }

    #[test]
    fn a_batch_without_rows_is_worth_no_note_unless_it_heals() {
        let (mut record, now) = (Record::default(), Instant::now());
        record.batch(Sweep::Promote, &swept(0, false), SECOND, now, false);
        assert_eq!(take(&mut record, now), []);
        record.failure(Sweep::Promote, "no".to_owned(), now);
        assert_eq!(take(&mut record, now).remove(0).error.unwrap().message, "no");
        record.batch(Sweep::Promote, &swept(0, false), SECOND, now + SECOND, true);
        assert_eq!(record.due(), Some(now + INTERVAL));
        assert_eq!(take(&mut record, now + SECOND), [], "too early");
        assert_eq!(take(&mut record, now + INTERVAL).remove(0).error, None);
    }

    #[test]
    fn a_run_that_goes_on_is_told_in_between() {
        let (mut record, now) = (Record::default(), Instant::now());
        record.batch(Sweep::Promote, &swept(10, true), SECOND, now, false);
        assert_eq!(take(&mut record, now).remove(0).run.unwrap().rows_since, 10);
        record.batch(Sweep::Promote, &swept(10, true), SECOND, now, false);
        let run = take(&mut record, now + INTERVAL).remove(0).run.unwrap();
        assert_eq!((run.rows, run.rows_since, run.took), (20, 10, SECOND * 2));
    }
}
