//! The store: what [`Store`] asks, as calls of the schema's functions.

mod control;
mod copy;
mod documents;
mod enqueue;
mod events;
mod observe;
mod settings;
mod statements;
mod sweeps;
mod wake;
mod work;
mod worker;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use taskq_core::model::{
    ActorName, AttemptRecord, Enqueued, Epoch, EventCursor, JobId, JobRecord, Json, NewJob, QueueName,
    Settled, Settlement, WorkerId,
};
use taskq_core::store::{
    ActorChanges, Beat, BeatReply, Cancelled, CancelledBatch, ClaimRequest, Claimed, Ending, EventPage, Held,
    HookHold, JobFilter, JobMatch, LanePart, LeaderEpoch, LeaderSummary, PruneCall, PrunedBatch, QueueMode,
    QueueSet, QueueSummary, ReclaimBatch, ReclaimOptions, Registration, Retried, RetriedBatch, Setting,
    SettingSummary, Stats, Store, StoreError, Sweep, SweepCall, SweepDue, SweepNote, SweepProbe,
    SweepSummary, Swept, Wakes, WorkerSummary,
};

pub(crate) use self::control::printable;
pub(crate) use self::documents::{check_jobs, of_job, of_jobs};
pub(crate) use self::enqueue::{is_plain, plainly_enqueued};
use self::statements::Statements;
use crate::connect::ConnectOptions;
use crate::dsn::Dsn;
use crate::engine::Engine;
use crate::listen::Hub;
use crate::migrate;
use crate::mode::Route;
use crate::notify::Throttle;
use crate::role::Role;
use crate::schema::SchemaName;
use crate::session::Session;

/// How long dropping a store may wait for wake-ups that it still owes.
const LAST_WAKE_UP: Duration = Duration::from_millis(100);

/// Jobs in a PostgreSQL schema.
///
/// It opens connections when they are first needed and again after a failure: one for enqueues and queries,
/// one each for claims, settles and control (heartbeats and notifications), and one for the leader's sweeps.
/// They are driven by a thread of the store's own, so user code cannot starve them.
pub struct PostgresStore {
    engine: Engine,
    hub: Hub,
    calls: Arc<Calls>,
}

/// What a call needs, apart from the engine it runs on.
struct Calls {
    schema: SchemaName,
    statements: Statements,
    throttle: Throttle,
    client: Session,
    claim: Session,
    settle: Session,
    control: Session,
    sweep: Session,
}

impl PostgresStore {
    /// Connects to the database that `dsn` names: a URL (`postgres://user@host:port/database`) or libpq's
    /// `key=value` form. What it leaves open, the environment says (`PGHOST` and the others of libpq), a service file and a
    /// password file. An option that is unknown or not supported is an error that names it.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] and [`StoreError::Unsupported`] for the DSN, [`StoreError::Unavailable`] when
    /// there is no server, [`StoreError::Refused`] when it refuses (password, database),
    /// [`StoreError::Schema`] when the schema is missing, too old or too new, [`StoreError::Pooler`] when the mode is direct
    /// and a pooler in transaction mode is in between.
    ///
    /// # Cancel safety
    /// Cancel safe: a connection that was being opened is closed.
    pub async fn connect(dsn: &str, options: ConnectOptions) -> Result<Arc<Self>, StoreError> {
        let dsn = dsn.parse::<Dsn>()?.with_password_callback(options.password_callback);
        let engine = Engine::start()?;
        let hub = Hub::new(&options.schema);
        let route = Arc::new(Route::new(options.mode));
        let session = |role, ear| {
            Session::new(role, (&dsn, &route), &options.schema, engine.handle(), engine.door(), ear)
        };
        let calls = Arc::new(Calls {
            statements: Statements::new(&options.schema),
            throttle: Throttle::default(),
            client: session(Role::Client, None),
            claim: session(Role::Claim, Some(hub.ear())),
            settle: session(Role::Settle, None),
            control: session(Role::Control, None),
            sweep: session(Role::Sweep, None),
            schema: options.schema,
        });
        let store = Arc::new(Self { engine, hub, calls });
        if options.check_schema {
            store.check_schema().await?;
        } else {
            store.run(|calls| async move { calls.client.connection().await.map(drop) }).await?;
        }
        Ok(store)
    }

    /// Returns the schema that holds the store.
    pub fn schema(&self) -> &SchemaName {
        &self.calls.schema
    }

    /// Checks that the schema fits this program.
    ///
    /// # Errors
    /// [`StoreError::Schema`] when it is missing, too old or too new.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn check_schema(&self) -> Result<(), StoreError> {
        let calls = Arc::clone(&self.calls);
        self.engine.run(async move { calls.check_schema().await }).await
    }

    /// Runs a call on the engine, to its end even if nobody waits for it.
    async fn run<T, F>(&self, call: impl FnOnce(Arc<Calls>) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let result = self.engine.run(call(Arc::clone(&self.calls))).await;
        let Err(StoreError::Schema(found)) = result else {
            return result;
        };
        // Something was not there; the ledger says more exactly what is wrong.
        match self.check_schema().await {
            Err(StoreError::Schema(problem)) => Err(StoreError::Schema(problem)),
            _ => Err(StoreError::Schema(found)),
        }
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        self.run(|calls| calls.enqueue(jobs)).await
    }

    async fn register_worker(&self, registration: Registration) -> Result<(), StoreError> {
        self.run(|calls| calls.register_worker(registration)).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claimed, StoreError> {
        self.run(|calls| calls.claim(request)).await
    }

    async fn settle(
        &self,
        worker: WorkerId,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<Settled>, StoreError> {
        self.run(|calls| calls.settle(worker, settlements)).await
    }

    async fn complete(
        &self,
        worker: WorkerId,
        id: JobId,
        epoch: Epoch,
        result: Option<Json>,
    ) -> Result<Settled, StoreError> {
        self.run(|calls| calls.complete(worker, id, epoch, result)).await
    }

    async fn heartbeat(&self, beat: Beat) -> Result<BeatReply, StoreError> {
        self.run(|calls| calls.heartbeat(beat)).await
    }

    async fn held(&self, worker: WorkerId, since: Option<Timestamp>) -> Result<Vec<Held>, StoreError> {
        self.run(|calls| calls.held(worker, since)).await
    }

    async fn release_worker(&self, worker: WorkerId) -> Result<u64, StoreError> {
        self.run(|calls| calls.release_worker(worker)).await
    }

    async fn sweeps_due(
        &self,
        leader: WorkerId,
        epoch: LeaderEpoch,
        probes: Vec<SweepProbe>,
        timeout: Option<Duration>,
    ) -> Result<Vec<SweepDue>, StoreError> {
        self.run(move |calls| calls.sweeps_due(leader, epoch, probes, timeout)).await
    }

    async fn sweep(&self, sweep: Sweep, call: SweepCall) -> Result<Swept, StoreError> {
        self.run(move |calls| calls.sweep(sweep, call)).await
    }

    async fn reclaim(&self, call: SweepCall, options: ReclaimOptions) -> Result<ReclaimBatch, StoreError> {
        self.run(|calls| calls.reclaim(call, options)).await
    }

    async fn note_sweeps(
        &self,
        leader: WorkerId,
        epoch: LeaderEpoch,
        notes: Vec<SweepNote>,
    ) -> Result<(), StoreError> {
        self.run(move |calls| calls.note_sweeps(leader, epoch, notes)).await
    }

    async fn sweeps(&self) -> Result<Vec<SweepSummary>, StoreError> {
        self.run(Calls::sweeps).await
    }

    async fn cancel(&self, ids: Vec<JobId>, reason: Option<String>) -> Result<Vec<Cancelled>, StoreError> {
        self.run(|calls| calls.cancel(ids, reason)).await
    }

    async fn cancel_matching(
        &self,
        jobs: JobMatch,
        limit: u32,
        after: Option<JobId>,
        reason: Option<String>,
    ) -> Result<CancelledBatch, StoreError> {
        self.run(|calls| calls.cancel_matching(jobs, limit, after, reason)).await
    }

    async fn retry(&self, ids: Vec<JobId>) -> Result<Vec<Retried>, StoreError> {
        self.run(|calls| calls.retry(ids)).await
    }

    async fn retry_matching(
        &self,
        jobs: JobMatch,
        limit: u32,
        after: Option<JobId>,
    ) -> Result<RetriedBatch, StoreError> {
        self.run(|calls| calls.retry_matching(jobs, limit, after)).await
    }

    async fn prune(&self, call: PruneCall) -> Result<PrunedBatch, StoreError> {
        self.run(|calls| calls.prune(call)).await
    }

    async fn pause(&self, part: LanePart) -> Result<bool, StoreError> {
        self.run(|calls| calls.pause(part)).await
    }

    async fn resume(&self, part: LanePart) -> Result<bool, StoreError> {
        self.run(|calls| calls.resume(part)).await
    }

    async fn set_queue(&self, queue: QueueName, mode: QueueMode, limit: u32) -> Result<QueueSet, StoreError> {
        self.run(|calls| calls.set_queue(queue, mode, limit)).await
    }

    async fn set_actor(&self, actor: ActorName, changes: ActorChanges) -> Result<bool, StoreError> {
        self.run(move |calls| calls.set_actor(actor, changes)).await
    }

    async fn paused_actors(&self) -> Result<Vec<ActorName>, StoreError> {
        self.run(Calls::paused_actors).await
    }

    async fn workers(&self) -> Result<Vec<WorkerSummary>, StoreError> {
        self.run(Calls::workers).await
    }

    async fn leader(&self) -> Result<Option<LeaderSummary>, StoreError> {
        self.run(Calls::leader).await
    }

    async fn job(&self, id: JobId) -> Result<Option<JobRecord>, StoreError> {
        self.run(|calls| calls.job(id)).await
    }

    async fn attempts(&self, id: JobId) -> Result<Vec<AttemptRecord>, StoreError> {
        self.run(|calls| calls.attempts(id)).await
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>, StoreError> {
        self.run(|calls| calls.jobs(filter)).await
    }

    async fn events(&self, after: Option<EventCursor>, limit: u32) -> Result<EventPage, StoreError> {
        self.run(move |calls| calls.events(after, limit)).await
    }

    async fn hold_hook(&self, hold: HookHold) -> Result<Option<EventCursor>, StoreError> {
        self.run(|calls| calls.hold_hook(hold)).await
    }

    async fn set_setting(&self, setting: Setting) -> Result<(), StoreError> {
        self.run(move |calls| calls.set_setting(setting)).await
    }

    async fn settings(&self) -> Result<Vec<SettingSummary>, StoreError> {
        self.run(Calls::settings).await
    }

    async fn endings(&self, ids: Vec<JobId>) -> Result<Vec<Ending>, StoreError> {
        self.run(|calls| calls.endings(ids)).await
    }

    async fn queues(&self) -> Result<Vec<QueueSummary>, StoreError> {
        self.run(Calls::queues).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.run(Calls::stats).await
    }

    async fn wake(&self, queues: Vec<QueueName>, due: bool) -> Result<(), StoreError> {
        self.run(|calls| calls.wake(queues, due)).await
    }

    fn schema(&self) -> Option<&str> {
        Some(self.calls.schema.as_str())
    }

    fn wakes(&self) -> Wakes {
        self.hub.subscribe(&self.calls.claim, self.engine.handle())
    }

    fn runtime(&self) -> Option<tokio::runtime::Handle> {
        Some(self.engine.handle().clone())
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.hub.close();
        if !self.engine.is_here() {
            // A process that enqueues and ends would take the last wake-up with it.
            self.calls.throttle.settle_up(LAST_WAKE_UP);
        }
        self.calls.close();
        self.engine.stop();
    }
}

impl Calls {
    async fn check_schema(&self) -> Result<(), StoreError> {
        let rows = self.client.query(&self.statements.ledger, &[]).await;
        migrate::check(&self.schema, rows)
    }

    /// Lets all connections go.
    fn close(&self) {
        for session in [&self.client, &self.claim, &self.settle, &self.control, &self.sweep] {
            session.close();
        }
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("schema", &self.calls.schema).finish_non_exhaustive()
    }
}
