//! What operators ask.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use jiff::Timestamp;

use super::super::{
    ActorSummary, Count, Ending, JobFilter, QueueSummary, Stats, StoreError, WorkerState, WorkerSummary,
};
use super::state::{Lane, State};
use super::workers::Session;
use crate::model::{ActorName, AttemptRecord, Epoch, JobId, JobRecord, Json, QueueName, Status, WorkerId};

/// The longest page of jobs.
const PAGE_LIMIT: u32 = 1_000;
/// How many archived jobs a page looks at.
const ARCHIVED_LOOKED_AT: usize = 100_000;

impl State {
    pub(super) fn job(&self, now: Timestamp, id: JobId) -> Option<JobRecord> {
        self.record(id).map(|job| self.shown(now, job))
    }

    pub(super) fn attempts(&self, id: JobId) -> Vec<AttemptRecord> {
        let range = (id, Epoch(i64::MIN))..=(id, Epoch(i64::MAX));
        self.attempts.range(range).map(|(_, attempt)| attempt.clone()).collect()
    }

    pub(super) fn jobs(&self, now: Timestamp, filter: &JobFilter) -> Result<Vec<JobRecord>, StoreError> {
        if !(1..=PAGE_LIMIT).contains(&filter.limit) {
            return Err(StoreError::invalid(format!("limit is not between 1 and {PAGE_LIMIT}")));
        }
        let below = filter.before.map_or(Bound::Unbounded, Bound::Excluded);
        let archived = self.archive.range((Bound::Unbounded, below)).rev().take(ARCHIVED_LOOKED_AT);
        let mut newest_first: Vec<&JobRecord> =
            self.jobs.range((Bound::Unbounded, below)).rev().chain(archived).map(|(_, job)| job).collect();
        newest_first.sort_by_key(|job| Reverse(job.id));
        let asked = |job: &&JobRecord| {
            filter.status.is_none_or(|status| job.status == status)
                && filter.queue.as_ref().is_none_or(|queue| job.queue == *queue)
                && filter.actor.as_ref().is_none_or(|actor| job.actor == *actor)
        };
        let page = newest_first.into_iter().filter(asked).take(filter.limit as usize);
        Ok(page.map(|job| self.shown(now, job)).collect())
    }

    fn shown(&self, now: Timestamp, job: &JobRecord) -> JobRecord {
        let cancel_requested = job.status == Status::Running && self.cancelling.contains(&job.id);
        JobRecord { cancel_requested, result: kept_result(now, job), ..job.clone() }
    }

    pub(super) fn endings(&self, now: Timestamp, ids: &[JobId]) -> Vec<Ending> {
        let ending = |job: &JobRecord| Ending {
            id: job.id,
            status: job.status,
            result: kept_result(now, job),
            error: job.error.clone(),
        };
        ids.iter().filter_map(|id| self.record(*id)).map(ending).collect()
    }

    pub(super) fn queues(&self, now: Timestamp) -> Vec<QueueSummary> {
        let unfinished = self.jobs.values().filter(|job| !job.status.is_terminal());
        let of_jobs = unfinished.map(|job| &job.queue);
        let of_workers = self.alive_sessions(now).flat_map(|session| &session.queues);
        let names: BTreeSet<&QueueName> =
            of_jobs.chain(of_workers).chain(&self.paused.queues).chain(self.modes.keys()).collect();
        names.into_iter().map(|queue| self.queue(now, queue)).collect()
    }

    fn queue(&self, now: Timestamp, queue: &QueueName) -> QueueSummary {
        let count = |status| {
            let jobs = self.jobs.values().filter(|job| job.status == status && job.queue == *queue);
            Count::of(jobs.count() as u64)
        };
        let head = self.ready.get(queue).and_then(|lanes| lanes.values().filter_map(Lane::first).min());
        QueueSummary {
            queue: queue.clone(),
            mode: self.mode(queue),
            scheduled: count(Status::Scheduled),
            pending: count(Status::Pending),
            running: count(Status::Running),
            // The clock may have stepped back.
            oldest_pending: head
                .map(|(_, at, _)| Duration::try_from(now.duration_since(*at)).unwrap_or_default()),
            workers: self.alive_sessions(now).filter(|session| session.queues.contains(queue)).count() as u64,
            paused: self.paused.queues.contains(queue),
        }
    }

    pub(super) fn stats(&self, now: Timestamp) -> Stats {
        let mut found = BTreeMap::new();
        for job in self.jobs.values() {
            *found.entry(job.status).or_default() += 1;
        }
        let count = |status| (status, Count::of(found.get(&status).copied().unwrap_or_default()));
        Stats {
            jobs: Status::ALL.map(count).to_vec(),
            workers: self
                .workers(now)
                .into_iter()
                .filter(|worker| worker.state == WorkerState::Active)
                .collect(),
            leader: self.leader.worker(now),
            unserved: self.unserved(now),
        }
    }

    pub(super) fn workers(&self, now: Timestamp) -> Vec<WorkerSummary> {
        let summary = |(worker, session): (&WorkerId, &Session)| WorkerSummary {
            worker: *worker,
            state: if session.is_alive(now) { WorkerState::Active } else { WorkerState::Lost },
            queues: session.queues.iter().cloned().collect(),
            actors: session.actors.iter().cloned().collect(),
            started_at: session.started_at,
            lease_expires_at: session.lease_expires_at,
            lease_left: until(session.lease_expires_at, now),
            running: Count::of(self.running.get(worker).map_or(0, BTreeSet::len) as u64),
        };
        let mut workers: Vec<WorkerSummary> = self.workers.iter().map(summary).collect();
        workers.sort_by_key(|summary| (summary.started_at, summary.worker));
        workers
    }

    fn unserved(&self, now: Timestamp) -> Vec<ActorSummary> {
        let mut unserved = Vec::new();
        for (queue, lanes) in &self.ready {
            let mut by_actor: BTreeMap<&ActorName, usize> = BTreeMap::new();
            for (lane, jobs) in lanes {
                *by_actor.entry(&lane.actor).or_default() += jobs.len();
            }
            for (actor, jobs) in by_actor {
                let serves =
                    |session: &Session| session.queues.contains(queue) && session.actors.contains(actor);
                if !self.alive_sessions(now).any(serves) {
                    let pending = Count::of(jobs as u64);
                    unserved.push(ActorSummary { queue: queue.clone(), actor: actor.clone(), pending });
                }
            }
        }
        unserved
    }

    fn alive_sessions(&self, now: Timestamp) -> impl Iterator<Item = &Session> {
        self.workers.values().filter(move |session| session.is_alive(now))
    }
}

/// What is left of a job's result. No sweep takes it away in the archive, so there its stamp decides.
fn kept_result(now: Timestamp, job: &JobRecord) -> Option<Json> {
    let is_gone = job.archived_at.is_some() && job.result_expires_at.is_some_and(|at| at <= now);
    job.result.clone().filter(|_| !is_gone)
}

/// How long it is from now until a moment; zero when it has passed.
pub(super) fn until(moment: Timestamp, now: Timestamp) -> Duration {
    moment.duration_since(now).try_into().unwrap_or_default()
}
