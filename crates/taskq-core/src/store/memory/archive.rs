//! Finished jobs: how long they stay among the others, and the archive behind.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::civil::Time;
use jiff::tz::Offset;
use jiff::{Timestamp, ToSpan};

use super::super::{ActorChanges, StoreError, Swept};
use super::clock::{later, whole_micros_of};
use super::state::State;
use super::validate;
use crate::model::{ActorName, JobId, JobRecord, Status};

/// How long after a hot period has changed the stamps are made anew.
const RESTAMP_DELAY: Duration = Duration::from_secs(5);

/// Finished jobs by when their hot period is over.
#[derive(Default)]
pub(super) struct Finished {
    by_time: BTreeSet<(Timestamp, JobId)>,
    stamps: BTreeMap<JobId, Timestamp>,
}

impl Finished {
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Timestamp, JobId)> {
        self.by_time.iter()
    }

    pub(super) fn remove(&mut self, id: JobId) {
        if let Some(at) = self.stamps.remove(&id) {
            self.by_time.remove(&(at, id));
        }
    }

    fn stamp(&mut self, id: JobId, at: Timestamp) {
        self.remove(id);
        self.by_time.insert((at, id));
        self.stamps.insert(id, at);
    }
}

/// What is particular to actors, and how far a change of theirs or of the settings has come.
#[derive(Default)]
pub(super) struct HotPeriods {
    actors: BTreeMap<ActorName, HotPeriod>,
    restamp: Option<Restamp>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct HotPeriod {
    hot: Option<Duration>,
    failed: Option<Duration>,
}

struct Restamp {
    requested_at: Timestamp,
    reached: Option<(Timestamp, JobId)>,
}

impl State {
    /// A job, on whichever side it is.
    pub(super) fn record(&self, id: JobId) -> Option<&JobRecord> {
        self.jobs.get(&id).or_else(|| self.archive.get(&id))
    }

    /// Says of a job that has just ended until when it stays among the others.
    pub(super) fn stamp(&mut self, id: JobId) {
        if let Some(at) = self.hot_until(id) {
            self.finished.stamp(id, at);
        }
    }

    fn hot_until(&self, id: JobId) -> Option<Timestamp> {
        let job = self.jobs.get(&id)?;
        let own = self.hot.actors.get(&job.actor).copied().unwrap_or_default();
        let period = match job.status {
            Status::Succeeded | Status::Cancelled => own.hot.unwrap_or(self.settings.hot_period),
            _ => own.failed.unwrap_or(self.settings.failed_hot_period),
        };
        Some(later(job.finished_at?, period))
    }

    /// Moves a job to the archive. Its attempts are found by its id on both sides.
    pub(super) fn archive(&mut self, id: JobId, now: Timestamp) {
        let Some(mut job) = self.jobs.remove(&id) else { return };
        self.finished.remove(id);
        if let Some(at) = job.result_expires_at {
            self.results.remove(&(at, id));
            if at <= now {
                job.result = None;
            }
        }
        job.archived_at = Some(now);
        self.archive.insert(id, job);
    }

    /// Moves a job back from the archive, if it is there.
    pub(super) fn bring_back(&mut self, id: JobId) {
        if let Some(job) = self.archive.remove(&id) {
            self.jobs.insert(id, JobRecord { archived_at: None, ..job });
        }
    }

    /// The months of which the archive has jobs, by their first moments.
    pub(super) fn archive_months(&self) -> BTreeSet<Timestamp> {
        self.archive.values().filter_map(|job| job.finished_at).map(month).collect()
    }

    pub(super) fn drop_month(&mut self, dropped: Timestamp) {
        let of_month = |job: &&JobRecord| job.finished_at.map(month) == Some(dropped);
        let ids: Vec<JobId> = self.archive.values().filter(of_month).map(|job| job.id).collect();
        for id in ids {
            self.remove(id);
        }
    }

    pub(super) fn set_actor(
        &mut self,
        now: Timestamp,
        actor: ActorName,
        changes: ActorChanges,
    ) -> Result<bool, StoreError> {
        validate::actor_changes(&changes)?;
        let own = self.hot.actors.entry(actor).or_default();
        let before = *own;
        if let Some(period) = changes.hot_period {
            own.hot = period.map(whole_micros_of);
        }
        if let Some(period) = changes.failed_hot_period {
            own.failed = period.map(whole_micros_of);
        }
        let has_changed = *own != before;
        if has_changed {
            self.request_restamp(now);
        }
        Ok(has_changed)
    }

    pub(super) fn request_restamp(&mut self, now: Timestamp) {
        self.hot.restamp = Some(Restamp { requested_at: now, reached: None });
    }

    /// From when on stamps are to be made anew.
    pub(super) fn restamp_due(&self) -> Option<Timestamp> {
        self.hot.restamp.as_ref().map(|restamp| later(restamp.requested_at, RESTAMP_DELAY))
    }

    /// Makes the stamps of the next finished jobs anew, in their order.
    pub(super) fn restamp(&mut self, most: usize) -> Swept {
        let Some(reached) = self.hot.restamp.as_ref().map(|restamp| restamp.reached) else {
            return Swept::default();
        };
        let behind = self.finished.iter().filter(|place| reached.is_none_or(|reached| **place > reached));
        let places: Vec<(Timestamp, JobId)> = behind.take(most).copied().collect();
        let mut rows = 0;
        for (at, id) in &places {
            if let Some(stamp) = self.hot_until(*id).filter(|stamp| stamp != at) {
                self.finished.stamp(*id, stamp);
                rows += 1;
            }
        }
        let more = places.len() == most;
        match &mut self.hot.restamp {
            Some(restamp) if more => restamp.reached = places.last().copied(),
            restamp => *restamp = None,
        }
        Swept { rows, more, ..Swept::default() }
    }
}

/// The first moment of a time's month, by UTC.
fn month(at: Timestamp) -> Timestamp {
    let first = Offset::UTC.to_datetime(at).date().first_of_month();
    Offset::UTC.to_timestamp(first.to_datetime(Time::midnight())).unwrap_or(Timestamp::MIN)
}

/// The first moment of the month behind the one that begins at a time.
pub(super) fn next_month(month: Timestamp) -> Timestamp {
    let next = Offset::UTC.to_datetime(month).checked_add(1.month());
    next.and_then(|next| Offset::UTC.to_timestamp(next)).unwrap_or(Timestamp::MAX)
}
