//! A worker session as behaviours use it.

use std::time::Duration;

use taskq_core::model::{
    ClaimedJob, Epoch, ErrorRecord, JobId, Outcome, SettleReason, Settled, Settlement, Status, WorkerId,
};
use taskq_core::store::{
    Beat, BeatReply, ClaimRequest, Claimed, Held, LeaderEpoch, Progress, QueueSlots, Registration,
    StoreError, WorkerSummary,
};

use crate::draft::{actor, json, queue};
use crate::scene::Scene;

/// The lease of a worker unless a behaviour says otherwise: longer than any test takes.
pub(crate) const LEASE: Duration = Duration::from_mins(10);
/// The lease of a leader: shorter than its worker's.
pub(crate) const LEADER_LEASE: Duration = Duration::from_mins(5);

/// A registered worker session.
pub(crate) struct Worker<'s> {
    scene: &'s Scene<'s>,
    pub(crate) id: WorkerId,
}

impl<'s> Worker<'s> {
    pub(crate) async fn register(scene: &'s Scene<'s>, queues: &[&str], actors: &[&str]) -> Self {
        let registration = registration(queues, actors);
        let worker = Self { scene, id: registration.worker };
        scene.store.register_worker(registration).await.expect("the session is valid");
        worker
    }

    /// Asks for jobs of queue `q`, with everything else as usual.
    pub(crate) fn request(&self, slots: u32) -> ClaimRequest {
        self.request_from(&[("q", slots)])
    }

    /// Asks for jobs of several queues.
    pub(crate) fn request_from(&self, queues: &[(&str, u32)]) -> ClaimRequest {
        let slots =
            |(name, slots): &(&str, u32)| QueueSlots { queue: queue(name), slots: *slots, turn: None };
        ClaimRequest {
            worker: self.id,
            queues: queues.iter().map(slots).collect(),
            lease: LEASE,
            oversample: 2,
        }
    }

    pub(crate) async fn try_claim(&self, slots: u32) -> Result<Claimed, StoreError> {
        self.scene.store.claim(self.request(slots)).await
    }

    pub(crate) async fn claim(&self, slots: u32) -> Vec<ClaimedJob> {
        self.try_claim(slots).await.expect("the claim is valid").jobs
    }

    pub(crate) async fn claim_from(&self, queues: &[(&str, u32)]) -> Vec<ClaimedJob> {
        self.scene.store.claim(self.request_from(queues)).await.expect("the claim is valid").jobs
    }

    /// Claims and returns ids only.
    pub(crate) async fn claim_ids(&self, slots: u32) -> Vec<JobId> {
        self.claim(slots).await.into_iter().map(|job| job.id).collect()
    }

    /// Claims the one job that must be there.
    pub(crate) async fn claim_one(&self) -> ClaimedJob {
        let mut jobs = self.claim(1).await;
        assert_eq!(jobs.len(), 1, "a job is ready");
        jobs.remove(0)
    }

    pub(crate) async fn try_settle(
        &self,
        settlements: impl IntoIterator<Item = Settlement>,
    ) -> Result<Vec<Settled>, StoreError> {
        self.scene.store.settle(self.id, settlements.into_iter().collect()).await
    }

    /// Settles several attempts and returns the reasons.
    pub(crate) async fn settle_all(
        &self,
        settlements: impl IntoIterator<Item = Settlement>,
    ) -> Vec<SettleReason> {
        let settled = self.try_settle(settlements).await.expect("the settlements are valid");
        settled.into_iter().map(|settled| settled.reason).collect()
    }

    /// Settles one attempt.
    pub(crate) async fn settle(&self, job: &ClaimedJob, outcome: Outcome) -> Settled {
        let settled = self.try_settle([of(job, outcome)]).await.expect("the settlement is valid");
        assert_eq!(settled.len(), 1);
        assert_eq!(settled[0].id, job.id);
        settled[0]
    }

    /// Settles one attempt, which must be accepted, and returns the job's status.
    pub(crate) async fn end(&self, job: &ClaimedJob, outcome: Outcome) -> Status {
        let settled = self.settle(job, outcome).await;
        assert_eq!(settled.reason, SettleReason::Applied);
        settled.status.expect("the job is there")
    }

    /// A beat that renews the lease and does nothing else.
    pub(crate) fn plain_beat(&self) -> Beat {
        Beat { worker: self.id, lease: LEASE, progress: Vec::new(), leadership: None }
    }

    pub(crate) async fn try_beat(&self) -> Result<BeatReply, StoreError> {
        self.scene.store.heartbeat(self.plain_beat()).await
    }

    pub(crate) async fn beat(&self) {
        self.try_beat().await.expect("the session is alive");
    }

    /// Beats and returns the attempts that somebody asked to cancel, by job.
    pub(crate) async fn requests(&self) -> Vec<(JobId, Epoch)> {
        let mut requests = self.try_beat().await.expect("the session is alive").cancel;
        requests.sort_unstable();
        requests
    }

    /// The error of a job that was taken from the session after its loss.
    pub(crate) fn loss(&self) -> ErrorRecord {
        ErrorRecord::new("lost", &format!("worker {} was lost", self.id))
    }

    /// Beats with a note of progress.
    pub(crate) async fn note(&self, job: &ClaimedJob, progress: &str) -> Result<BeatReply, StoreError> {
        let note = Progress { id: job.id, epoch: job.epoch, progress: json(progress) };
        self.scene.store.heartbeat(Beat { progress: vec![note], ..self.plain_beat() }).await
    }

    /// Beats and asks to lead.
    pub(crate) async fn try_lead(&self) -> Result<BeatReply, StoreError> {
        self.scene.store.heartbeat(Beat { leadership: Some(LEADER_LEASE), ..self.plain_beat() }).await
    }

    /// Beats and asks to lead.
    pub(crate) async fn lead(&self) -> Option<LeaderEpoch> {
        self.try_lead().await.expect("the session is alive").leadership
    }

    pub(crate) async fn held(&self) -> Vec<Held> {
        self.scene.store.held(self.id, None).await.expect("reading succeeds")
    }

    /// Ends the session and returns how many jobs went back.
    pub(crate) async fn release(&self) -> u64 {
        self.scene.store.release_worker(self.id).await.expect("releasing succeeds")
    }

    /// Finds the session among the live ones.
    pub(crate) async fn summary(&self) -> Option<WorkerSummary> {
        self.scene.stats().await.workers.into_iter().find(|summary| summary.worker == self.id)
    }
}

/// A new session that has not registered yet.
pub(crate) fn registration(queues: &[&str], actors: &[&str]) -> Registration {
    Registration {
        worker: WorkerId::new(),
        queues: queues.iter().map(|name| queue(name)).collect(),
        actors: actors.iter().map(|name| actor(name)).collect(),
        lease: LEASE,
        info: None,
    }
}

/// An outcome of the attempt that a claim started.
pub(crate) fn of(job: &ClaimedJob, outcome: Outcome) -> Settlement {
    Settlement { id: job.id, epoch: job.epoch, outcome }
}

pub(crate) fn succeeded() -> Outcome {
    Outcome::Succeeded { result: None }
}

pub(crate) fn failed() -> Outcome {
    Outcome::Failed { error: error("it broke"), delay: None, is_final: false }
}

pub(crate) fn failed_for_good() -> Outcome {
    Outcome::Failed { error: error("it broke for good"), delay: None, is_final: true }
}

/// Failed, to be tried again after this delay without burning an attempt.
pub(crate) fn retry_after(delay: Duration) -> Outcome {
    Outcome::Failed { error: error("not yet"), delay: Some(delay), is_final: false }
}

pub(crate) fn snoozed(delay: Duration) -> Outcome {
    Outcome::Snoozed { delay }
}

pub(crate) fn cancelled() -> Outcome {
    Outcome::Cancelled { error: None }
}

pub(crate) fn abandoned() -> Outcome {
    Outcome::Abandoned { error: error("it did not return") }
}

pub(crate) fn error(message: &str) -> ErrorRecord {
    ErrorRecord::new("error", message)
}
