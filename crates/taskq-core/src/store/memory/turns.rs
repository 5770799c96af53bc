//! `set_queue`, and claims of queues whose lanes take turns.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use jiff::Timestamp;

use super::super::{QueueMode, QueueSet, StoreError, Turn};
use super::state::State;
use super::validate;
use crate::model::{ActorName, ClaimedJob, JobId, NewJob, QueueName, WorkerId};

/// The modes that were set. A queue without one is in strict order.
pub(super) type Modes = BTreeMap<QueueName, QueueMode>;

impl State {
    pub(super) fn mode(&self, queue: &QueueName) -> QueueMode {
        self.modes.get(queue).copied().unwrap_or(QueueMode::StrictFifo)
    }

    /// A cohort has a meaning only where lanes take turns; elsewhere the key would silently do nothing.
    pub(super) fn check_fairness(&self, job: &NewJob) -> validate::Check {
        if job.fairness_key.is_some() && self.mode(&job.queue) != QueueMode::RoundRobin {
            let queue = &job.queue;
            return Err(format!(
                "fairness_key needs a queue in round_robin mode: taskq queue set {queue} --mode round_robin"
            ));
        }
        Ok(())
    }

    pub(super) fn set_queue(
        &mut self,
        queue: &QueueName,
        mode: QueueMode,
        limit: u32,
    ) -> Result<QueueSet, StoreError> {
        validate::batch(limit)?;
        let changed = self.mode(queue) != mode;
        self.modes.insert(queue.clone(), mode);
        if changed {
            self.hints.ready(queue);
        }
        let merged = match mode {
            QueueMode::StrictFifo => self.merge_cohorts(queue, |_| true, limit as usize),
            QueueMode::RoundRobin => 0,
        };
        Ok(QueueSet { changed, merged: merged as u64, more: merged == limit as usize })
    }

    /// Merges ready jobs that have a cohort into their actors' lanes and returns how many.
    pub(super) fn merge_cohorts(
        &mut self,
        queue: &QueueName,
        of: impl Fn(&ActorName) -> bool,
        limit: usize,
    ) -> usize {
        let lanes = self.ready.get(queue).into_iter().flatten();
        let cohorts = lanes.filter(|(lane, _)| lane.cohort.is_some() && of(&lane.actor));
        let ids: Vec<JobId> = cohorts.flat_map(|(_, jobs)| jobs).map(|(.., id)| *id).take(limit).collect();
        for id in &ids {
            self.merge(*id);
        }
        ids.len()
    }

    /// Takes jobs of one queue, a lane after the other from the lane behind `turn`, and returns the lane served last.
    pub(super) fn claim_turns(
        &mut self,
        queue: &QueueName,
        actors: &BTreeSet<ActorName>,
        slots: u32,
        turn: Option<&Turn>,
        (worker, now): (WorkerId, Timestamp),
        claimed: &mut Vec<ClaimedJob>,
    ) -> Option<Turn> {
        let mut served = None;
        let mut next = match turn {
            Some(turn) => self.lane_behind(queue, actors, turn),
            None => self.random_lane(queue, actors),
        };
        let mut free = slots;
        while free > 0
            && let Some(lane) = next
        {
            let (.., id) = *self.ready[queue][&lane].first().expect("a lane has a job");
            if self.claim_one(id, worker, now, claimed) {
                free -= 1;
                next = self.lane_behind(queue, actors, &lane);
                served = Some(lane);
            } else {
                let is_there = self.ready.get(queue).is_some_and(|lanes| lanes.contains_key(&lane));
                next = if is_there { Some(lane) } else { self.lane_behind(queue, actors, &lane) };
            }
        }
        served
    }

    /// The next lane of the ring: the first behind this one, else the first of all, which may be this one again.
    fn lane_behind(&self, queue: &QueueName, actors: &BTreeSet<ActorName>, turn: &Turn) -> Option<Turn> {
        let lanes = self.ready.get(queue)?;
        let behind = lanes.range((Bound::Excluded(turn), Bound::Unbounded));
        let mut ring = behind.chain(lanes.range(..=turn)).map(|(lane, _)| lane);
        ring.find(|lane| actors.contains(&lane.actor)).cloned()
    }

    /// Any lane: each of an actor with the same chance, and each actor.
    fn random_lane(&mut self, queue: &QueueName, actors: &BTreeSet<ActorName>) -> Option<Turn> {
        let lanes = self.ready.get(queue)?;
        let served = lanes.keys().filter(|lane| actors.contains(&lane.actor));
        let mut by_actor: BTreeMap<&ActorName, Vec<&Turn>> = BTreeMap::new();
        for lane in served {
            by_actor.entry(&lane.actor).or_default().push(lane);
        }
        let of_actor = self.random.choice(by_actor.values())?;
        self.random.choice(of_actor).map(|lane| (*lane).clone())
    }
}
