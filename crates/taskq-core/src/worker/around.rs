//! Code around attempts: what every handler of a worker has in common.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::handler::{ErasedHandler, bounded};
use super::{Context, JobResult};
use crate::model::Json;

/// Code that runs around every attempt of a worker: tracing, metrics, a transaction or a tenant that handlers find set up.
///
/// Implement it for a struct, or pass an async closure. It gets the attempt and [what comes next](Next), and returns what
/// becomes of the job: as a rule what `next.run()` returned.
///
/// ```
/// # use std::sync::atomic::{AtomicU64, Ordering};
/// # use std::sync::Arc;
/// # use taskq_core::worker::{Context, Next, Worker};
/// # let client = taskq_core::testing::client();
/// let failures = Arc::new(AtomicU64::new(0));
/// let counter = Arc::clone(&failures);
/// Worker::builder(&client).around(move |_: Context, next: Next| {
///     let failures = Arc::clone(&counter);
///     async move {
///         let result = next.run().await;
///         failures.fetch_add(u64::from(result.is_err()), Ordering::Relaxed);
///         result
///     }
/// });
/// ```
///
/// Several compose: the first one that is added is the outermost. What holds of a [`Handler`](super::Handler) holds of
/// them: the future may be dropped at any await, and a panic is a failure of the attempt.
pub trait Around: Send + Sync + 'static {
    /// Runs one attempt, `next` included, unless it shall not run.
    fn around(&self, ctx: Context, next: Next) -> impl Future<Output = JobResult<Option<Json>>> + Send;
}

impl<F, R> Around for F
where
    F: Fn(Context, Next) -> R + Send + Sync + 'static,
    R: Future<Output = JobResult<Option<Json>>> + Send,
{
    fn around(&self, ctx: Context, next: Next) -> impl Future<Output = JobResult<Option<Json>>> + Send {
        self(ctx, next)
    }
}

/// What comes next around an attempt: the code that was added later, and at last the handler.
///
/// Dropped, the handler does not run.
#[must_use = "the handler runs when this does"]
pub struct Next {
    payload: Json,
    ctx: Context,
    layered: Arc<Layered>,
    index: usize,
}

impl Next {
    /// Returns what the handler receives.
    pub fn payload(&self) -> &Json {
        &self.payload
    }

    /// Changes what the handler receives, as one does that was enqueued encrypted.
    pub fn with_payload(mut self, payload: Json) -> Self {
        self.payload = payload;
        self
    }

    /// Runs it and returns what becomes of the job; a result is the handler's output as JSON, and none when it says
    /// nothing.
    ///
    /// # Errors
    /// What the handler returned.
    ///
    /// # Cancel safety
    /// Dropping the future drops the handler's.
    pub async fn run(mut self) -> JobResult<Option<Json>> {
        let index = self.index;
        self.index += 1;
        match self.layered.layers.get(index).cloned() {
            Some(layer) => layer.around(self.ctx.clone(), self).await,
            None => Arc::clone(&self.layered.handler).run(self.payload, self.ctx).await,
        }
    }
}

/// Code around attempts whose type is forgotten.
pub(super) trait ErasedAround: Send + Sync {
    fn around(self: Arc<Self>, ctx: Context, next: Next) -> BoxFuture<'static, JobResult<Option<Json>>>;
}

impl<A: Around> ErasedAround for A {
    fn around(self: Arc<Self>, ctx: Context, next: Next) -> BoxFuture<'static, JobResult<Option<Json>>> {
        Box::pin(async move { Around::around(self.as_ref(), ctx, next).await })
    }
}

/// A handler with the code around it.
pub(super) struct Layered {
    handler: Arc<dyn ErasedHandler>,
    layers: Arc<[Arc<dyn ErasedAround>]>,
}

impl Layered {
    pub(super) fn new(handler: Arc<dyn ErasedHandler>, layers: Arc<[Arc<dyn ErasedAround>]>) -> Self {
        Self { handler, layers }
    }
}

impl ErasedHandler for Layered {
    fn run(self: Arc<Self>, payload: Json, ctx: Context) -> BoxFuture<'static, JobResult<Option<Json>>> {
        Box::pin(async move { bounded(Next { payload, ctx, layered: self, index: 0 }.run().await?) })
    }
}
