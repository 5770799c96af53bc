//! Leads: runs the maintenance sweeps while this worker holds the leader's lease.
//!
//! The lease is a row in the store, asked for with every heartbeat. Here it is trusted only until its own
//! deadline, and the store checks it inside every sweep, so a leader that wakes up late changes nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::backoff::Backoff;
use super::maintenance::{Next, promote};
use super::session::Session;
use crate::store::{LeaderEpoch, StoreError, Wake, Wakes};

/// How long the leader's lease lasts: three beats.
pub(super) const LEADER_LEASE: Duration = Duration::from_secs(15);
/// How long an idle leader sleeps at most. With its beats and its safety poll that stays within two calls a
/// second.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// A leader whose loop has not come round for this long does not renew its lease: another shall lead.
const STALL: Duration = Duration::from_secs(10);

/// What this session knows of its leadership.
pub(super) struct Leadership {
    term: watch::Sender<Option<Term>>,
    poke: Notify,
    /// When the loop last came round.
    progress: Mutex<Option<Instant>>,
}

/// A lease of leadership, as this process may trust it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Term {
    epoch: LeaderEpoch,
    until: Instant,
}

impl Default for Leadership {
    fn default() -> Self {
        Self { term: watch::Sender::new(None), poke: Notify::new(), progress: Mutex::new(None) }
    }
}

impl Leadership {
    /// Says whether the next beat may ask for the lease: not while this worker leads and its loop is stuck.
    pub(super) fn may_ask(&self, now: Instant) -> bool {
        let leads = self.term.borrow().is_some();
        let stalled = self.progress().is_some_and(|progress| now.saturating_duration_since(progress) > STALL);
        !(leads && stalled)
    }

    /// Notes what a beat, sent at `sent`, was told.
    pub(super) fn answered(&self, epoch: Option<LeaderEpoch>, sent: Instant) {
        let term = epoch.map(|epoch| Term { epoch, until: sent + LEADER_LEASE });
        let led = self.term.send_replace(term).is_some();
        if led != term.is_some() {
            tracing::info!(leads = term.is_some(), "the leadership has changed");
        }
    }

    /// Lets the loop look at once: something may be due earlier than it knows.
    pub(super) fn poke(&self) {
        self.poke.notify_one();
    }

    fn resign(&self) {
        self.term.send_replace(None);
    }

    fn progress(&self) -> MutexGuard<'_, Option<Instant>> {
        // Nothing panics while it is held, so what a poisoned lock guards is whole.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leads for one session.
pub(super) struct Leader {
    session: Arc<Session>,
    term: watch::Receiver<Option<Term>>,
    wakes: Wakes,
}

impl Leader {
    pub(super) fn new(session: Arc<Session>) -> Self {
        let (term, wakes) = (session.leadership.term.subscribe(), session.store.wakes());
        Self { session, term, wakes }
    }

    /// Runs for ever: it leads whenever the session has the lease.
    pub(super) async fn run(mut self) {
        loop {
            let term = *self.term.borrow_and_update();
            match term.filter(|term| Instant::now() < term.until) {
                Some(_) => self.lead().await,
                None => {
                    if self.term.changed().await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Sweeps as long as the lease lasts.
    async fn lead(&mut self) {
        // What was hinted while another led is seen by the first look.
        self.wakes = self.session.store.wakes();
        let mut backoff = Backoff::new(Duration::from_millis(100), SLEEP_MAX);
        loop {
            let Some(term) = *self.term.borrow_and_update() else { return };
            let now = Instant::now();
            if now >= term.until {
                self.session.leadership.resign();
                return;
            }
            *self.session.leadership.progress() = Some(now);
            let sweep = promote::run(self.session.store.as_ref(), self.session.id, term.epoch);
            let sleep = match tokio::time::timeout_at(term.until, sweep).await {
                Ok(Ok(Next::Now)) => {
                    backoff.reset();
                    // The sweeps of a busy leader leave the runtime's other tasks their turn.
                    tokio::task::yield_now().await;
                    continue;
                }
                Ok(Ok(Next::In(delay))) => {
                    backoff.reset();
                    delay.min(SLEEP_MAX)
                }
                Ok(Err(error @ StoreError::NotLeader { .. })) => {
                    tracing::info!(%error, "another worker leads");
                    self.session.leadership.resign();
                    return;
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, sweep = "promote", "a sweep failed; it is tried again");
                    backoff.step()
                }
                Err(_) => {
                    tracing::warn!(sweep = "promote", "a sweep outlasted the leader's lease");
                    self.session.leadership.resign();
                    return;
                }
            };
            self.sleep(sleep).await;
        }
    }

    /// Sleeps until the time is over or something may be due earlier.
    async fn sleep(&mut self, sleep: Duration) {
        let over = tokio::time::sleep(sleep);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return,
                () = self.session.leadership.poke.notified() => return,
                wake = self.wakes.next() => match wake {
                    Some(Wake::Due | Wake::Everything) => return,
                    Some(Wake::Ready(_) | Wake::Silence) => {}
                    None => {
                        over.as_mut().await;
                        return;
                    }
                },
            }
        }
    }
}
