//! What the demo's run amounted to.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use jiff::Timestamp;
use serde::Serialize;
use taskq::{JobRecord, Status};

use super::{Digest, Skipped};

/// How many files are named for each reason of failure.
const EXAMPLES: usize = 3;

/// The longest time that is told apart from longer ones: a month, in microseconds.
const LONGEST: u64 = 31 * 24 * 3_600 * 1_000_000;

/// Gathers the facts of ended jobs, one at a time, in constant memory.
#[derive(Debug)]
pub(crate) struct Tally {
    jobs: u64,
    succeeded: u64,
    retries: u64,
    bytes: u64,
    lines: u64,
    failures: BTreeMap<String, Failures>,
    queue_time: Histogram<u64>,
    run_time: Histogram<u64>,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

/// The jobs that failed for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Failures {
    /// Why.
    pub(crate) error: String,
    /// How many.
    pub(crate) jobs: u64,
    /// Some of their files.
    pub(crate) examples: Vec<String>,
}

/// The median and the 99th percentile, in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Spread {
    /// The median.
    pub(crate) p50: f64,
    /// What 99 of 100 stay within.
    pub(crate) p99: f64,
}

/// What the demo's run amounted to.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Summary {
    /// How many jobs ran: one for each file.
    pub(crate) jobs: u64,
    /// How many succeeded.
    pub(crate) succeeded: u64,
    /// How many failed.
    pub(crate) failed: u64,
    /// How many attempts were made beyond the first of each job.
    pub(crate) retries: u64,
    /// The bytes of the files that succeeded.
    pub(crate) bytes: u64,
    /// Their line breaks.
    pub(crate) lines: u64,
    /// From the first job's enqueue to the last job's end, in seconds.
    pub(crate) seconds: f64,
    /// Jobs in each of these seconds.
    pub(crate) jobs_per_s: f64,
    /// From ready to started.
    pub(crate) queue_time_ms: Spread,
    /// From started to recorded as ended.
    pub(crate) run_time_ms: Spread,
    /// Why jobs failed, the most frequent reason first.
    pub(crate) failures: Vec<Failures>,
    /// What was left out.
    pub(crate) skipped: Skipped,
}

impl Tally {
    /// Starts at nothing.
    pub(crate) fn new() -> Self {
        // From 1 µs, three digits, growing as needed.
        let histogram = || Histogram::new(3).expect("three digits are within the histogram's bounds");
        Self {
            jobs: 0,
            succeeded: 0,
            retries: 0,
            bytes: 0,
            lines: 0,
            failures: BTreeMap::new(),
            queue_time: histogram(),
            run_time: histogram(),
            first: None,
            last: None,
        }
    }

    /// Adds a job that has ended; `file` is what it was about.
    pub(crate) fn add(&mut self, job: &JobRecord, file: &str) {
        self.jobs += 1;
        self.retries += u64::try_from(job.attempt - 1).unwrap_or(0);
        self.first = Some(self.first.map_or(job.created_at, |first| first.min(job.created_at)));
        self.last = self.last.max(job.finished_at);
        if let Some(started) = job.started_at {
            record(&mut self.queue_time, job.scheduled_at, started);
            if let Some(finished) = job.finished_at {
                record(&mut self.run_time, started, finished);
            }
        }
        if job.status == Status::Succeeded {
            self.succeeded += 1;
            if let Some(digest) = job.result.as_ref().and_then(|result| result.parse::<Digest>().ok()) {
                self.bytes += digest.bytes;
                self.lines += digest.lines;
            }
            return;
        }
        let error = job.error.as_ref().map_or_else(|| job.status.to_string(), |error| error.message.clone());
        let failures = self
            .failures
            .entry(error)
            .or_insert_with_key(|error| Failures { error: error.clone(), ..Failures::default() });
        failures.jobs += 1;
        if failures.examples.len() < EXAMPLES {
            failures.examples.push(file.to_owned());
        }
    }

    /// Draws the sum.
    pub(crate) fn summary(self, skipped: Skipped) -> Summary {
        let seconds = match (self.first, self.last) {
            (Some(first), Some(last)) => elapsed(first, last).as_secs_f64(),
            _ => 0.0,
        };
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let jobs_per_s = if seconds > 0.0 { self.jobs as f64 / seconds } else { 0.0 };
        let mut failures: Vec<_> = self.failures.into_values().collect();
        failures.sort_by_key(|failure| std::cmp::Reverse(failure.jobs));
        Summary {
            jobs: self.jobs,
            succeeded: self.succeeded,
            failed: self.jobs - self.succeeded,
            retries: self.retries,
            bytes: self.bytes,
            lines: self.lines,
            seconds,
            jobs_per_s: rounded(jobs_per_s),
            queue_time_ms: spread(&self.queue_time),
            run_time_ms: spread(&self.run_time),
            failures,
            skipped,
        }
    }
}

fn record(histogram: &mut Histogram<u64>, from: Timestamp, to: Timestamp) {
    let micros = u64::try_from(elapsed(from, to).as_micros()).unwrap_or(LONGEST).min(LONGEST);
    histogram.record(micros).expect("a histogram that grows takes a month in microseconds");
}

/// The time between two moments; nothing if the second is the earlier one.
fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

fn spread(histogram: &Histogram<u64>) -> Spread {
    #[expect(clippy::cast_precision_loss, reason = "durations of jobs are far below 2^53 microseconds")]
    let at = |quantile| rounded(histogram.value_at_quantile(quantile) as f64 / 1_000.0);
    Spread { p50: at(0.5), p99: at(0.99) }
}

/// Rounds to three decimals: more would be noise.
fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use taskq::{ActorName, Epoch, ErrorRecord, JobId, Json, Keep, QueueName};

    use super::*;

    fn job(status: Status, attempt: i32, ran_ms: i64) -> JobRecord {
        let at = |ms| Timestamp::from_millisecond(1_000_000 + ms).unwrap();
        JobRecord {
            id: JobId::new(),
            queue: QueueName::new("q").unwrap(),
            actor: ActorName::new("a").unwrap(),
            status,
            priority: 0,
            attempt,
            max_attempts: 3,
            epoch: Epoch(1),
            payload: Json::from_value("x", 10).unwrap(),
            payload_version: 1,
            created_at: at(0),
            scheduled_at: at(0),
            started_at: Some(at(5)),
            finished_at: Some(at(5 + ran_ms)),
            archived_at: None,
            worker: None,
            cancel_requested: false,
            schedule_to_close: None,
            start_to_close: None,
            retry_policy: None,
            fairness_key: None,
            error: None,
            result: None,
            result_expires_at: None,
            progress: None,
            tags: vec![],
            metadata: None,
            trace_context: None,
            keep: Keep::All,
        }
    }

    #[test]
    fn jobs_are_counted_timed_and_grouped_by_their_error() {
        let mut tally = Tally::new();
        let digest = Digest { sha256: String::new(), lines: 2, bytes: 30 };
        let done = JobRecord {
            result: Some(Json::from_value(&digest, 1_000).unwrap()),
            ..job(Status::Succeeded, 1, 10)
        };
        for _ in 0..6 {
            tally.add(&done, "good");
        }
        for (error, file) in [("denied", "a"), ("gone", "b"), ("gone", "c"), ("gone", "d"), ("gone", "e")] {
            let error = Some(ErrorRecord::new("error", error));
            tally.add(&JobRecord { error, ..job(Status::Failed, 3, 95) }, file);
        }
        let summary = tally.summary(Skipped::default());
        assert_eq!((summary.jobs, summary.succeeded, summary.failed, summary.retries), (11, 6, 5, 10));
        assert_eq!((summary.bytes, summary.lines), (180, 12));
        let rounded = |value: f64| format!("{value:.1}");
        assert_eq!([summary.seconds, summary.jobs_per_s].map(rounded), ["0.1", "110.0"]);
        // The histogram keeps three digits.
        let Spread { p50, p99 } = summary.run_time_ms;
        assert_eq!([summary.queue_time_ms.p50, p50, p99].map(rounded), ["5.0", "10.0", "95.0"]);
        let reasons: Vec<_> = summary.failures.iter().map(|f| (f.error.as_str(), f.jobs)).collect();
        assert_eq!(reasons, [("gone", 4), ("denied", 1)]);
        assert_eq!(summary.failures[0].examples, ["b", "c", "d"]);
    }

    #[test]
    fn nothing_is_a_summary_too() {
        let summary = Tally::new().summary(Skipped::default());
        assert_eq!(summary.jobs, 0);
        assert!(summary.jobs_per_s.abs() < f64::EPSILON);
        assert_eq!(summary.run_time_ms, Spread { p50: 0.0, p99: 0.0 });
    }
}
