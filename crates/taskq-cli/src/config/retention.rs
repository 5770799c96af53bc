//! What a worker sets instead of the store's settings, while it leads.

use std::time::Duration;

use clap::ArgMatches;

use super::database;
use super::file::FileSettings;
use super::given::{Given, Problems};
use crate::cli::WorkerArgs;
use crate::parse;

const PERIOD_LIMIT: Duration = Duration::from_hours(24 * 36_600);
const BATCH_LIMIT: u32 = 100_000;

/// The event retention as given.
#[derive(Clone, Default, Debug)]
pub(crate) struct GivenRetention {
    period: Option<Given<String>>,
    batch_size: Option<Given<String>>,
}

/// The checked event retention; `None` leaves the store's setting.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Retention {
    /// How long events are kept; zero is for ever.
    pub(crate) period: Option<Duration>,
    /// How many events a batch deletes.
    pub(crate) batch_size: Option<u32>,
}

/// Notes what was given and where. An empty variable counts as not set.
pub(crate) fn given_retention(args: &WorkerArgs, matches: &ArgMatches) -> GivenRetention {
    let matches = matches.subcommand_matches("worker").unwrap_or(matches);
    GivenRetention {
        period: database::given(
            args.event_retention_period.as_ref(),
            matches,
            "event_retention_period",
            "--event-retention-period",
            "TASKQ_EVENT_RETENTION_PERIOD",
        ),
        batch_size: database::given(
            args.event_retention_batch_size.as_ref(),
            matches,
            "event_retention_batch_size",
            "--event-retention-batch-size",
            "TASKQ_EVENT_RETENTION_BATCH_SIZE",
        ),
    }
}

/// Checks it; what the file says counts where nothing else was given.
pub(super) fn check(given: GivenRetention, file: &FileSettings, problems: &mut Problems) -> Retention {
    let period = given.period.or_else(|| file.event_retention_period.clone());
    let batch_size = given.batch_size.or_else(|| file.event_retention_batch_size.clone());
    Retention {
        period: period.and_then(|given| problems.check(&given, |text| check_period(text))),
        batch_size: batch_size.and_then(|given| problems.check(&given, |text| check_batch_size(text))),
    }
}

fn check_period(text: &str) -> Result<Duration, String> {
    let period =
        parse::duration(text).map_err(|problem| format!("event_retention_period `{text}`: {problem}"))?;
    if period > PERIOD_LIMIT {
        return Err(format!("event_retention_period `{text}` is longer than 36,600 days"));
    }
    Ok(period)
}

fn check_batch_size(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|size| (1..=BATCH_LIMIT).contains(size)).ok_or_else(|| {
        format!("event_retention_batch_size `{text}` is not a whole number from 1 to {BATCH_LIMIT}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::given::Source;

    fn checked(period: &str, batch_size: &str) -> Result<Retention, String> {
        let variable = |name, text: &str| Given { value: text.to_owned(), source: Source::Variable(name) };
        let given = GivenRetention {
            period: Some(variable("TASKQ_EVENT_RETENTION_PERIOD", period)),
            batch_size: Some(variable("TASKQ_EVENT_RETENTION_BATCH_SIZE", batch_size)),
        };
        let mut problems = Problems::default();
        let retention = check(given, &FileSettings::default(), &mut problems);
        problems.into_result().map(|()| retention).map_err(|failure| failure.to_string())
    }

    #[test]
    fn zero_keeps_events_for_ever_and_nonsense_is_named_with_its_source() {
        let kept = checked("0s", "1").unwrap();
        assert_eq!(kept, Retention { period: Some(Duration::ZERO), batch_size: Some(1) });
        for (period, batch_size, parts) in [
            ("-5s", "1", ["TASKQ_EVENT_RETENTION_PERIOD", "`-5s`", "negative"]),
            ("36601 days", "1", ["TASKQ_EVENT_RETENTION_PERIOD", "`36601 days`", "longer than 36,600 days"]),
            ("soon", "1", ["TASKQ_EVENT_RETENTION_PERIOD", "`soon`", "90s"]),
            ("1h", "0", ["TASKQ_EVENT_RETENTION_BATCH_SIZE", "`0`", "from 1 to 100000"]),
            ("1h", "-1", ["TASKQ_EVENT_RETENTION_BATCH_SIZE", "`-1`", "from 1 to 100000"]),
            ("1h", "100001", ["TASKQ_EVENT_RETENTION_BATCH_SIZE", "`100001`", "from 1 to 100000"]),
        ] {
            let said = checked(period, batch_size).unwrap_err();
            for part in parts {
                assert!(said.contains(part), "{part} is not in: {said}");
            }
        }
    }
}
