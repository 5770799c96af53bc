//! How taskq is used: settings, sweeps, jobs that nobody serves.

use taskq_core::store::{Store, StoreError, SweepSummary};

use super::{Diagnosis, Doctor};
use crate::store::PostgresStore;

/// How many actors that nobody serves are named.
const NAMED: usize = 10;

impl Doctor {
    pub(super) async fn settings(&self, store: Option<&PostgresStore>) -> Result<Vec<Diagnosis>, StoreError> {
        let Some(store) = store else { return Ok(not_looked_at("settings")) };
        let schema = self.schema.as_str();
        let settings = store.settings().await?;
        let problem = |(name, problem): (String, String)| {
            Diagnosis::problem(
                "settings",
                format!("the setting {name} in the table settings: {problem}"),
                format!("SELECT \"{schema}\".set_setting('{name}', '…'), or DELETE the row"),
            )
        };
        let problems = settings.into_iter().filter_map(|it| Some((it.name, it.problem?)));
        let found: Vec<_> = problems.map(problem).collect();
        Ok(if found.is_empty() { vec![Diagnosis::ok("settings", "what is set makes sense")] } else { found })
    }

    pub(super) async fn sweeps(&self, store: Option<&PostgresStore>) -> Result<Vec<Diagnosis>, StoreError> {
        let Some(store) = store else { return Ok(not_looked_at("sweeps")) };
        let leads = store.leader().await?.is_some();
        let sweeps = store.sweeps().await?;
        let found: Vec<_> = sweeps.iter().filter_map(|sweep| self.sweep(sweep, leads)).collect();
        Ok(if found.is_empty() { vec![Diagnosis::ok("sweeps", "no sweep is behind")] } else { found })
    }

    fn sweep(&self, sweep: &SweepSummary, leads: bool) -> Option<Diagnosis> {
        let name = sweep.sweep.as_str();
        // Compared by the store's clock, which wrote both. A run that passed rows over ends as it says so.
        let fails = sweep.last_error_at.is_some() && sweep.last_error_at >= sweep.last_run_at;
        let error = sweep.last_error.as_ref().filter(|_| fails);
        if sweep.behind > self.limits.sweep_delay {
            let behind = sweep.behind.as_secs();
            let message = format!("the sweep {name} is {behind} s behind: {} rows wait", sweep.backlog);
            return Some(match error {
                Some(error) => Diagnosis::problem("sweeps", format!("{message}; it fails: {error}"), FAILS),
                None if leads => Diagnosis::problem("sweeps", message, SLOW),
                None => Diagnosis::problem("sweeps", format!("{message}, and nobody leads"), NOBODY),
            });
        }
        let error = error?;
        Some(Diagnosis::problem(
            "sweeps",
            format!("the sweep {name} has failed since it last ran: {error}"),
            FAILS,
        ))
    }

    pub(super) async fn unserved(&self, store: Option<&PostgresStore>) -> Result<Vec<Diagnosis>, StoreError> {
        let Some(store) = store else { return Ok(not_looked_at("unserved")) };
        let unserved = store.stats().await?.unserved;
        let mut found: Vec<_> = unserved
            .iter()
            .take(NAMED)
            .map(|lane| {
                Diagnosis::problem(
                    "unserved",
                    format!(
                        "no live worker serves the actor {} in the queue {}: {} jobs are ready",
                        lane.actor, lane.queue, lane.pending
                    ),
                    format!(
                        "start a worker of this queue with a handler of this actor, or `taskq job cancel --queue {} \
                         --actor {}`",
                        lane.queue, lane.actor
                    ),
                )
            })
            .collect();
        let more = unserved.len().saturating_sub(NAMED);
        if more > 0 {
            let message = format!("nor are {more} more actors served");
            found.push(Diagnosis::problem("unserved", message, "`taskq stats` lists them"));
        }
        Ok(if found.is_empty() {
            vec![Diagnosis::ok("unserved", "somebody serves every job that is ready")]
        } else {
            found
        })
    }
}

const FAILS: &str = "put right what the error says; `taskq leader` shows whether it runs again";
const SLOW: &str = "see the log of the worker that leads (`taskq leader`); if its sweeps cannot keep up, free the \
                    server or raise what a batch may do";
const NOBODY: &str = "start a worker: one of them leads";

fn not_looked_at(check: &'static str) -> Vec<Diagnosis> {
    vec![Diagnosis::unknown(
        check,
        "cannot be looked at without the privileges that the check of grants names",
        None,
    )]
}
