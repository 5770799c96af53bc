//! Jobs without a Rust type.

use std::fmt;
use std::future::IntoFuture;

use futures_util::future::BoxFuture;

use super::prepared::check_each;
use crate::client::{Client, EnqueueError};
use crate::model::{Enqueued, NewJob};

/// Jobs without a Rust type about to be enqueued in one call, all of them or, when one is refused, none: await it.
///
/// The answers come in the order of the jobs. A call whose answer is lost is repeated once; a job that the lost call had
/// written is answered as `Existing` then, as is any job whose id was there before. Fails with
/// [`EnqueueError::Element`], which names the first job that the store refuses.
///
/// # Cancel safety
/// Dropping the future before it is done leaves it open whether the jobs are written.
#[must_use = "jobs are enqueued only when this is awaited"]
pub struct EnqueueRaw {
    client: Client,
    jobs: Vec<NewJob>,
}

impl EnqueueRaw {
    pub(in crate::client) fn new(client: Client, jobs: Vec<NewJob>) -> Self {
        Self { client, jobs }
    }

    /// Checks every bound that can be checked without the store, for whoever writes the jobs in a transaction of their
    /// own: the client, and the jobs as the store would receive them.
    ///
    /// # Errors
    /// [`EnqueueError::Element`] names the first job that is refused.
    pub fn prepare(self) -> Result<(Client, Vec<NewJob>), EnqueueError> {
        check_each(&self.jobs)?;
        Ok((self.client, self.jobs))
    }
}

impl IntoFuture for EnqueueRaw {
    type Output = Result<Vec<Enqueued>, EnqueueError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.client.write(self.jobs).await })
    }
}

impl fmt::Debug for EnqueueRaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnqueueRaw").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}
