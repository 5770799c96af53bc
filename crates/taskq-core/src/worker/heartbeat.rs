//! Renews the session's lease, and brings back what the store has to say.
//!
//! The lease is kept by this process's monotonic clock and counts from before the call that renewed it was
//! sent, so it ends here before it ends in the store. When it cannot be renewed, the session is lost a margin
//! before that, which leaves its attempts time to end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::attempts::Asked;
use super::backoff::Backoff;
use super::leader::LEADER_LEASE;
use super::reconciler;
use super::session::Session;
use crate::model::{ErrorRecord, Outcome};
use crate::store::{Beat, StoreError, Wake, Wakes};

/// How often a session beats at least.
pub(super) const BEAT_MAX: Duration = Duration::from_secs(5);
/// How close two beats may follow each other, however many jobs are cancelled.
const BEAT_MIN: Duration = Duration::from_millis(20);
/// Which part of the lease is left when the session gives it up.
const MARGIN: u32 = 10;
/// Which part of the lease may pass at most before a beat that failed is tried again.
///
/// What is left of a lease after the time between two beats, the margin and this, a worker outlives an unreachable
/// store for: 21 of 30 seconds.
const RETRY: u32 = 30;

/// Beats for one session.
pub(super) struct Heartbeat {
    session: Arc<Session>,
    lease: Duration,
    registered: Instant,
    wakes: Wakes,
}

impl Heartbeat {
    /// `registered` is a moment before the registration was sent.
    pub(super) fn new(session: Arc<Session>, lease: Duration, registered: Instant) -> Self {
        let wakes = session.store.wakes();
        Self { session, lease, registered, wakes }
    }

    /// Runs until the lease is lost.
    pub(super) async fn run(mut self) {
        // Six beats a lease: several may fail before it matters.
        let interval = (self.lease / 6).min(BEAT_MAX);
        let margin = self.lease / MARGIN;
        let mut expires = self.registered + self.lease;
        // At once, since the first beat asks for the leadership.
        let mut next = Instant::now();
        let mut backoff = Backoff::new(interval / 50, interval.min(self.lease / RETRY));
        let mut beats = 0_u32;
        let mut last = None;
        loop {
            let limit = expires - margin;
            self.session.renewed_until(limit);
            let earliest = last.map_or(next, |last| last + BEAT_MIN);
            self.sleep(next.min(limit), earliest).await;
            let sent = Instant::now();
            if sent >= limit {
                self.session.lose(&"it could not be renewed in time");
                return;
            }
            last = Some(sent);
            let answer_by = limit.min(sent + self.lease / 3);
            match tokio::time::timeout_at(answer_by, self.beat(sent)).await {
                Ok(Ok(())) => {
                    expires = sent + self.lease;
                    next = sent + interval;
                    backoff.reset();
                    beats = beats.wrapping_add(1);
                    if beats.is_multiple_of(reconciler::BEATS) || self.session.claims.in_doubt() {
                        self.session.compare.notify_one();
                    }
                    continue;
                }
                Ok(Err(error @ StoreError::LeaseLost { .. })) => {
                    self.session.lose(&error);
                    return;
                }
                Ok(Err(error)) => tracing::warn!(%error, "a heartbeat failed; it is tried again"),
                Err(_) => tracing::warn!("a heartbeat got no answer; it is tried again"),
            }
            next = Instant::now() + backoff.step();
        }
    }

    /// Sleeps until the next beat, or until somebody cancels a job of this worker, but no shorter than until
    /// `earliest`.
    async fn sleep(&mut self, next: Instant, earliest: Instant) {
        let over = tokio::time::sleep_until(next);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return,
                wake = self.wakes.next() => match wake {
                    Some(Wake::Cancel(worker)) if worker == self.session.id => break,
                    // Such a hint may have been missed.
                    Some(Wake::Everything) => break,
                    Some(Wake::Ready(_) | Wake::Due | Wake::Cancel(_) | Wake::Silence) => {}
                    None => {
                        over.as_mut().await;
                        return;
                    }
                },
            }
        }
        tokio::time::sleep_until(earliest.min(next)).await;
    }

    async fn beat(&self, sent: Instant) -> Result<(), StoreError> {
        let beat = Beat {
            worker: self.session.id,
            lease: self.lease,
            progress: Vec::new(),
            leadership: self.session.leadership.may_ask(sent).then_some(LEADER_LEASE),
        };
        let asked = beat.leadership.is_some();
        let reply = self.session.reach.call(self.session.store.heartbeat(beat)).await?;
        if asked {
            self.session.leadership.answered(reply.leadership, sent);
        }
        for key in reply.cancel {
            if self.session.attempts.cancel(key, Instant::now()) == Asked::Unstarted {
                tracing::info!(job = %key.0, epoch = %key.1, "the job is cancelled before it started");
                let error = ErrorRecord::new("cancelled", "cancelled on request before it started");
                self.session.settle(key, Outcome::Cancelled { error: Some(error) });
            }
        }
        for key in reply.overdue {
            self.session.attempts.bound(key, Instant::now());
        }
        Ok(())
    }
}
