//! What the leader does for everybody.
//!
//! Every sweep is a description ([`description`]) and a bounded call of the store. One loop runs them all: it asks the
//! store in one call which of them have anything to do, gives each of those a batch in turn, and asks again while
//! any has more. A sweep that fails waits by itself; a batch that takes too long is halved.

mod batch;
mod description;
mod floor;
mod pace;
mod reclaim;
mod record;

use std::time::Duration;

use tokio::time::Instant;

use self::batch::Batch;
use self::description::{Description, SWEEPS};
use self::floor::{Floor, SHARE};
use self::pace::Pace;
use self::reclaim::Reclaim;
use self::record::{Facts, Record};
use super::leader::{Fence, SLEEP_MAX};
use super::overrides::Overrides;
use super::reach::{Gate, Reach};
use crate::model::WorkerId;
use crate::store::{LeaderEpoch, LookFrom, StoreError, Sweep, SweepCall, SweepDue, SweepProbe, Swept};

/// Sweeps whose next look is this close are asked about together.
const TOGETHER: Duration = Duration::from_millis(200);
/// How long a look from the start may take that is not known to be cheap.
const LOOK_TIMEOUT: Duration = Duration::from_millis(1_750);
/// How long rows that cannot be changed are left alone.
const LEFT_ALONE: Duration = Duration::from_mins(1);

/// Why a sweep's call gave nothing.
#[derive(Debug)]
pub(super) enum Halt {
    /// This worker does not lead any more.
    Over,
    /// The store failed.
    Failed(StoreError),
}

/// This worker does not lead any more.
#[derive(Debug)]
pub(super) struct Over;

/// What the leader remembers from round to round.
pub(super) struct Sweeps {
    progress: Vec<Progress>,
    reclaim: Reclaim,
    record: Record,
    overrides: Overrides,
    /// When it may be asked again what is due, and when notes may be written again, after a failure.
    look_pace: Pace,
    note_pace: Pace,
}

/// How far one sweep is.
struct Progress {
    description: &'static Description,
    overrides: Overrides,
    batch: Batch,
    floor: Floor,
    pace: Pace,
    is_failing: bool,
    /// A setting keeps it from running.
    is_refused: bool,
    /// It has something to do.
    wanted: bool,
    /// When it is asked about next; `None` is at once.
    next_look: Option<Instant>,
    /// When its next row is due, where it is punctual.
    due_at: Option<Instant>,
}

impl Sweeps {
    /// Begins a term of leadership.
    pub(super) fn new(overrides: Overrides) -> Self {
        let mut record = Record::default();
        if overrides != Overrides::default() {
            record.tell(Sweep::Events);
        }
        Self {
            progress: SWEEPS.iter().map(|it| Progress::new(it, overrides)).collect(),
            reclaim: Reclaim::default(),
            record,
            overrides,
            look_pace: Pace::default(),
            note_pace: Pace::default(),
        }
    }

    /// Asks about due jobs with the next round: one may be due earlier than was known.
    pub(super) fn hurry(&mut self) {
        for progress in self.progress.iter_mut().filter(|it| it.description.punctual) {
            progress.next_look = None;
        }
    }

    /// Asks what is due, and gives each sweep that has something to do one batch. Returns how long until there may be
    /// more.
    pub(super) async fn round(&mut self, fence: &Fence, reach: &Reach) -> Result<Duration, Over> {
        let gate = reach.gate(Instant::now());
        let Some(asked) = self.look(fence).await? else {
            return Ok(self.sleep(gate));
        };
        let mut losses_known = asked.contains(&Sweep::MarkLost);
        for at in 0..self.progress.len() {
            let sweep = self.progress[at].description.sweep;
            if !self.may_run(at, gate) {
                continue;
            }
            let swept = self.turn(at, fence).await?;
            if sweep == Sweep::MarkLost {
                losses_known |= swept.is_some();
                if let Some(marked) = swept.map(|swept| swept.rows).filter(|rows| *rows > 0) {
                    tracing::warn!(workers = marked, "workers are lost: their leases have ended");
                    if let Gate::AfterOutage(outage) = gate {
                        self.reclaim.forgive(outage);
                    }
                    let reclaim = self.of(Sweep::Reclaim);
                    reclaim.wanted = true;
                    reclaim.pace.reset();
                }
            }
        }
        if matches!(gate, Gate::AfterOutage(_)) && losses_known && !self.of(Sweep::MarkLost).wanted {
            reach.outage_is_dealt_with();
        }
        self.write(fence).await?;
        Ok(self.sleep(gate))
    }

    /// Asks the store which of the sweeps whose time has come have anything to do. Returns those that it answered for;
    /// `None` when the store cannot be reached.
    async fn look(&mut self, fence: &Fence) -> Result<Option<Vec<Sweep>>, Over> {
        let now = Instant::now();
        if !self.look_pace.is_free(now) {
            return Ok(None);
        }
        let probes: Vec<SweepProbe> =
            self.progress.iter().filter(|it| it.is_to_be_asked(now)).map(|it| it.probe(now)).collect();
        if probes.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let is_doubtful = probes
            .iter()
            .any(|probe| probe.from == LookFrom::Start && self.of(probe.sweep).floor.is_doubtful());
        let timeout = is_doubtful.then_some(LOOK_TIMEOUT);
        let answer = async {
            let (worker, epoch) = fence.pass()?;
            let call = fence.store().sweeps_due(worker, epoch, probes.clone(), timeout);
            fence.call("sweeps_due", call).await
        };
        let answers = match answer.await {
            Ok(answers) => answers,
            Err(Halt::Over) => return Err(Over),
            Err(Halt::Failed(error @ StoreError::TimedOut { .. })) if is_doubtful => {
                tracing::warn!(%error, "dead rows that an old snapshot keeps slow the sweeps down; they go on from where they were");
                self.look_took_too_long(&probes);
                Vec::new()
            }
            Err(Halt::Failed(error)) if error.is_transient() => {
                tracing::warn!(%error, "the leader cannot ask what is due; it tries again");
                if matches!(error, StoreError::TimedOut { .. } | StoreError::Unavailable { .. }) {
                    // It may have been the look itself that took so long: the next one has a time limit.
                    self.look_took_too_long(&probes);
                }
                self.look_pace.failed(Instant::now());
                return Ok(None);
            }
            // The question saves calls, no more: without it everything may be due.
            Err(Halt::Failed(error)) => {
                tracing::error!(%error, "the store cannot say what is due; every sweep is run");
                for probe in &probes {
                    self.of(probe.sweep).wanted = true;
                }
                Vec::new()
            }
        };
        self.look_pace.reset();
        let now = Instant::now();
        for probe in &probes {
            let answer = answers.iter().find(|answer| answer.sweep == probe.sweep);
            let progress = self.of(probe.sweep);
            progress.asked(probe, answer, now);
            match answer.and_then(|answer| answer.problem.clone()) {
                Some(problem) => self.refused(probe.sweep, problem, now),
                None => self.of(probe.sweep).is_refused = false,
            }
        }
        Ok(Some(answers.iter().map(|answer| answer.sweep).collect()))
    }

    fn look_took_too_long(&mut self, probes: &[SweepProbe]) {
        let now = Instant::now();
        for probe in probes.iter().filter(|probe| probe.from == LookFrom::Start) {
            self.of(probe.sweep).floor.looked(&probe.from, LOOK_TIMEOUT, None, now);
        }
    }

    /// Notes that a setting keeps a sweep from running.
    fn refused(&mut self, sweep: Sweep, problem: String, now: Instant) {
        let progress = self.of(sweep);
        progress.is_failing = true;
        if !std::mem::replace(&mut progress.is_refused, true) {
            tracing::error!(sweep = sweep.as_str(), problem, "a sweep does not run because of a setting");
            self.record.failure(sweep, problem, now);
        }
    }

    fn may_run(&self, at: usize, gate: Gate) -> bool {
        let progress = &self.progress[at];
        let is_free = progress.wanted && progress.pace.is_free(Instant::now());
        match (progress.description.sweep, gate) {
            (Sweep::MarkLost, Gate::Closed) => false,
            // What was lost before the outage comes first.
            (Sweep::MarkLost, Gate::AfterOutage(_)) => is_free && !self.get(Sweep::Reclaim).wanted,
            _ => is_free,
        }
    }

    /// Runs one batch. Its failure is its own: `None`.
    async fn turn(&mut self, at: usize, fence: &Fence) -> Result<Option<Swept>, Over> {
        let progress = &mut self.progress[at];
        let sweep = progress.description.sweep;
        let began = Instant::now();
        let call = async {
            let (leader, epoch) = fence.pass()?;
            let call = progress.call(leader, epoch);
            match sweep {
                Sweep::Reclaim => self.reclaim.run(fence, call).await,
                _ => fence.call(sweep.as_str(), fence.store().sweep(sweep, call)).await,
            }
        };
        match call.await {
            Ok(swept) => {
                let now = Instant::now();
                let heals = progress.ended(&swept, now - began, now);
                report(sweep, &swept);
                self.record.batch(sweep, &swept, now - began, now, heals);
                Ok(Some(swept))
            }
            Err(Halt::Over) => Err(Over),
            Err(Halt::Failed(error)) => {
                progress.failed(&error, Instant::now());
                self.record.failure(sweep, error.to_string(), Instant::now());
                Ok(None)
            }
        }
    }

    /// Writes down what became of the sweeps, now and then.
    async fn write(&mut self, fence: &Fence) -> Result<(), Over> {
        let now = Instant::now();
        if !self.note_pace.is_free(now) {
            return Ok(());
        }
        let (progress, overrides) = (&self.progress, self.overrides);
        let facts = |sweep: Sweep| {
            let of = progress.iter().find(|it| it.description.sweep == sweep);
            of.map_or_else(Facts::default, |it| Facts {
                batch: it.batch.size(),
                reached: it.floor.key().cloned(),
                overrides: if sweep == Sweep::Events { overrides.to_json() } else { None },
            })
        };
        let mut record = self.record.clone();
        let notes = record.take(now, facts);
        if notes.is_empty() {
            return Ok(());
        }
        let call = async {
            let (worker, epoch) = fence.pass()?;
            fence.call("note_sweeps", fence.store().note_sweeps(worker, epoch, notes)).await
        };
        match call.await {
            Ok(()) => {
                self.note_pace.reset();
                self.record = record;
            }
            Err(Halt::Over) => return Err(Over),
            Err(Halt::Failed(error)) => {
                tracing::warn!(%error, "what the sweeps did cannot be written down");
                self.note_pace.failed(Instant::now());
            }
        }
        Ok(())
    }

    /// How long until there may be something to do.
    fn sleep(&self, gate: Gate) -> Duration {
        let now = Instant::now();
        let is_held_back = |at: usize| {
            let progress = &self.progress[at];
            progress.wanted && progress.pace.is_free(now) && !self.may_run(at, gate)
        };
        // What is held back comes with a later round, when that is over which holds it back.
        let free = (0..self.progress.len()).filter(|at| !is_held_back(*at));
        let looks = free.map(|at| self.progress[at].next(now));
        let looks = match self.look_pace.until().filter(|until| *until > now) {
            Some(until) => looks.map(|at| at.max(until)).min(),
            None => looks.min(),
        };
        // Notes are written by a round that has looked.
        let notes = self.record.due().map(|at| {
            let paces = [self.look_pace.until(), self.note_pace.until()];
            paces.into_iter().flatten().fold(at, Instant::max)
        });
        let at = looks.into_iter().chain(notes).min();
        at.map_or(SLEEP_MAX, |at| at.saturating_duration_since(now))
    }

    fn of(&mut self, sweep: Sweep) -> &mut Progress {
        let found = self.progress.iter_mut().find(|it| it.description.sweep == sweep);
        found.expect("every sweep is described")
    }

    fn get(&self, sweep: Sweep) -> &Progress {
        let found = self.progress.iter().find(|it| it.description.sweep == sweep);
        found.expect("every sweep is described")
    }
}

impl Progress {
    fn new(description: &'static Description, overrides: Overrides) -> Self {
        let overrides = if description.sweep == Sweep::Events { overrides } else { Overrides::default() };
        Self {
            description,
            overrides,
            batch: Batch::new(overrides.event_retention_batch_size.unwrap_or(description.batch)),
            floor: Floor::new(),
            pace: Pace::default(),
            is_failing: false,
            is_refused: false,
            wanted: false,
            next_look: None,
            due_at: None,
        }
    }

    fn is_to_be_asked(&self, now: Instant) -> bool {
        let is_due = self.due_at.is_some_and(|at| at <= now);
        // Also while batches follow each other: what appears below the place where they are is found by looking.
        let is_to_be_looked_at = self.next_look.is_none_or(|at| at <= now + TOGETHER);
        self.pace.is_free(now) && (is_to_be_looked_at || is_due && !self.wanted)
    }

    fn probe(&self, now: Instant) -> SweepProbe {
        SweepProbe {
            sweep: self.description.sweep,
            from: self.floor.from(now),
            period: self.overrides.event_retention_period,
            batch: self.overrides.event_retention_batch_size,
        }
    }

    fn asked(&mut self, probe: &SweepProbe, answer: Option<&SweepDue>, now: Instant) {
        self.due_at = None;
        let mut wait = self.description.cadence;
        if let Some(answer) = answer {
            self.floor.looked(&probe.from, answer.took, answer.clear_to, now);
            self.wanted |= answer.is_now();
            if self.description.punctual && !answer.is_now() {
                self.due_at = answer.due_in.and_then(|wait| now.checked_add(wait));
            }
            if self.overrides.event_retention_batch_size.is_none() {
                self.batch.set_usual(answer.batch.unwrap_or(self.description.batch));
            }
            if answer.clear_to.is_none() {
                // It cannot look elsewhere, so it looks less often.
                wait = wait.max(answer.took * SHARE);
            }
        }
        self.next_look = Some(now + wait);
    }

    /// Its next batch.
    fn call(&self, leader: WorkerId, epoch: LeaderEpoch) -> SweepCall {
        SweepCall {
            timeout: Some(self.description.timeout),
            after: self.floor.key().cloned(),
            period: self.overrides.event_retention_period,
            ..SweepCall::new(leader, epoch, self.batch.size())
        }
    }

    /// Notes what a batch did. Returns whether the one before had failed.
    fn ended(&mut self, swept: &Swept, took: Duration, now: Instant) -> bool {
        self.pace.reset();
        self.batch.ended(took, self.description.timeout);
        self.floor.reached(swept.reached.clone());
        self.wanted = swept.more;
        if swept.problems > 0 {
            self.floor.leave(now + LEFT_ALONE);
        }
        if self.description.punctual && !swept.more {
            // What is due and was not taken is locked by somebody; it is asked for again with the next look.
            let due_in = swept.due_in.filter(|wait| swept.rows > 0 || !wait.is_zero());
            self.due_at = due_in.and_then(|wait| now.checked_add(wait));
        }
        std::mem::take(&mut self.is_failing)
    }

    fn failed(&mut self, error: &StoreError, now: Instant) {
        let sweep = self.description.sweep.as_str();
        self.is_failing = true;
        self.pace.failed(now);
        if matches!(error, StoreError::TimedOut { .. }) {
            let before = self.batch.size();
            self.batch.halve();
            tracing::warn!(%error, sweep, batch = before, next = self.batch.size(), "a sweep's batch took too long; it is halved");
        } else if error.is_transient() {
            tracing::warn!(%error, sweep, "a sweep failed; it is tried again");
        } else {
            tracing::error!(%error, sweep, "a sweep was refused; it is tried again");
        }
    }

    /// When it may have something to do.
    fn next(&self, now: Instant) -> Instant {
        let at = if self.wanted {
            now
        } else {
            let look = self.next_look.unwrap_or(now);
            self.due_at.map_or(look, |due| due.min(look))
        };
        self.pace.until().map_or(at, |until| at.max(until))
    }
}

/// Tells what a batch did.
fn report(sweep: Sweep, swept: &Swept) {
    if swept.rows > 0 {
        tracing::debug!(
            sweep = sweep.as_str(),
            counter = sweep.counter(),
            rows = swept.rows,
            "a sweep did something"
        );
        if sweep == Sweep::Events {
            // Operators who shorten the retention look for this.
            tracing::info!(kind = "event_retention", count = swept.rows, "event-retention-swept");
        }
    }
    if let Some(problem) = &swept.problem
        && sweep != Sweep::Reclaim
    {
        tracing::error!(
            sweep = sweep.as_str(),
            rows = swept.problems,
            problem,
            "a sweep passed rows over that it cannot change"
        );
    }
}
