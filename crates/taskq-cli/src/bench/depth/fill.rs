//! What the tables hold.

use uuid::Uuid;

use super::super::copy::{Copy, server_time};
use super::super::job::Numbered;
use super::super::progress::Progress;
use super::super::scene::{Annex, QUEUE};
use crate::exit::Failure;

/// In the progress, a claim counts as much as writing so many rows.
pub(super) const ROWS_A_CLAIM: u64 = 100;

/// How many jobs are written in one transaction.
const CHUNK: u64 = 50_000;
/// Rows of each actor when the table holds a handful.
const HANDFUL: u64 = 2;
/// An hour, in microseconds.
const HOUR: i64 = 3_600_000_000;

/// The mode of the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    StrictFifo,
    RoundRobin,
}

impl Mode {
    /// Returns its name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::StrictFifo => "strict_fifo",
            Self::RoundRobin => "round_robin",
        }
    }
}

/// The jobs in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Content {
    /// How many actors the ready jobs belong to.
    pub(super) actors: u32,
    /// How many cohorts they belong to; 0 for none.
    pub(super) cohorts: u32,
    /// What else there is, as many again.
    pub(super) beside: Option<Beside>,
}

/// Jobs that a claim must not notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Beside {
    Scheduled,
    Finished,
    Running,
    OtherActors,
    Retried,
}

impl Content {
    /// Returns the names of the actors that are served.
    pub(super) fn served(&self) -> Vec<String> {
        (0..self.actors).map(|nth| format!("bench.noop.{nth}")).collect()
    }
}

const COLUMNS: [&str; 15] = [
    "id",
    "created_at",
    "scheduled_at",
    "claim_epoch",
    "status",
    "attempt",
    "locked_by_worker",
    "started_at",
    "finished_at",
    "prune_at",
    "queue",
    "actor",
    "cohort",
    "payload",
    "fairness_key",
];

/// Registers a worker in an empty schema, for some actors, and sets the queue's mode; returns the worker.
pub(super) async fn begin(place: &Annex, mode: Mode, actors: &[String]) -> Result<Uuid, Failure> {
    let session = place.control();
    // What the planner knows is decided here alone.
    session.run(r#"ALTER TABLE "{schema}".jobs SET (autovacuum_enabled = off)"#).await?;
    session.one(r#"SELECT "{schema}".set_queue($1, $2)"#, &[&QUEUE, &mode.name()]).await?;
    let worker = Uuid::now_v7();
    let register = r#"SELECT "{schema}".register_worker($1, ARRAY[$2], $3, interval '1 day', NULL)"#;
    session.one(register, &[&worker, &QUEUE, &actors]).await?;
    Ok(worker)
}

/// Writes a handful of ready jobs.
pub(super) async fn handful(place: &Annex, mode: Mode, content: Content) -> Result<(), Failure> {
    let rows = u64::from(content.actors) * HANDFUL;
    write(place, mode, Content { beside: None, ..content }, 0..rows, rows).await
}

/// Takes all jobs away, and lets the sessions' plans stand.
pub(super) async fn clear(place: &Annex) -> Result<(), Failure> {
    place.control().run(r#"DELETE FROM "{schema}".jobs"#).await
}

/// Tells the planner what is there.
pub(super) async fn analyze(place: &Annex) -> Result<(), Failure> {
    place.control().run(r#"VACUUM (ANALYZE) "{schema}".jobs"#).await
}

/// Writes as many ready jobs, with as many others where the content says so.
pub(super) async fn fill(
    place: &Annex,
    mode: Mode,
    content: Content,
    depth: u64,
    progress: &Progress,
) -> Result<(), Failure> {
    let mut written = 0;
    while written < depth {
        let end = (written + CHUNK).min(depth);
        write(place, mode, content, written..end, depth).await?;
        progress.advance(end - written);
        written = end;
    }
    Ok(())
}

async fn write(
    place: &Annex,
    mode: Mode,
    content: Content,
    numbers: std::ops::Range<u64>,
    of: u64,
) -> Result<(), Failure> {
    let now = server_time(place.control()).await?;
    let mut copy = Copy::begin(place.control(), &COLUMNS).await?;
    let actors = content.served();
    for n in numbers {
        let actor = &actors[usize::try_from(n % u64::from(content.actors)).unwrap_or(0)];
        let cohort = (content.cohorts > 0)
            .then(|| format!("tenant-{}", n / u64::from(content.actors) % u64::from(content.cohorts)));
        // In the order of their numbers, all in the past.
        let due = now - i64::try_from(of - n).unwrap_or(0);
        let cohort = cohort.filter(|_| mode == Mode::RoundRobin);
        let cohort = cohort.as_deref();
        let ready = Written { status: "pending", actor, due, cohort, tried: false };
        put(&mut copy, n, now, &ready)?;
        if let Some(beside) = content.beside {
            let foreign = format!("bench.other.{}", n % 8);
            let (status, actor, due) = match beside {
                Beside::Scheduled => ("scheduled", actor.as_str(), now + HOUR),
                Beside::Finished => ("succeeded", actor.as_str(), due),
                Beside::Running => ("running", actor.as_str(), due),
                Beside::OtherActors => ("pending", foreign.as_str(), due),
                Beside::Retried => ("pending", actor.as_str(), due),
            };
            let tried = !matches!(beside, Beside::Scheduled | Beside::OtherActors);
            put(&mut copy, n, now, &Written { status, actor, due, cohort, tried })?;
        }
        copy.flow().await?;
    }
    copy.finish().await.map(drop)
}

struct Written<'a> {
    status: &'a str,
    actor: &'a str,
    due: i64,
    cohort: Option<&'a str>,
    /// An attempt was made.
    tried: bool,
}

fn put(copy: &mut Copy, n: u64, now: i64, job: &Written<'_>) -> Result<(), Failure> {
    let (running, finished) = (job.status == "running", job.status == "succeeded");
    copy.row().id(Uuid::now_v7()).big(job.due).big(job.due).big(job.tried.into());
    copy.text(job.status).integer(job.tried.into());
    copy.maybe((running || finished).then(|| Uuid::from_u128(u128::from(n % 64) + 1)), Copy::id);
    copy.maybe(job.tried.then_some(now), Copy::big);
    copy.maybe(finished.then_some(now), Copy::big).maybe(finished.then_some(now + HOUR), Copy::big);
    copy.text(QUEUE).text(job.actor).text(job.cohort.unwrap_or("")).json(&Numbered { n })?;
    copy.maybe(job.cohort, Copy::text);
    Ok(())
}
