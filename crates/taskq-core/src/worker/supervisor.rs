//! The one place that starts and ends sessions.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::backoff::Backoff;
use super::claimer::Claimer;
use super::ends::Followers;
use super::executor::{self, Executor};
use super::handle::{RunError, ShutdownReport, Stopper, Totals, WorkerHandle};
use super::heartbeat::Heartbeat;
use super::leader::Leader;
use super::reach::Reach;
use super::reconciler::Reconciler;
use super::session::Session;
use super::settler::Settler;
use super::slots::Slots;
use super::stop::StopReason;
use super::{Worker, reaper, shutdown};
use crate::model::{Settlement, WorkerId};
use crate::store::{Registration, Store};

/// Starts a worker on the current runtime, its loops on the store's where it has one.
pub(super) fn start(worker: Worker) -> WorkerHandle {
    let user = Handle::current();
    let store = Arc::clone(worker.client.store());
    let engine = store.runtime().unwrap_or_else(|| user.clone());
    let stopper = Stopper::default();
    let slots = Slots::new(&worker.queues);
    let totals = Totals::default();
    let reach = Arc::new(Reach::new(Instant::now()));
    let hooks = Followers::new(&worker, &user);
    let supervisor =
        Supervisor { worker, store, reach, user, slots, totals: totals.clone(), stopper: stopper.clone() };
    WorkerHandle::new(stopper.clone(), totals, engine.spawn(hooks.beside(stopper, supervisor.run())))
}

/// How long the outcomes of a lost session are tried to be settled, before the next session begins.
const LAST_SETTLES: Duration = Duration::from_secs(2);

pub(super) struct Supervisor {
    pub(super) worker: Worker,
    pub(super) store: Arc<dyn Store>,
    pub(super) reach: Arc<Reach>,
    user: Handle,
    slots: Arc<Slots>,
    pub(super) totals: Totals,
    pub(super) stopper: Stopper,
}

/// A session that has registered.
struct Opened {
    session: Arc<Session>,
    /// A moment before the registration was sent.
    registered: Instant,
    settled: UnboundedReceiver<Settlement>,
}

/// The loops of one session. They end when this is dropped.
pub(super) struct Loops {
    pub(super) claimer: AbortOnDropHandle<()>,
    settler: AbortOnDropHandle<()>,
    heartbeat: AbortOnDropHandle<()>,
    leader: AbortOnDropHandle<()>,
    reaper: AbortOnDropHandle<()>,
    reconciler: AbortOnDropHandle<()>,
}

impl Supervisor {
    async fn run(self) -> Result<ShutdownReport, RunError> {
        let reach = Arc::clone(&self.reach);
        let _pulse = AbortOnDropHandle::new(tokio::spawn(async move { reach.pulse().await }));
        // A dead session whose attempts have all ended: what it held goes back before the next one begins.
        let mut dead = None;
        let mut first = true;
        loop {
            let Some(Opened { session, registered, settled }) = self.open(dead, first).await? else {
                if let Some(dead) = dead {
                    shutdown::release(&self, dead).await;
                }
                return Ok(self.report());
            };
            first = false;
            let mut loops = self.spawn(&session, registered, settled);
            tokio::select! {
                biased;
                () = session.lost.cancelled() => {}
                () = self.stopper.stopping().cancelled() => {}
                () = loops.failed() => {}
            }
            // Also when it was a loop that ended: the claimer does so by itself once the worker is stopped.
            if self.stopper.stopping().is_cancelled() && !session.lost.is_cancelled() {
                shutdown::run(&self, &session, &mut loops).await;
                return Ok(self.report());
            }
            session.lose(&"one of the worker's loops ended unexpectedly");
            let left = self.abandon(&session, &mut loops).await;
            dead = (left == 0).then_some(session.id);
        }
    }

    /// Reports at the end. An attempt that has not ended still has its slot, whatever session it began in.
    fn report(&self) -> ShutdownReport {
        self.totals.report(self.slots.taken())
    }

    /// Registers a new session, as soon as the store can be reached. `None` when the worker is stopped first.
    ///
    /// Only the very first session is refused for good; later ones are asked for until they are granted.
    async fn open(&self, dead: Option<WorkerId>, first: bool) -> Result<Option<Opened>, RunError> {
        let mut backoff = Backoff::brisk();
        loop {
            if self.stopper.stopping().is_cancelled() {
                return Ok(None);
            }
            // A new id each time: the store knows an id whose registration got no answer.
            let id = WorkerId::new();
            let registered = Instant::now();
            let attempt = async {
                if let Some(dead) = dead {
                    self.reach.call(self.store.release_worker(dead)).await?;
                }
                self.reach.call(self.store.register_worker(self.registration(id))).await
            };
            let result = tokio::select! {
                () = self.stopper.stopping().cancelled() => return Ok(None),
                result = attempt => result,
            };
            match result {
                Ok(()) => {
                    tracing::info!(worker = %id, "the worker has registered");
                    let (store, slots) = (Arc::clone(&self.store), Arc::clone(&self.slots));
                    let (reach, graces) = (Arc::clone(&self.reach), self.worker.graces);
                    let (outcomes, settled) = mpsc::unbounded_channel();
                    let session =
                        Session::new(id, store, reach, slots, graces, self.totals.clone(), outcomes);
                    return Ok(Some(Opened { session, registered, settled }));
                }
                Err(error) if first && !error.is_transient() => return Err(RunError::Refused(error)),
                Err(error) if error.is_transient() => {
                    tracing::warn!(%error, "the worker cannot register; it tries again");
                }
                Err(error) => tracing::error!(%error, "the store refuses the worker; it tries again"),
            }
            tokio::select! {
                () = self.stopper.stopping().cancelled() => {}
                () = tokio::time::sleep(backoff.step()) => {}
            }
        }
    }

    fn registration(&self, worker: WorkerId) -> Registration {
        Registration {
            worker,
            queues: self.worker.queues.iter().map(|(queue, _)| queue.clone()).collect(),
            actors: self.worker.handlers.keys().cloned().collect(),
            lease: self.worker.lease,
            info: self.worker.info.clone(),
        }
    }

    fn spawn(
        &self,
        session: &Arc<Session>,
        registered: Instant,
        settled: UnboundedReceiver<Settlement>,
    ) -> Loops {
        let executor = Executor::new(executor::Inner {
            session: Arc::clone(session),
            client: self.worker.client.clone(),
            handlers: Arc::clone(&self.worker.handlers),
            runtime: self.user.clone(),
            stopper: self.stopper.clone(),
        });
        let lease = self.worker.lease;
        // The worker's own, so that nothing is claimed between a stop and the turn of the supervisor.
        let stop = self.stopper.stopping().clone();
        let claimer = Claimer::new(Arc::clone(session), lease, executor, stop);
        let heartbeat = Heartbeat::new(Arc::clone(session), lease, registered);
        let reaper = reaper::run(Arc::clone(session));
        let reconciler = Reconciler::new(Arc::clone(session));
        let leader = Leader::new(Arc::clone(session), self.worker.overrides);
        Loops {
            claimer: AbortOnDropHandle::new(tokio::spawn(claimer.run())),
            settler: AbortOnDropHandle::new(tokio::spawn(Settler::new(Arc::clone(session), settled).run())),
            heartbeat: AbortOnDropHandle::new(tokio::spawn(heartbeat.run())),
            leader: AbortOnDropHandle::new(tokio::spawn(leader.run())),
            reaper: AbortOnDropHandle::new(tokio::spawn(reaper)),
            reconciler: AbortOnDropHandle::new(tokio::spawn(reconciler.run())),
        }
    }

    /// Ends a session whose lease is lost: its attempts are stopped, and what they returned by then is offered to the
    /// store a last time. Returns how many attempts did not end.
    pub(super) async fn abandon(&self, session: &Session, loops: &mut Loops) -> usize {
        loops.abort_all_but_the_settler().await;
        // What has not started goes back with the session.
        session.attempts.settled(session.attempts.close().into_iter());
        session.attempts.force_all(StopReason::LeaseLost, Instant::now());
        // What does not end keeps its slots beyond the session.
        let _ = timeout(self.worker.graces.forced, session.attempts.none_running()).await;
        let running = session.attempts.give_up_all();
        if running > 0 {
            tracing::error!(worker = %session.id, attempts = running, "attempts of the lost session have not ended");
        }
        // The store may know better than this worker, or else says of each that it came too late.
        if !loops.settler.is_finished() {
            let _ = timeout(LAST_SETTLES, session.attempts.none_unsettled()).await;
        }
        let unsettled = session.attempts.unsettled();
        self.totals.unsettled(unsettled as u64);
        if unsettled > 0 {
            tracing::warn!(worker = %session.id, outcomes = unsettled, "outcomes of the lost session could not be settled");
        }
        loops.settler.abort();
        running
    }
}

impl Loops {
    /// Ends the other loops; the claimer for sure, so that no attempt starts afterwards.
    async fn abort_all_but_the_settler(&mut self) {
        let others = [&self.heartbeat, &self.leader, &self.reaper, &self.reconciler];
        for task in others.into_iter().chain([&self.claimer]) {
            task.abort();
        }
        if !self.claimer.is_finished() {
            // Aborted or not, it has ended.
            let _ = (&mut self.claimer).await;
        }
    }

    /// Waits until a loop has ended, which none does while its session is sound.
    async fn failed(&mut self) {
        tokio::select! {
            _ = &mut self.claimer => {}
            _ = &mut self.settler => {}
            _ = &mut self.heartbeat => {}
            _ = &mut self.leader => {}
            _ = &mut self.reaper => {}
            _ = &mut self.reconciler => {}
        }
    }
}
