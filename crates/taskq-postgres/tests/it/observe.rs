//! What operators ask, where PostgreSQL answers it in its own way.

use taskq_core::model::{ActorName, Json, NewJob, PAYLOAD_LIMIT, QueueName, RetryPolicy, Status};
use taskq_core::store::{Count, JobFilter, Store};

use crate::database::{client, migrated, store};

fn job(queue: &str, actor: &str) -> NewJob {
    let payload = Json::from_value(&1, PAYLOAD_LIMIT).unwrap();
    NewJob::new(QueueName::new(queue).unwrap(), ActorName::new(actor).unwrap(), payload)
}

#[tokio::test]
async fn pages_of_many_ready_or_scheduled_jobs_are_complete() {
    let database = migrated().await;
    let store = store(&database).await;
    let first = job("r", "b");
    let oldest = first.id;
    store.enqueue(vec![first]).await.unwrap();
    for count in [2_000, Count::BOUND] {
        let jobs = (0..count).map(|_| job("q", "a")).collect();
        store.enqueue(jobs).await.unwrap();
        let newest = job("\u{10ffff}q", "a");
        let newest_id = newest.id;
        store.enqueue(vec![newest]).await.unwrap();
        for status in [Status::Pending, Status::Scheduled] {
            let change = format!("UPDATE taskq.jobs SET status = '{status}'");
            client(database.dsn()).await.batch_execute(&change).await.unwrap();
            let filter = JobFilter { status: Some(status), limit: 2, ..JobFilter::default() };
            let page = store.jobs(filter.clone()).await.unwrap();
            assert_eq!((page.len(), page[0].id), (2, newest_id), "{status}");
            let of_queue = JobFilter { queue: Some(QueueName::new("r").unwrap()), ..filter.clone() };
            let of_actor = JobFilter { actor: Some(ActorName::new("b").unwrap()), ..filter.clone() };
            let before = JobFilter { before: Some(page[1].id), ..filter };
            for narrow in [of_queue, of_actor] {
                let found: Vec<_> = store.jobs(narrow).await.unwrap().iter().map(|job| job.id).collect();
                assert_eq!(found, [oldest], "{status}");
            }
            assert_eq!(store.jobs(before).await.unwrap().len(), 2, "{status}");
        }
    }
}

#[tokio::test]
async fn what_sql_wrote_in_its_own_words_can_be_read() {
    let database = migrated().await;
    let store = store(&database).await;
    let sql = r#"SELECT id FROM taskq.enqueue('{"actor": "a", "payload": {}, "start_to_close": "1 mon 1 day",
        "retry_policy": {"base": "00:01:30"}, "schedule_to_close": "9999-12-31T23:59:59Z"}')"#;
    let admin = client(database.dsn()).await;
    admin.batch_execute(sql).await.unwrap();
    // An error as a person would write it.
    let edit = r#"UPDATE taskq.jobs SET error = '"broken"'"#;
    admin.batch_execute(edit).await.unwrap();
    let jobs = store.jobs(JobFilter { limit: 1, ..JobFilter::default() }).await.unwrap();
    let policy = RetryPolicy { base: std::time::Duration::from_secs(90), ..RetryPolicy::default() };
    assert_eq!(jobs[0].retry_policy, Some(policy));
    assert_eq!(jobs[0].start_to_close, Some(std::time::Duration::from_hours(31 * 24)));
    assert_eq!(jobs[0].schedule_to_close, Some(jiff::Timestamp::MAX));
    assert_eq!(jobs[0].error.as_ref().unwrap().message, "\"broken\"");
}
