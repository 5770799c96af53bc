//! Compares what the store thinks this worker runs with what it does run.
//!
//! The two part when an answer is lost: a claim that was committed and whose reply never came leaves a job running
//! for ever under a healthy heartbeat. So every few beats, and after each such claim, the store is asked. What it
//! lists and nobody runs is given back; what runs and it does not list is ended.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::attempts::Key;
use super::session::Session;
use crate::model::Outcome;
use crate::store::{Held, StoreError};

/// How many beats lie between two comparisons, unless there is a reason for one.
pub(super) const BEATS: u32 = 3;
/// Each so many comparisons, one is of everything and not only of what started lately.
const FULL_EVERY: u32 = 4;
/// How far a comparison reaches back behind the newest start that the one before saw: longer than a claim takes
/// from its start to its commit and its answer.
const MARGIN: Duration = Duration::from_mins(1);

/// Compares for one session.
pub(super) struct Reconciler {
    session: Arc<Session>,
    comparisons: u32,
    since: Option<Timestamp>,
    /// What ran when the last comparison began.
    ran_before: HashSet<Key>,
    /// What the store listed and was unknown here, with the number of claims begun by then.
    suspects: HashMap<Key, u64>,
}

impl Reconciler {
    pub(super) fn new(session: Arc<Session>) -> Self {
        let (ran_before, suspects) = (HashSet::new(), HashMap::new());
        Self { session, comparisons: 0, since: None, ran_before, suspects }
    }

    /// Runs for ever: it compares whenever the heartbeat says so.
    pub(super) async fn run(mut self) {
        loop {
            self.session.compare.notified().await;
            let doubted = self.session.claims.take_doubt();
            if let Err(error) = self.compare().await {
                tracing::warn!(%error, "what this worker runs cannot be compared with the store; it is tried again");
                if doubted {
                    self.session.claims.doubt();
                }
            }
            if !self.suspects.is_empty() {
                // They are looked at again with the next beat.
                self.session.claims.doubt();
            }
        }
    }

    async fn compare(&mut self) -> Result<(), StoreError> {
        let session = Arc::clone(&self.session);
        let full = self.comparisons.is_multiple_of(FULL_EVERY);
        let since = self.since.filter(|_| !full);
        // In this order: a claim that has ended by now has registered its jobs, unless they are settled.
        let ended = session.claims.ended();
        let before = session.attempts.known();
        let held = session.reach.call(session.store.held(session.id, since)).await?;
        let after = session.attempts.known();
        let started = session.claims.started();

        let suspects = std::mem::take(&mut self.suspects);
        for Held { id, epoch, .. } in &held {
            let key = (*id, *epoch);
            if before.contains(&key) || after.contains(&key) {
                continue;
            }
            // Sure when no claim was in flight, or every claim that could have brought it has ended since.
            let begun = suspects.get(&key).copied().unwrap_or(started);
            if ended >= begun {
                self.give_back(key);
            } else {
                self.suspects.insert(key, begun);
            }
        }

        let listed: HashSet<Key> = held.iter().map(|held| (held.id, held.epoch)).collect();
        for key in &before.open {
            let looked_for = full || !self.ran_before.contains(key);
            if looked_for && !listed.contains(key) && session.attempts.disown(*key, Instant::now()) {
                tracing::error!(job = %key.0, epoch = %key.1, "an attempt runs that the store does not know of; it is ended");
            }
        }

        if self.suspects.is_empty()
            && let Some(newest) = held.iter().map(|held| held.started_at).max()
        {
            self.since = Some(newest.checked_sub(MARGIN).unwrap_or(Timestamp::MIN));
        }
        self.ran_before = before.open;
        self.comparisons = self.comparisons.wrapping_add(1);
        Ok(())
    }

    fn give_back(&self, key: Key) {
        if self.session.attempts.adopt(key) {
            tracing::warn!(job = %key.0, epoch = %key.1, "the store lists an attempt that nobody runs; its job is given back");
            self.session.settle(key, Outcome::Released);
        }
    }
}
