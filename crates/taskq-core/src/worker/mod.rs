//! The worker: claims jobs, runs their handlers, settles what became of them.
//!
//! A [`Worker`] is a row of sessions, each with a lease in the store. Within a session a few loops with one
//! duty each work together: the *claimer* takes jobs for free slots, the *executor* runs them on the user's
//! runtime, the *settler* records their outcomes, the *heartbeat* renews the lease, the *leader* makes due jobs
//! ready while this worker leads. The *supervisor* alone starts and ends sessions. The loops run on the store's
//! own runtime where it has one, so that handlers cannot starve them. Two more see to what goes wrong: the *reaper* ends
//! attempts that must end, the *reconciler* compares what runs with what the store thinks runs.

mod around;
mod attempts;
mod backoff;
mod builder;
mod claimer;
mod context;
mod ends;
mod executor;
mod handle;
mod handler;
mod heartbeat;
mod job_error;
mod leader;
mod maintenance;
mod overrides;
mod panics;
mod reach;
mod reaper;
mod reconciler;
mod session;
mod settler;
mod shutdown;
mod slots;
mod stop;
mod supervisor;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use around::{Around, Next};
pub use builder::{
    BuildError, DEFAULT_CANCEL_GRACE, DEFAULT_FORCED_GRACE, DEFAULT_GRACE, DEFAULT_LEASE, DEFAULT_SLOTS,
    SLOTS_LIMIT, WorkerBuilder,
};
pub use context::Context;
pub use ends::{EndResult, JobEnd};
pub use handle::{RunError, ShutdownReport, Stopper, WorkerHandle};
pub use handler::{Handler, RawHandler};
pub use job_error::{JobError, JobErrorKind, JobResult};
pub use panics::install_panic_hook;
pub use stop::StopReason;

use crate::client::Client;
use crate::model::{ActorName, HookName, Json, QueueName};
use handler::Handlers;
pub(crate) use handler::run_alone;

/// A worker that is put together and not yet started.
pub struct Worker {
    client: Client,
    queues: Vec<(QueueName, u32)>,
    handlers: Arc<Handlers>,
    lease: Duration,
    grace: Duration,
    graces: attempts::Graces,
    info: Option<Json>,
    overrides: overrides::Overrides,
    hooks: Vec<(HookName, ends::Hook)>,
}

impl Worker {
    /// Begins to put a worker together.
    pub fn builder(client: &Client) -> WorkerBuilder {
        WorkerBuilder::new(client.clone())
    }

    /// Starts the worker. Its handlers run on the runtime of the caller.
    ///
    /// The store is reached in the background: while it is unavailable the worker waits for it.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub fn start(self) -> WorkerHandle {
        supervisor::start(self)
    }

    /// Runs the worker until the process is asked to end, by SIGINT (Ctrl-C) or SIGTERM.
    ///
    /// At the first signal it claims nothing more, lets attempts go on for the grace, takes back what is left and
    /// returns; at the second it takes back at once.
    ///
    /// # Errors
    /// [`RunError`] when the store refuses the worker, or signals cannot be received.
    ///
    /// # Cancel safety
    /// When the future is dropped, the worker shuts down in the background as after the first signal.
    pub async fn run_until_signal(self) -> Result<ShutdownReport, RunError> {
        shutdown::run_until_signal(self).await
    }

    /// Lists the queues that the worker serves.
    pub fn queues(&self) -> impl Iterator<Item = &QueueName> {
        self.queues.iter().map(|(queue, _)| queue)
    }

    /// Lists the actors that the worker has handlers for.
    pub fn actors(&self) -> impl Iterator<Item = &ActorName> {
        self.handlers.keys()
    }

    /// Returns the client that the worker was built on.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("queues", &self.queues)
            .field("actors", &self.handlers.keys().collect::<Vec<_>>())
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}
