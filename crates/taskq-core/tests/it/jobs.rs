//! Jobs and waits that the tests share.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskq_core::client::{Client, Job};
use taskq_core::model::{JobId, JobRecord, Status};

/// How long a test waits for what must happen.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);
pub(crate) const QUEUE: &str = "numbers";

#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Double {
    pub(crate) value: i64,
}

impl Job for Double {
    type Output = i64;
    const ACTOR: &'static str = "double";
    const QUEUE: &'static str = QUEUE;
    const MAX_ATTEMPTS: i16 = 3;
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Note {
    pub(crate) text: String,
}

impl Job for Note {
    type Output = ();
    const ACTOR: &'static str = "note";
}

/// Waits until a condition holds, looking often.
pub(crate) async fn until(what: &str, holds: impl AsyncFnMut() -> bool) {
    until_in(DEADLINE, what, holds).await;
}

/// Waits for so long until a condition holds.
pub(crate) async fn until_in(deadline: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let looks = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(tokio::time::timeout(deadline, looks).await.is_ok(), "not reached in time: {what}");
}

pub(crate) async fn job(client: &Client, id: JobId) -> JobRecord {
    client.store().job(id).await.unwrap().expect("the job exists")
}

/// Waits until a job has a status.
pub(crate) async fn until_status(client: &Client, id: JobId, status: Status) -> JobRecord {
    until(status.as_str(), async || job(client, id).await.status == status).await;
    job(client, id).await
}
