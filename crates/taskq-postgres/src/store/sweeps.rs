//! The leader's sweeps.
//!
//! Each batch is a transaction of its own in one round trip: the time limit has to be set before the statement that it
//! is to limit begins.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use taskq_core::model::{Epoch, JobId, Json, Status, WorkerId};
use taskq_core::store::{
    LeaderEpoch, LookFrom, ReclaimBatch, ReclaimOptions, Reclaimed, StoreError, Sweep, SweepCall, SweepDue,
    SweepKey, SweepNote, SweepProbe, SweepSummary, Swept,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::Calls;
use super::worker::bound;
use crate::codec::{Columns, Interval, Jsonb, JsonbText, Time, interval_text, only};
use crate::session::Sql;

impl Calls {
    pub(super) async fn sweeps_due(
        self: Arc<Self>,
        leader: WorkerId,
        epoch: LeaderEpoch,
        probes: Vec<SweepProbe>,
        timeout: Option<Duration>,
    ) -> Result<Vec<SweepDue>, StoreError> {
        let probes = json(&probes.iter().map(ProbeDocument::of).collect::<Vec<_>>())?;
        let rows = self.swept(&self.statements.sweeps_due, &[&leader.0, &epoch.0, &probes], timeout).await?;
        rows.iter()
            .map(|row| {
                let mut columns = Columns::of(row);
                Ok(SweepDue {
                    sweep: sweep(&mut columns)?,
                    due_in: columns.read::<Option<Interval>>()?.map(|interval| interval.0),
                    behind: columns.read::<Interval>()?.0,
                    clear_to: columns.read::<Option<Time>>()?.map(|time| time.0),
                    took: columns.read::<Interval>()?.0,
                    batch: columns.read_as(|batch: Option<i32>| batch.map(u32::try_from).transpose())?,
                    problem: columns.read()?,
                })
            })
            .collect()
    }

    pub(super) async fn sweep(self: Arc<Self>, sweep: Sweep, call: SweepCall) -> Result<Swept, StoreError> {
        let (leader, epoch, limit) = (call.leader.0, call.epoch.0, bound(call.limit));
        let at = call.after.as_ref().map(|key| Time(key.at));
        let id = call.after.as_ref().map(|key| key.id.as_str()).filter(|id| !id.is_empty());
        let keep = call.period.map(Interval);
        let all: [&(dyn ToSql + Sync); 6] = [&leader, &epoch, &limit, &at, &id, &keep];
        let statements = &self.statements;
        // How many of the arguments its function takes.
        let (statement, arguments): (&Sql, usize) = match sweep {
            Sweep::Promote => (&statements.promote, 5),
            Sweep::MarkLost => (&statements.mark_lost, 3),
            Sweep::Deadlines => (&statements.sweep_deadlines, 5),
            Sweep::Results => (&statements.sweep_results, 5),
            Sweep::Events => (&statements.sweep_events, 6),
            Sweep::Archive => (&statements.sweep_archive, 5),
            Sweep::ArchiveExpiry => (&statements.expire_archive, 3),
            Sweep::Restamp => (&statements.sweep_restamp, 3),
            Sweep::IdempotencyKeys => (&statements.forget_keys, 4),
            Sweep::Workers => (&statements.forget_workers, 3),
            Sweep::Reclaim => return Err(StoreError::invalid("reclaim has a call of its own")),
        };
        let rows = self.swept(statement, &all[..arguments], call.timeout).await?;
        let mut columns = Columns::of(only(&rows)?);
        Ok(Swept {
            rows: columns.read_as(|rows: i64| u64::try_from(rows))?,
            more: columns.read()?,
            due_in: columns.read::<Option<Interval>>()?.map(|interval| interval.0),
            reached: key(&mut columns)?,
            problems: columns.read_as(|rows: i64| u64::try_from(rows))?,
            problem: columns.read()?,
        })
    }

    pub(super) async fn reclaim(
        self: Arc<Self>,
        call: SweepCall,
        options: ReclaimOptions,
    ) -> Result<ReclaimBatch, StoreError> {
        let skip: Vec<Uuid> = options.skip.into_iter().map(|id| id.0).collect();
        let began = options.outage.map(|outage| Interval(outage.began));
        let ended = options.outage.map(|outage| Interval(outage.ended));
        let at = call.after.as_ref().map(|key| Time(key.at));
        let id = call.after.as_ref().map(|key| key.id.as_str());
        let params: [&(dyn ToSql + Sync); 8] =
            [&call.leader.0, &call.epoch.0, &bound(call.limit), &began, &ended, &skip, &at, &id];
        let rows = self.swept(&self.statements.reclaim, &params, call.timeout).await?;
        let mut batch = ReclaimBatch::default();
        for row in &rows {
            let mut columns = Columns::of(row);
            let Some(id) = columns.read::<Option<Uuid>>()? else {
                // The last row says where to go on.
                let mut columns = Columns::at(row, 4);
                batch.reached = key(&mut columns)?;
                continue;
            };
            batch.jobs.push(Reclaimed {
                id: JobId(id),
                epoch: Epoch(columns.read()?),
                status: columns.read_as(|word: String| word.parse::<Status>())?,
                problem: columns.read()?,
            });
        }
        Ok(batch)
    }

    pub(super) async fn note_sweeps(
        self: Arc<Self>,
        leader: WorkerId,
        epoch: LeaderEpoch,
        notes: Vec<SweepNote>,
    ) -> Result<(), StoreError> {
        let notes = json(&notes.iter().map(NoteDocument::of).collect::<Vec<_>>())?;
        self.sweep.query(&self.statements.note_sweeps, &[&leader.0, &epoch.0, &notes]).await.map(drop)
    }

    pub(super) async fn sweeps(self: Arc<Self>) -> Result<Vec<SweepSummary>, StoreError> {
        let names: Vec<&str> = Sweep::ALL.into_iter().map(Sweep::as_str).collect();
        let rows = self.client.query(&self.statements.sweeps, &[&names]).await?;
        rows.iter().map(summary).collect()
    }

    /// Runs a statement of a sweep, with a time limit as a transaction of its own.
    async fn swept(
        &self,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
        limit: Option<Duration>,
    ) -> Result<Vec<Row>, StoreError> {
        match limit {
            Some(limit) => self.sweep.query_within(sql, params, limit).await,
            None => self.sweep.query(sql, params).await,
        }
    }
}

fn summary(row: &Row) -> Result<SweepSummary, StoreError> {
    let mut columns = Columns::of(row);
    let c = &mut columns;
    Ok(SweepSummary {
        sweep: sweep(c)?,
        last_run_at: c.read::<Option<Time>>()?.map(|time| time.0),
        duration: c.read::<Option<Interval>>()?.map(|interval| interval.0),
        rows: c.read_as(|rows: i64| u64::try_from(rows))?,
        swept: c.read_as(|rows: i64| u64::try_from(rows))?,
        backlog: super::observe::count(c)?,
        behind: c.read::<Interval>()?.0,
        batch: c.read_as(|batch: Option<i32>| batch.map(u32::try_from).transpose())?,
        last_error: c.read()?,
        last_error_at: c.read::<Option<Time>>()?.map(|time| time.0),
        overrides: c.read::<Option<Jsonb>>()?.map(|json| json.0),
    })
}

fn sweep(columns: &mut Columns<'_>) -> Result<Sweep, StoreError> {
    columns.read_as(|word: String| Sweep::from_word(&word).ok_or_else(|| format!("unknown sweep {word:?}")))
}

fn key(columns: &mut Columns<'_>) -> Result<Option<SweepKey>, StoreError> {
    let at = columns.read::<Option<Time>>()?;
    let id: Option<String> = columns.read()?;
    Ok(at.map(|at| SweepKey { at: at.0, id: id.unwrap_or_default() }))
}

fn json(document: &impl Serialize) -> Result<JsonbText, StoreError> {
    let text = serde_json::to_string(document);
    text.map(JsonbText).map_err(|error| StoreError::invalid(error.to_string()))
}

#[derive(Serialize)]
struct ProbeDocument<'a> {
    sweep: &'static str,
    from: &'static str,
    at: Option<String>,
    id: Option<&'a str>,
    period: Option<String>,
    batch: Option<u32>,
}

impl<'a> ProbeDocument<'a> {
    fn of(probe: &'a SweepProbe) -> Self {
        let (from, key) = match &probe.from {
            LookFrom::Start => ("start", None),
            LookFrom::LastNote => ("last_note", None),
            LookFrom::After(key) => ("key", Some(key)),
        };
        Self {
            sweep: probe.sweep.as_str(),
            from,
            at: key.map(|key| key.at.to_string()),
            id: key.map(|key| key.id.as_str()),
            period: probe.period.map(interval_text),
            batch: probe.batch,
        }
    }
}

#[derive(Serialize)]
struct NoteDocument<'a> {
    sweep: &'static str,
    ran: Option<RunDocument>,
    error: Option<ErrorDocument>,
    batch: u32,
    reached_at: Option<String>,
    reached_id: Option<&'a str>,
    overrides: Option<&'a Json>,
}

#[derive(Serialize)]
struct RunDocument {
    ago: String,
    took: String,
    rows: u64,
    rows_since: u64,
}

#[derive(Serialize)]
struct ErrorDocument {
    ago: String,
    message: String,
}

impl<'a> NoteDocument<'a> {
    fn of(note: &'a SweepNote) -> Self {
        Self {
            sweep: note.sweep.as_str(),
            ran: note.run.map(|run| RunDocument {
                ago: interval_text(run.ago),
                took: interval_text(run.took),
                rows: run.rows,
                rows_since: run.rows_since,
            }),
            error: note.error.as_ref().map(|error| ErrorDocument {
                ago: interval_text(error.ago),
                // PostgreSQL stores everything but this character.
                message: error.message.replace('\0', "\u{fffd}"),
            }),
            batch: note.batch,
            reached_at: note.reached.as_ref().map(|key| key.at.to_string()),
            reached_id: note.reached.as_ref().map(|key| key.id.as_str()).filter(|id| !id.is_empty()),
            overrides: note.overrides.as_ref(),
        }
    }
}
