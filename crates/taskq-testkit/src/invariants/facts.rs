//! What the database says of its jobs.

use tokio_postgres::{Client, Error, Row};
use uuid::Uuid;

/// A job as the schema `taskq` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFacts {
    /// The job.
    pub id: Uuid,
    /// Its status, such as `succeeded`.
    pub status: String,
    /// The epoch of the last claim, zero before the first.
    pub epoch: i64,
    /// How many attempts count against the budget.
    pub attempt: i32,
    /// The budget.
    pub max_attempts: i32,
    /// Whether the last attempt is on the job itself, because it runs or has ended the job.
    pub last_on_job: bool,
    /// The attempts that did not end the job, by epoch.
    pub past: Vec<PastAttempt>,
}

/// An attempt that did not end its job, or did before an operator's retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastAttempt {
    /// The epoch of its claim.
    pub epoch: i64,
    /// Its number by the budget.
    pub attempt: i32,
    /// What became of it.
    pub outcome: String,
}

/// Reads every job of the schema `taskq`.
///
/// # Errors
///
/// The database does not answer or has no such schema.
pub async fn read_jobs(client: &Client) -> Result<Vec<JobFacts>, Error> {
    let query = "SELECT j.id, j.status::text, j.claim_epoch, j.attempt, j.max_attempts::integer,
                     j.locked_by_worker IS NOT NULL,
                     coalesce(a.epochs, '{}'), coalesce(a.attempts, '{}'), coalesce(a.outcomes, '{}')
                 FROM taskq.jobs j
                 LEFT JOIN (
                     SELECT a.job_id, array_agg(a.epoch ORDER BY a.epoch) AS epochs,
                         array_agg(a.attempt ORDER BY a.epoch) AS attempts, array_agg(a.outcome ORDER BY a.epoch) AS outcomes
                     FROM taskq.job_attempts a GROUP BY a.job_id
                 ) a ON a.job_id = j.id
                 ORDER BY j.id";
    Ok(client.query(query, &[]).await?.iter().map(job).collect())
}

fn job(row: &Row) -> JobFacts {
    let (epochs, attempts, outcomes): (Vec<i64>, Vec<i32>, Vec<String>) =
        (row.get(6), row.get(7), row.get(8));
    let past = epochs.into_iter().zip(attempts).zip(outcomes);
    JobFacts {
        id: row.get(0),
        status: row.get(1),
        epoch: row.get(2),
        attempt: row.get(3),
        max_attempts: row.get(4),
        last_on_job: row.get(5),
        past: past.map(|((epoch, attempt), outcome)| PastAttempt { epoch, attempt, outcome }).collect(),
    }
}
