//! Waiting for a milestone instead of sleeping.

use std::panic::Location;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Calls `probe` until it returns a value, at most for `within`.
///
/// The pauses between calls grow from 1 to 50 ms. A call that is under way when the time is over is given up.
///
/// # Panics
///
/// The time is over; the message names `what` and the caller.
#[track_caller]
pub fn wait_for<T>(
    what: &str,
    within: Duration,
    probe: impl AsyncFnMut() -> Option<T>,
) -> impl Future<Output = T> {
    poll(what, within, probe, Location::caller())
}

/// [`wait_for`] a condition that has no value to return.
///
/// # Panics
///
/// The time is over; the message names `what` and the caller.
#[track_caller]
pub fn wait_until(
    what: &str,
    within: Duration,
    mut condition: impl AsyncFnMut() -> bool,
) -> impl Future<Output = ()> {
    poll(what, within, async move || condition().await.then_some(()), Location::caller())
}

async fn poll<T>(
    what: &str,
    within: Duration,
    probe: impl AsyncFnMut() -> Option<T>,
    caller: &'static Location<'static>,
) -> T {
    try_wait_for(within, probe)
        .await
        .unwrap_or_else(|| panic!("not within {within:?}: {what} (waited for at {caller})"))
}

/// [`wait_for`] that leaves it to the caller what a missed milestone means.
pub(crate) async fn try_wait_for<T>(
    within: Duration,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> Option<T> {
    let end = Instant::now() + within;
    let mut pause = FIRST_PAUSE;
    loop {
        match timeout_at(end, probe()).await {
            Ok(Some(value)) => return Some(value),
            Ok(None) if Instant::now() + pause < end => sleep(pause).await,
            Ok(None) | Err(_) => return None,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_value_of_the_milestone_is_returned() {
        let mut calls = 0;
        let value = wait_for("the third call", Duration::from_mins(1), async || {
            calls += 1;
            (calls == 3).then_some(calls)
        });
        assert_eq!(value.await, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "not within 10ms: pigs fly")]
    async fn a_milestone_that_never_comes_is_named() {
        wait_until("pigs fly", Duration::from_millis(10), async || false).await;
    }

    #[tokio::test]
    #[should_panic(expected = "not within 10ms: an answer")]
    async fn a_probe_that_hangs_does_not_hang_the_test() {
        wait_until("an answer", Duration::from_millis(10), async || std::future::pending().await).await;
    }
}
