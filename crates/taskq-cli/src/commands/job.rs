//! `taskq job list`, `show` and `wait`.

use serde::Serialize;
use taskq::store::{Ending, JobFilter, WorkerState};
use taskq::{Client, ErrorRecord, JobId, JobRecord, Json, Status, WaitError};

use super::connect::connect;
use crate::cli::{ListArgs, ShowArgs, WaitArgs};
use crate::config::DatabaseSettings;
use crate::exit::{Exit, Failure, with_sources};
use crate::{output, parse};

/// Lists jobs, newest first.
pub(super) async fn list(args: ListArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let client = connect(&database).await?;
    let filter = JobFilter {
        status: args.status,
        queue: args.queue,
        actor: args.actor,
        before: args.before,
        limit: args.limit,
    };
    let jobs = client.store().jobs(filter).await?;
    if args.output.json {
        output::json(&jobs)?;
        return Ok(Exit::Done);
    }
    if jobs.is_empty() {
        output::note("no such jobs");
        return Ok(Exit::Done);
    }
    output::line(&output::table(output::JOB_HEADER, jobs.iter().map(output::job_row)))?;
    if let Some(last) = jobs.last()
        && jobs.len() == args.limit as usize
    {
        output::note(&format!("there may be more: --before {}", last.id));
    }
    Ok(Exit::Done)
}

/// Shows everything about one job.
pub(super) async fn show(args: ShowArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let client = connect(&database).await?;
    let store = client.store();
    let Some(job) = store.job(args.id).await? else { return Err(not_found(args.id)) };
    let attempts = store.attempts(args.id).await?;
    let surroundings = surroundings(&client, &job).await?;
    let facts = output::JobFacts::new(job, attempts, surroundings);
    if args.output.json {
        output::json(&facts)?;
    } else {
        output::line(&facts.to_text())?;
    }
    Ok(Exit::Done)
}

/// Asks what a job that has not ended waits for, or who runs it.
async fn surroundings(client: &Client, job: &JobRecord) -> Result<output::Surroundings, Failure> {
    let store = client.store();
    let mut found = output::Surroundings::default();
    if job.status.is_terminal() {
        return Ok(found);
    }
    let workers = client.workers().await?;
    if job.status == Status::Running {
        // A session that is not even listed was lost long ago.
        let session = workers.iter().find(|summary| Some(summary.worker) == job.worker);
        found.worker_state = Some(session.map_or(WorkerState::Lost, |summary| summary.state));
        return Ok(found);
    }
    let queues = store.queues().await?;
    found.queue_paused = Some(queues.iter().any(|queue| queue.queue == job.queue && queue.paused));
    found.actor_paused = Some(store.paused_actors().await?.contains(&job.actor));
    if job.status == Status::Pending {
        let serves = workers.iter().any(|worker| {
            worker.state == WorkerState::Active
                && worker.queues.contains(&job.queue)
                && worker.actors.contains(&job.actor)
        });
        found.served = Some(serves);
    }
    Ok(found)
}

#[derive(Serialize)]
struct End<'a> {
    id: JobId,
    status: Status,
    result: &'a Option<Json>,
    error: &'a Option<ErrorRecord>,
}

/// Waits for a job's end and prints its result.
pub(super) async fn wait(args: WaitArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let client = connect(&database).await?;
    let ending = client.wait_for(args.id, args.timeout).await.map_err(|error| match error {
        WaitError::Absent(_) => not_found(args.id),
        WaitError::Timeout => {
            let waited = args.timeout.map(parse::format_duration).unwrap_or_default();
            Failure::failed(format!("the job {} has not ended within {waited}; it goes on", args.id))
        }
        other => Failure::failed(with_sources(&other)),
    })?;
    let Ending { id, status, result, error } = &ending;
    if args.output.json {
        output::json(&End { id: *id, status: *status, result, error })?;
    } else if *status == Status::Succeeded {
        output::line(result.as_ref().map_or("null", Json::as_str))?;
    }
    if *status == Status::Succeeded {
        return Ok(Exit::Done);
    }
    let reason = error.as_ref().map(|error| format!(": {}", error.message)).unwrap_or_default();
    Err(Failure::failed(format!("the job {id} ended as {status}{reason}")))
}

fn not_found(id: JobId) -> Failure {
    Failure::not_found(format!("there is no job {id}: it never existed or was pruned"))
}
