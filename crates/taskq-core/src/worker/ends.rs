//! Hooks of ends: telling of every job that has ended, whoever ended it.
//!
//! A hook has a place in the feed of events that the store keeps. One of the workers that have it holds it under a lease,
//! follows the feed and moves the place on behind what the hook has dealt with.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::Worker;
use super::backoff::Backoff;
use super::handle::{RunError, ShutdownReport, Stopper};
use crate::client::Client;
use crate::model::{Epoch, EventCursor, EventRecord, HookName, JobId, JobRecord, Status};
use crate::store::{HookHold, StoreError};

/// How long a hook stays with a holder that is not heard of. As long as a worker's session: whoever dies loses both.
const LEASE: Duration = Duration::from_secs(30);
/// How often the hold is renewed, and how often it is asked for while another has it.
const BEAT: Duration = Duration::from_secs(10);
/// How often what was dealt with is noted: so much is told again after a crash.
const NOTE: Duration = Duration::from_secs(1);
/// So much before the lease ends the hook is stopped, for the store's clock and ours need not go alike.
const MARGIN: Duration = Duration::from_secs(3);
/// The pause after the feed has told everything.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// What a hook of ends returns. After an error it is told of the same end again.
pub type EndResult = Result<(), Box<dyn Error + Send + Sync>>;

/// A job has ended: what [`WorkerBuilder::on_end`](super::WorkerBuilder::on_end) is told.
#[derive(Clone)]
pub struct JobEnd {
    /// The job.
    pub job: JobId,
    /// How it ended. An operator may have made it ready again since.
    pub status: Status,
    /// When it ended, by the store's clock.
    pub at: Timestamp,
    /// The attempt that ended it; `None` when none did, as when it was cancelled before it started, or its deadline passed.
    pub epoch: Option<Epoch>,
    client: Client,
}

impl JobEnd {
    fn of(event: &EventRecord, client: &Client) -> Option<Self> {
        let status = match event.kind.as_str() {
            "succeeded" => Status::Succeeded,
            "failed" | "expired" => Status::Failed,
            "cancelled" => Status::Cancelled,
            "crashed" => Status::Crashed,
            "abandoned" => Status::Abandoned,
            _ => return None,
        };
        let detail = event.detail.as_ref().and_then(|detail| detail.parse::<serde_json::Value>().ok());
        let epoch = detail.and_then(|detail| detail["epoch"].as_i64()).map(Epoch);
        Some(Self { job: event.job_id, status, at: event.occurred_at, epoch, client: client.clone() })
    }

    /// Reads the job as it stands now; `None` when it is not there any more, as one that keeps nothing.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot answer.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn record(&self) -> Result<Option<JobRecord>, StoreError> {
        self.client.store().job(self.job).await
    }

    /// Returns the worker's client, to enqueue what follows.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

impl fmt::Debug for JobEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobEnd")
            .field("job", &self.job)
            .field("status", &self.status)
            .field("at", &self.at)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// A hook whose type is forgotten.
pub(super) type Hook = Arc<dyn Fn(JobEnd) -> BoxFuture<'static, EndResult> + Send + Sync>;

/// The hooks of a worker.
pub(super) struct Followers {
    all: Vec<Follower>,
    /// Fires when the worker has ended.
    over: CancellationToken,
    grace: Duration,
}

impl Followers {
    pub(super) fn new(worker: &Worker, user: &Handle) -> Self {
        let over = CancellationToken::new();
        let follower = |(name, hook): &(HookName, Hook)| Follower {
            name: name.clone(),
            hook: Arc::clone(hook),
            client: worker.client.clone(),
            user: user.clone(),
            holder: Uuid::now_v7(),
            stop: over.clone(),
            reached: Mutex::default(),
            told: AtomicU64::new(0),
        };
        Self { all: worker.hooks.iter().map(follower).collect(), over, grace: worker.grace }
    }

    /// Runs the hooks beside the worker's work, and beyond its end until they have been told what it did, for at most the
    /// worker's grace. A hook that the store refuses stops the worker.
    pub(super) async fn beside(
        self,
        stopper: Stopper,
        work: impl Future<Output = Result<ShutdownReport, RunError>>,
    ) -> Result<ShutdownReport, RunError> {
        let mut hooks: JoinSet<_> = self.all.into_iter().map(Follower::run).collect();
        let mut work = std::pin::pin!(work);
        let mut failure = None;
        let result = loop {
            tokio::select! {
                biased;
                result = &mut work => break result,
                Some(ended) = hooks.join_next() => {
                    let ended = ended.unwrap_or_else(|error| Err(RunError::Engine(error.to_string())));
                    failure = failure.or(ended.err());
                    stopper.stop();
                }
            }
        };
        self.over.cancel();
        let last = async { while hooks.join_next().await.is_some() {} };
        tokio::select! {
            () = stopper.stopping_now().cancelled() => {}
            _ = timeout(self.grace, last) => {}
        }
        failure.map_or(result, Err)
    }
}

/// Follows the feed for one hook while it can be held.
struct Follower {
    name: HookName,
    hook: Hook,
    client: Client,
    user: Handle,
    holder: Uuid,
    /// Fires when nothing more is to be waited for.
    stop: CancellationToken,
    /// Behind what the hook has dealt with; `None` while it is not held.
    reached: Mutex<Option<EventCursor>>,
    /// How many ends the hook has dealt with.
    told: AtomicU64,
}

impl Follower {
    /// Runs until it is stopped. Only what the store says first can refuse it.
    async fn run(self) -> Result<(), RunError> {
        let mut backoff = Backoff::new(Duration::from_millis(100), BEAT);
        let mut first = true;
        while !self.stop.is_cancelled() {
            let asked = Instant::now();
            let pause = match self.hold(LEASE).await {
                Ok(Some(from)) => {
                    first = false;
                    self.follow(from, asked + LEASE - MARGIN).await;
                    backoff.reset();
                    backoff.step()
                }
                Ok(None) => {
                    first = false;
                    BEAT
                }
                Err(error) if first && !error.is_transient() => return Err(RunError::Refused(error)),
                Err(error) => {
                    tracing::error!(hook = %self.name, %error, "the hook of ends cannot be held; it is told of nothing");
                    backoff.step()
                }
            };
            self.rest(pause).await;
        }
        Ok(())
    }

    /// Follows the feed from a place until the hook is stopped or lost.
    async fn follow(&self, from: EventCursor, until: Instant) {
        *self.place() = Some(from);
        tokio::select! {
            () = self.tell(from) => {
                if let Err(error) = self.hold(Duration::ZERO).await {
                    tracing::warn!(hook = %self.name, %error, "the hook of ends could not be given back; its last ends are told again");
                }
            }
            () = self.keep(until) => {
                tracing::warn!(hook = %self.name, "the hook of ends is lost; another tells of what it has not dealt with");
            }
        }
        *self.place() = None;
    }

    /// Tells of what has ended, one after another, until the hook is stopped and has been told everything.
    async fn tell(&self, from: EventCursor) {
        let mut events = self.client.events().from(from);
        let mut pause = Backoff::new(PAUSE.0, PAUSE.1);
        loop {
            match events.try_next().await {
                Ok(Some(event)) => {
                    let end = JobEnd::of(&event, &self.client);
                    if let Some(end) = &end
                        && !self.tell_of(end).await
                    {
                        return;
                    }
                    *self.place() = events.cursor();
                    self.told.fetch_add(end.is_some().into(), Ordering::Release);
                    pause.reset();
                }
                Ok(None) => {
                    *self.place() = events.cursor();
                    if self.stop.is_cancelled() {
                        return;
                    }
                    self.rest(pause.step()).await;
                }
                Err(_) if self.stop.is_cancelled() => return,
                Err(error) => {
                    tracing::warn!(hook = %self.name, %error, "the feed of events cannot be read; it is tried again");
                    self.rest(pause.step()).await;
                }
            }
        }
    }

    /// Tells of one end until the hook has dealt with it; false when it is stopped before.
    async fn tell_of(&self, end: &JobEnd) -> bool {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_mins(1));
        loop {
            let call = AbortOnDropHandle::new(self.user.spawn((self.hook)(end.clone())));
            let error = match call.await {
                Ok(Ok(())) => return true,
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            tracing::error!(
                hook = %self.name, job = %end.job, status = %end.status, error,
                "the hook of ends failed; it is told again, and of nothing else until then"
            );
            self.rest(backoff.step()).await;
            if self.stop.is_cancelled() {
                return false;
            }
        }
    }

    /// Keeps the hook and notes what was dealt with, until it is lost.
    async fn keep(&self, mut until: Instant) {
        let (mut noted, mut renewed) = (self.told.load(Ordering::Acquire), Instant::now());
        loop {
            sleep_until((Instant::now() + NOTE).min(until)).await;
            let asked = Instant::now();
            if asked >= until {
                return;
            }
            let told = self.told.load(Ordering::Acquire);
            // That the feed moves on without ends is worth no write: each one would move it on.
            if told == noted && asked < renewed + BEAT {
                continue;
            }
            match timeout_at(until, self.hold(LEASE)).await {
                Ok(Ok(Some(_))) => {
                    (noted, renewed, until) = (told, asked, asked + LEASE - MARGIN);
                }
                Ok(Ok(None)) | Err(_) => return,
                Ok(Err(error)) => {
                    tracing::warn!(hook = %self.name, %error, "the hook of ends cannot be kept; it is tried again");
                }
            }
        }
    }

    async fn hold(&self, lease: Duration) -> Result<Option<EventCursor>, StoreError> {
        let reached = *self.place();
        let hold = HookHold { hook: self.name.clone(), holder: self.holder, lease, reached };
        self.client.store().hold_hook(hold).await
    }

    /// Waits, unless the hook is stopped.
    async fn rest(&self, pause: Duration) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = sleep(pause) => {}
        }
    }

    fn place(&self) -> std::sync::MutexGuard<'_, Option<EventCursor>> {
        // It is a value that is replaced whole.
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
