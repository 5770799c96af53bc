//! Claims and settles.

use std::cmp::Reverse;
use std::str::FromStr;
use std::sync::Arc;

use taskq_core::model::{
    ActorName, ClaimedJob, Epoch, FairnessKey, InvalidName, JobId, Json, QueueName, SettleReason, Settled,
    Settlement, WorkerId,
};
use taskq_core::store::{ClaimRequest, Claimed, StoreError, Turn};
use tokio_postgres::Row;
use uuid::Uuid;

use super::Calls;
use super::documents::{SettlementColumns, of_settlements};
use crate::codec::{Columns, Interval, Jsonb, JsonbText, Time, only};

/// The column of a claim's answer that says when it was given.
const CLAIMED_AT: usize = 16;

impl Calls {
    pub(super) async fn claim(self: Arc<Self>, request: ClaimRequest) -> Result<Claimed, StoreError> {
        let queues: Vec<_> = request.queues.iter().map(|wanted| wanted.queue.as_str()).collect();
        let slots: Vec<_> =
            request.queues.iter().map(|wanted| i32::try_from(wanted.slots).unwrap_or(i32::MAX)).collect();
        let lease = Interval(request.lease);
        let oversample = i32::from(request.oversample);
        let turns = || request.queues.iter().map(|wanted| wanted.turn.as_ref());
        let actors: Vec<_> = turns().map(|turn| turn.map(|turn| turn.actor.as_str())).collect();
        let cohorts: Vec<_> =
            turns().map(|turn| turn.map(|turn| cohort_text(turn.cohort.as_ref()))).collect();
        let rows = self
            .claim
            .query(
                &self.statements.claim,
                &[&request.worker.0, &queues, &slots, &lease, &oversample, &actors, &cohorts],
            )
            .await?;
        let (mut queue_names, mut actor_names) = (Names::default(), Names::default());
        let mut claim = Claimed { jobs: Vec::with_capacity(rows.len()), ..Claimed::default() };
        for (nth, row) in rows.iter().enumerate() {
            let (job, cohort) = claimed(row, &mut queue_names, &mut actor_names)?;
            // Only a queue whose lanes take turns has cohorts; the rows of one queue follow each other.
            if let Some(cohort) = cohort {
                let of_queue =
                    |next: &Row| next.try_get::<_, &str>(1).is_ok_and(|queue| queue == job.queue.as_str());
                if !rows.get(nth + 1).is_some_and(of_queue) {
                    claim.turns.push((job.queue.clone(), turn(job.actor.clone(), cohort)?));
                }
            }
            claim.jobs.push(job);
        }
        // A lane that is claimed from by itself comes as it was found.
        for jobs in claim.jobs.chunk_by_mut(|job, next| job.queue == next.queue) {
            if claim.turns.iter().all(|(queue, _)| *queue != jobs[0].queue) {
                jobs.sort_unstable_by_key(|job| (Reverse(job.priority), job.scheduled_at, job.id));
            }
        }
        // The start of the statement, the same in every row.
        let at = rows.first().map(|row| Columns::at(row, CLAIMED_AT).read::<Time>()).transpose()?;
        claim.at = at.map(|time| time.0);
        Ok(claim)
    }

    pub(super) async fn settle(
        self: Arc<Self>,
        worker: WorkerId,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<Settled>, StoreError> {
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let SettlementColumns { ids, epochs, outcomes, details, places } = of_settlements(&settlements)?;
        let rows = self
            .settle
            .query(&self.statements.settle, &[&worker.0, &ids, &epochs, &outcomes, &details])
            .await?;
        // What is not named was applied and has the status that its outcome says.
        let mut settled: Vec<_> = settlements.iter().map(as_said).collect();
        let mut columns = Columns::of(only(&rows)?);
        let applied = columns.read::<i64>()?;
        let others = columns.read::<Option<Vec<i64>>>()?.unwrap_or_default();
        let reasons = columns.read::<Option<Vec<String>>>()?.unwrap_or_default();
        let statuses = columns.read::<Option<Vec<Option<String>>>>()?.unwrap_or_default();
        let answered = usize::try_from(applied).ok().and_then(|applied| applied.checked_add(others.len()));
        if answered != Some(places.len()) || reasons.len() != others.len() || statuses.len() != others.len() {
            let (others, reasons, statuses) = (others.len(), reasons.len(), statuses.len());
            return Err(answer(format!(
                "{applied} applied and {others} others with {reasons} reasons and {statuses} statuses, of {} settlements",
                places.len()
            )));
        }
        for ((nth, reason), status) in others.into_iter().zip(reasons).zip(statuses) {
            let place = usize::try_from(nth).ok().and_then(|nth| places.get(nth.checked_sub(1)?)).copied();
            let place = place.ok_or_else(|| answer(format!("no settlement has the position {nth}")))?;
            settled[place].reason = SettleReason::from_word(&reason)
                .ok_or_else(|| answer(format!("unknown reason {reason:?}")))?;
            settled[place].status =
                status.map(|word| word.parse().map_err(|error| answer(format!("{error}")))).transpose()?;
        }
        Ok(settled)
    }

    pub(super) async fn complete(
        self: Arc<Self>,
        worker: WorkerId,
        id: JobId,
        epoch: Epoch,
        result: Option<Json>,
    ) -> Result<Settled, StoreError> {
        let result = result.map(|json| JsonbText(json.as_str().to_owned()));
        let rows =
            self.client.query(&self.statements.complete, &[&worker.0, &id.0, &epoch.0, &result]).await?;
        settled(only(&rows)?)
    }
}

fn settled(row: &Row) -> Result<Settled, StoreError> {
    let mut columns = Columns::of(row);
    Ok(Settled {
        id: JobId(columns.read::<Uuid>()?),
        reason: columns.read_as(|word: String| {
            SettleReason::from_word(&word).ok_or_else(|| format!("unknown reason {word:?}"))
        })?,
        status: columns.read_as(|word: Option<String>| word.map(|word| word.parse()).transpose())?,
    })
}

fn answer(message: String) -> StoreError {
    StoreError::Answer { message }
}

/// What became of an attempt that was taken as it was said.
fn as_said(settlement: &Settlement) -> Settled {
    Settled {
        id: settlement.id,
        reason: SettleReason::Applied,
        status: settlement.outcome.kind().as_str().parse().ok(),
    }
}

/// The names met in one answer: few, and each in many rows.
struct Names<T>(Vec<(Box<str>, T)>);

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Clone + FromStr<Err = InvalidName>> Names<T> {
    fn of(&mut self, text: &str) -> Result<T, InvalidName> {
        if let Some((_, name)) = self.0.iter().find(|(known, _)| **known == *text) {
            return Ok(name.clone());
        }
        let name: T = text.parse()?;
        self.0.push((text.into(), name.clone()));
        Ok(name)
    }
}

/// A cohort as the column has it.
fn cohort_text(cohort: Option<&FairnessKey>) -> &str {
    cohort.map_or("", FairnessKey::as_str)
}

fn turn(actor: ActorName, cohort: &str) -> Result<Turn, StoreError> {
    let cohort = (!cohort.is_empty()).then(|| FairnessKey::new(cohort)).transpose();
    Ok(Turn { actor, cohort: cohort.map_err(|error| answer(error.to_string()))? })
}

/// Reads a job and, if its queue's lanes take turns, its cohort.
fn claimed<'r>(
    row: &'r Row,
    queues: &mut Names<QueueName>,
    actors: &mut Names<ActorName>,
) -> Result<(ClaimedJob, Option<&'r str>), StoreError> {
    let mut columns = Columns::of(row);
    let job = ClaimedJob {
        id: JobId(columns.read::<Uuid>()?),
        queue: columns.read_as(|text: &str| queues.of(text))?,
        actor: columns.read_as(|text: &str| actors.of(text))?,
        epoch: Epoch(columns.read()?),
        attempt: columns.read()?,
        max_attempts: columns.read()?,
        priority: columns.read()?,
        payload: columns.read::<Jsonb>()?.0,
        payload_version: columns.read()?,
        scheduled_at: columns.read::<Time>()?.0,
        schedule_to_close: columns.read::<Option<Time>>()?.map(|time| time.0),
        start_to_close: columns.read::<Option<Interval>>()?.map(|interval| interval.0),
        metadata: columns.read::<Option<Jsonb>>()?.map(|json| json.0),
        tags: columns.read::<Option<Vec<String>>>()?.unwrap_or_default(),
        trace_context: columns.read()?,
    };
    let cohort = columns.read()?;
    Ok((job, cohort))
}
