//! `claim`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::{ClaimRequest, Claimed, QueueMode, QueueSlots, StoreError};
use super::clock::later;
use super::state::{End, State};
use super::validate;
use crate::model::{
    ActorName, ClaimedJob, ErrorRecord, EventLevel, JobId, JobRecord, QueueName, Status, WorkerId,
};

/// The most jobs that one claim may ask of one queue.
const SLOTS_LIMIT: u32 = 10_000;
/// The most candidates that may be looked at for each job wanted.
const OVERSAMPLE_LIMIT: u16 = 100;

impl State {
    pub(super) fn claim(&mut self, now: Timestamp, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        check(request)?;
        let session = self.alive(request.worker, now)?;
        for QueueSlots { queue, .. } in &request.queues {
            if !session.queues.contains(queue) {
                let message = format!("queue `{queue}` is not one that the worker registered");
                return Err(StoreError::invalid(message));
            }
        }
        let actors = session.actors.difference(&self.paused.actors).cloned().collect();
        let (mut jobs, mut turns) = (Vec::new(), Vec::new());
        for QueueSlots { queue, slots, turn } in &request.queues {
            if self.paused.queues.contains(queue) {
                continue;
            }
            let by = (request.worker, now);
            match self.mode(queue) {
                QueueMode::StrictFifo => self.claim_in_order(queue, &actors, *slots, by, &mut jobs),
                QueueMode::RoundRobin => {
                    let turn = self.claim_turns(queue, &actors, *slots, turn.as_ref(), by, &mut jobs);
                    turns.extend(turn.map(|turn| (queue.clone(), turn)));
                }
            }
        }
        if !jobs.is_empty() {
            let session = self.alive_mut(request.worker, now)?;
            if session.lease_expires_at < later(now, request.lease / 2) {
                session.lease_expires_at = later(now, request.lease);
            }
        }
        let at = (!jobs.is_empty()).then_some(now);
        Ok(Claimed { jobs, turns, more: false, at })
    }

    fn claim_in_order(
        &mut self,
        queue: &QueueName,
        actors: &BTreeSet<ActorName>,
        slots: u32,
        (worker, now): (WorkerId, Timestamp),
        claimed: &mut Vec<ClaimedJob>,
    ) {
        // What came back, or was enqueued, while the lanes still took turns.
        self.merge_cohorts(queue, |actor| actors.contains(actor), usize::MAX);
        let mut free = slots;
        while free > 0
            && let Some(id) = self.head(queue, actors)
        {
            free -= u32::from(self.claim_one(id, worker, now, claimed));
        }
    }

    /// Starts a ready job, or ends it if its deadline has passed; returns whether it was started.
    pub(super) fn claim_one(
        &mut self,
        id: JobId,
        worker: WorkerId,
        now: Timestamp,
        claimed: &mut Vec<ClaimedJob>,
    ) -> bool {
        if self.jobs[&id].schedule_to_close.is_some_and(|deadline| deadline <= now) {
            self.expire(id, now);
            return false;
        }
        let job = as_claimed(self.start(id, worker, now));
        let detail = json!({"epoch": job.epoch, "attempt": job.attempt, "worker": worker});
        self.tell_at(EventLevel::All, now, id, "claimed", &detail);
        claimed.push(job);
        true
    }

    /// Ends a job whose deadline has passed before an attempt started.
    pub(super) fn expire(&mut self, id: JobId, now: Timestamp) {
        let error = ErrorRecord::new("deadline", "the deadline passed before an attempt started");
        self.end(id, now, End { status: Status::Failed, result: None, error: Some(error) });
        self.tell(now, id, "expired", &Value::Null);
    }

    /// The job that comes first among the lanes' heads.
    fn head(&self, queue: &QueueName, actors: &BTreeSet<ActorName>) -> Option<JobId> {
        let lanes = self.ready.get(queue)?;
        let served = lanes.iter().filter(|(lane, _)| actors.contains(&lane.actor));
        served.filter_map(|(_, jobs)| jobs.first()).min().map(|(.., id)| *id)
    }
}

fn check(request: &ClaimRequest) -> Result<(), StoreError> {
    validate::lease("lease", request.lease)?;
    if !(1..=OVERSAMPLE_LIMIT).contains(&request.oversample) {
        return Err(StoreError::invalid(format!("oversample is not between 1 and {OVERSAMPLE_LIMIT}")));
    }
    if request.queues.is_empty() {
        return Err(StoreError::invalid("no queue to claim from"));
    }
    let mut seen = BTreeSet::new();
    for (index, QueueSlots { queue, slots, .. }) in request.queues.iter().enumerate() {
        let message = if !(1..=SLOTS_LIMIT).contains(slots) {
            format!("slots is not between 1 and {SLOTS_LIMIT}")
        } else if !seen.insert(queue) {
            format!("queue `{queue}` is asked twice")
        } else {
            continue;
        };
        return Err(StoreError::Invalid { index: Some(index), message });
    }
    Ok(())
}

fn as_claimed(job: &JobRecord) -> ClaimedJob {
    ClaimedJob {
        id: job.id,
        queue: job.queue.clone(),
        actor: job.actor.clone(),
        epoch: job.epoch,
        attempt: job.attempt,
        max_attempts: job.max_attempts,
        priority: job.priority,
        payload: job.payload.clone(),
        payload_version: job.payload_version,
        scheduled_at: job.scheduled_at,
        schedule_to_close: job.schedule_to_close,
        start_to_close: job.start_to_close,
        metadata: job.metadata.clone(),
        tags: job.tags.clone(),
        trace_context: job.trace_context.clone(),
    }
}
