//! Hooks of ends.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::super::{HookHold, StoreError};
use super::clock::later;
use super::state::State;
use super::validate;
use crate::model::{EventCursor, EventLevel};

/// A hook that was held once.
pub(super) struct Hook {
    /// Behind the last event that was dealt with.
    reached: EventCursor,
    held: Option<(Uuid, Timestamp)>,
}

impl State {
    pub(super) fn hold_hook(
        &mut self,
        now: Timestamp,
        hold: HookHold,
    ) -> Result<Option<EventCursor>, StoreError> {
        let HookHold { hook, holder, lease, reached } = hold;
        let gives_back = lease == Duration::ZERO;
        if !gives_back {
            validate::lease("lease", lease)?;
            let level = self.settings.event_level;
            if level < EventLevel::Ends {
                let level = level.as_str();
                return Err(StoreError::invalid(format!(
                    "the setting event_level is \"{level}\", at which not every end of a job is told: set it to \"ends\" or \
                     \"all\""
                )));
            }
            let here = self.events.horizon();
            self.hooks.entry(hook.clone()).or_insert(Hook { reached: here, held: None });
        }
        let Some(hook) = self.hooks.get_mut(&hook) else { return Ok(None) };
        let is_own = match hook.held {
            Some((other, until)) if other != holder && now < until => return Ok(None),
            Some((other, _)) => other == holder,
            None => false,
        };
        // What was dealt with under a hold that is over is dealt with again.
        if let Some(reached) = reached.filter(|_| is_own) {
            hook.reached = hook.reached.max(reached);
        }
        hook.held = (!gives_back).then(|| (holder, later(now, lease)));
        Ok(Some(hook.reached))
    }
}
