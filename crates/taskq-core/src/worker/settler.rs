//! Records what became of attempts, many with one call.
//!
//! Outcomes gather only while the previous call is in flight: one alone is settled at once, a thousand become a
//! few calls. None is lost while the session lives: an unreachable store is asked again, and what the store
//! refuses is isolated and recorded as a failure.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::backoff::Backoff;
use super::session::Session;
use crate::model::{ErrorRecord, Outcome, SettleReason, Settled, Settlement, Status};
use crate::store::StoreError;

/// The most outcomes of one call.
const BATCH: usize = 1_000;
/// The most bytes of results of one call, unless one outcome alone has more.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// How many stale outcomes of one call are looked up for the log.
const STALE_LOOKUPS: usize = 10;

/// Settles for one session.
pub(super) struct Settler {
    session: Arc<Session>,
    outcomes: UnboundedReceiver<Settlement>,
}

impl Settler {
    pub(super) fn new(session: Arc<Session>, outcomes: UnboundedReceiver<Settlement>) -> Self {
        Self { session, outcomes }
    }

    /// Runs until the executor is gone, or the lease is found lost.
    pub(super) async fn run(mut self) {
        let mut gathered = Vec::new();
        while self.outcomes.recv_many(&mut gathered, BATCH).await > 0 {
            while !gathered.is_empty() {
                let rest = gathered.split_off(batch_end(&gathered));
                let batch = std::mem::replace(&mut gathered, rest);
                if let Err(lost) = self.settle(batch).await {
                    self.session.lose(&lost);
                    return;
                }
            }
        }
    }

    /// Settles a batch, isolating what the store refuses. Fails only when the lease is lost.
    async fn settle(&self, batch: Vec<Settlement>) -> Result<(), StoreError> {
        let mut work = vec![batch];
        while let Some(mut batch) = work.pop() {
            match self.call(&batch).await {
                Ok(answered) => self.done(&batch, &answered),
                Err(error @ StoreError::LeaseLost { .. }) => return Err(error),
                Err(StoreError::Busy { message }) => {
                    tracing::debug!(message, outcomes = batch.len(), "a job is locked by somebody else");
                    if batch.len() > 1 {
                        let second = batch.split_off(batch.len() / 2);
                        work.extend([second, batch]);
                    } else {
                        self.settle_apart(batch);
                    }
                }
                Err(error) if batch.len() > 1 => {
                    tracing::error!(%error, outcomes = batch.len(), "the store refuses a batch of outcomes; it is halved");
                    let second = batch.split_off(batch.len() / 2);
                    work.extend([second, batch]);
                }
                Err(error) => {
                    for settlement in batch {
                        self.settle_refused(settlement, &error).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Settles an outcome whose job somebody else holds, as long as it takes, while the others go on.
    fn settle_apart(&self, batch: Vec<Settlement>) {
        let apart = Self { session: Arc::clone(&self.session), outcomes: unbounded_channel().1 };
        tokio::spawn(async move {
            let mut backoff = Backoff::brisk();
            loop {
                tokio::select! {
                    () = apart.session.lost.cancelled() => return,
                    () = tokio::time::sleep(backoff.step()) => {}
                }
                match apart.call(&batch).await {
                    Err(StoreError::Busy { .. }) => {}
                    Ok(answered) => return apart.done(&batch, &answered),
                    Err(error @ StoreError::LeaseLost { .. }) => return apart.session.lose(&error),
                    Err(error) => {
                        for settlement in batch {
                            if let Err(lost) = apart.settle_refused(settlement, &error).await {
                                return apart.session.lose(&lost);
                            }
                        }
                        return;
                    }
                }
            }
        });
    }

    /// Records an outcome that the store refuses as a failure, so that its job does not run for ever.
    async fn settle_refused(&self, refused: Settlement, error: &StoreError) -> Result<(), StoreError> {
        let Settlement { id, epoch, outcome } = refused;
        let kind = outcome.kind().as_str();
        tracing::error!(job = %id, %epoch, outcome = kind, %error, "the store refuses an outcome; it is recorded as a failure");
        // Short: whatever was wrong with the outcome must not be repeated.
        let error =
            ErrorRecord::new("refused_outcome", &format!("the outcome `{kind}` was refused: {error}"));
        let outcome = Outcome::Failed { error, delay: None, is_final: false };
        let batch = vec![Settlement { id, epoch, outcome }];
        match self.call(&batch).await {
            Ok(answered) => self.done(&batch, &answered),
            Err(error @ StoreError::LeaseLost { .. }) => return Err(error),
            Err(error) => {
                tracing::error!(job = %id, %epoch, %error, "the store refuses that failure as well; the outcome is dropped");
                self.session.totals.unsettled(1);
                self.forget(&batch);
            }
        }
        Ok(())
    }

    /// Calls the store until it can be reached.
    async fn call(&self, batch: &[Settlement]) -> Result<Answered, StoreError> {
        let mut backoff = Backoff::brisk();
        let mut repeated = false;
        loop {
            let call = self.session.store.settle(self.session.id, batch.to_vec());
            match self.session.reach.call(call).await {
                Err(error @ StoreError::Busy { .. }) => return Err(error),
                Err(error) if error.is_transient() => {
                    tracing::warn!(%error, outcomes = batch.len(), "outcomes cannot be settled; they are kept and tried again");
                    repeated = true;
                    tokio::time::sleep(backoff.step()).await;
                }
                Ok(answers) if answers.len() != batch.len() => {
                    let message = format!("{} outcomes got {} answers", batch.len(), answers.len());
                    return Err(StoreError::Answer { message });
                }
                Ok(answers) => return Ok(Answered { answers, repeated }),
                Err(error) => return Err(error),
            }
        }
    }

    fn done(&self, batch: &[Settlement], answered: &Answered) {
        let (mut due, mut ready) = (false, false);
        let mut stale = Vec::new();
        for (settlement, answer) in batch.iter().zip(&answered.answers) {
            match answer.reason {
                SettleReason::Gone if self.took_its_job_along(settlement, answered.repeated) => {
                    self.session.totals.recorded(settlement.outcome.kind());
                }
                SettleReason::Applied | SettleReason::Repeated => {
                    self.session.totals.recorded(settlement.outcome.kind());
                    due |= answer.status == Some(Status::Scheduled);
                    ready |= answer.status == Some(Status::Pending);
                }
                SettleReason::Stale => {
                    self.session.totals.stale();
                    stale.push((settlement.id, settlement.epoch));
                }
                SettleReason::Gone => {
                    self.session.totals.stale();
                    tracing::warn!(job = %settlement.id, epoch = %settlement.epoch, "an outcome came for a job that is gone");
                }
            }
        }
        self.forget(batch);
        if due {
            self.session.leadership.poke();
        }
        if ready {
            self.session.look.notify_one();
        }
        if !stale.is_empty() {
            let session = Arc::clone(&self.session);
            tokio::spawn(async move {
                for (index, (id, epoch)) in stale.into_iter().enumerate() {
                    let now =
                        if index < STALE_LOOKUPS { session.store.job(id).await.ok().flatten() } else { None };
                    let (current, status) = now.map(|job| (job.epoch.0, job.status)).unzip();
                    tracing::warn!(job = %id, %epoch, current_epoch = current, status = ?status, "an outcome came too late and changed nothing");
                }
            });
        }
    }

    /// Says of a success whose job is gone whether it is the one that ended it: a job that keeps nothing is deleted with
    /// its success, and here that may have been recorded before, by a call whose answer was lost or by the handler.
    fn took_its_job_along(&self, settlement: &Settlement, repeated: bool) -> bool {
        let key = (settlement.id, settlement.epoch);
        matches!(settlement.outcome, Outcome::Succeeded { .. })
            && (repeated || self.session.attempts.is_completed(&key))
    }

    fn forget(&self, batch: &[Settlement]) {
        let keys = batch.iter().map(|settlement| (settlement.id, settlement.epoch));
        if self.session.attempts.settled(keys) {
            self.session.slots.wake();
        }
    }
}

/// What the store said of a batch.
struct Answered {
    answers: Vec<Settled>,
    /// A call before the one that was answered may have taken effect.
    repeated: bool,
}

/// Returns how many outcomes make one call.
fn batch_end(gathered: &[Settlement]) -> usize {
    let mut bytes = 0;
    let fit = gathered.iter().take_while(|settlement| {
        if let Outcome::Succeeded { result: Some(result) } = &settlement.outcome {
            bytes += result.as_str().len();
        }
        bytes <= BATCH_BYTES
    });
    fit.count().max(1)
}
