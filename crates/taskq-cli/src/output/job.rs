//! Jobs, for people and programs.

use std::fmt::Write;

use jiff::Timestamp;
use serde::Serialize;
use taskq::store::WorkerState;
use taskq::{AttemptRecord, Epoch, ErrorRecord, JobRecord, Json, Keep, Status, WorkerId};

use super::table::{facts, table};
use super::text::{brief, maybe_time, plain, time};
use crate::parse::format_duration;

/// The columns of a list of jobs.
pub(crate) const JOB_HEADER: [&str; 8] =
    ["id", "status", "queue", "actor", "attempt", "due", "archived", "error"];

const ERROR_WIDTH: usize = 60;

/// One line of a list of jobs.
pub(crate) fn job_row(job: &JobRecord) -> [String; 8] {
    [
        job.id.to_string(),
        job.status.to_string(),
        job.queue.to_string(),
        job.actor.to_string(),
        format!("{}/{}", job.attempt, job.max_attempts),
        if job.status == Status::Scheduled { time(job.scheduled_at) } else { String::new() },
        if job.archived_at.is_some() { "archived".to_owned() } else { String::new() },
        job.error.as_ref().map(|error| brief(&error.message, ERROR_WIDTH)).unwrap_or_default(),
    ]
}

/// Everything about one job.
#[derive(Serialize, Debug)]
pub(crate) struct JobFacts {
    #[serde(flatten)]
    job: JobRecord,
    attempts: Vec<AttemptFacts>,
    #[serde(flatten)]
    surroundings: Surroundings,
}

/// What is known around a job that has not ended.
#[derive(Serialize, Default, Debug)]
pub(crate) struct Surroundings {
    /// Whether a live worker serves its queue and actor; only asked while it is pending.
    pub(crate) served: Option<bool>,
    /// Whether its queue is paused; only asked until it runs.
    pub(crate) queue_paused: Option<bool>,
    /// Whether its actor is paused; only asked until it runs.
    pub(crate) actor_paused: Option<bool>,
    /// Whether the worker that holds it is alive; only asked while it runs.
    pub(crate) worker_state: Option<WorkerState>,
}

/// One attempt, whether it ended the job or not.
#[derive(Serialize, Debug)]
struct AttemptFacts {
    epoch: Epoch,
    attempt: i32,
    outcome: &'static str,
    worker: Option<WorkerId>,
    started_at: Timestamp,
    finished_at: Option<Timestamp>,
    error: Option<ErrorRecord>,
}

impl JobFacts {
    /// Puts a job together with the attempts that did not end it.
    pub(crate) fn new(job: JobRecord, earlier: Vec<AttemptRecord>, surroundings: Surroundings) -> Self {
        let mut attempts: Vec<_> = earlier
            .into_iter()
            .map(|attempt| AttemptFacts {
                epoch: attempt.epoch,
                attempt: attempt.attempt,
                outcome: attempt.outcome.as_str(),
                worker: Some(attempt.worker),
                started_at: attempt.started_at,
                finished_at: Some(attempt.finished_at),
                error: attempt.error,
            })
            .collect();
        // The attempt that runs, or that ended the job, is on the job itself. A job that ended without one, as at
        // its deadline, has no attempt of its last epoch that is not listed already.
        let last_listed = attempts.last().map_or(Epoch(0), |attempt| attempt.epoch);
        if (job.status == Status::Running || job.status.is_terminal())
            && job.epoch > last_listed
            && let Some(started_at) = job.started_at
        {
            attempts.push(AttemptFacts {
                epoch: job.epoch,
                attempt: job.attempt,
                outcome: job.status.as_str(),
                worker: job.worker,
                started_at,
                finished_at: job.finished_at,
                error: job.error.clone().filter(|_| job.status.is_terminal()),
            });
        }
        Self { job, attempts, surroundings }
    }

    /// Writes everything for people.
    pub(crate) fn to_text(&self) -> String {
        // Writing to a string cannot fail.
        let mut text = facts(self.facts());
        for remark in self.remarks() {
            let _ = write!(text, "\n\n{}", plain(&remark));
        }
        if !self.attempts.is_empty() {
            text.push_str("\n\n");
            text.push_str(&self.attempts_table());
        }
        for (name, error) in self.errors() {
            let _ = write!(text, "\n\n{name} ({}):\n{}", plain(&error.class), plain(&error.message));
            if let Some(backtrace) = &error.backtrace {
                let _ = write!(text, "\n{}", plain(backtrace));
            }
        }
        for (name, document) in [("Payload", Some(&self.job.payload)), ("Result", self.job.result.as_ref())] {
            if let Some(document) = document {
                let _ = write!(text, "\n\n{name}:\n{}", pretty(document));
            }
        }
        text
    }

    /// Says why the job does not get on.
    fn remarks(&self) -> Vec<String> {
        let (queue, actor) = (&self.job.queue, &self.job.actor);
        let around = &self.surroundings;
        let mut remarks = Vec::new();
        if self.job.cancel_requested {
            remarks.push("Its cancellation was requested: its worker is asking it to end.".to_owned());
        }
        if around.worker_state == Some(WorkerState::Lost) {
            remarks
                .push("Its worker is lost: the leader takes the job back and it is tried again.".to_owned());
        }
        if around.queue_paused == Some(true) {
            remarks.push(format!("The queue `{queue}` is paused: see `taskq queue resume`."));
        }
        if around.actor_paused == Some(true) {
            remarks.push(format!("The actor `{actor}` is paused: see `taskq actor resume`."));
        }
        if around.served == Some(false) {
            remarks.push(format!(
                "No live worker serves the actor `{actor}` of the queue `{queue}`: the job waits until one does."
            ));
        }
        remarks
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let job = &self.job;
        let mut facts = vec![
            ("id", job.id.to_string()),
            ("status", job.status.to_string()),
            ("queue", job.queue.to_string()),
            ("actor", job.actor.to_string()),
            ("priority", job.priority.to_string()),
            ("attempts", format!("{} of {}", job.attempt, job.max_attempts)),
            ("claims", job.epoch.to_string()),
            ("created", time(job.created_at)),
            ("scheduled", time(job.scheduled_at)),
            ("started", maybe_time(job.started_at)),
            ("finished", maybe_time(job.finished_at)),
        ];
        if job.archived_at.is_some() {
            facts.push(("archived", maybe_time(job.archived_at)));
        }
        let mut add = |name, value: Option<String>| {
            if let Some(value) = value {
                facts.push((name, value));
            }
        };
        add("deadline", job.schedule_to_close.map(time));
        add("start to close", job.start_to_close.map(format_duration));
        add("retry policy", job.retry_policy.as_ref().and_then(|policy| serde_json::to_string(policy).ok()));
        add("fairness key", job.fairness_key.as_ref().map(ToString::to_string));
        add("worker", job.worker.map(|worker| worker.to_string()));
        add("tags", (!job.tags.is_empty()).then(|| job.tags.join(", ")));
        add("metadata", job.metadata.as_ref().map(ToString::to_string));
        add("progress", job.progress.as_ref().map(ToString::to_string));
        add("trace context", job.trace_context.clone());
        add("keep", (job.keep == Keep::None).then(|| "none".to_owned()));
        add("payload version", (job.payload_version != 1).then(|| job.payload_version.to_string()));
        facts
    }

    fn attempts_table(&self) -> String {
        let rows = self.attempts.iter().map(|attempt| {
            let took = attempt
                .finished_at
                .and_then(|finished| finished.duration_since(attempt.started_at).try_into().ok())
                .map_or_else(|| "-".to_owned(), format_duration);
            [
                attempt.attempt.to_string(),
                attempt.epoch.to_string(),
                attempt.outcome.to_owned(),
                time(attempt.started_at),
                took,
                attempt.error.as_ref().map(|error| brief(&error.message, ERROR_WIDTH)).unwrap_or_default(),
            ]
        });
        table(["attempt", "epoch", "outcome", "started", "took", "error"], rows)
    }

    fn errors(&self) -> impl Iterator<Item = (&'static str, &ErrorRecord)> {
        let name = if self.job.status.is_terminal() { "Error" } else { "Last error" };
        self.job.error.iter().map(move |error| (name, error))
    }
}

/// Indents a document; one that cannot be parsed is shown as it is.
fn pretty(document: &Json) -> String {
    let indented = document.parse::<serde_json::Value>().ok();
    let text = indented.and_then(|value| serde_json::to_string_pretty(&value).ok());
    plain(&text.unwrap_or_else(|| document.to_string()))
}
