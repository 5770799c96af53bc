//! Leads: runs the maintenance sweeps while this worker holds the leader's lease.
//!
//! The lease is a row in the store, asked for with every heartbeat. Here it is trusted only until its own
//! deadline, and the store checks it inside every sweep, so a leader that wakes up late changes nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::maintenance::{Halt, Sweeps};
use super::overrides::Overrides;
use super::session::Session;
use crate::model::WorkerId;
use crate::store::{LeaderEpoch, Store, StoreError, Wake, Wakes};

/// How long the leader's lease lasts: three beats.
pub(super) const LEADER_LEASE: Duration = Duration::from_secs(15);
/// How long an idle leader sleeps at most. With its beats and its safety poll that stays within two calls a
/// second.
pub(super) const SLEEP_MAX: Duration = Duration::from_secs(1);
/// How close two looks may follow each other, however often the leader is woken.
const SLEEP_MIN: Duration = Duration::from_millis(10);
/// A leader whose loop has not come round for this long does not renew its lease: another shall lead.
const STALL: Duration = Duration::from_secs(10);

/// What this session knows of its leadership.
pub(super) struct Leadership {
    term: watch::Sender<Option<Term>>,
    poke: Notify,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    /// When the loop last came round.
    last: Option<Instant>,
    /// Until when others have precedence, because the loop was stuck.
    stands_back_until: Option<Instant>,
}

/// A lease of leadership, as this process may trust it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Term {
    epoch: LeaderEpoch,
    until: Instant,
}

impl Default for Leadership {
    fn default() -> Self {
        Self { term: watch::Sender::new(None), poke: Notify::new(), progress: Mutex::default() }
    }
}

impl Leadership {
    /// Says whether the next beat may ask for the lease: not while this worker leads and its loop is stuck, nor
    /// for a lease after that.
    pub(super) fn may_ask(&self, now: Instant) -> bool {
        let leads = self.term.borrow().is_some();
        let mut progress = self.progress();
        if leads && progress.last.is_some_and(|last| now.saturating_duration_since(last) > STALL) {
            progress.stand_back(now);
        }
        let stands_back = progress.stands_back_until.is_some_and(|until| now < until);
        if !stands_back {
            progress.stands_back_until = None;
        }
        !stands_back
    }

    /// Notes what a beat, sent at `sent`, was told.
    pub(super) fn answered(&self, epoch: Option<LeaderEpoch>, sent: Instant) {
        let term = epoch.map(|epoch| Term { epoch, until: sent + LEADER_LEASE });
        if self.term.borrow().is_none() {
            // What an earlier term left says nothing of this one.
            self.progress().last = None;
        }
        let led = self.term.send_replace(term).is_some();
        if led != term.is_some() {
            tracing::info!(leads = term.is_some(), "the leadership has changed");
        }
    }

    /// Lets the loop look at once: something may be due earlier than it knows.
    pub(super) fn poke(&self) {
        self.poke.notify_one();
    }

    /// Leaves the lease to others for a while.
    fn stand_back(&self, now: Instant) {
        self.progress().stand_back(now);
    }

    fn resign(&self) {
        self.term.send_replace(None);
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        // Nothing panics while it is held, so what a poisoned lock guards is whole.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    fn stand_back(&mut self, now: Instant) {
        if self.stands_back_until.is_none() {
            tracing::error!("the leader's sweeps are stuck; it does not renew its lease");
        }
        self.stands_back_until = Some(now + LEADER_LEASE);
    }
}

/// Leads for one session.
pub(super) struct Leader {
    session: Arc<Session>,
    term: watch::Receiver<Option<Term>>,
    wakes: Wakes,
    overrides: Overrides,
}

impl Leader {
    pub(super) fn new(session: Arc<Session>, overrides: Overrides) -> Self {
        let (term, wakes) = (session.leadership.term.subscribe(), session.store.wakes());
        Self { session, term, wakes, overrides }
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
        let mut sweeps = Sweeps::new(self.overrides);
        let fence = Fence(Arc::clone(&self.session));
        loop {
            let round = sweeps.round(&fence, &self.session.reach).await;
            let Ok(sleep) = round else {
                self.session.leadership.resign();
                return;
            };
            if self.sleep(sleep.min(SLEEP_MAX)).await {
                sweeps.hurry();
            }
        }
    }

    /// Sleeps until the time is over or something may be due earlier; says whether it is the latter.
    async fn sleep(&mut self, sleep: Duration) -> bool {
        if sleep.is_zero() {
            // A sweep has more to do. Other tasks have their turn all the same, whatever the round did.
            tokio::task::yield_now().await;
            let mut woken = false;
            while let Some(Some(wake)) = self.wakes.next().now_or_never() {
                woken |= matches!(wake, Wake::Due | Wake::Everything);
            }
            return woken;
        }
        let sleep = sleep.max(SLEEP_MIN);
        let over = tokio::time::sleep(sleep);
        tokio::pin!(over);
        let earliest = Instant::now() + SLEEP_MIN;
        loop {
            tokio::select! {
                () = &mut over => return false,
                () = self.session.leadership.poke.notified() => break,
                wake = self.wakes.next() => match wake {
                    Some(Wake::Due | Wake::Everything) => break,
                    Some(Wake::Ready(_) | Wake::Cancel(_) | Wake::Silence) => {}
                    None => {
                        over.as_mut().await;
                        return false;
                    }
                },
            }
        }
        // Those who schedule many jobs wake the leader once, not once for each.
        tokio::time::sleep_until(earliest).await;
        while let Some(Some(_)) = self.wakes.next().now_or_never() {}
        true
    }
}

/// Lets calls of sweeps pass only while the session has the leader's lease.
pub(super) struct Fence(Arc<Session>);

impl Fence {
    pub(super) fn store(&self) -> &dyn Store {
        self.0.store.as_ref()
    }

    /// Returns whom the store is to check in the next call.
    pub(super) fn pass(&self) -> Result<(WorkerId, LeaderEpoch), Halt> {
        let term = self.term()?;
        Ok((self.0.id, term.epoch))
    }

    /// Makes a call of the sweep named, for which [`pass`](Self::pass) was got just now.
    pub(super) async fn call<T>(
        &self,
        sweep: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, Halt> {
        // The sweeps of a busy leader leave the runtime's other tasks their turn.
        tokio::task::yield_now().await;
        let term = self.term()?;
        self.0.leadership.progress().last = Some(Instant::now());
        match tokio::time::timeout_at(term.until, self.0.reach.call(call)).await {
            Ok(Err(error @ StoreError::NotLeader { .. })) => {
                tracing::info!(%error, "another worker leads");
                Err(Halt::Over)
            }
            Ok(result) => result.map_err(Halt::Failed),
            Err(_) => {
                tracing::warn!(sweep, "a sweep outlasted the leader's lease");
                if self.term().is_ok() {
                    // The beats went through meanwhile, so it is the sweeps that are stuck.
                    self.0.leadership.stand_back(Instant::now());
                }
                Err(Halt::Over)
            }
        }
    }

    fn term(&self) -> Result<Term, Halt> {
        let term = *self.0.leadership.term.borrow();
        term.filter(|term| Instant::now() < term.until).ok_or(Halt::Over)
    }
}
