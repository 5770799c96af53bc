//! Callers that write one job a call, all at once, and what that took.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;

use super::clock::{now_ns, seconds};
use super::job::Numbered;
use super::report::Row;
use super::rounds::Rates;
use super::times::Times;
use crate::exit::Failure;

/// What one caller writes with.
pub(super) trait Write: Send + 'static {
    /// Writes one job; it is committed then.
    fn write(&mut self, job: Numbered) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// One round of a case.
pub(super) struct Written {
    pub(super) jobs: u64,
    pub(super) elapsed_ns: u64,
    /// How long each call took.
    pub(super) calls: Times,
}

impl Written {
    #[expect(clippy::cast_precision_loss, reason = "a rate is computed")]
    fn rate(&self) -> f64 {
        self.jobs as f64 / seconds(self.elapsed_ns)
    }
}

/// Lets callers write, each its next job when the last is committed.
pub(super) async fn write(callers: Vec<impl Write>, jobs: u64) -> Result<Written, Failure> {
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    let began_ns = now_ns();
    for mut caller in callers {
        let next = Arc::clone(&next);
        tasks.spawn(async move {
            let mut calls = Times::new();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= jobs {
                    return Ok::<_, Failure>(calls);
                }
                let called_ns = now_ns();
                caller.write(Numbered { n }).await?;
                calls.note(now_ns() - called_ns);
            }
        });
    }
    let mut calls = Times::new();
    while let Some(task) = tasks.join_next().await {
        calls.add(&task.map_err(|error| Failure::failed(error.to_string()))??);
    }
    Ok(Written { jobs, elapsed_ns: now_ns() - began_ns, calls })
}

/// The figures of the cases of one part, as ratios to the first of them: `to` is that one's name.
pub(super) fn rows(part: &str, to: &str, names: &[&str], written: &[Vec<Written>]) -> Vec<Row> {
    let rates: Vec<_> = written.iter().map(|rounds| Rates::of(rounds.iter().map(Written::rate))).collect();
    let row = |at: usize| {
        let mut calls = Times::new();
        written[at].iter().for_each(|round| calls.add(&round.calls));
        Row::of(names[at])
            .with("part", part)
            .with("jobs", written[at].first().map(|round| round.jobs))
            .with("rounds", written[at].len() as u64)
            .with("jobs_per_s", rates[at].best())
            .with("jobs_per_s_median", rates[at].median())
            .with("p50_ms", calls.at_ms(0.5))
            .with("p99_ms", calls.at_ms(0.99))
            .with(format!("ratio_to_{to}"), rates[at].ratio_to(&rates[0]))
            .with(format!("ratio_to_{to}_median"), rates[at].median_ratio_to(&rates[0]))
    };
    (0..names.len()).map(row).collect()
}
