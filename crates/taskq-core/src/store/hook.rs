//! Hooks of ends: who is told how jobs end, and how far.

use std::time::Duration;

use uuid::Uuid;

use crate::model::{EventCursor, HookName};

/// What is asked for a hook of ends: to be held for a while, or to be given back.
#[derive(Clone, Debug)]
pub struct HookHold {
    /// The hook.
    pub hook: HookName,
    /// Whoever follows the feed for it; a fresh id at every start.
    pub holder: Uuid,
    /// How long it is held from now: 1 s to 24 h. Zero gives it back.
    pub lease: Duration,
    /// Up to where the holder has dealt with the feed. It is noted if the hook is still its own.
    pub reached: Option<EventCursor>,
}
