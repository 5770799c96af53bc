//! A handler ends its process.

use std::time::Duration;

use taskq::NewJob;

use crate::crew::{Deed, WITHIN};
use crate::scene::{Scene, fact, new_job, size};

const LEASE: Duration = Duration::from_secs(2);
const BUDGET: i16 = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn a_handler_that_aborts_its_process() {
    let neighbours = size("TASKQ_SOAK_JOBS", 50, 500);
    let scene = Scene::new().await;
    let leader = scene.leading().await;
    let taskq = scene.taskq().await;
    let aborts = NewJob { max_attempts: BUDGET, ..new_job(&taskq, &Deed::Abort(100)) };
    taskq.enqueue_raw(vec![aborts.clone()]).await.unwrap();
    let mut enqueued = scene.enqueue(neighbours, &Deed::Sleep(300)).await;
    enqueued.push(aborts.id.0);

    // A healthy worker that takes the aborting job dies as well, so each is replaced.
    let mut mates = [scene.member(LEASE).spawn(), scene.member(LEASE).spawn()];
    let mut deaths = 0;
    let all_ended = scene.all_ended(WITHIN);
    tokio::pin!(all_ended);
    loop {
        let [one, two] = &mut mates;
        let dead = tokio::select! {
            () = &mut all_ended => break,
            ended = one.process.wait(WITHIN * 2) => (0, ended),
            ended = two.process.wait(WITHIN * 2) => (1, ended),
        };
        assert_eq!(dead.1.code(), None, "it died by a signal");
        scene.harness().killed(mates[dead.0].id()).unwrap();
        deaths += 1;
        mates[dead.0] = scene.member(LEASE).spawn();
    }
    fact("processes aborted", deaths);
    assert_eq!(deaths, BUDGET, "one for each attempt");
    let end = taskq.store().job(aborts.id).await.unwrap().unwrap();
    fact("the aborting job", format!("{} after {} attempts", end.status, end.attempt));
    assert_eq!((end.status, end.attempt), (taskq::Status::Crashed, i32::from(BUDGET)));
    let finished = scene.number("SELECT count(*) FROM taskq.jobs WHERE status = 'succeeded'").await;
    fact("neighbours that succeeded", finished);
    assert_eq!(finished.unsigned_abs(), neighbours);
    for mate in mates {
        mate.process.wait_for_line("the worker has registered", WITHIN).await;
        assert_eq!(mate.stop().await.code, Some(0));
    }
    scene.check(&enqueued).await;
    leader.stop();
    leader.join().await.unwrap();
}
