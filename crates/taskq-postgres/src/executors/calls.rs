//! The calls as statements.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use taskq_core::client::{
    Cancel, Client, Enqueue, EnqueueError, EnqueueMany, EnqueueRaw, Job, JobHandle, Retry,
};
use taskq_core::model::{EnqueueOutcome, Enqueued, JobId, NewJob, Notify, Status};
use taskq_core::store::{CancelOutcome, Cancelled, Retried, RetryOutcome, StoreError};

use super::{Executor, InTx, Statement, plain};
use crate::schema::SchemaName;
use crate::store::{check_jobs, of_job, of_jobs, printable};

/// The most ids of one statement.
const IDS: usize = 10_000;

// Every name is qualified, and there is no operator: the caller's search path is their own.

const ENQUEUE: &str = r#"
SELECT pg_catalog.json_build_array(e.id, e.outcome, e.status)::pg_catalog.text
FROM "{schema}".enqueue($1::pg_catalog.text::pg_catalog.jsonb) e"#;

const ENQUEUE_MANY: &str = r#"
SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(e.id, e.outcome, e.status) ORDER BY e.nth), '[]')::pg_catalog.text
FROM "{schema}".enqueue_many($1::pg_catalog.text::pg_catalog.jsonb) WITH ORDINALITY e(id, outcome, status, nth)"#;

const CANCEL: &str = r#"
SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(c.id, c.outcome, c.status) ORDER BY c.nth), '[]')::pg_catalog.text
FROM pg_catalog.jsonb_to_record($1::pg_catalog.text::pg_catalog.jsonb) d(ids pg_catalog.uuid[], reason pg_catalog.text)
CROSS JOIN LATERAL "{schema}".cancel(d.ids, d.reason) WITH ORDINALITY c(id, outcome, status, nth)"#;

const RETRY: &str = r#"
SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(r.id, r.outcome, r.status) ORDER BY r.nth), '[]')::pg_catalog.text
FROM pg_catalog.jsonb_to_record($1::pg_catalog.text::pg_catalog.jsonb) d(ids pg_catalog.uuid[])
CROSS JOIN LATERAL "{schema}".retry(d.ids) WITH ORDINALITY r(id, outcome, status, nth)"#;

impl<J: Job> InTx for Enqueue<J> {
    type Output = JobHandle<J>;
    type Error = EnqueueError;

    fn statement(self) -> Result<Statement<JobHandle<J>, EnqueueError>, EnqueueError> {
        let prepared = self.prepare()?;
        let schema = schema_of(prepared.client())?;
        check_jobs([prepared.job()])?;
        let json = of_job(prepared.job(), Notify::Default)?.0;
        Ok(Statement::new(schema, ENQUEUE, json, move |text| prepared.answered(enqueued(read(text)?)?)))
    }

    async fn in_tx<X: Executor + ?Sized>(self, tx: &mut X) -> Result<JobHandle<J>, EnqueueError> {
        let prepared = self.prepare()?;
        let schema = schema_of(prepared.client())?;
        check_jobs([prepared.job()])?;
        if let Some(sql) = plain::statement(prepared.job(), &schema) {
            let word = tx.run_whole(&sql, &schema).await?;
            let answer = plain::answered(prepared.job().id, &word)?;
            return prepared.answered(answer);
        }
        let json = of_job(prepared.job(), Notify::Default)?.0;
        let text = tx.run(&schema.render(ENQUEUE), &json, &schema).await?;
        prepared.answered(enqueued(read(&text)?)?)
    }
}

impl<J: Job> InTx for EnqueueMany<J> {
    type Output = Vec<JobHandle<J>>;
    type Error = EnqueueError;

    fn statement(self) -> Result<Statement<Vec<JobHandle<J>>, EnqueueError>, EnqueueError> {
        let prepared = self.prepare()?;
        let schema = schema_of(prepared.client())?;
        let json = documents(prepared.jobs())?;
        Ok(Statement::new(schema, ENQUEUE_MANY, json, move |text| prepared.answered(&all_enqueued(text)?)))
    }
}

impl InTx for EnqueueRaw {
    type Output = Vec<Enqueued>;
    type Error = EnqueueError;

    fn statement(self) -> Result<Statement<Vec<Enqueued>, EnqueueError>, EnqueueError> {
        let (client, jobs) = self.prepare()?;
        let schema = schema_of(&client)?;
        Ok(Statement::new(schema, ENQUEUE_MANY, documents(&jobs)?, |text| Ok(all_enqueued(text)?)))
    }
}

impl InTx for Cancel {
    type Output = Vec<Cancelled>;
    type Error = StoreError;

    fn statement(self) -> Result<Statement<Vec<Cancelled>, StoreError>, StoreError> {
        let schema = schema_of(self.client())?;
        let (ids, reason) = self.into_parts();
        let json = ids_document(&ids, printable(reason))?;
        Ok(Statement::new(schema, CANCEL, json, |text| {
            let cancelled = |Row(id, word, status)| {
                let outcome = CancelOutcome::from_word(&word).ok_or_else(|| unknown(&word))?;
                Ok(Cancelled { id, outcome, status })
            };
            read::<Vec<_>>(text)?.into_iter().map(cancelled).collect()
        }))
    }
}

impl InTx for Retry {
    type Output = Vec<Retried>;
    type Error = StoreError;

    fn statement(self) -> Result<Statement<Vec<Retried>, StoreError>, StoreError> {
        let schema = schema_of(self.client())?;
        let json = ids_document(&self.into_ids(), None)?;
        Ok(Statement::new(schema, RETRY, json, |text| {
            let retried = |Row(id, word, status)| {
                let outcome = RetryOutcome::from_word(&word).ok_or_else(|| unknown(&word))?;
                Ok(Retried { id, outcome, status })
            };
            read::<Vec<_>>(text)?.into_iter().map(retried).collect()
        }))
    }
}

/// Finds the schema whose functions a client's store calls.
pub(super) fn schema_of(client: &Client) -> Result<SchemaName, StoreError> {
    let name = client.store().schema().ok_or(StoreError::NoTransaction)?;
    SchemaName::new(name).map_err(|error| StoreError::Answer { message: error.to_string() })
}

/// A row of an answer: the job, what was done, where it stands now.
#[derive(Deserialize)]
struct Row(JobId, String, Option<Status>);

fn read<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Answer { message: error.to_string() })
}

fn unknown(word: &str) -> StoreError {
    StoreError::Answer { message: format!("unknown outcome {word:?}") }
}

fn enqueued(Row(id, word, status): Row) -> Result<Enqueued, StoreError> {
    let outcome = EnqueueOutcome::from_word(&word).ok_or_else(|| unknown(&word))?;
    Ok(Enqueued { id, outcome, status })
}

fn all_enqueued(text: &str) -> Result<Vec<Enqueued>, StoreError> {
    read::<Vec<_>>(text)?.into_iter().map(enqueued).collect()
}

fn documents(jobs: &[NewJob]) -> Result<String, StoreError> {
    check_jobs(jobs)?;
    let jobs = jobs.iter().map(|job| (job, Notify::Default));
    Ok(of_jobs(&jobs.collect::<Vec<_>>())?.0)
}

#[derive(Serialize)]
struct IdsDocument<'a> {
    ids: &'a [JobId],
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

fn ids_document(ids: &[JobId], reason: Option<String>) -> Result<String, StoreError> {
    if ids.len() > IDS {
        let message = format!("{} ids, more than {IDS} in one statement: split them", ids.len());
        return Err(StoreError::invalid(message));
    }
    serde_json::to_string(&IdsDocument { ids, reason })
        .map_err(|error| StoreError::invalid(error.to_string()))
}
