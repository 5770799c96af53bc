//! How long a worker waits for what.

use std::ops::RangeInclusive;
use std::time::Duration;

use taskq::{DEFAULT_CANCEL_GRACE, DEFAULT_FORCED_GRACE, DEFAULT_GRACE, DEFAULT_LEASE};

use super::file::FileSettings;
use super::given::{Given, Problems};
use crate::cli::WorkerArgs;
use crate::parse;

/// The longest of them: beyond a day, something else is meant.
const LONGEST: Duration = Duration::from_hours(24);
/// The shortest of those that must not be nothing: killing and reaping a process takes time, and so does a beat.
const SHORTEST: Duration = Duration::from_secs(1);

/// How long a worker waits for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Times {
    /// From the request to cancel a program until it is killed; up to 24 h.
    pub(crate) cancel_grace: Duration,
    /// From then until its job is abandoned; 1 s to 24 h.
    pub(crate) forced_grace: Duration,
    /// From the request to stop the worker until its jobs are given back; up to 24 h.
    pub(crate) shutdown_grace: Duration,
    /// How long the worker's jobs stay its own when it is not heard of; 1 s to 24 h.
    pub(crate) lease: Duration,
}

/// Checks them; a flag replaces the file's value. `None` when one is refused.
pub(super) fn check(args: &WorkerArgs, file: &FileSettings, problems: &mut Problems) -> Option<Times> {
    let mut one = |flag, given: &Option<String>, of_file: &Option<Given<String>>, default, bounds| {
        let given = given.clone().map(|text| Given::flag(flag, text)).or_else(|| of_file.clone());
        given.map_or(Some(default), |given| problems.check(&given, |text| within(text, &bounds)))
    };
    let cancel_grace = one(
        "--cancel-grace",
        &args.cancel_grace,
        &file.cancel_grace,
        DEFAULT_CANCEL_GRACE,
        Duration::ZERO..=LONGEST,
    );
    let forced_grace = one(
        "--forced-grace",
        &args.forced_grace,
        &file.forced_grace,
        DEFAULT_FORCED_GRACE,
        SHORTEST..=LONGEST,
    );
    let shutdown_grace = one(
        "--shutdown-grace",
        &args.shutdown_grace,
        &file.shutdown_grace,
        DEFAULT_GRACE,
        Duration::ZERO..=LONGEST,
    );
    let lease = one("--lease", &args.lease, &file.lease, DEFAULT_LEASE, SHORTEST..=LONGEST);
    Some(Times {
        cancel_grace: cancel_grace?,
        forced_grace: forced_grace?,
        shutdown_grace: shutdown_grace?,
        lease: lease?,
    })
}

fn within(text: &str, bounds: &RangeInclusive<Duration>) -> Result<Duration, String> {
    let duration = parse::duration(text)?;
    if bounds.contains(&duration) {
        return Ok(duration);
    }
    let [least, most] = [bounds.start(), bounds.end()].map(|bound| parse::format_duration(*bound));
    Err(format!("`{text}` is not between {least} and {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_themselves_are_accepted() {
        for text in ["1s", "24h", "1500ms"] {
            assert!(within(text, &(SHORTEST..=LONGEST)).is_ok(), "{text}");
        }
        for (text, part) in
            [("0s", "between 1s and 24h"), ("999ms", "between"), ("24h 1ms", "between"), ("soon", "90s")]
        {
            let problem = within(text, &(SHORTEST..=LONGEST)).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
        assert_eq!(within("0s", &(Duration::ZERO..=LONGEST)), Ok(Duration::ZERO));
    }
}
