//! Claims jobs for free slots.
//!
//! Driven by demand: a queue is looked at when something may be ready in it (a wake came, or the last look was
//! full) and a slot is free. One call is in flight at a time, for all such queues together. The wake is armed
//! before the look, so one that comes meanwhile is not lost.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backoff::Backoff;
use super::executor::Executor;
use super::session::Session;
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
const CLAIM_LIMIT: u32 = 1_000;

/// Claims jobs for one session.
pub(super) struct Claimer {
    session: Arc<Session>,
    lease: Duration,
    executor: Executor,
    wakes: Wakes,
    stop: CancellationToken,
    looks: Looks,
    poll: Poll,
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
        Self { session, lease, executor, wakes, stop, looks, poll: Poll::new(Instant::now()) }
    }

    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::brisk();
        while !self.stop.is_cancelled() {
            self.take_wakes();
            let queues = self.wanted();
            if queues.is_empty() {
                self.idle().await;
                continue;
            }
            let request = ClaimRequest {
                worker: self.session.id,
                queues: queues.iter().map(|(_, slots)| slots.clone()).collect(),
                lease: self.lease,
                oversample: OVERSAMPLE,
            };
            self.session.claims.start();
            match self.session.reach.call(self.session.store.claim(request)).await {
                Ok(claimed) => {
                    backoff.reset();
                    self.take(&queues, claimed).await;
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
                    self.pause(backoff.step()).await;
                }
            }
        }
    }

    /// Starts what was claimed and notes which queues may have more.
    async fn take(&mut self, asked: &[(usize, QueueSlots)], claimed: Claimed) {
        // After a freeze the lease may be over before the heartbeat has noticed: the jobs are somebody else's by then.
        let late = self.session.is_overdue(Instant::now());
        let mut returned = vec![0_u32; self.looks.0.len()];
        self.poll.looked(!claimed.jobs.is_empty());
        for job in claimed.jobs {
            // Asked for before the stop, answered after it.
            if late || self.stop.is_cancelled() {
                self.executor.release(&job);
                continue;
            }
            let Some(queue) = self.session.slots.index_of(&job.queue) else {
                tracing::error!(job = %job.id, queue = %job.queue, "the store handed out a job of a queue that was not asked for");
                self.executor.release(&job);
                continue;
            };
            returned[queue] += 1;
            let slot = self.session.slots.take(queue);
            self.executor.start(job, slot);
        }
        self.session.claims.end();
        for (queue, asked) in asked {
            self.looks.0[*queue] = claimed.more || returned[*queue] >= asked.slots;
        }
        if claimed.more {
            self.pause(Duration::from_micros(fastrand::u64(1_000..=3_000))).await;
        }
    }

    /// Lists the queues worth a look, by index, with their free slots.
    fn wanted(&self) -> Vec<(usize, QueueSlots)> {
        let mut room = u32::try_from(self.session.attempts.room()).unwrap_or(u32::MAX);
        let mut wanted = Vec::new();
        for (index, queue) in self.session.slots.queues().enumerate() {
            let slots = self.session.slots.free(index).min(room).min(CLAIM_LIMIT);
            if self.looks.0[index] && slots > 0 {
                room -= slots;
                wanted.push((index, QueueSlots { queue: queue.clone(), slots, turn: None }));
            }
        }
        wanted
    }

    async fn idle(&mut self) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            wake = self.wakes.next() => self.wake(wake).await,
            () = self.session.slots.freed() => {}
            () = self.session.look.notified() => self.looks.all(),
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
            self.pause(POLL_SILENT_MIN).await;
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

    async fn pause(&self, delay: Duration) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(delay) => {}
        }
    }
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
