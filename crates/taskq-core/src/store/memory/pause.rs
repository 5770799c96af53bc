//! `pause`, `resume` and `paused_actors`.

use std::collections::BTreeSet;

use super::super::LanePart;
use super::state::State;
use crate::model::{ActorName, QueueName};

/// What is held back.
#[derive(Default)]
pub(super) struct Paused {
    pub(super) queues: BTreeSet<QueueName>,
    pub(super) actors: BTreeSet<ActorName>,
}

impl State {
    pub(super) fn pause(&mut self, part: LanePart) -> bool {
        match part {
            LanePart::Queue(queue) => self.paused.queues.insert(queue),
            LanePart::Actor(actor) => self.paused.actors.insert(actor),
        }
    }

    pub(super) fn resume(&mut self, part: &LanePart) -> bool {
        match part {
            LanePart::Queue(queue) => {
                let resumed = self.paused.queues.remove(queue);
                if resumed {
                    self.hints.ready(queue);
                }
                resumed
            }
            LanePart::Actor(actor) => {
                let resumed = self.paused.actors.remove(actor);
                if resumed {
                    for (queue, _) in
                        self.ready.iter().filter(|(_, lanes)| lanes.keys().any(|lane| lane.actor == *actor))
                    {
                        self.hints.ready(queue);
                    }
                }
                resumed
            }
        }
    }

    pub(super) fn paused_actors(&self) -> Vec<ActorName> {
        self.paused.actors.iter().cloned().collect()
    }
}
