//! Renews the session's lease.
//!
//! The lease is kept by this process's monotonic clock and counts from before the call that renewed it was
//! sent, so it ends here before it ends in the store. When it cannot be renewed, the session is lost a margin
//! before that, which leaves its attempts time to end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::backoff::Backoff;
use super::leader::LEADER_LEASE;
use super::session::Session;
use crate::store::{Beat, StoreError};

/// How often a session beats at least.
const BEAT_MAX: Duration = Duration::from_secs(5);

/// Beats for one session.
pub(super) struct Heartbeat {
    session: Arc<Session>,
    lease: Duration,
    registered: Instant,
}

impl Heartbeat {
    /// `registered` is a moment before the registration was sent.
    pub(super) fn new(session: Arc<Session>, lease: Duration, registered: Instant) -> Self {
        Self { session, lease, registered }
    }

    /// Runs until the lease is lost.
    pub(super) async fn run(self) {
        // Six beats a lease: several may fail before it matters.
        let interval = (self.lease / 6).min(BEAT_MAX);
        let margin = self.lease / 6;
        let mut expires = self.registered + self.lease;
        // At once, since the first beat asks for the leadership.
        let mut next = Instant::now();
        let mut backoff = Backoff::new(interval / 50, interval);
        loop {
            let limit = expires - margin;
            tokio::time::sleep_until(next.min(limit)).await;
            let sent = Instant::now();
            if sent >= limit {
                self.session.lose(&"it could not be renewed in time");
                return;
            }
            let answer_by = limit.min(sent + self.lease / 3);
            match tokio::time::timeout_at(answer_by, self.beat(sent)).await {
                Ok(Ok(())) => {
                    expires = sent + self.lease;
                    next = sent + interval;
                    backoff.reset();
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

    async fn beat(&self, sent: Instant) -> Result<(), StoreError> {
        let beat = Beat {
            worker: self.session.id,
            lease: self.lease,
            progress: Vec::new(),
            leadership: self.session.leadership.may_ask(sent).then_some(LEADER_LEASE),
        };
        let asked = beat.leadership.is_some();
        let reply = self.session.store.heartbeat(beat).await?;
        if asked {
            self.session.leadership.answered(reply.leadership, sent);
        }
        Ok(())
    }
}
