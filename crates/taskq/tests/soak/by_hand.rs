//! Worker sessions without a worker, which do only what a test says.

use std::time::Duration;

use taskq::prelude::*;
use taskq::{ActorName, JobId, Json, NewJob, QueueName, WorkerId};
use taskq_core::store::{Beat, ClaimRequest, QueueSlots, Registration};

/// As long as that of a real leader.
const LEADER_LEASE: Duration = Duration::from_secs(15);

pub(crate) struct ByHand<'a> {
    taskq: &'a TaskQ,
    worker: WorkerId,
    lease: Duration,
}

impl<'a> ByHand<'a> {
    /// A session of a queue that no worker serves.
    pub(crate) async fn register(taskq: &'a TaskQ, lease: Duration) -> Self {
        let worker = WorkerId::new();
        let (queues, actors) = (vec![queue()], vec![actor()]);
        let registration = Registration { worker, queues, actors, lease, info: None };
        taskq.store().register_worker(registration).await.unwrap();
        Self { taskq, worker, lease }
    }

    /// Beats, asks for the leadership, and says whether it has it.
    pub(crate) async fn leads(&self) -> bool {
        let (lease, leadership) = (self.lease, Some(LEADER_LEASE));
        let beat = Beat { worker: self.worker, lease, progress: Vec::new(), leadership };
        self.taskq.store().heartbeat(beat).await.unwrap().leadership.is_some()
    }

    /// Enqueues a job and claims it.
    pub(crate) async fn claim_one(&self) -> JobId {
        let job = NewJob::new(queue(), actor(), Json::from_text("null".to_owned(), 100).unwrap());
        let id = job.id;
        self.taskq.enqueue_raw(vec![job]).await.unwrap();
        let queues = vec![QueueSlots { queue: queue(), slots: 1, turn: None }];
        let request = ClaimRequest { worker: self.worker, queues, lease: self.lease, oversample: 2 };
        let claimed = self.taskq.store().claim(request).await.unwrap().jobs;
        assert_eq!((claimed.len(), claimed[0].id), (1, id));
        id
    }

    pub(crate) async fn release(self) {
        self.taskq.store().release_worker(self.worker).await.unwrap();
    }
}

fn queue() -> QueueName {
    QueueName::new("by-hand").unwrap()
}

fn actor() -> ActorName {
    ActorName::new("by-hand").unwrap()
}
