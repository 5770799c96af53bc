//! `taskq job cancel`, `taskq job retry` and `taskq prune`.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use taskq::store::{Cancelled, JobMatch, PruneCall, PruneMode, Retried, Store};
use taskq::{Client, JobId, Status};

use super::connect::connect;
use crate::cli::{CancelArgs, PruneArgs, RetryArgs, Selection};
use crate::config::DatabaseSettings;
use crate::exit::{Exit, Failure};
use crate::output;

/// How many jobs one batch changes at most: short enough that nobody waits for its locks.
const BATCH: u32 = 1_000;
/// How many missing jobs an error names.
const NAMED: usize = 5;

/// Cancels jobs.
pub(super) async fn cancel(args: CancelArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let CancelArgs { selection, reason, output } = args;
    let Chosen::Matching(jobs) = chosen(&selection, |status| !status.is_terminal(), CANCELLABLE)? else {
        let answers = connect(&database).await?.cancel(selection.ids, reason).await?;
        return print_answers(&answers, output.json);
    };
    let client = connect(&database).await?;
    let mut totals = CancelTotals::default();
    let mut batches = Batches::new(&client, selection.limit);
    let ended = batches.run(&mut totals, async |store, limit, after, totals| {
        let batch = store.cancel_matching(jobs.clone(), limit, after, reason.clone()).await?;
        totals.cancelled += batch.cancelled;
        totals.requested += batch.requested;
        Ok(Step { changed: batch.cancelled + batch.requested, scanned_to: batch.scanned_to })
    });
    let ended = ended.await;
    drop(batches);
    totals.complete = ended.map_err(|failure| failure.after(&totals.to_string()))?;
    print_totals(&totals, totals.complete, output.json)
}

/// Makes jobs that have ended ready again.
pub(super) async fn retry(args: RetryArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let RetryArgs { selection, output } = args;
    let Chosen::Matching(jobs) = chosen(&selection, Status::is_terminal, RETRYABLE)? else {
        let answers = connect(&database).await?.retry(selection.ids).await?;
        return print_answers(&answers, output.json);
    };
    let client = connect(&database).await?;
    let mut totals = RetryTotals::default();
    let mut batches = Batches::new(&client, selection.limit);
    let ended = batches.run(&mut totals, async |store, limit, after, totals| {
        let batch = store.retry_matching(jobs.clone(), limit, after).await?;
        totals.retried += batch.retried;
        Ok(Step { changed: batch.retried, scanned_to: batch.scanned_to })
    });
    let ended = ended.await;
    drop(batches);
    totals.complete = ended.map_err(|failure| failure.after(&totals.to_string()))?;
    print_totals(&totals, totals.complete, output.json)
}

/// Deletes jobs that ended long ago, or counts them.
pub(super) async fn prune(args: PruneArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let PruneArgs { older_than, statuses, queue, actor, tag, limit, dry_run, output } = args;
    if let Some(status) = statuses.iter().find(|status| !status.is_terminal()) {
        return Err(Failure::usage(format!("--status: jobs that are {status} have not ended")));
    }
    let client = connect(&database).await?;
    let jobs = JobMatch { statuses, queue, actor, tag };
    let mode = if dry_run { PruneMode::Count } else { PruneMode::Delete };
    let mut totals = PruneTotals { dry_run, ..PruneTotals::default() };
    let mut batches = Batches::new(&client, limit);
    let ended = batches.run(&mut totals, async |store, limit, after, totals| {
        let call = PruneCall { jobs: jobs.clone(), older_than, limit, after, mode };
        let batch = store.prune(call).await?;
        totals.pruned += batch.pruned;
        totals.archived += batch.archived;
        Ok(Step { changed: batch.pruned, scanned_to: batch.scanned_to })
    });
    let ended = ended.await;
    drop(batches);
    totals.complete = ended.map_err(|failure| failure.after(&totals.to_string()))?;
    print_totals(&totals, totals.complete, output.json)
}

/// What a filter without a status means to a cancellation.
const CANCELLABLE: &[Status] = &[Status::Scheduled, Status::Blocked, Status::Pending, Status::Running];
/// What a filter without a status means to a retry: what went wrong, and nothing that somebody wanted so.
const RETRYABLE: &[Status] = &[Status::Failed, Status::Crashed, Status::Abandoned];

enum Chosen {
    Ids,
    Matching(JobMatch),
}

/// Says which jobs are meant; `fits` says of which status they can be. A filter that can match nothing is refused.
fn chosen(
    selection: &Selection,
    fits: impl Fn(Status) -> bool,
    unless_said: &[Status],
) -> Result<Chosen, Failure> {
    if !selection.ids.is_empty() {
        return Ok(Chosen::Ids);
    }
    let Selection { statuses, queue, actor, tag, all, .. } = selection;
    if statuses.is_empty() && queue.is_none() && actor.is_none() && tag.is_none() && !all {
        return Err(Failure::usage(
            "which jobs? name their ids, narrow them down by --status, --queue, --actor or --tag, or say --all",
        ));
    }
    if let Some(status) = statuses.iter().find(|status| !fits(**status)) {
        let why = if status.is_terminal() { "have ended already" } else { "have not ended" };
        return Err(Failure::usage(format!("--status: jobs that are {status} {why}")));
    }
    let statuses = if statuses.is_empty() { unless_said.to_vec() } else { statuses.clone() };
    Ok(Chosen::Matching(JobMatch { statuses, queue: queue.clone(), actor: actor.clone(), tag: tag.clone() }))
}

/// The batches of one filter.
struct Batches<'a> {
    client: &'a Client,
    /// How many jobs may still be changed.
    left: u64,
    bar: ProgressBar,
}

/// What one batch did.
struct Step {
    changed: u64,
    scanned_to: Option<JobId>,
}

impl<'a> Batches<'a> {
    fn new(client: &'a Client, limit: Option<u64>) -> Self {
        let terminal = io::stderr().is_terminal();
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target).with_style(ProgressStyle::default_spinner());
        Self { client, left: limit.unwrap_or(u64::MAX), bar }
    }

    /// Goes through the jobs until the end, or until the limit is reached: then it returns `false`.
    async fn run<T: ToString>(
        &mut self,
        totals: &mut T,
        mut batch: impl AsyncFnMut(&dyn Store, u32, Option<JobId>, &mut T) -> Result<Step, Failure>,
    ) -> Result<bool, Failure> {
        let mut after = None;
        loop {
            let limit = u32::try_from(self.left).unwrap_or(BATCH).min(BATCH);
            let step = batch(self.client.store().as_ref(), limit, after, totals).await?;
            self.bar.set_message(totals.to_string());
            self.bar.tick();
            self.left = self.left.saturating_sub(step.changed);
            if step.scanned_to.is_none() || self.left == 0 {
                return Ok(step.scanned_to.is_none());
            }
            after = step.scanned_to;
        }
    }
}

/// Takes the bar away, so that what is printed next has the line for itself.
impl Drop for Batches<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[derive(Serialize, Default)]
struct CancelTotals {
    cancelled: u64,
    requested: u64,
    /// Whether every job was looked at.
    complete: bool,
}

impl std::fmt::Display for CancelTotals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} jobs cancelled, {} running ones asked to end", self.cancelled, self.requested)
    }
}

#[derive(Serialize, Default)]
struct RetryTotals {
    retried: u64,
    /// Whether every job was looked at.
    complete: bool,
}

impl std::fmt::Display for RetryTotals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} jobs are ready again", self.retried)
    }
}

#[derive(Serialize, Default)]
struct PruneTotals {
    pruned: u64,
    /// How many of them were archived.
    archived: u64,
    dry_run: bool,
    /// Whether every job was looked at.
    complete: bool,
}

impl std::fmt::Display for PruneTotals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = if self.dry_run { "would be deleted" } else { "deleted" };
        write!(f, "{} jobs {verb}, {} of them archived", self.pruned, self.archived)
    }
}

fn print_totals<T: Serialize + ToString>(totals: &T, complete: bool, json: bool) -> Result<Exit, Failure> {
    if json {
        output::json(totals)?;
        return Ok(Exit::Done);
    }
    output::line(&totals.to_string())?;
    if !complete {
        output::note("the limit was reached: there may be more");
    }
    Ok(Exit::Done)
}

/// What was answered about one job that was named.
trait Answer: Serialize {
    fn id(&self) -> JobId;
    fn outcome(&self) -> String;
    fn status(&self) -> Option<Status>;
}

impl Answer for Cancelled {
    fn id(&self) -> JobId {
        self.id
    }

    fn outcome(&self) -> String {
        output::word(&self.outcome)
    }

    fn status(&self) -> Option<Status> {
        self.status
    }
}

impl Answer for Retried {
    fn id(&self) -> JobId {
        self.id
    }

    fn outcome(&self) -> String {
        output::word(&self.outcome)
    }

    fn status(&self) -> Option<Status> {
        self.status
    }
}

fn print_answers<A: Answer>(answers: &[A], json: bool) -> Result<Exit, Failure> {
    if json {
        output::json(answers)?;
    } else {
        let status = |answer: &A| answer.status().map(|status| status.to_string()).unwrap_or_default();
        let rows = answers.iter().map(|answer| [answer.id().to_string(), answer.outcome(), status(answer)]);
        output::line(&output::table(["id", "outcome", "status"], rows))?;
    }
    let missing: BTreeSet<_> =
        answers.iter().filter(|answer| answer.status().is_none()).map(Answer::id).collect();
    if missing.is_empty() {
        return Ok(Exit::Done);
    }
    let mut named: Vec<_> = missing.iter().take(NAMED).map(ToString::to_string).collect();
    if missing.len() > NAMED {
        named.push("…".to_owned());
    }
    let (named, count) = (named.join(", "), missing.len());
    Err(Failure::not_found(if count == 1 {
        format!("there is no job {named}: it never existed or was pruned")
    } else {
        format!("{count} jobs do not exist or were pruned: {named}")
    }))
}
