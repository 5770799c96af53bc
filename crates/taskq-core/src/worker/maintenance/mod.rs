//! What the leader does for everybody: one sweep a file.
//!
//! A sweep is one bounded call that says when it wants to run again. It can be repeated at any time.

pub(super) mod promote;

use std::time::Duration;

/// When a sweep wants to run again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// At once: its batch was full.
    Now,
    /// After a while.
    In(Duration),
}
