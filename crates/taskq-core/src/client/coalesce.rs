//! Single enqueues that share round trips.
//!
//! The first caller does its own call. Those who come while it is in flight gather, and are written by one
//! call as soon as it returns. Nobody waits for a timer, and a caller alone meets no extra hop.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::model::{Enqueued, NewJob};
use crate::store::{Store, StoreError};

/// The most jobs that one call carries.
const BATCH_JOBS: usize = 1_000;
/// The most bytes of payload that one call carries, unless one job alone has more.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Gathers single enqueues while a call is in flight.
pub(super) struct Coalescer {
    store: Arc<dyn Store>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    in_flight: bool,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    job: NewJob,
    answer: oneshot::Sender<Result<Enqueued, StoreError>>,
}

impl Coalescer {
    pub(super) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store, state: Mutex::default() })
    }

    /// Writes one job, alone or together with those of other callers.
    pub(super) async fn enqueue(self: &Arc<Self>, job: NewJob) -> Result<Enqueued, StoreError> {
        loop {
            let Some(answer) = self.join(&job) else {
                let _turn = Turn(self);
                return enqueue_one(self.store.as_ref(), job).await;
            };
            // Whoever was to write it may be gone, with its runtime. The job's id makes repeating safe.
            if let Ok(answer) = answer.await {
                return answer;
            }
        }
    }

    /// Joins those who gather; `None` when no call is in flight and it is the caller's turn.
    fn join(&self, job: &NewJob) -> Option<oneshot::Receiver<Result<Enqueued, StoreError>>> {
        let mut state = self.lock();
        if !state.in_flight {
            state.in_flight = true;
            return None;
        }
        let (sender, answer) = oneshot::channel();
        state.waiting.push_back(Waiting { job: job.clone(), answer: sender });
        Some(answer)
    }

    /// Takes what gathered; hands the turn back when nothing did.
    fn next_batch(&self) -> Option<Vec<Waiting>> {
        let mut state = self.lock();
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(next) = state.waiting.front() {
            bytes += next.job.payload.as_str().len();
            if !batch.is_empty() && (batch.len() == BATCH_JOBS || bytes > BATCH_BYTES) {
                break;
            }
            batch.extend(state.waiting.pop_front().filter(|waiting| !waiting.answer.is_closed()));
        }
        if batch.is_empty() {
            state.in_flight = false;
            return None;
        }
        Some(batch)
    }

    async fn flush(self: Arc<Self>) {
        let dropped = Dropped(&self);
        while let Some(batch) = self.next_batch() {
            self.write(batch).await;
        }
        std::mem::forget(dropped);
    }

    async fn write(&self, batch: Vec<Waiting>) {
        let jobs: Vec<_> = batch.iter().map(|waiting| waiting.job.clone()).collect();
        let mut result = self.store.enqueue(jobs.clone()).await;
        if matches!(&result, Err(error) if error.is_transient()) {
            result = self.store.enqueue(jobs).await;
        }
        match result {
            Ok(answers) if answers.len() == batch.len() => {
                for (waiting, answer) in batch.into_iter().zip(answers) {
                    // A caller that is gone needs no answer.
                    let _ = waiting.answer.send(Ok(answer));
                }
            }
            Err(StoreError::Unavailable { message, .. }) => {
                for waiting in batch {
                    let error = StoreError::Unavailable { message: message.clone(), source: None };
                    let _ = waiting.answer.send(Err(error));
                }
            }
            Err(StoreError::TimedOut { message }) => {
                for waiting in batch {
                    let _ = waiting.answer.send(Err(StoreError::TimedOut { message: message.clone() }));
                }
            }
            // One by one, so that an error reaches only the caller whose job it is about.
            Ok(_) | Err(_) => {
                for waiting in batch {
                    let answer = enqueue_one(self.store.as_ref(), waiting.job).await;
                    let _ = waiting.answer.send(answer);
                }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing panics while it is held, so what a poisoned lock guards is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes one job; a call whose outcome is unknown is repeated once, which the job's id makes safe.
pub(super) async fn enqueue_one(store: &dyn Store, job: NewJob) -> Result<Enqueued, StoreError> {
    let mut result = store.enqueue(vec![job.clone()]).await;
    if matches!(&result, Err(error) if error.is_transient()) {
        result = store.enqueue(vec![job]).await;
    }
    match result {
        Ok(answers) => answers
            .into_iter()
            .next()
            .ok_or_else(|| StoreError::Answer { message: "an enqueue of one job got no answer".to_owned() }),
        // The caller enqueued one job and knows of no batch.
        Err(StoreError::Invalid { message, .. }) => Err(StoreError::Invalid { index: None, message }),
        Err(StoreError::Unsupported { message, .. }) => Err(StoreError::Unsupported { index: None, message }),
        Err(error) => Err(error),
    }
}

/// The turn of the caller whose call is in flight. When it ends, also by being dropped, those who gathered
/// meanwhile are written.
struct Turn<'a>(&'a Arc<Coalescer>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if state.waiting.is_empty() {
            state.in_flight = false;
            return;
        }
        match self.0.store.runtime().or_else(|| Handle::try_current().ok()) {
            Some(runtime) => {
                drop(state);
                runtime.spawn(Arc::clone(self.0).flush());
            }
            // Dropped outside any runtime: those who wait find their answer gone and call for themselves.
            None => state.give_up(),
        }
    }
}

/// Gives the turn back when the task that writes is dropped with its runtime.
struct Dropped<'a>(&'a Arc<Coalescer>);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.lock().give_up();
    }
}

impl State {
    fn give_up(&mut self) {
        self.in_flight = false;
        self.waiting.clear();
    }
}
