//! Enqueueing.

use taskq_core::model::{EnqueueOutcome, Status};

use crate::scene::{Scene, draft};

pub(crate) async fn a_job_is_stored_as_it_was_given(scene: Scene<'_>) {
    let (enqueued, when) = scene.during(scene.enqueue([draft()])).await;
    assert_eq!((enqueued[0].outcome, enqueued[0].status), (EnqueueOutcome::Created, Status::Pending));
    let stored = scene.job(enqueued[0].id).await;
    assert_eq!(stored.status, Status::Pending);
    when.assert_holds(stored.created_at);
}
