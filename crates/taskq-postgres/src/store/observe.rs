//! What operators and waiting clients ask.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use taskq_core::model::{
    ActorName, AttemptRecord, Epoch, ErrorRecord, JobId, JobRecord, Json, Keep, OutcomeKind, QueueName,
    RetryPolicy, Status, WorkerId,
};
use taskq_core::store::{
    ActorSummary, Count, Ending, JobFilter, LeaderSummary, QueueMode, QueueSummary, Stats, StoreError,
    WorkerState, WorkerSummary,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::Calls;
use crate::codec::{Columns, Interval, Jsonb, Time, only};
use crate::session::Sql;

/// The most jobs that one call lists.
const PAGE_LIMIT: u32 = 1_000;

impl Calls {
    pub(super) async fn job(self: Arc<Self>, id: JobId) -> Result<Option<JobRecord>, StoreError> {
        Ok(self.records(vec![id.0]).await?.pop())
    }

    pub(super) async fn attempts(self: Arc<Self>, id: JobId) -> Result<Vec<AttemptRecord>, StoreError> {
        let rows = self.client.query(&self.statements.attempts, &[&id.0]).await?;
        rows.iter().map(attempt).collect()
    }

    pub(super) async fn jobs(self: Arc<Self>, filter: JobFilter) -> Result<Vec<JobRecord>, StoreError> {
        if !(1..=PAGE_LIMIT).contains(&filter.limit) {
            let message = format!("limit {} is not between 1 and {PAGE_LIMIT}", filter.limit);
            return Err(StoreError::invalid(message));
        }
        let status = filter.status.map(Status::as_str);
        let queue = filter.queue.as_ref().map(QueueName::as_str);
        let actor = filter.actor.as_ref().map(ActorName::as_str);
        let before = filter.before.map(|id| id.0);
        let limit = i64::from(filter.limit);
        let params: [&(dyn ToSql + Sync); 5] = [&status, &queue, &actor, &before, &limit];
        let statements = &self.statements;
        let few = match filter.status {
            Some(Status::Pending) => Some(&statements.page_pending),
            Some(Status::Scheduled) => Some(&statements.page_scheduled),
            Some(Status::Running) => Some(&statements.page_running),
            _ => None,
        };
        if let Some(few) = few {
            let rows = self.client.query(few, &params).await?;
            let mut columns = Columns::of(only(&rows)?);
            let ids = columns.read()?;
            if columns.read()? {
                return self.records(ids).await;
            }
        }
        let page = match filter.status {
            Some(Status::Failed | Status::Cancelled | Status::Crashed | Status::Abandoned) => {
                &statements.page_unsuccessful
            }
            _ => &statements.page,
        };
        let archived = match filter.status {
            None | Some(Status::Succeeded) => Some(&statements.page_archived),
            Some(Status::Failed | Status::Cancelled | Status::Crashed | Status::Abandoned) => {
                Some(&statements.page_archived_unsuccessful)
            }
            Some(Status::Scheduled | Status::Blocked | Status::Pending | Status::Running) => None,
        };
        let mut ids = self.ids(page, &params).await?;
        if let Some(archived) = archived {
            // Looked at later: what is archived in between is there twice, and not nowhere.
            ids.extend(self.ids(archived, &params).await?);
            ids.sort_unstable_by(|left, right| right.cmp(left));
            ids.dedup();
            ids.truncate(filter.limit as usize);
        }
        self.records(ids).await
    }

    async fn ids(&self, page: &Sql, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Uuid>, StoreError> {
        let rows = self.client.query(page, params).await?;
        rows.iter().map(|row| Columns::of(row).read()).collect()
    }

    /// Reads jobs on whichever side they are, newest id first.
    async fn records(&self, ids: Vec<Uuid>) -> Result<Vec<JobRecord>, StoreError> {
        let statements = &self.statements;
        let sides = [&statements.records, &statements.records_archived];
        let mut records = self.on_both_sides(ids, sides, record, |record| record.id.0).await?;
        records.sort_unstable_by_key(|record| Reverse(record.id));
        Ok(records)
    }

    /// Reads by id among the jobs, then, of what is missing, in the archive, and once more among the jobs: what an operator
    /// has meanwhile made ready again is there.
    async fn on_both_sides<T>(
        &self,
        mut ids: Vec<Uuid>,
        [jobs, archive]: [&Sql; 2],
        read: fn(&Row) -> Result<T, StoreError>,
        id: fn(&T) -> Uuid,
    ) -> Result<Vec<T>, StoreError> {
        let mut found = Vec::new();
        for statement in [jobs, archive, jobs] {
            if ids.is_empty() {
                break;
            }
            let rows = self.client.query(statement, &[&ids]).await?;
            let part: Vec<T> = rows.iter().map(read).collect::<Result<_, _>>()?;
            let there: HashSet<Uuid> = part.iter().map(id).collect();
            ids.retain(|id| !there.contains(id));
            found.extend(part);
        }
        Ok(found)
    }

    pub(super) async fn endings(self: Arc<Self>, ids: Vec<JobId>) -> Result<Vec<Ending>, StoreError> {
        let ids: Vec<_> = ids.into_iter().map(|id| id.0).collect();
        let sides = [&self.statements.endings, &self.statements.endings_archived];
        let mut endings = self.on_both_sides(ids, sides, ending, |ending| ending.id.0).await?;
        endings.sort_unstable_by_key(|ending| ending.id);
        Ok(endings)
    }

    pub(super) async fn queues(self: Arc<Self>) -> Result<Vec<QueueSummary>, StoreError> {
        let rows = self.client.query(&self.statements.queues, &[]).await?;
        rows.iter()
            .map(|row| {
                let mut columns = Columns::of(row);
                Ok(QueueSummary {
                    queue: columns.read_as(|text: String| text.try_into())?,
                    mode: columns.read_as(|word: String| match word.as_str() {
                        "strict_fifo" => Ok(QueueMode::StrictFifo),
                        "round_robin" => Ok(QueueMode::RoundRobin),
                        _ => Err(format!("unknown mode {word:?}")),
                    })?,
                    scheduled: capped_count(&mut columns)?,
                    pending: count(&mut columns)?,
                    running: capped_count(&mut columns)?,
                    oldest_pending: columns.read::<Option<Interval>>()?.map(|interval| interval.0),
                    workers: columns.read_as(|workers: i64| u64::try_from(workers))?,
                    paused: columns.read()?,
                })
            })
            .collect()
    }

    pub(super) async fn stats(self: Arc<Self>) -> Result<Stats, StoreError> {
        let statements = &self.statements;
        let client = &self.client;
        let (jobs, workers, leader, unserved) = futures_util::future::try_join4(
            client.query(&statements.stats_jobs, &[]),
            client.query(&statements.workers, &[&true]),
            client.query(&statements.leader, &[]),
            client.query(&statements.unserved, &[]),
        )
        .await?;
        let mut counts = HashMap::new();
        for row in &jobs {
            let mut columns = Columns::of(row);
            counts.insert(status(&mut columns)?, capped_count(&mut columns)?);
        }
        let leader = leader.first().map(self::leader).transpose()?.map(|leader| leader.worker);
        Ok(Stats {
            jobs: Status::ALL
                .into_iter()
                .map(|status| (status, counts.get(&status).copied().unwrap_or_default()))
                .collect(),
            workers: workers.iter().map(worker).collect::<Result<_, _>>()?,
            leader,
            unserved: unserved
                .iter()
                .map(|row| {
                    let mut columns = Columns::of(row);
                    Ok(ActorSummary {
                        queue: columns.read_as(|text: String| text.try_into())?,
                        actor: columns.read_as(|text: String| text.try_into())?,
                        pending: count(&mut columns)?,
                    })
                })
                .collect::<Result<_, StoreError>>()?,
        })
    }
}

impl Calls {
    pub(super) async fn workers(self: Arc<Self>) -> Result<Vec<WorkerSummary>, StoreError> {
        let rows = self.client.query(&self.statements.workers, &[&false]).await?;
        rows.iter().map(worker).collect()
    }

    pub(super) async fn leader(self: Arc<Self>) -> Result<Option<LeaderSummary>, StoreError> {
        let rows = self.client.query(&self.statements.leader, &[]).await?;
        rows.first().map(leader).transpose()
    }

    pub(super) async fn paused_actors(self: Arc<Self>) -> Result<Vec<ActorName>, StoreError> {
        let rows = self.client.query(&self.statements.paused_actors, &[]).await?;
        rows.iter().map(|row| Columns::of(row).read_as(|text: String| text.try_into())).collect()
    }
}

fn record(row: &Row) -> Result<JobRecord, StoreError> {
    let mut columns = Columns::of(row);
    let c = &mut columns;
    Ok(JobRecord {
        id: JobId(c.read()?),
        queue: c.read_as(|text: String| text.try_into())?,
        actor: c.read_as(|text: String| text.try_into())?,
        status: status(c)?,
        priority: c.read()?,
        attempt: c.read()?,
        max_attempts: c.read()?,
        epoch: Epoch(c.read()?),
        payload: c.read::<Jsonb>()?.0,
        payload_version: c.read()?,
        created_at: c.read::<Time>()?.0,
        scheduled_at: c.read::<Time>()?.0,
        started_at: c.read::<Option<Time>>()?.map(|time| time.0),
        finished_at: c.read::<Option<Time>>()?.map(|time| time.0),
        archived_at: c.read::<Option<Time>>()?.map(|time| time.0),
        worker: c.read::<Option<Uuid>>()?.map(WorkerId),
        cancel_requested: c.read()?,
        schedule_to_close: c.read::<Option<Time>>()?.map(|time| time.0),
        start_to_close: c.read::<Option<Interval>>()?.map(|interval| interval.0),
        retry_policy: c.read_as(|policy: Option<Jsonb>| {
            policy.map(|policy| policy.0.parse::<RetryPolicy>()).transpose()
        })?,
        fairness_key: c.read_as(|key: Option<String>| key.map(TryInto::try_into).transpose())?,
        error: error(c)?,
        result: json(c)?,
        result_expires_at: c.read::<Option<Time>>()?.map(|time| time.0),
        progress: json(c)?,
        tags: c.read::<Option<Vec<String>>>()?.unwrap_or_default(),
        metadata: json(c)?,
        trace_context: c.read()?,
        keep: c
            .read_as(|word: String| Keep::from_word(&word).ok_or_else(|| format!("unknown word {word:?}")))?,
    })
}

fn ending(row: &Row) -> Result<Ending, StoreError> {
    let mut columns = Columns::of(row);
    Ok(Ending {
        id: JobId(columns.read()?),
        status: status(&mut columns)?,
        result: json(&mut columns)?,
        error: error(&mut columns)?,
    })
}

fn attempt(row: &Row) -> Result<AttemptRecord, StoreError> {
    let mut columns = Columns::of(row);
    Ok(AttemptRecord {
        job_id: JobId(columns.read()?),
        epoch: Epoch(columns.read()?),
        attempt: columns.read()?,
        outcome: columns.read_as(|word: String| {
            OutcomeKind::from_word(&word).ok_or_else(|| format!("unknown outcome {word:?}"))
        })?,
        worker: WorkerId(columns.read()?),
        started_at: columns.read::<Time>()?.0,
        finished_at: columns.read::<Time>()?.0,
        error: error(&mut columns)?,
    })
}

fn worker(row: &Row) -> Result<WorkerSummary, StoreError> {
    let mut columns = Columns::of(row);
    Ok(WorkerSummary {
        worker: WorkerId(columns.read()?),
        state: if columns.read()? { WorkerState::Active } else { WorkerState::Lost },
        queues: columns
            .read_as(|names: Vec<String>| names.into_iter().map(QueueName::new).collect::<Result<_, _>>())?,
        actors: columns
            .read_as(|names: Vec<String>| names.into_iter().map(ActorName::new).collect::<Result<_, _>>())?,
        started_at: columns.read::<Time>()?.0,
        lease_expires_at: columns.read::<Time>()?.0,
        lease_left: columns.read::<Interval>()?.0,
        running: count(&mut columns)?,
    })
}

fn leader(row: &Row) -> Result<LeaderSummary, StoreError> {
    let mut columns = Columns::of(row);
    Ok(LeaderSummary {
        worker: WorkerId(columns.read()?),
        epoch: columns.read()?,
        expires_at: columns.read::<Time>()?.0,
        lease_left: columns.read::<Interval>()?.0,
    })
}

fn status(columns: &mut Columns<'_>) -> Result<Status, StoreError> {
    columns.read_as(|word: String| word.parse())
}

fn json(columns: &mut Columns<'_>) -> Result<Option<Json>, StoreError> {
    Ok(columns.read::<Option<Jsonb>>()?.map(|json| json.0))
}

/// Reads an error. One that somebody wrote by hand must not keep its job from being seen.
fn error(columns: &mut Columns<'_>) -> Result<Option<ErrorRecord>, StoreError> {
    let document = json(columns)?;
    Ok(document.map(|json| json.parse().unwrap_or_else(|_| ErrorRecord::new("unknown", json.as_str()))))
}

pub(super) fn count(columns: &mut Columns<'_>) -> Result<Count, StoreError> {
    columns.read_as(|found: i64| u64::try_from(found).map(Count::of))
}

/// Reads a count and whether it was cut elsewhere than at its own bound.
fn capped_count(columns: &mut Columns<'_>) -> Result<Count, StoreError> {
    let count = count(columns)?;
    let capped: bool = columns.read()?;
    Ok(Count { value: count.value, capped: count.capped || capped })
}
