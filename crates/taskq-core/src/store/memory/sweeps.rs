//! The leader's sweeps: `sweeps_due`, `sweep`, `note_sweeps`, `sweeps`.
//!
//! Every sweep takes its rows in the order of a key, a time and an id. Here that order is computed; what becomes of a
//! row stands with the verbs of its kind.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::super::{
    Count, LeaderEpoch, LookFrom, StoreError, Sweep, SweepCall, SweepDue, SweepKey, SweepNote, SweepProbe,
    SweepSummary, Swept,
};
use super::query::until;
use super::state::State;
use super::validate;
use crate::model::{JobId, Json, WorkerId};

/// What the leader wrote down of each sweep.
pub(super) type Records = BTreeMap<Sweep, Record>;

/// What the leader wrote down of a sweep.
#[derive(Default)]
pub(super) struct Record {
    last_run_at: Option<Timestamp>,
    duration: Option<Duration>,
    rows: u64,
    swept: u64,
    batch: Option<u32>,
    reached: Option<SweepKey>,
    error: Option<(String, Timestamp)>,
    overrides: Option<Json>,
}

/// A row that waits for a sweep: when it is due, and its key.
struct Waiting {
    due_at: Timestamp,
    key: SweepKey,
    row: Row,
}

/// What a sweep changes.
#[derive(Clone, Copy)]
pub(super) enum Row {
    Job(JobId),
    Worker(WorkerId),
}

impl State {
    pub(super) fn sweeps_due(
        &self,
        now: Timestamp,
        leader: WorkerId,
        epoch: LeaderEpoch,
        probes: &[SweepProbe],
    ) -> Result<Vec<SweepDue>, StoreError> {
        self.require_leader(now, leader, epoch)?;
        Ok(probes.iter().map(|probe| self.due(now, probe)).collect())
    }

    fn due(&self, now: Timestamp, probe: &SweepProbe) -> SweepDue {
        let after = match &probe.from {
            LookFrom::Start => None,
            LookFrom::LastNote => self.sweeps.get(&probe.sweep).and_then(|record| record.reached.as_ref()),
            LookFrom::After(key) => Some(key),
        };
        let first = self.waiting(now, probe.sweep, after, 1).pop();
        let clear_to = first.as_ref().map_or(now, |waiting| waiting.key.at.min(now));
        SweepDue {
            sweep: probe.sweep,
            due_in: first.as_ref().map(|waiting| until(waiting.due_at, now)),
            behind: first.map_or(Duration::ZERO, |waiting| until(now, waiting.due_at)),
            clear_to: Some(clear_to),
            took: Duration::ZERO,
            batch: None,
            problem: None,
        }
    }

    pub(super) fn sweep(
        &mut self,
        now: Timestamp,
        sweep: Sweep,
        call: &SweepCall,
    ) -> Result<Swept, StoreError> {
        validate::batch(call.limit)?;
        self.require_leader(now, call.leader, call.epoch)?;
        if sweep == Sweep::Reclaim {
            return Err(StoreError::invalid("reclaim has a call of its own"));
        }
        let limit = call.limit as usize;
        // One more, to know when the next is due.
        let mut rows = self.waiting(now, sweep, call.after.as_ref(), limit + 1);
        let due = rows.iter().take(limit).take_while(|waiting| waiting.due_at <= now).count();
        let next = (rows.len() > due).then(|| rows.swap_remove(due));
        rows.truncate(due);
        for waiting in &rows {
            self.sweep_row(now, sweep, waiting.row);
        }
        Ok(Swept {
            rows: due as u64,
            more: due == limit,
            due_in: next.map(|waiting| until(waiting.due_at, now)),
            reached: rows.pop().map(|waiting| waiting.key).or_else(|| call.after.clone()),
            problems: 0,
            problem: None,
        })
    }

    /// The rows that a sweep takes behind a key, due or not, in its order, at most so many.
    fn waiting(&self, now: Timestamp, sweep: Sweep, after: Option<&SweepKey>, most: usize) -> Vec<Waiting> {
        let job = |(at, id): (Timestamp, JobId)| Waiting::new(at, at, id, Row::Job(id));
        let worker = |(at, due_at, id): (Timestamp, Timestamp, WorkerId)| {
            Waiting::new(at, due_at, id, Row::Worker(id))
        };
        let behind = |waiting: &Waiting| after.is_none_or(|after| waiting.key > *after);
        match sweep {
            Sweep::Promote => self.scheduled.iter().copied().map(job).filter(behind).take(most).collect(),
            Sweep::MarkLost => in_order(self.leases().map(worker).filter(behind), most),
            Sweep::Reclaim => in_order(self.unreclaimed(now).map(worker).filter(behind), most),
            Sweep::Workers => in_order(self.forgettable().map(worker).filter(behind), most),
        }
    }

    fn sweep_row(&mut self, now: Timestamp, sweep: Sweep, row: Row) {
        match (sweep, row) {
            (Sweep::Promote, Row::Job(id)) => self.ready(id),
            (Sweep::MarkLost, Row::Worker(id)) => self.lose(id),
            (Sweep::Workers, Row::Worker(id)) => {
                self.workers.remove(&id);
            }
            (Sweep::Promote | Sweep::MarkLost | Sweep::Reclaim | Sweep::Workers, _) => {
                debug_assert!(false, "{sweep:?} has no such row at {now}");
            }
        }
    }

    pub(super) fn note_sweeps(
        &mut self,
        now: Timestamp,
        leader: WorkerId,
        epoch: LeaderEpoch,
        notes: Vec<SweepNote>,
    ) -> Result<(), StoreError> {
        self.require_leader(now, leader, epoch)?;
        for note in notes {
            let record = self.sweeps.entry(note.sweep).or_default();
            if let Some(run) = note.run {
                record.last_run_at = Some(now - run.ago);
                record.duration = Some(run.took);
                record.rows = run.rows;
                record.swept += run.rows_since;
            }
            if let Some(error) = note.error {
                record.error = Some((error.message, now - error.ago));
            }
            record.batch = Some(note.batch);
            record.reached = note.reached;
            record.overrides = note.overrides;
        }
        Ok(())
    }

    pub(super) fn sweep_summaries(&self, now: Timestamp) -> Vec<SweepSummary> {
        Sweep::ALL.into_iter().map(|sweep| self.sweep_summary(now, sweep)).collect()
    }

    fn sweep_summary(&self, now: Timestamp, sweep: Sweep) -> SweepSummary {
        let unseen = Record::default();
        let record = self.sweeps.get(&sweep).unwrap_or(&unseen);
        let mut waiting = self.waiting(now, sweep, record.reached.as_ref(), usize::MAX);
        waiting.retain(|waiting| waiting.due_at <= now);
        SweepSummary {
            sweep,
            last_run_at: record.last_run_at,
            duration: record.duration,
            rows: record.rows,
            swept: record.swept,
            backlog: Count::of(waiting.len() as u64),
            behind: waiting.first().map_or(Duration::ZERO, |waiting| until(now, waiting.due_at)),
            batch: record.batch,
            last_error: record.error.as_ref().map(|(message, _)| message.clone()),
            last_error_at: record.error.as_ref().map(|(_, at)| *at),
            overrides: record.overrides.clone(),
        }
    }
}

impl Waiting {
    fn new(at: Timestamp, due_at: Timestamp, id: impl ToString, row: Row) -> Self {
        Self { due_at, key: SweepKey { at, id: id.to_string() }, row }
    }
}

fn in_order(rows: impl Iterator<Item = Waiting>, most: usize) -> Vec<Waiting> {
    let mut rows: Vec<Waiting> = rows.collect();
    rows.sort_by(|left, right| left.key.cmp(&right.key));
    rows.truncate(most);
    rows
}
