//! Handlers: what runs a job.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;

use super::stop::Control;
use super::{Context, JobError, JobResult};
use crate::client::{Client, Job};
use crate::model::{ActorName, ClaimedJob, Json, RESULT_LIMIT, WorkerId};

/// Runs the jobs of one type.
///
/// Implement it for a struct that holds what the handler needs, with `async fn run`; or pass an async function
/// or a closure `Fn(J, Context) -> Future`.
///
/// The future may be dropped at any await: at the attempt's timeout, at shutdown, when the worker's lease is
/// lost. A job runs at least once, so a handler must bear being run again.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle jobs of type `{J}`",
    note = "implement `Handler<{J}>`, or pass an `async fn(job: {J}, ctx: Context) -> JobResult<Output>` with the job's output type"
)]
pub trait Handler<J: Job>: Send + Sync + 'static {
    /// Runs one attempt.
    fn run(&self, job: J, ctx: Context) -> impl Future<Output = JobResult<J::Output>> + Send;
}

impl<J, F, R> Handler<J> for F
where
    J: Job,
    F: Fn(J, Context) -> R + Send + Sync + 'static,
    R: Future<Output = JobResult<J::Output>> + Send,
{
    fn run(&self, job: J, ctx: Context) -> impl Future<Output = JobResult<J::Output>> + Send {
        self(job, ctx)
    }
}

/// Runs the jobs of one actor without a Rust type: payloads and results are JSON as they are.
///
/// For handlers that are chosen at run time, such as programs. See [`Handler`] for what holds of both.
pub trait RawHandler: Send + Sync + 'static {
    /// Runs one attempt. A result of more than 1 MiB fails the job for good.
    fn run(&self, payload: Json, ctx: Context) -> impl Future<Output = JobResult<Option<Json>>> + Send;
}

impl<F, R> RawHandler for F
where
    F: Fn(Json, Context) -> R + Send + Sync + 'static,
    R: Future<Output = JobResult<Option<Json>>> + Send,
{
    fn run(&self, payload: Json, ctx: Context) -> impl Future<Output = JobResult<Option<Json>>> + Send {
        self(payload, ctx)
    }
}

/// The handlers of a worker.
pub(super) type Handlers = HashMap<ActorName, Arc<dyn ErasedHandler>>;

/// A handler whose types are forgotten.
pub(super) trait ErasedHandler: Send + Sync {
    fn run(self: Arc<Self>, payload: Json, ctx: Context) -> BoxFuture<'static, JobResult<Option<Json>>>;
}

/// Erases a [`Handler`].
pub(super) struct Typed<J, H> {
    handler: H,
    marker: PhantomData<fn(J)>,
}

impl<J: Job, H: Handler<J>> Typed<J, H> {
    pub(super) fn new(handler: H) -> Self {
        Self { handler, marker: PhantomData }
    }
}

impl<J: Job, H: Handler<J>> ErasedHandler for Typed<J, H> {
    fn run(self: Arc<Self>, payload: Json, ctx: Context) -> BoxFuture<'static, JobResult<Option<Json>>> {
        Box::pin(async move {
            let job = decode(&payload, &ctx)?;
            // Not needed twice while the handler runs.
            drop(payload);
            let output = self.handler.run(job, ctx).await?;
            encode(&output)
        })
    }
}

/// Erases a [`RawHandler`].
pub(super) struct Raw<H>(pub(super) H);

impl<H: RawHandler> ErasedHandler for Raw<H> {
    fn run(self: Arc<Self>, payload: Json, ctx: Context) -> BoxFuture<'static, JobResult<Option<Json>>> {
        Box::pin(async move { bounded(self.0.run(payload, ctx).await?) })
    }
}

/// Refuses a result that is too large to be stored.
pub(super) fn bounded(result: Option<Json>) -> JobResult<Option<Json>> {
    match result.as_ref().map(|json| json.as_str().len()) {
        Some(bytes) if bytes > RESULT_LIMIT => {
            Err(invalid_output(format!("the result has {bytes} bytes, more than {RESULT_LIMIT}")))
        }
        _ => Ok(result),
    }
}

/// Runs a handler on a job without a worker, through JSON both ways as with one. A panic is the caller's.
pub(crate) async fn run_alone<J: Job, H: Handler<J>>(
    handler: H,
    job: ClaimedJob,
    client: Client,
) -> JobResult<J::Output> {
    let (payload, ctx) = Context::split(job, WorkerId::new(), client, Control::default());
    let result = Arc::new(Typed::<J, H>::new(handler)).run(payload, ctx.clone()).await;
    if let Some(cleanup) = ctx.begun_cleanup() {
        cleanup.close();
        cleanup.wait().await;
    }
    let result = result?;
    let text = result.as_ref().map_or("null", Json::as_str);
    serde_json::from_str(text).map_err(invalid_output)
}

fn decode<J: Job>(payload: &Json, ctx: &Context) -> JobResult<J> {
    let version = ctx.payload_version();
    if version != J::VERSION {
        let message = format!("this worker knows version {} of the payload, not {version}", J::VERSION);
        // Tried again: while a new version is rolled out, another worker may know it.
        return Err(JobError::from(message).with_class("unknown_payload_version"));
    }
    payload.parse().map_err(|error| JobError::fail(error).with_class("undecodable_payload"))
}

/// Nothing is recorded of an output that says nothing.
fn encode<T: Serialize>(output: &T) -> JobResult<Option<Json>> {
    let json = Json::from_value(output, RESULT_LIMIT).map_err(invalid_output)?;
    Ok((json.as_str() != "null").then_some(json))
}

fn invalid_output(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> JobError {
    JobError::fail(error).with_class("invalid_output")
}
