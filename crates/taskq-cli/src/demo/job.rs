//! The demo's job and its handler.

use std::collections::HashSet;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskq::{
    ActorName, Context, Handler, Job, JobId, JobResult, Json, NewJob, PAYLOAD_LIMIT, QueueName, RetryPolicy,
};
use tokio::sync::Notify;

use super::{Digest, Progress, digest};
use crate::exit::Failure;

/// Asks for the digest of one file.
#[derive(Serialize, Deserialize, Job, Debug)]
#[job(actor = "demo.digest", queue = "demo", output = Digest, max_attempts = 3)]
pub(crate) struct DigestFile {
    /// The file's absolute path.
    pub(crate) path: String,
}

impl DigestFile {
    /// Makes the job of one file: three attempts, 200 ms apart, and the label of its run.
    pub(crate) fn new_job(path: String, run: &str) -> Result<NewJob, Failure> {
        let usage = |error: String| Failure::usage(format!("a file cannot become a job: {error}"));
        let payload =
            Json::from_value(&Self { path }, PAYLOAD_LIMIT).map_err(|error| usage(error.to_string()))?;
        let queue = QueueName::new(Self::QUEUE).map_err(|error| usage(error.to_string()))?;
        let actor = ActorName::new(Self::ACTOR).map_err(|error| usage(error.to_string()))?;
        Ok(NewJob {
            max_attempts: Self::MAX_ATTEMPTS,
            retry_policy: Some(RetryPolicy::fixed(Duration::from_millis(200))),
            tags: vec![run.to_owned()],
            ..NewJob::new(queue, actor, payload)
        })
    }
}

/// Computes digests on threads where it may block.
#[derive(Debug)]
pub(crate) struct Digester {
    /// The jobs that have not ended.
    pub(crate) outstanding: Outstanding,
    /// Where they are counted.
    pub(crate) progress: Progress,
}

impl Handler<DigestFile> for Digester {
    async fn run(&self, job: DigestFile, ctx: Context) -> JobResult<Digest> {
        let stop = ctx.cancelled().child_token();
        let _stop_when_dropped = stop.clone().drop_guard();
        // On the tracker, so that the attempt is not settled before the file is left alone.
        let reading = ctx.cleanup().spawn_blocking(move || digest(Path::new(&job.path), &stop));
        let result = reading.await?;
        if (result.is_ok() || ctx.attempt() >= i32::from(ctx.max_attempts()))
            && self.outstanding.ended([ctx.id()]) > 0
        {
            self.progress.ended(1);
        }
        Ok(result?)
    }
}

/// The demo's jobs that have not ended, as far as this process knows: it asks the database only for those it
/// does not hear of. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outstanding(Arc<Expected>);

#[derive(Debug, Default)]
struct Expected {
    jobs: Mutex<HashSet<JobId>>,
    emptied: Notify,
}

impl Outstanding {
    /// Adds jobs, before they are enqueued.
    pub(crate) fn expect(&self, jobs: impl IntoIterator<Item = JobId>) {
        self.lock().extend(jobs);
    }

    /// Takes jobs away that have ended; returns how many were there.
    pub(crate) fn ended(&self, jobs: impl IntoIterator<Item = JobId>) -> u64 {
        let mut outstanding = self.lock();
        let ended = jobs.into_iter().map(|job| u64::from(outstanding.remove(&job))).sum();
        if outstanding.is_empty() {
            self.0.emptied.notify_waiters();
        }
        ended
    }

    /// Returns some of the jobs.
    pub(crate) fn some(&self, limit: usize) -> Vec<JobId> {
        self.lock().iter().take(limit).copied().collect()
    }

    /// Waits until all have ended.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn all_ended(&self) {
        loop {
            let mut emptied = pin!(self.0.emptied.notified());
            // Armed before the look.
            emptied.as_mut().enable();
            if self.lock().is_empty() {
                return;
            }
            emptied.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<JobId>> {
        // Whole after every operation on it.
        self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
