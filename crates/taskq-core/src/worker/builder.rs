//! How a worker is put together.

use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::around::{ErasedAround, Layered};
use super::attempts::Graces;
use super::ends::{EndResult, Hook, JobEnd};
use super::handler::{ErasedHandler, Handlers, Raw, Typed};
use super::overrides::{BATCH_LIMIT, Overrides, PERIOD_LIMIT};
use super::{Around, Handler, RawHandler, Worker};
use crate::client::{Client, Job};
use crate::model::{ActorName, HookName, InvalidName, Json, QueueName};

/// The slots of a queue unless something else fits better.
pub const DEFAULT_SLOTS: u32 = 32;
/// The most slots of one queue.
pub const SLOTS_LIMIT: u32 = 10_000;
/// How long a session lives without a heartbeat.
///
/// Long enough that a database's restart kills no worker, short enough that a dead one's jobs run again soon.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// How long a shutdown lets attempts go on. What supervisors of processes usually allow.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(30);
/// How long an attempt whose job is cancelled may go on to end by itself.
pub const DEFAULT_CANCEL_GRACE: Duration = Duration::from_secs(30);
/// How long an attempt may take to end once its future is dropped. Cleanup, such as reaping a killed process, takes
/// moments; what takes longer will hardly end.
pub const DEFAULT_FORCED_GRACE: Duration = Duration::from_secs(10);

const LEASE_MIN: Duration = Duration::from_secs(1);
const LEASE_MAX: Duration = Duration::from_hours(24);

/// Puts a [`Worker`] together. Everything is checked by [`build`](Self::build).
#[must_use = "a worker exists once it is built"]
pub struct WorkerBuilder {
    client: Client,
    queues: Vec<(String, u32)>,
    handlers: Vec<Registered>,
    layers: Vec<Arc<dyn ErasedAround>>,
    hooks: Vec<(String, Hook)>,
    lease: Duration,
    grace: Duration,
    graces: Graces,
    info: Option<Json>,
    overrides: Overrides,
}

struct Registered {
    actor: String,
    /// The queue of a typed handler's job.
    queue: Option<&'static str>,
    handler: Arc<dyn ErasedHandler>,
}

/// What is wrong with how a worker was put together, and what to do about it.
///
/// Its `Debug` form is its message, since that is what a `main` prints that returns it.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The worker serves no queue.
    #[error("the worker serves no queue: add `.queue(name, slots)`")]
    NoQueue,
    /// The worker has no handler.
    #[error("the worker has no handler: add `.handle::<J>(handler)` or `.actor(name, handler)`")]
    NoHandler,
    /// A queue's or an actor's name is not a name.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// One queue was added twice.
    #[error("the queue \"{queue}\" was added twice: remove one `.queue(\"{queue}\", …)`")]
    DuplicateQueue {
        /// The queue.
        queue: QueueName,
    },
    /// One actor has two handlers.
    #[error("the actor \"{actor}\" has two handlers: remove one, or give its job another actor")]
    DuplicateHandler {
        /// The actor.
        actor: ActorName,
    },
    /// One hook of ends was added twice.
    #[error("the hook of ends \"{hook}\" was added twice: give each a name of its own")]
    DuplicateHook {
        /// The hook.
        hook: HookName,
    },
    /// The jobs of a handler are enqueued to a queue that the worker does not serve.
    #[error(
        "jobs of the actor \"{actor}\" go to the queue \"{queue}\", which this worker does not serve: add \
         `.queue(\"{queue}\", slots)`, or remove the handler"
    )]
    UnservedQueue {
        /// The actor.
        actor: ActorName,
        /// The queue of its jobs.
        queue: QueueName,
    },
    /// A queue has no slot or too many.
    #[error("the queue \"{queue}\" has {slots} slots: give it 1 to {SLOTS_LIMIT}")]
    Slots {
        /// The queue.
        queue: QueueName,
        /// What was asked for.
        slots: u32,
    },
    /// The lease is too short or too long.
    #[error("the lease of {lease:?} is out of bounds: give it 1 s to 24 h")]
    Lease {
        /// What was asked for.
        lease: Duration,
    },
    /// Events are to be kept for too long.
    #[error("events kept for {period:?} are out of bounds: give it at most 36,600 days, or zero for ever")]
    EventRetentionPeriod {
        /// What was asked for.
        period: Duration,
    },
    /// A batch of events has no event or too many.
    #[error("a batch of {size} events is out of bounds: give it 1 to 100,000")]
    EventRetentionBatchSize {
        /// What was asked for.
        size: u32,
    },
}

impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl WorkerBuilder {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            queues: Vec::new(),
            handlers: Vec::new(),
            layers: Vec::new(),
            hooks: Vec::new(),
            lease: DEFAULT_LEASE,
            grace: DEFAULT_GRACE,
            graces: Graces { cooperative: DEFAULT_CANCEL_GRACE, forced: DEFAULT_FORCED_GRACE },
            info: None,
            overrides: Overrides::default(),
        }
    }

    /// Serves a queue with as many attempts at once as it has slots: 1 to 10,000, of which
    /// [`DEFAULT_SLOTS`] is a good first guess.
    pub fn queue(mut self, queue: impl Into<String>, slots: u32) -> Self {
        self.queues.push((queue.into(), slots));
        self
    }

    /// Adds the handler of a job type: a struct, an async function or a closure.
    pub fn handle<J: Job>(self, handler: impl Handler<J>) -> Self {
        self.register(J::ACTOR.to_owned(), Some(J::QUEUE), Arc::new(Typed::new(handler)))
    }

    /// Adds the handler of an actor whose jobs have no Rust type.
    pub fn actor(self, actor: impl Into<String>, handler: impl RawHandler) -> Self {
        self.register(actor.into(), None, Arc::new(Raw(handler)))
    }

    /// Adds code around every attempt of this worker, whatever its handler: see [`Around`]. The first one that is added is
    /// the outermost.
    pub fn around(mut self, around: impl Around) -> Self {
        self.layers.push(Arc::new(around));
        self
    }

    /// Tells of every end of every job of the store, whoever ended it: this worker or another, of whatever language, a
    /// cancellation before the job started, a deadline, the rescue of a dead worker's jobs.
    ///
    /// The name is that of the hook's place in the feed of events, which the store keeps: any number of workers may have the
    /// hook, one of them at a time tells of what has ended, and when that one dies another goes on. A new hook is told of
    /// what ends from about its first start on. Ends are told one after another, each at least once: after a crash, those
    /// of the last second or so again. When the hook returns an error or panics, it is told again after a pause that grows
    /// to a minute, and of nothing else until then: one that cannot deal with an end returns `Ok`. Its future is dropped
    /// when the hook is lost to another worker. What has ended is told within a second or two, later while a transaction
    /// that began before it is open.
    ///
    /// The setting [`EventLevel`](crate::model::EventLevel) must be `ends` or `all`, which costs a row a job: else the
    /// worker refuses to run, with [`RunError::Refused`](super::RunError::Refused). Ends that happen while it is lower are
    /// not told, and none is longer after its end than events are kept (`event_retention_period`, 7 days).
    ///
    /// ```
    /// # use taskq_core::worker::{JobEnd, Worker};
    /// # let client = taskq_core::testing::client();
    /// Worker::builder(&client).on_end("billing", async |end: JobEnd| {
    ///     if let Some(job) = end.record().await? {
    ///         println!("{} of {} {}", end.job, job.actor, end.status);
    ///     }
    ///     Ok(())
    /// });
    /// ```
    pub fn on_end<F, R>(mut self, name: impl Into<String>, hook: F) -> Self
    where
        F: Fn(JobEnd) -> R + Send + Sync + 'static,
        R: Future<Output = EndResult> + Send + 'static,
    {
        self.hooks.push((name.into(), Arc::new(move |end| Box::pin(hook(end)))));
        self
    }

    /// Sets how long the session lives without a heartbeat; 1 s to 24 h, default 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how long a shutdown lets attempts go on before it takes them back; default 30 s.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets how long an attempt whose job is cancelled may go on to end by itself before its future is dropped; default
    /// 30 s.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.graces.cooperative = grace;
        self
    }

    /// Sets how long an attempt may take to end once its future is dropped, at a cancellation, a timeout or a shutdown;
    /// default 10 s. After a cancellation or a timeout its job is abandoned then: it is never tried again, and the slot
    /// stays taken as long as the handler does.
    pub fn forced_grace(mut self, grace: Duration) -> Self {
        self.graces.forced = grace;
        self
    }

    /// Sets the facts that operators see of the worker, a JSON object. Default: its process id.
    pub fn info(mut self, info: Json) -> Self {
        self.info = Some(info);
        self
    }

    /// Keeps events for so long whatever the store's setting says, in the sweeps that this worker runs while it leads: at
    /// most 36,600 days, zero is for ever.
    pub const fn event_retention_period(mut self, period: Duration) -> Self {
        self.overrides.event_retention_period = Some(period);
        self
    }

    /// Deletes events in batches of at most so many whatever the store's setting says, in the sweeps that this worker runs
    /// while it leads: 1 to 100,000.
    pub const fn event_retention_batch_size(mut self, size: u32) -> Self {
        self.overrides.event_retention_batch_size = Some(size);
        self
    }

    /// Checks everything and makes the worker.
    ///
    /// # Errors
    /// [`BuildError`] says what is wrong and what to do about it.
    pub fn build(self) -> Result<Worker, BuildError> {
        let queues = checked_queues(self.queues)?;
        let mut handlers = checked_handlers(self.handlers, &queues)?;
        if !self.layers.is_empty() {
            let layers: Arc<[_]> = self.layers.into();
            for handler in handlers.values_mut() {
                *handler = Arc::new(Layered::new(Arc::clone(handler), Arc::clone(&layers)));
            }
        }
        if !(LEASE_MIN..=LEASE_MAX).contains(&self.lease) {
            return Err(BuildError::Lease { lease: self.lease });
        }
        if let Some(period) = self.overrides.event_retention_period.filter(|period| *period > PERIOD_LIMIT) {
            return Err(BuildError::EventRetentionPeriod { period });
        }
        if let Some(size) = self.overrides.event_retention_batch_size
            && !(1..=BATCH_LIMIT).contains(&size)
        {
            return Err(BuildError::EventRetentionBatchSize { size });
        }
        let hooks = checked_hooks(self.hooks)?;
        Ok(Worker {
            client: self.client,
            queues,
            handlers: Arc::new(handlers),
            lease: self.lease,
            grace: self.grace,
            graces: self.graces,
            info: self.info.or_else(default_info),
            overrides: self.overrides,
            hooks,
        })
    }

    fn register(
        mut self,
        actor: String,
        queue: Option<&'static str>,
        handler: Arc<dyn ErasedHandler>,
    ) -> Self {
        self.handlers.push(Registered { actor, queue, handler });
        self
    }
}

fn checked_queues(given: Vec<(String, u32)>) -> Result<Vec<(QueueName, u32)>, BuildError> {
    let mut queues: Vec<(QueueName, u32)> = Vec::with_capacity(given.len());
    for (queue, slots) in given {
        let queue = QueueName::new(queue)?;
        if queues.iter().any(|(other, _)| *other == queue) {
            return Err(BuildError::DuplicateQueue { queue });
        }
        if !(1..=SLOTS_LIMIT).contains(&slots) {
            return Err(BuildError::Slots { queue, slots });
        }
        queues.push((queue, slots));
    }
    if queues.is_empty() { Err(BuildError::NoQueue) } else { Ok(queues) }
}

fn checked_handlers(given: Vec<Registered>, queues: &[(QueueName, u32)]) -> Result<Handlers, BuildError> {
    let mut handlers = Handlers::with_capacity(given.len());
    for Registered { actor, queue, handler } in given {
        let actor = ActorName::new(actor)?;
        if let Some(queue) = queue.map(QueueName::new).transpose()?
            && !queues.iter().any(|(served, _)| *served == queue)
        {
            return Err(BuildError::UnservedQueue { actor, queue });
        }
        match handlers.entry(actor) {
            Entry::Occupied(entry) => {
                return Err(BuildError::DuplicateHandler { actor: entry.key().clone() });
            }
            Entry::Vacant(entry) => entry.insert(handler),
        };
    }
    if handlers.is_empty() { Err(BuildError::NoHandler) } else { Ok(handlers) }
}

fn checked_hooks(given: Vec<(String, Hook)>) -> Result<Vec<(HookName, Hook)>, BuildError> {
    let mut hooks: Vec<(HookName, Hook)> = Vec::with_capacity(given.len());
    for (name, hook) in given {
        let name = HookName::new(name)?;
        if hooks.iter().any(|(other, _)| *other == name) {
            return Err(BuildError::DuplicateHook { hook: name });
        }
        hooks.push((name, hook));
    }
    Ok(hooks)
}

fn default_info() -> Option<Json> {
    Json::from_store(format!(r#"{{"pid":{}}}"#, std::process::id())).ok()
}
