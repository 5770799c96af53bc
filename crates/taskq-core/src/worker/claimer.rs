//! Claims jobs for free slots, and a few ahead of them.
//!
//! Driven by demand: a queue is looked at when something may be ready in it (a wake came, or the last look was
//! full) and its slots have room. One call is in flight at a time, for all such queues together, while slots go on with
//! what waits. The wake is armed before the look, so one that comes meanwhile is not lost.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attempts::{Admitted, Key, Waiter};
use super::backoff::Backoff;
use super::executor::Executor;
use super::session::Session;
use crate::model::{ClaimedJob, Outcome};
use crate::store::{ClaimRequest, Claimed, QueueSlots, StoreError, Wake, Wakes};

/// The safety poll while wake-ups come: nothing should be found by it.
const POLL_HEALTHY: Duration = Duration::from_secs(2);
/// The poll while wake-ups are known not to come, as long as it finds something.
const POLL_SILENT_MIN: Duration = Duration::from_millis(50);
/// The same once it finds nothing.
const POLL_SILENT_MAX: Duration = Duration::from_secs(1);
/// How many candidates the store looks at for each job wanted.
const OVERSAMPLE: u16 = 2;
/// The most jobs that one claim asks for of one queue.
const CLAIM_LIMIT: u32 = 3_000;

/// How often jobs that wait for a slot are looked after.
const TICK: Duration = Duration::from_millis(200);

/// Claims jobs for one session.
pub(super) struct Claimer {
    session: Arc<Session>,
    lease: Duration,
    executor: Executor,
    wakes: Wakes,
    stop: CancellationToken,
    looks: Looks,
    poll: Poll,
    /// Nothing is claimed before.
    not_before: Instant,
    /// When the jobs that wait are looked after next; `None` while there are none.
    tick: Option<Instant>,
}

impl Claimer {
    /// Subscribes to wake-ups; `stop` makes [`run`](Self::run) return once no call is in flight.
    pub(super) fn new(
        session: Arc<Session>,
        lease: Duration,
        executor: Executor,
        stop: CancellationToken,
    ) -> Self {
        let wakes = session.store.wakes();
        let looks = Looks(vec![true; session.slots.queues().len()]);
        let now = Instant::now();
        let (poll, not_before) = (Poll::new(now), now);
        Self { session, lease, executor, wakes, stop, looks, poll, not_before, tick: None }
    }

    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::brisk();
        while !self.stop.is_cancelled() {
            self.take_wakes();
            self.dispatch();
            let queues = self.wanted();
            if queues.is_empty() {
                self.idle().await;
                continue;
            }
            let sent = Instant::now();
            self.session.claims.start();
            match self.claim(queues.iter().map(|(_, slots)| slots.clone()).collect()).await {
                Ok(claimed) => {
                    backoff.reset();
                    self.take(&queues, claimed, sent);
                }
                Err(error @ StoreError::LeaseLost { .. }) => {
                    self.session.lose(&error);
                    return;
                }
                Err(error) => {
                    // Whatever it was, the store may have handed out jobs.
                    self.session.claims.doubt();
                    if error.is_transient() {
                        tracing::warn!(%error, "a claim failed; it is tried again");
                    } else {
                        tracing::error!(%error, "a claim was refused; it is tried again");
                    }
                    self.session.claims.end();
                    self.not_before = Instant::now() + backoff.step();
                }
            }
        }
    }

    /// Calls the store. Meanwhile slots that turn over go on with what waits.
    async fn claim(&mut self, queues: Vec<QueueSlots>) -> Result<Claimed, StoreError> {
        let session = Arc::clone(&self.session);
        let request = ClaimRequest { worker: session.id, queues, lease: self.lease, oversample: OVERSAMPLE };
        let call = session.reach.call(session.store.claim(request));
        tokio::pin!(call);
        loop {
            tokio::select! {
                answer = &mut call => return answer,
                () = session.slots.freed() => self.dispatch(),
                () = at(self.tick) => self.look_after(),
            }
        }
    }

    /// Lets what was claimed wait for slots, and notes which queues may have more.
    fn take(&mut self, asked: &[(usize, QueueSlots)], claimed: Claimed, sent: Instant) {
        let now = Instant::now();
        // After a freeze the lease may be over before the heartbeat has noticed: the jobs are somebody else's by then.
        let late = self.session.is_overdue(now);
        let mut returned: Vec<Vec<Waiter>> = self.looks.0.iter().map(|_| Vec::new()).collect();
        self.poll.looked(!claimed.jobs.is_empty());
        for job in claimed.jobs {
            match self.session.slots.index_of(&job.queue) {
                Some(queue) if !late => {
                    returned[queue].push(Waiter { closes: closes(&job, claimed.at, sent), job });
                }
                Some(_) => self.release((job.id, job.epoch)),
                None => {
                    tracing::error!(job = %job.id, queue = %job.queue, "the store handed out a job of a queue that was not asked for");
                    self.release((job.id, job.epoch));
                }
            }
        }
        for (queue, turn) in claimed.turns {
            if let Some(index) = self.session.slots.index_of(&queue) {
                self.session.slots.turned(index, turn);
            }
        }
        for (queue, asked) in asked {
            self.looks.0[*queue] = claimed.more || returned[*queue].len() >= asked.slots as usize;
        }
        for (queue, jobs) in returned.into_iter().enumerate().filter(|(_, jobs)| !jobs.is_empty()) {
            let Admitted { twice, closed } = self.session.attempts.admit(queue, jobs);
            for (id, epoch) in twice {
                tracing::error!(job = %id, %epoch, "the store handed out an attempt twice");
            }
            for key in closed {
                self.session.settle(key, Outcome::Released);
            }
            self.tick.get_or_insert(now + TICK);
        }
        self.session.claims.end();
        if claimed.more {
            self.not_before = now + Duration::from_micros(fastrand::u64(1_000..=3_000));
        }
    }

    /// Gives a job back that cannot be run here.
    fn release(&self, key: Key) {
        if self.session.attempts.adopt(key) {
            self.session.settle(key, Outcome::Released);
        }
    }

    /// Takes free slots for the jobs that wait.
    fn dispatch(&self) {
        // A slot would decline, and be free again at once.
        if self.session.is_overdue(Instant::now()) {
            return;
        }
        for queue in 0..self.looks.0.len() {
            let slots = &self.session.slots;
            for _ in 0..self.session.attempts.call(queue, slots.free(queue)) {
                self.executor.run(slots.take(queue));
            }
        }
    }

    /// Gives back what has waited too long.
    fn look_after(&mut self) {
        let overdue = self.session.attempts.tick();
        if !overdue.is_empty() {
            tracing::debug!(
                jobs = overdue.len(),
                "jobs that were claimed ahead found no slot; they are given back"
            );
        }
        for key in overdue {
            self.session.settle(key, Outcome::Released);
        }
        self.tick = (self.session.attempts.waiting() > 0).then(|| Instant::now() + TICK);
        self.dispatch();
    }

    /// Lists the queues worth a look, by index, with how many jobs to ask for.
    fn wanted(&self) -> Vec<(usize, QueueSlots)> {
        let (session, now) = (&self.session, Instant::now());
        let mut wanted = Vec::new();
        if now < self.not_before {
            return wanted;
        }
        let mut room = u32::try_from(session.attempts.room()).unwrap_or(u32::MAX);
        for (index, queue) in session.slots.queues().enumerate().filter(|(index, _)| self.looks.0[*index]) {
            let (total, free) = (session.slots.total(index), session.slots.free(index));
            let slots = session.attempts.need(index, total, free, now).min(room).min(CLAIM_LIMIT);
            if slots > 0 {
                room -= slots;
                let turn = session.slots.turn(index);
                wanted.push((index, QueueSlots { queue: queue.clone(), slots, turn }));
            }
        }
        wanted
    }

    async fn idle(&mut self) {
        let now = Instant::now();
        let held_back = (now < self.not_before).then_some(self.not_before);
        tokio::select! {
            () = self.stop.cancelled() => {}
            wake = self.wakes.next() => self.wake(wake).await,
            () = self.session.slots.freed() => {}
            () = self.session.look.notified() => self.looks.all(),
            () = at(held_back) => {}
            () = at(self.tick) => self.look_after(),
            () = tokio::time::sleep_until(self.poll.next) => {
                self.looks.all();
                self.poll.fired(Instant::now());
            }
        }
    }

    /// Takes what came without waiting for more.
    fn take_wakes(&mut self) {
        if self.session.look.notified().now_or_never().is_some() {
            self.looks.all();
        }
        let now = Instant::now();
        if self.poll.next <= now {
            self.looks.all();
            self.poll.fired(now);
        }
        while let Some(Some(wake)) = self.wakes.next().now_or_never() {
            self.note(&wake);
        }
    }

    async fn wake(&mut self, wake: Option<Wake>) {
        if let Some(wake) = wake {
            self.note(&wake);
        } else {
            // The source is gone for good and the polls go on; the pause keeps this from spinning.
            self.poll.source(Source::Silent, Instant::now());
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = tokio::time::sleep(POLL_SILENT_MIN) => {}
            }
        }
    }

    fn note(&mut self, wake: &Wake) {
        match wake {
            Wake::Ready(queue) => {
                if let Some(index) = self.session.slots.index_of(queue) {
                    self.looks.0[index] = true;
                }
            }
            Wake::Everything => {
                self.looks.all();
                self.poll.source(Source::Healthy, Instant::now());
            }
            Wake::Silence => {
                self.looks.all();
                self.poll.source(Source::Silent, Instant::now());
            }
            Wake::Due | Wake::Cancel(_) => {}
        }
    }
}

/// Waits until a time, or for ever.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// When it is too late to start a job that the store handed out at `at`, asked at `sent`: no later than by its clock.
fn closes(job: &ClaimedJob, at: Option<Timestamp>, sent: Instant) -> Option<Instant> {
    let left = Duration::try_from(job.schedule_to_close?.duration_since(at?)).unwrap_or_default();
    // A deadline beyond what the clock can express is none.
    sent.checked_add(left)
}

/// Which queues may have something ready, by index.
struct Looks(Vec<bool>);

impl Looks {
    fn all(&mut self) {
        self.0.fill(true);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Healthy,
    Silent,
}

/// When to look without having been woken.
struct Poll {
    source: Source,
    interval: Duration,
    next: Instant,
}

impl Poll {
    fn new(now: Instant) -> Self {
        Self { source: Source::Healthy, interval: POLL_HEALTHY, next: now + POLL_HEALTHY }
    }

    fn source(&mut self, source: Source, now: Instant) {
        if self.source != source {
            self.source = source;
            self.interval = if source == Source::Healthy { POLL_HEALTHY } else { POLL_SILENT_MIN };
            self.next = now + self.interval;
        }
    }

    fn fired(&mut self, now: Instant) {
        self.next = now + self.interval;
    }

    fn looked(&mut self, found: bool) {
        if self.source == Source::Silent {
            self.interval = if found { POLL_SILENT_MIN } else { (self.interval * 2).min(POLL_SILENT_MAX) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_adapt_only_while_the_source_is_silent() {
        let now = Instant::now();
        let mut poll = Poll::new(now);
        poll.looked(true);
        assert_eq!(poll.next, now + POLL_HEALTHY);
        poll.source(Source::Silent, now);
        assert_eq!(poll.next, now + POLL_SILENT_MIN);
        for _ in 0..10 {
            poll.looked(false);
        }
        poll.fired(now);
        assert_eq!(poll.next, now + POLL_SILENT_MAX);
        poll.looked(true);
        poll.fired(now);
        assert_eq!(poll.next, now + POLL_SILENT_MIN);
    }
}
