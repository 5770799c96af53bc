//! Queues, actors and worker sessions by name: what operators do with one of them.

use std::ops::Deref;

use super::{Client, LaneControl, OperateError, SetQueue};
use crate::model::{ActorName, InvalidName, JobRecord, QueueName, WorkerId};
use crate::store::{Held, JobFilter, JobMatch, LanePart, QueueMode, QueueSummary, StoreError, WorkerSummary};

impl Client {
    /// Names a queue, to look at it, to pause or resume it, or to set its mode. It need not have jobs.
    pub fn queue(&self, name: impl Into<String>) -> QueueHandle {
        let name = QueueName::new(name.into());
        let lane = LaneControl::new(self.clone(), name.clone().map(LanePart::Queue));
        QueueHandle { lane, client: self.clone(), name }
    }

    /// Names an actor, to look at its jobs, or to pause or resume it. It need not have jobs.
    pub fn actor(&self, name: impl Into<String>) -> ActorHandle {
        let name = ActorName::new(name.into());
        let lane = LaneControl::new(self.clone(), name.clone().map(LanePart::Actor));
        ActorHandle { lane, client: self.clone(), name }
    }

    /// Names a worker session, which need not be alive.
    pub fn worker(&self, id: WorkerId) -> SessionHandle {
        SessionHandle { client: self.clone(), id }
    }
}

/// A queue. It can be paused and resumed as a [`LaneControl`].
#[derive(Clone, Debug)]
pub struct QueueHandle {
    lane: LaneControl,
    client: Client,
    name: Result<QueueName, InvalidName>,
}

impl QueueHandle {
    /// Says how it stands; `None` when it has no unfinished job, no setting and no live worker.
    ///
    /// # Errors
    /// [`OperateError`] when the name is not a name, or the store cannot be reached.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn summary(&self) -> Result<Option<QueueSummary>, OperateError> {
        let name = self.name.clone()?;
        let queues = self.client.store().queues().await?;
        Ok(queues.into_iter().find(|summary| summary.queue == name))
    }

    /// Lists its jobs, newest first, as the rest of the filter says.
    ///
    /// # Errors
    /// [`OperateError`] when the name is not a name, or the store cannot be reached or refuses the filter.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>, OperateError> {
        let filter = JobFilter { queue: Some(self.name.clone()?), ..filter };
        Ok(self.client.store().jobs(filter).await?)
    }

    /// Makes the match of its jobs, to be narrowed and then [cancelled](Client::cancel_matching) or
    /// [retried](Client::retry_matching).
    ///
    /// # Errors
    /// [`InvalidName`] when the name is not a name.
    pub fn matching(&self) -> Result<JobMatch, InvalidName> {
        Ok(JobMatch { queue: Some(self.name.clone()?), ..JobMatch::default() })
    }

    /// Prepares to set its mode: see [`Client::set_queue`].
    pub fn set_mode(&self, mode: QueueMode) -> SetQueue {
        SetQueue::new(self.client.clone(), self.name.clone(), mode)
    }
}

impl Deref for QueueHandle {
    type Target = LaneControl;

    fn deref(&self) -> &LaneControl {
        &self.lane
    }
}

/// An actor. It can be paused and resumed as a [`LaneControl`].
#[derive(Clone, Debug)]
pub struct ActorHandle {
    lane: LaneControl,
    client: Client,
    name: Result<ActorName, InvalidName>,
}

impl ActorHandle {
    /// Says whether its jobs are held back.
    ///
    /// # Errors
    /// [`OperateError`] when the name is not a name, or the store cannot be reached.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn is_paused(&self) -> Result<bool, OperateError> {
        let name = self.name.clone()?;
        Ok(self.client.store().paused_actors().await?.contains(&name))
    }

    /// Lists its jobs, newest first, as the rest of the filter says.
    ///
    /// # Errors
    /// [`OperateError`] when the name is not a name, or the store cannot be reached or refuses the filter.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>, OperateError> {
        let filter = JobFilter { actor: Some(self.name.clone()?), ..filter };
        Ok(self.client.store().jobs(filter).await?)
    }

    /// Makes the match of its jobs, to be narrowed and then [cancelled](Client::cancel_matching) or
    /// [retried](Client::retry_matching).
    ///
    /// # Errors
    /// [`InvalidName`] when the name is not a name.
    pub fn matching(&self) -> Result<JobMatch, InvalidName> {
        Ok(JobMatch { actor: Some(self.name.clone()?), ..JobMatch::default() })
    }
}

impl Deref for ActorHandle {
    type Target = LaneControl;

    fn deref(&self) -> &LaneControl {
        &self.lane
    }
}

/// A worker session.
#[derive(Clone, Debug)]
pub struct SessionHandle {
    client: Client,
    id: WorkerId,
}

impl SessionHandle {
    /// Returns its id.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// Says how it stands; `None` when there is no such session, or it ended in order.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot answer.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn summary(&self) -> Result<Option<WorkerSummary>, StoreError> {
        let workers = self.client.store().workers().await?;
        Ok(workers.into_iter().find(|summary| summary.worker == self.id))
    }

    /// Lists the attempts that the store thinks it runs, in the order in which they started.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot answer.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn running(&self) -> Result<Vec<Held>, StoreError> {
        self.client.store().held(self.id, None).await
    }

    /// Ends the session: its jobs go back at once, without burning an attempt, instead of when its lease has ended. Returns
    /// how many those are. For one whose process is known to be dead: one that lives finds its lease lost, ends its
    /// attempts and starts a new session, and until it has, its jobs may run twice.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be reached. It can be repeated; a session that is not there is no error.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether it is done; it can be repeated.
    pub async fn end(&self) -> Result<u64, StoreError> {
        self.client.store().release_worker(self.id).await
    }
}
