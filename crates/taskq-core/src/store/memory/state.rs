//! What is stored, and the transitions that keep the ordered sets true.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::super::Turn;
use super::archive::{Finished, HotPeriods};
use super::clock::later;
use super::events::Events;
use super::hints::Hints;
use super::hooks::Hook;
use super::keys::Keys;
use super::leader::Leader;
use super::pause::Paused;
use super::settings::Settings;
use super::sweeps::Records;
use super::turns::Modes;
use super::workers::Session;
use crate::model::{
    AttemptRecord, Epoch, ErrorRecord, FairnessKey, HookName, JobId, JobRecord, Json, Notify, OutcomeKind,
    QueueName, Status, WorkerId,
};

/// A ready job's place in its lane: by priority, the highest first, then by time, then by id.
pub(super) type Place = (Reverse<i16>, Timestamp, JobId);

/// The ready jobs of one queue, actor and cohort.
pub(super) type Lane = BTreeSet<Place>;

/// Everything that a store knows.
///
/// `ready`, `scheduled`, `running`, `deadlines` and `results` hold exactly the jobs of these kinds; only the transitions
/// below touch them.
pub(super) struct State {
    pub(super) jobs: BTreeMap<JobId, JobRecord>,
    pub(super) attempts: BTreeMap<(JobId, Epoch), AttemptRecord>,
    /// The lanes of each queue, in the order of its ring.
    pub(super) ready: BTreeMap<QueueName, BTreeMap<Turn, Lane>>,
    pub(super) scheduled: BTreeSet<(Timestamp, JobId)>,
    pub(super) running: BTreeMap<WorkerId, BTreeSet<(Timestamp, JobId)>>,
    /// Jobs whose cancellation was asked for while they ran. Such a job never runs again unless an operator
    /// retries it, which takes the mark away, so the requests that are open are the marks of running jobs.
    pub(super) cancelling: BTreeSet<JobId>,
    /// The cohorts of the jobs that have one, whatever their status.
    pub(super) cohorts: BTreeMap<JobId, FairnessKey>,
    pub(super) modes: Modes,
    pub(super) keys: Keys,
    pub(super) paused: Paused,
    pub(super) workers: BTreeMap<WorkerId, Session>,
    pub(super) leader: Leader,
    /// The deadlines of jobs that have not started.
    pub(super) deadlines: BTreeSet<(Timestamp, JobId)>,
    /// Results that are kept for a time.
    pub(super) results: BTreeSet<(Timestamp, JobId)>,
    /// Finished jobs that are not archived yet, by when they will be.
    pub(super) finished: Finished,
    /// Finished jobs whose hot period was over.
    pub(super) archive: BTreeMap<JobId, JobRecord>,
    pub(super) hot: HotPeriods,
    pub(super) events: Events,
    pub(super) hooks: BTreeMap<HookName, Hook>,
    pub(super) settings: Settings,
    pub(super) sweeps: Records,
    pub(super) hints: Hints,
    pub(super) random: fastrand::Rng,
}

/// How a job ends.
pub(super) struct End {
    pub(super) status: Status,
    pub(super) result: Option<Json>,
    pub(super) error: Option<ErrorRecord>,
}

/// How an attempt ends that does not end its job.
pub(super) struct Return {
    pub(super) outcome: OutcomeKind,
    pub(super) error: Option<ErrorRecord>,
    pub(super) next: Next,
    pub(super) attempt: Burnt,
}

/// When a job that was given back runs again.
#[derive(Clone, Copy)]
pub(super) enum Next {
    /// It is ready, whatever its time says, and keeps that time.
    AsItWas,
    /// After a delay; ready at once when there is none.
    After(Duration),
    /// After a delay, and when there is none, then as soon as the leader makes it ready.
    Scheduled(Duration),
}

/// Whether an attempt counts against `max_attempts`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Burnt {
    Yes,
    No,
}

impl State {
    pub(super) fn new(random: fastrand::Rng) -> Self {
        Self {
            jobs: BTreeMap::new(),
            attempts: BTreeMap::new(),
            ready: BTreeMap::new(),
            scheduled: BTreeSet::new(),
            running: BTreeMap::new(),
            cancelling: BTreeSet::new(),
            cohorts: BTreeMap::new(),
            modes: Modes::default(),
            keys: Keys::default(),
            paused: Paused::default(),
            workers: BTreeMap::new(),
            leader: Leader::default(),
            deadlines: BTreeSet::new(),
            results: BTreeSet::new(),
            finished: Finished::default(),
            archive: BTreeMap::new(),
            hot: HotPeriods::default(),
            events: Events::default(),
            hooks: BTreeMap::new(),
            settings: Settings::default(),
            sweeps: Records::new(),
            hints: Hints::default(),
            random,
        }
    }

    /// Stores a new job, scheduled or ready.
    pub(super) fn insert(&mut self, job: JobRecord, notify: Notify) {
        let id = job.id;
        if let Some(key) = &job.fairness_key {
            self.cohorts.insert(id, key.clone());
        }
        self.jobs.insert(id, job);
        // A call may hold other jobs, of whom somebody is to be told.
        let before = (notify == Notify::None).then(|| self.hints.clone());
        self.index(id);
        if let Some(before) = before {
            self.hints = before;
        }
    }

    /// Takes a ready job's cohort away: it belongs to its actor's lane then.
    pub(super) fn merge(&mut self, id: JobId) {
        self.unindex(id);
        self.cohorts.remove(&id);
        self.index(id);
    }

    /// Starts an attempt of a ready job and returns the job.
    pub(super) fn start(&mut self, id: JobId, worker: WorkerId, now: Timestamp) -> &JobRecord {
        self.unindex(id);
        let job = self.indexed(id);
        job.status = Status::Running;
        job.attempt += 1;
        job.epoch.0 += 1;
        job.started_at = Some(now);
        job.worker = Some(worker);
        self.index(id);
        self.indexed(id)
    }

    /// Ends a job. Its worker and epoch stay, so that a repeated settlement is recognised.
    pub(super) fn end(&mut self, id: JobId, now: Timestamp, end: End) {
        let ttl = self.settings.result_ttl;
        self.unindex(id);
        let job = self.indexed(id);
        job.status = end.status;
        job.result = end.result;
        job.error = end.error;
        job.finished_at = Some(now);
        if job.result.is_some() && !ttl.is_zero() {
            let expires_at = later(now, ttl);
            job.result_expires_at = Some(expires_at);
            self.results.insert((expires_at, id));
        }
        self.stamp(id);
    }

    /// Removes a job that has ended, on whichever side it is, and its attempts.
    pub(super) fn remove(&mut self, id: JobId) {
        if let Some(expires_at) = self.jobs.remove(&id).and_then(|job| job.result_expires_at) {
            self.results.remove(&(expires_at, id));
        }
        self.archive.remove(&id);
        self.finished.remove(id);
        self.cohorts.remove(&id);
        self.cancelling.remove(&id);
        let attempts: Vec<_> =
            self.attempts.range((id, Epoch(i64::MIN))..=(id, Epoch(i64::MAX))).map(|(key, _)| *key).collect();
        for key in attempts {
            self.attempts.remove(&key);
        }
    }

    /// Ends an attempt of a running job, which becomes ready or scheduled again.
    pub(super) fn give_back(&mut self, id: JobId, now: Timestamp, back: Return) {
        self.unindex(id);
        let job = self.indexed(id);
        let (worker, started_at) = run(job);
        job.worker = None;
        let attempt = AttemptRecord {
            job_id: id,
            epoch: job.epoch,
            attempt: job.attempt,
            outcome: back.outcome,
            worker,
            started_at,
            finished_at: now,
            error: back.error.clone(),
        };
        if back.error.is_some() {
            job.error = back.error;
        }
        if back.attempt == Burnt::No {
            job.attempt -= 1;
        }
        if let Next::After(delay) | Next::Scheduled(delay) = back.next {
            job.scheduled_at = later(now, delay);
        }
        job.status = match back.next {
            Next::Scheduled(_) => Status::Scheduled,
            Next::After(_) if job.scheduled_at > now => Status::Scheduled,
            Next::After(_) | Next::AsItWas => Status::Pending,
        };
        self.attempts.insert((id, attempt.epoch), attempt);
        self.index(id);
    }

    /// Makes an ended job ready again, as if it had just been enqueued, but for its error, its epoch and its
    /// attempts, to which the one that ended it is added.
    pub(super) fn reopen(&mut self, id: JobId, now: Timestamp) {
        self.cancelling.remove(&id);
        self.finished.remove(id);
        let job = self.indexed(id);
        let last = last_attempt(job);
        job.status = Status::Pending;
        job.attempt = 0;
        job.scheduled_at = now;
        job.schedule_to_close = None;
        job.worker = None;
        job.started_at = None;
        job.finished_at = None;
        let result = job.result_expires_at.take().map(|at| (at, id));
        job.result = None;
        job.progress = None;
        if let Some(result) = result {
            self.results.remove(&result);
        }
        if let Some(attempt) = last {
            self.attempts.insert((id, attempt.epoch), attempt);
        }
        self.index(id);
    }

    /// Takes a job's result away; its stamp stays.
    pub(super) fn drop_result(&mut self, id: JobId) {
        let job = self.indexed(id);
        job.result = None;
        if let Some(at) = job.result_expires_at {
            self.results.remove(&(at, id));
        }
    }

    /// Makes a scheduled job ready.
    pub(super) fn ready(&mut self, id: JobId) {
        self.unindex(id);
        self.indexed(id).status = Status::Pending;
        self.index(id);
    }

    /// Finds a job that one of the ordered sets, or the caller just now, has named.
    fn indexed(&mut self, id: JobId) -> &mut JobRecord {
        self.jobs.get_mut(&id).expect("a job that has not ended is there")
    }

    /// Puts a job into the set of its status and leaves the hint for those who wait for it.
    fn index(&mut self, id: JobId) {
        let job = &self.jobs[&id];
        if let Some(deadline) = waits_until(job) {
            self.deadlines.insert((deadline, id));
        }
        match job.status {
            Status::Pending => {
                self.hints.ready(&job.queue);
                let lanes = self.ready.entry(job.queue.clone()).or_default();
                let lane = Turn { actor: job.actor.clone(), cohort: self.cohorts.get(&id).cloned() };
                lanes.entry(lane).or_default().insert(place(job));
            }
            Status::Scheduled => {
                self.hints.due();
                self.scheduled.insert((job.scheduled_at, id));
            }
            Status::Running => {
                let (worker, started_at) = run(job);
                self.running.entry(worker).or_default().insert((started_at, id));
            }
            _ => {}
        }
    }

    /// Takes a job out of the set of its status.
    fn unindex(&mut self, id: JobId) {
        let job = &self.jobs[&id];
        if let Some(deadline) = waits_until(job) {
            self.deadlines.remove(&(deadline, id));
        }
        match job.status {
            Status::Pending => {
                let lanes = self.ready.get_mut(&job.queue).expect("a ready job has its queue's lanes");
                let key = Turn { actor: job.actor.clone(), cohort: self.cohorts.get(&id).cloned() };
                let lane = lanes.get_mut(&key).expect("a ready job has its lane");
                lane.remove(&place(job));
                if lane.is_empty() {
                    lanes.remove(&key);
                }
                if lanes.is_empty() {
                    self.ready.remove(&job.queue);
                }
            }
            Status::Scheduled => {
                self.scheduled.remove(&(job.scheduled_at, id));
            }
            Status::Running => {
                let (worker, started_at) = run(job);
                let held = self.running.get_mut(&worker).expect("a running job is held by its worker");
                held.remove(&(started_at, id));
                if held.is_empty() {
                    self.running.remove(&worker);
                }
            }
            _ => {}
        }
    }
}

/// Who runs a job that runs, and since when.
fn run(job: &JobRecord) -> (WorkerId, Timestamp) {
    job.worker.zip(job.started_at).expect("a running job has a worker and a start")
}

/// The attempt that ended a job; `None` when it ended without one, as before it started.
fn last_attempt(job: &JobRecord) -> Option<AttemptRecord> {
    Some(AttemptRecord {
        job_id: job.id,
        epoch: job.epoch,
        attempt: job.attempt,
        outcome: OutcomeKind::from_word(job.status.as_str())?,
        worker: job.worker?,
        started_at: job.started_at?,
        finished_at: job.finished_at?,
        error: job.error.clone(),
    })
}

/// The deadline of a job that has not started, or not again.
fn waits_until(job: &JobRecord) -> Option<Timestamp> {
    let waits = matches!(job.status, Status::Scheduled | Status::Blocked | Status::Pending);
    job.schedule_to_close.filter(|_| waits)
}

fn place(job: &JobRecord) -> Place {
    (Reverse(job.priority), job.scheduled_at, job.id)
}
