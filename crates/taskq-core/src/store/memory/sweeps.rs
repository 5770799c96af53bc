//! The leader's sweeps: `sweeps_due`, `sweep`, `note_sweeps`, `sweeps`.
//!
//! Every sweep takes its rows in the order of a key, a time and an id. Here that order is computed; what becomes of a
//! row stands with the verbs of its kind.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::super::{
    Count, DEFAULT_EVENT_RETENTION_BATCH_SIZE, LeaderEpoch, LookFrom, StoreError, Sweep, SweepCall, SweepDue,
    SweepKey, SweepNote, SweepProbe, SweepSummary, Swept,
};
use super::archive::next_month;
use super::clock::later;
use super::query::until;
use super::state::State;
use super::validate;
use crate::model::{ActorName, EventCursor, IdempotencyKey, JobId, Json, WorkerId};

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
    epoch: i64,
    overrides: Option<Json>,
}

impl Record {
    /// What the process of the leader with this epoch sets; what another's had set says nothing of it.
    fn overrides(&self, epoch: i64) -> Option<&Json> {
        self.overrides.as_ref().filter(|_| self.epoch == epoch)
    }
}

/// A row that waits for a sweep: when it is due, and its key.
struct Waiting {
    /// `None` is never.
    due_at: Option<Timestamp>,
    key: SweepKey,
    row: Row,
}

/// What a sweep changes.
#[derive(Clone)]
enum Row {
    Job(JobId),
    Worker(WorkerId),
    Event(EventCursor),
    /// A month of the archive, by its first moment.
    Month(Timestamp),
    /// Every finished job.
    Stamps,
    Key(ActorName, IdempotencyKey),
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
        let first = self.waiting(probe.sweep, after, self.keep(probe.period), 1).pop();
        let clear_to = first.as_ref().map_or(now, |waiting| waiting.key.at.min(now));
        let due_at = first.and_then(|waiting| waiting.due_at);
        let batch = self.settings.event_retention_batch_size;
        SweepDue {
            sweep: probe.sweep,
            due_in: due_at.and_then(|due_at| due_in(probe.sweep, due_at, now)),
            behind: due_at.map_or(Duration::ZERO, |due_at| until(now, due_at)),
            clear_to: has_an_order(probe.sweep).then_some(clear_to),
            took: Duration::ZERO,
            batch: (probe.sweep == Sweep::Events
                && probe.batch.is_none()
                && batch != DEFAULT_EVENT_RETENTION_BATCH_SIZE)
                .then_some(batch),
            problem: None,
        }
    }

    /// How long events are kept.
    fn keep(&self, period: Option<Duration>) -> Duration {
        period.unwrap_or(self.settings.event_retention_period)
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
        if sweep == Sweep::Restamp {
            return Ok(self.restamp(call.limit as usize));
        }
        let limit = if sweep == Sweep::ArchiveExpiry { 1 } else { call.limit as usize };
        // One more, to know when the next is due.
        let mut rows = self.waiting(sweep, call.after.as_ref(), self.keep(call.period), limit + 1);
        let due = rows.iter().take(limit).take_while(|waiting| waiting.is_due(now)).count();
        let next = rows.get(due).and_then(|waiting| waiting.due_at);
        let is_more = match sweep {
            Sweep::ArchiveExpiry => next.is_some_and(|due_at| due_at <= now),
            _ => due == limit,
        };
        rows.truncate(due);
        for waiting in &rows {
            self.sweep_row(now, sweep, waiting.row.clone());
        }
        let reached = rows.pop().map(|waiting| waiting.key).or_else(|| call.after.clone());
        Ok(Swept {
            rows: due as u64,
            more: is_more,
            due_in: next.filter(|_| has_an_order(sweep)).and_then(|due_at| due_in(sweep, due_at, now)),
            reached: reached.filter(|_| has_an_order(sweep)),
            problems: 0,
            problem: None,
        })
    }

    /// The rows that a sweep takes behind a key, due or not, in its order, at most so many.
    fn waiting(&self, sweep: Sweep, after: Option<&SweepKey>, keep: Duration, most: usize) -> Vec<Waiting> {
        let job = |(at, id): &(Timestamp, JobId)| Waiting::new(*at, Some(*at), id, Row::Job(*id));
        let worker = |(at, due_at, id): (Timestamp, Timestamp, WorkerId)| {
            Waiting::new(at, Some(due_at), &id, Row::Worker(id))
        };
        let behind = |waiting: &Waiting| after.is_none_or(|after| waiting.key > *after);
        match sweep {
            Sweep::Promote => self.scheduled.iter().map(job).filter(behind).take(most).collect(),
            Sweep::Deadlines => self.deadlines.iter().map(job).filter(behind).take(most).collect(),
            Sweep::Results => self.results.iter().map(job).filter(behind).take(most).collect(),
            Sweep::Events => {
                let event = |(at, cursor): (Timestamp, EventCursor)| {
                    let due_at = (!keep.is_zero()).then(|| later(at, keep));
                    // As wide as numbers get, so that text and number have one order.
                    Waiting::new(at, due_at, &format!("{:020}", cursor.id), Row::Event(cursor))
                };
                in_order(self.events.by_time().map(event).filter(behind), most)
            }
            Sweep::IdempotencyKeys => {
                let key = |(at, (actor, key)): (Timestamp, &(ActorName, IdempotencyKey))| {
                    Waiting::new(
                        at,
                        Some(at),
                        &format!("{actor} {key}"),
                        Row::Key(actor.clone(), key.clone()),
                    )
                };
                in_order(self.expiries().map(key).filter(behind), most)
            }
            Sweep::Archive => self.finished.iter().map(job).filter(behind).take(most).collect(),
            Sweep::ArchiveExpiry => {
                let keep = self.settings.archive_retention_period;
                let month = |month: Timestamp| {
                    let due_at = (!keep.is_zero()).then(|| later(next_month(month), keep));
                    Waiting::new(month, due_at, &"", Row::Month(month))
                };
                in_order(self.archive_months().into_iter().map(month), most)
            }
            Sweep::Restamp => {
                let stamps = |at| Waiting::new(at, Some(at), &"", Row::Stamps);
                self.restamp_due().map(stamps).into_iter().take(most).collect()
            }
            Sweep::MarkLost => in_order(self.leases().map(worker), most),
            Sweep::Reclaim => in_order(self.unreclaimed().map(worker), most),
            Sweep::Workers => in_order(self.forgettable().map(worker), most),
        }
    }

    fn sweep_row(&mut self, now: Timestamp, sweep: Sweep, row: Row) {
        match (sweep, row) {
            (Sweep::Promote, Row::Job(id)) => self.ready(id),
            (Sweep::Deadlines, Row::Job(id)) => self.expire(id, now),
            (Sweep::Results, Row::Job(id)) => self.drop_result(id),
            (Sweep::Archive, Row::Job(id)) => self.archive(id, now),
            (_, Row::Month(month)) => self.drop_month(month),
            (Sweep::MarkLost, Row::Worker(id)) => self.lose(id),
            (Sweep::Workers, Row::Worker(id)) => {
                self.workers.remove(&id);
            }
            (_, Row::Event(cursor)) => self.events.remove(cursor),
            (_, Row::Key(actor, key)) => {
                self.keys.remove(&(actor, key));
            }
            (sweep, Row::Job(_) | Row::Worker(_) | Row::Stamps) => unreachable!("{sweep:?} has no such rows"),
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
            record.epoch = epoch.0;
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
        let overrides = record.overrides(self.leader.epoch());
        let overridden = overrides.and_then(overridden_period);
        let mut waiting = self.waiting(sweep, record.reached.as_ref(), self.keep(overridden), usize::MAX);
        waiting.retain(|waiting| waiting.is_due(now));
        let oldest = waiting.first().and_then(|waiting| waiting.due_at);
        let backlog = match sweep {
            Sweep::Reclaim => self.unreclaimed_jobs(),
            Sweep::Restamp if oldest.is_some() => self.finished.iter().count(),
            _ => waiting.len(),
        };
        SweepSummary {
            sweep,
            last_run_at: record.last_run_at,
            duration: record.duration,
            rows: record.rows,
            swept: record.swept,
            backlog: Count::of(backlog as u64),
            behind: oldest.map_or(Duration::ZERO, |due_at| until(now, due_at)),
            batch: record.batch,
            last_error: record.error.as_ref().map(|(message, _)| message.clone()),
            last_error_at: record.error.as_ref().map(|(_, at)| *at),
            overrides: overrides.cloned(),
        }
    }
}

impl Waiting {
    fn new(at: Timestamp, due_at: Option<Timestamp>, id: &impl ToString, row: Row) -> Self {
        Self { due_at, key: SweepKey { at, id: id.to_string() }, row }
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.due_at.is_some_and(|due_at| due_at <= now)
    }
}

/// How far ahead deadlines are looked for: in a database, jobs that were claimed leave dead entries behind them.
const AHEAD: Duration = Duration::from_secs(2);

/// How long until a row is due, if that is as near as the sweep looks.
fn due_in(sweep: Sweep, due_at: Timestamp, now: Timestamp) -> Option<Duration> {
    let due_in = until(due_at, now);
    (sweep != Sweep::Deadlines || due_in <= AHEAD).then_some(due_in)
}

/// Whether a sweep takes rows in an order of time, so that it can go on behind a key.
const fn has_an_order(sweep: Sweep) -> bool {
    !matches!(
        sweep,
        Sweep::MarkLost | Sweep::Reclaim | Sweep::Workers | Sweep::ArchiveExpiry | Sweep::Restamp
    )
}

/// How long the leader's process keeps events, as it wrote that down.
fn overridden_period(overrides: &Json) -> Option<Duration> {
    #[derive(serde::Deserialize)]
    struct Overrides {
        event_retention_period: Option<String>,
    }
    let text = overrides.parse::<Overrides>().ok()?.event_retention_period?;
    let seconds = text.strip_suffix(" seconds")?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn in_order(rows: impl Iterator<Item = Waiting>, most: usize) -> Vec<Waiting> {
    let mut rows: Vec<Waiting> = rows.collect();
    rows.sort_by(|left, right| left.key.cmp(&right.key));
    rows.truncate(most);
    rows
}
