//! The one task that polls for everybody who waits for a job.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::model::JobId;
use crate::store::{Ending, Store, StoreError};

/// How often a wait of any age is looked at, at least.
const CEILING: Duration = Duration::from_millis(500);
/// How often the ceiling is halved to reach the interval of a fresh wait: 500 ms / 2⁸ ≈ 2 ms.
const HALVINGS: u32 = 8;
/// The most jobs that one poll asks for.
const BATCH: usize = 1_000;

/// How a job ended, or why nobody can say.
type Answer = Result<Ending, NoEnding>;

/// Why the end of a job cannot be said.
#[derive(Clone, Debug)]
pub(super) enum NoEnding {
    /// It is not there, and was not there when it was looked at before.
    Never,
    /// It was there and is not there any more.
    NoMore,
    /// The store does not say.
    Store(Arc<StoreError>),
}

/// Collects those who wait; its task lives only while somebody does.
pub(super) struct Waiter {
    store: Arc<dyn Store>,
    arrived: Notify,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: bool,
    arrivals: Vec<(JobId, oneshot::Sender<Answer>)>,
}

impl Waiter {
    pub(super) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store, arrived: Notify::new(), state: Mutex::default() })
    }

    /// Waits until a job has ended or turns out not to exist.
    pub(super) async fn wait(self: &Arc<Self>, id: JobId) -> Answer {
        loop {
            let (sender, answer) = oneshot::channel();
            self.arrive(id, sender);
            // The task may be gone with the runtime of whoever started it: then start it anew.
            if let Ok(answer) = answer.await {
                return answer;
            }
        }
    }

    fn arrive(self: &Arc<Self>, id: JobId, sender: oneshot::Sender<Answer>) {
        let mut state = self.lock();
        state.arrivals.push((id, sender));
        if state.running {
            drop(state);
            self.arrived.notify_one();
        } else {
            state.running = true;
            drop(state);
            let runtime = self.store.runtime().unwrap_or_else(Handle::current);
            runtime.spawn(run(Arc::clone(self)));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing panics while it is held, so what a poisoned lock guards is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Clears the way for another task when this one is dropped with its runtime.
struct Dropped(Option<Arc<Waiter>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        if let Some(waiter) = &self.0 {
            // Those who wait find their answer gone and start another task.
            let mut state = waiter.lock();
            state.running = false;
            state.arrivals.clear();
        }
    }
}

async fn run(waiter: Arc<Waiter>) {
    let mut dropped = Dropped(Some(Arc::clone(&waiter)));
    let mut polls = Polls::new(Instant::now());
    loop {
        {
            let mut state = waiter.lock();
            if state.arrivals.is_empty() && polls.waiting.is_empty() {
                state.running = false;
                dropped.0 = None;
                return;
            }
            let now = Instant::now();
            for (id, answer) in state.arrivals.drain(..) {
                polls.add(id, answer, now);
            }
        }
        let batch = polls.take_due(Instant::now());
        if batch.is_empty() {
            let next = polls.next_due();
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = waiter.arrived.notified() => {}
            }
            continue;
        }
        let result = waiter.store.endings(batch.clone()).await;
        polls.answer(batch, result, Instant::now());
    }
}

struct Waiting {
    since: Instant,
    /// `None` while it is being asked for.
    due: Option<Instant>,
    /// Whether it was there when it was looked at.
    seen: bool,
    answers: Vec<oneshot::Sender<Answer>>,
}

/// Who waits, and when whom to look at next.
struct Polls {
    started: Instant,
    waiting: HashMap<JobId, Waiting>,
    /// May hold an entry that a later one has replaced: the time in `waiting` counts.
    due: BinaryHeap<Reverse<(Instant, JobId)>>,
    /// Polls in a row that did not reach the store.
    failures: u32,
}

impl Polls {
    fn new(started: Instant) -> Self {
        Self { started, waiting: HashMap::new(), due: BinaryHeap::new(), failures: 0 }
    }

    fn add(&mut self, id: JobId, answer: oneshot::Sender<Answer>, now: Instant) {
        let waiting = self.waiting.entry(id).or_insert(Waiting {
            since: now,
            due: None,
            seen: false,
            answers: Vec::new(),
        });
        waiting.since = now;
        waiting.due = Some(now);
        waiting.answers.push(answer);
        self.due.push(Reverse((now, id)));
    }

    fn take_due(&mut self, now: Instant) -> Vec<JobId> {
        let mut batch = Vec::new();
        while let Some(Reverse((due, id))) = self.due.peek().copied()
            && due <= now
            && batch.len() < BATCH
        {
            self.due.pop();
            let Some(waiting) = self.waiting.get_mut(&id) else { continue };
            if waiting.due != Some(due) {
                continue;
            }
            // Two entries of one time would ask twice.
            waiting.due = None;
            waiting.answers.retain(|answer| !answer.is_closed());
            if waiting.answers.is_empty() {
                self.waiting.remove(&id);
            } else {
                batch.push(id);
            }
        }
        batch
    }

    fn next_due(&self) -> Instant {
        self.due.peek().map_or_else(Instant::now, |Reverse((due, _))| *due)
    }

    fn answer(&mut self, batch: Vec<JobId>, result: Result<Vec<Ending>, StoreError>, now: Instant) {
        match result {
            Ok(endings) => {
                self.failures = 0;
                let mut endings: HashMap<_, _> =
                    endings.into_iter().map(|ending| (ending.id, ending)).collect();
                for id in batch {
                    match endings.remove(&id) {
                        Some(ending) if ending.status.is_terminal() => self.finish(id, &Ok(ending)),
                        Some(_) => {
                            self.waiting.entry(id).and_modify(|waiting| waiting.seen = true);
                            self.postpone(id, now);
                        }
                        None => {
                            let seen = self.waiting.get(&id).is_some_and(|waiting| waiting.seen);
                            let absent = if seen { NoEnding::NoMore } else { NoEnding::Never };
                            self.finish(id, &Err(absent));
                        }
                    }
                }
            }
            Err(error) if error.is_transient() => {
                // The failures count like age: an unreachable store is not asked every 2 ms.
                self.failures = (self.failures + 1).min(HALVINGS);
                for id in batch {
                    self.postpone(id, now);
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                for id in batch {
                    self.finish(id, &Err(NoEnding::Store(Arc::clone(&error))));
                }
            }
        }
    }

    fn finish(&mut self, id: JobId, answer: &Answer) {
        let answers = self.waiting.remove(&id).map(|waiting| waiting.answers).unwrap_or_default();
        for sender in answers {
            // Whoever stopped waiting needs no answer.
            let _ = sender.send(answer.clone());
        }
    }

    fn postpone(&mut self, id: JobId, now: Instant) {
        let Some(waiting) = self.waiting.get_mut(&id) else { return };
        let interval = interval(now - waiting.since, self.failures);
        // On a grid, so that waits of like age fall into one poll.
        let since_start = now - self.started;
        let ticks = since_start.as_nanos() / interval.as_nanos() + 1;
        let at = u64::try_from(ticks * interval.as_nanos()).unwrap_or(u64::MAX);
        let due = self.started + Duration::from_nanos(at);
        waiting.due = Some(due);
        self.due.push(Reverse((due, id)));
    }
}

/// The largest of the halved ceilings within a quarter of the age, raised by one step per failure in a row.
fn interval(age: Duration, failures: u32) -> Duration {
    let by_age = (0..HALVINGS).find(|halvings| CEILING / (1 << halvings) <= age / 4).unwrap_or(HALVINGS);
    CEILING / (1 << by_age.saturating_sub(failures))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_follows_the_age_up_to_the_ceiling() {
        let millis = |age| interval(Duration::from_millis(age), 0).as_millis();
        assert_eq!([millis(0), millis(7), millis(100), millis(1_000)], [1, 1, 15, 250]);
        assert_eq!([millis(2_000), millis(1_000_000)], [500, 500]);
        assert_eq!(interval(Duration::ZERO, 3), CEILING / 32);
        assert_eq!(interval(Duration::ZERO, HALVINGS), CEILING);
    }

    #[test]
    fn a_wait_that_is_taken_up_again_at_the_moment_it_is_due_is_asked_for_once() {
        let start = Instant::now();
        let mut polls = Polls::new(start);
        let id = JobId::new();
        let answers = [oneshot::channel(), oneshot::channel()].map(|(sender, answer)| {
            polls.add(id, sender, start);
            answer
        });
        assert_eq!(polls.take_due(start), [id]);
        drop(answers);
    }

    #[test]
    fn waits_of_one_age_share_a_poll() {
        let start = Instant::now();
        let mut polls = Polls::new(start);
        let mut answers = Vec::new();
        for offset in [0, 3, 9] {
            let (sender, answer) = oneshot::channel();
            polls.add(JobId::new(), sender, start + Duration::from_millis(offset));
            answers.push(answer);
        }
        let later = start + Duration::from_millis(4_100);
        let batch = polls.take_due(later);
        assert_eq!(batch.len(), 3);
        let unreachable = StoreError::Unavailable { message: String::new(), source: None };
        polls.answer(batch, Err(unreachable), later);
        assert_eq!(polls.take_due(start + Duration::from_millis(4_499)).len(), 0);
        assert_eq!(polls.take_due(start + Duration::from_millis(4_500)).len(), 3, "one poll for all");
        drop(answers);
        assert_eq!(polls.next_due().max(later), later, "nobody is left to be asked for");
    }
}
