//! The facts of a real database.

use std::path::{Path, PathBuf};

use taskq_testkit::invariants::{ExecutionLog, PastAttempt, check, read_jobs};
use taskq_testkit::shared_server;
use uuid::Uuid;

/// Every migration of the schema, in order.
fn schema() -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../taskq-postgres/sql/migrations");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let tables: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    format!("CREATE SCHEMA taskq; {tables}").replace("{schema}", "taskq")
}

#[tokio::test]
async fn jobs_and_their_attempts_are_read_and_checked() {
    let database = shared_server().await.empty_database().await.unwrap();
    let client = database.connect().await.unwrap();
    client.batch_execute(&schema()).await.unwrap();
    let id = Uuid::now_v7();
    client
        .batch_execute(&format!(
            "INSERT INTO taskq.jobs (id, created_at, scheduled_at, queue, actor, payload, max_attempts, claim_epoch,
                 attempt, status, locked_by_worker, finished_at)
             VALUES ('{id}', now(), now(), 'q', 'a', '1', 5, 3, 2, 'succeeded', gen_random_uuid(), now());
             INSERT INTO taskq.job_attempts (job_id, epoch, attempt, outcome, worker, started_at, finished_at)
             VALUES ('{id}', 2, 1, 'released', gen_random_uuid(), now(), now()),
                 ('{id}', 1, 1, 'released', gen_random_uuid(), now(), now())"
        ))
        .await
        .unwrap();

    let jobs = read_jobs(&client).await.unwrap();
    assert_eq!(jobs.len(), 1);
    assert_eq!((jobs[0].epoch, jobs[0].attempt, jobs[0].max_attempts, jobs[0].last_on_job), (3, 2, 5, true));
    let released = |epoch| PastAttempt { epoch, attempt: 1, outcome: "released".to_owned() };
    assert_eq!(jobs[0].past, [released(1), released(2)]);

    let directory = std::env::temp_dir().join(format!("taskq-invariants-{id}"));
    let log = ExecutionLog::open(&directory).unwrap();
    drop(log.begin(id, 3, 2).unwrap());
    let violations = check(&client, &directory, &[id]).await.unwrap();
    assert_eq!(violations.len(), 1, "{violations:?}");
    assert!(violations[0].contains("attempt 2 after epoch 2 released as attempt 1"), "{violations:?}");

    client.batch_execute("UPDATE taskq.job_attempts SET outcome = 'failed' WHERE epoch = 2").await.unwrap();
    assert_eq!(check(&client, &directory, &[id]).await.unwrap(), [""; 0]);
    std::fs::remove_dir_all(&directory).unwrap();
}
