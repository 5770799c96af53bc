//! The rules.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use super::facts::JobFacts;
use super::log::{AttemptKey, Event, Record};

const TERMINAL: [&str; 5] = ["succeeded", "failed", "cancelled", "crashed", "abandoned"];

/// Outcomes that give the attempt back.
const GIVEN_BACK: [&str; 2] = ["snoozed", "released"];

/// One attempt, from the log.
struct Run {
    key: AttemptKey,
    pid: u32,
    start: u64,
    end: Option<u64>,
}

/// Checks `log`, in the order of time, against `jobs`: a sentence with the job's id for each violation.
///
/// - Each job of `enqueued` is there, in a terminal status; one that succeeded has run under its last epoch.
/// - Two attempts of one job never run at once. An attempt without an end ends when its process was killed or frozen;
///   one whose process was not has not ended, which is a violation of its own.
/// - Epochs only grow: an attempt that starts later has a larger one, and none is beyond the job's.
/// - Every epoch up to the job's has its attempt: a row each, the last one perhaps on the job itself.
/// - Attempts count as they should: one more from claim to claim, except after one that was given back (which never
///   counts), that was forgiven (the same number), or before an operator's retry (which starts again at 1). None is
///   beyond the budget, and the log has the numbers that the database has.
pub fn violations(enqueued: &[Uuid], log: &[Record], jobs: &[JobFacts]) -> Vec<String> {
    let mut found = Vec::new();
    let jobs: BTreeMap<Uuid, &JobFacts> = jobs.iter().map(|job| (job.id, job)).collect();
    let runs = runs(log, &mut found);

    for id in enqueued {
        match jobs.get(id) {
            None => found.push(format!("job {id} was enqueued and is not there")),
            Some(job) if !TERMINAL.contains(&job.status.as_str()) => {
                found.push(format!("job {id} has not ended: it is {}", job.status));
            }
            Some(_) => {}
        }
    }
    for (id, runs) in &runs {
        match jobs.get(id) {
            None => found.push(format!("job {id} ran and is not in the database")),
            Some(job) => compare(job, runs, &mut found),
        }
        follow(*id, runs, &mut found);
    }
    for (id, job) in &jobs {
        let ran = |epoch| runs.get(id).is_some_and(|runs| runs.iter().any(|run| run.key.epoch == epoch));
        if job.status == "succeeded" && !ran(job.epoch) {
            found.push(format!("job {id} succeeded with epoch {} without having run under it", job.epoch));
        }
        reconcile(job, &mut found);
    }
    found
}

/// The attempts of each job, in the order of their starts.
fn runs(log: &[Record], found: &mut Vec<String>) -> BTreeMap<Uuid, Vec<Run>> {
    let mut all: Vec<Run> = Vec::new();
    let mut running: HashMap<u32, Vec<usize>> = HashMap::new();
    for &Record { at, pid, event } in log {
        let of_process = running.entry(pid).or_default();
        match event {
            Event::Start(key) => {
                of_process.push(all.len());
                all.push(Run { key, pid, start: at, end: None });
            }
            Event::End(key) => match of_process.iter().position(|index| all[*index].key == key) {
                Some(position) => {
                    let run = &mut all[of_process.swap_remove(position)];
                    // A frozen attempt goes on when its process is thawed, after its end for our purposes.
                    run.end.get_or_insert(at);
                }
                None => found.push(format!(
                    "job {} ended an attempt of epoch {} in process {pid} that it had not started",
                    key.job, key.epoch
                )),
            },
            Event::Killed => {
                for index in of_process.drain(..) {
                    all[index].end.get_or_insert(at);
                }
            }
            Event::Frozen => {
                for index in of_process {
                    all[*index].end.get_or_insert(at);
                }
            }
        }
    }
    let mut by_job: BTreeMap<Uuid, Vec<Run>> = BTreeMap::new();
    for run in all {
        by_job.entry(run.key.job).or_default().push(run);
    }
    by_job
}

/// Follows the attempts of one job through time.
fn follow(id: Uuid, runs: &[Run], found: &mut Vec<String>) {
    for run in runs.iter().filter(|run| run.end.is_none()) {
        let (epoch, pid) = (run.key.epoch, run.pid);
        found.push(format!("job {id} has not ended its attempt of epoch {epoch} in process {pid}"));
    }
    // The attempt that has run the longest of those before, which need not be the last one.
    let mut latest: Option<&Run> = None;
    for (index, run) in runs.iter().enumerate() {
        if let Some(before) = latest.filter(|before| before.end.is_none_or(|end| end > run.start)) {
            found.push(format!(
                "job {id} ran twice at once: epoch {} in process {} and epoch {} in process {}",
                before.key.epoch, before.pid, run.key.epoch, run.pid
            ));
        }
        if let Some(before) = index.checked_sub(1).map(|before| &runs[before])
            && before.key.epoch >= run.key.epoch
        {
            found.push(format!(
                "job {id} started epoch {} after epoch {}: epochs only grow",
                run.key.epoch, before.key.epoch
            ));
        }
        let reach = |run: &Run| run.end.unwrap_or(u64::MAX);
        if latest.is_none_or(|before| reach(before) < reach(run)) {
            latest = Some(run);
        }
    }
}

/// Compares what ran with what the database knows of it.
fn compare(job: &JobFacts, runs: &[Run], found: &mut Vec<String>) {
    let id = job.id;
    let starts = i64::try_from(runs.len()).unwrap_or(i64::MAX);
    if starts > job.epoch {
        found.push(format!("job {id} started {starts} times and was claimed {} times", job.epoch));
    }
    for AttemptKey { epoch, attempt, .. } in runs.iter().map(|run| run.key) {
        if epoch > job.epoch {
            found.push(format!("job {id} ran under epoch {epoch}, beyond its last one, {}", job.epoch));
        }
        let known = job.past.iter().find(|past| past.epoch == epoch).map(|past| past.attempt);
        let known = known.or_else(|| (job.last_on_job && epoch == job.epoch).then_some(job.attempt));
        if let Some(known) = known.filter(|known| *known != attempt) {
            found.push(format!(
                "job {id} ran epoch {epoch} as attempt {attempt}, recorded as attempt {known}"
            ));
        }
    }
}

/// Reconciles a job with its recorded attempts.
fn reconcile(job: &JobFacts, found: &mut Vec<String>) {
    let id = job.id;
    let expected = job.epoch - i64::from(job.last_on_job);
    let recorded: Vec<i64> = job.past.iter().map(|past| past.epoch).collect();
    if !recorded.iter().copied().eq(1..=expected) {
        found.push(format!("job {id} has attempts of the epochs {recorded:?}, not of 1 to {expected}"));
    }

    if job.attempt < 0 || job.attempt > job.max_attempts {
        found.push(format!("job {id} counts {} attempts of at most {}", job.attempt, job.max_attempts));
    }
    for past in job.past.iter().filter(|past| !(1..=job.max_attempts).contains(&past.attempt)) {
        let (epoch, attempt, most) = (past.epoch, past.attempt, job.max_attempts);
        found.push(format!("job {id} recorded epoch {epoch} as attempt {attempt} of at most {most}"));
    }

    let last = job.last_on_job.then_some((job.epoch, job.attempt));
    let numbers = job.past.iter().map(|past| (past.epoch, past.attempt)).chain(last);
    for (before, (epoch, attempt)) in job.past.iter().zip(numbers.skip(1)) {
        let given_back = GIVEN_BACK.contains(&before.outcome.as_str());
        let follows =
            attempt == before.attempt || (attempt == before.attempt + 1 && !given_back) || attempt == 1;
        if !follows {
            found.push(format!(
                "job {id} counted epoch {epoch} as attempt {attempt} after epoch {} {} as attempt {}",
                before.epoch, before.outcome, before.attempt
            ));
        }
    }
}

#[cfg(test)]
mod tests;
