//! Idempotency keys.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::clock::later;
use super::state::State;
use crate::model::{ActorName, IdempotencyKey, JobId, NewJob, OnFinished};

/// How long a key makes an enqueue safe to repeat: 7 days from when it was taken.
const TTL: Duration = Duration::from_hours(7 * 24);

/// The keys that are taken, each of one actor. One that has expired counts as absent.
pub(super) type Keys = BTreeMap<(ActorName, IdempotencyKey), Holder>;

/// Whose a key is.
pub(super) struct Holder {
    job: JobId,
    expires_at: Timestamp,
}

/// What a new job's key meets.
pub(super) enum KeyTaken {
    /// Nothing: the job has none, or the key was free and is the job's now.
    Free,
    /// A job that had ended: the key is the new job's now.
    Over,
    /// This job, whose it stays.
    By(JobId),
}

impl State {
    /// Takes the key of a new job, if it has one.
    pub(super) fn take_key(&mut self, now: Timestamp, new: &NewJob) -> KeyTaken {
        let Some(key) = &new.idempotency_key else { return KeyTaken::Free };
        let key = (new.actor.clone(), key.clone());
        let taken = match self.keys.get(&key).filter(|holder| now < holder.expires_at) {
            None => KeyTaken::Free,
            Some(holder) if self.may_run_again(new, holder.job) => KeyTaken::Over,
            // Also the job itself, whose enqueue is repeated.
            Some(holder) => return KeyTaken::By(holder.job),
        };
        self.keys.insert(key, Holder { job: new.id, expires_at: later(now, TTL) });
        taken
    }

    /// The keys by when they expire.
    pub(super) fn expiries(&self) -> impl Iterator<Item = (Timestamp, &(ActorName, IdempotencyKey))> {
        self.keys.iter().map(|(key, holder)| (holder.expires_at, key))
    }

    fn may_run_again(&self, new: &NewJob, holder: JobId) -> bool {
        let is_over = self.jobs.get(&holder).is_none_or(|job| job.status.is_terminal());
        new.on_finished == OnFinished::RunAgain && holder != new.id && is_over
    }
}
