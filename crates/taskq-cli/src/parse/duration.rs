//! Durations: `90s`, `5m`, `2h`, `3 days`.

use std::time::Duration;

use jiff::fmt::friendly::{Designator, SpanParser, SpanPrinter};
use jiff::{SignedDuration, SpanRelativeTo};

static PARSER: SpanParser = SpanParser::new();
static PRINTER: SpanPrinter = SpanPrinter::new().designator(Designator::Compact);

/// Reads a duration in units of fixed length, weeks at most: a day is 24 hours.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const EXPECTED: &str = "expected a duration such as 90s, 5m, 2h or 3 days";
    if text.trim() == "0" {
        return Ok(Duration::ZERO);
    }
    let span = PARSER.parse_span(text.trim()).map_err(|_| EXPECTED.to_owned())?;
    if span.get_months() != 0 || span.get_years() != 0 {
        return Err("months and years have no fixed length; say it in days".to_owned());
    }
    let signed: SignedDuration = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| "the duration is too long".to_owned())?;
    Duration::try_from(signed).map_err(|_| "a duration cannot be negative".to_owned())
}

/// Reads a duration that is longer than nothing.
pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("the duration must be longer than zero".to_owned()),
        duration => Ok(duration),
    }
}

/// Writes a duration for people, in the form that [`duration`] reads.
pub(crate) fn format_duration(duration: Duration) -> String {
    // More detail than this would be noise; a duration beyond the type's range cannot come from a database.
    let rounded = match duration {
        d if d < Duration::from_millis(1) => d,
        d if d < Duration::from_secs(1) => Duration::from_micros(round(d.as_micros(), 10)),
        d if d < Duration::from_mins(1) => Duration::from_millis(round(d.as_millis(), 10)),
        d => Duration::from_secs(d.as_secs()),
    };
    match SignedDuration::try_from(rounded) {
        Ok(signed) => PRINTER.duration_to_string(&signed),
        Err(_) => format!("{}s", rounded.as_secs()),
    }
}

fn round(value: u128, step: u128) -> u64 {
    u64::try_from(value / step * step).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_fixed_units() {
        let seconds = |text: &str| duration(text).map(|duration| duration.as_secs());
        assert_eq!(seconds("90s"), Ok(90));
        assert_eq!(seconds("5m"), Ok(300));
        assert_eq!(seconds("2h"), Ok(7_200));
        assert_eq!(seconds("3 days"), Ok(259_200));
        assert_eq!(seconds("1h 30m"), Ok(5_400));
        assert_eq!(duration("1500ms"), Ok(Duration::from_millis(1_500)));
        assert_eq!(seconds("0s"), Ok(0));
    }

    #[test]
    fn what_is_no_duration_says_what_is_expected() {
        for text in ["", "5", "soon", "5 parsecs"] {
            assert!(duration(text).unwrap_err().contains("90s"), "{text}");
        }
        assert!(duration("2 months").unwrap_err().contains("no fixed length"));
        assert!(duration("1 year").unwrap_err().contains("no fixed length"));
        assert!(duration("-5s").unwrap_err().contains("negative"));
        assert!(duration("5s ago").unwrap_err().contains("negative"));
        assert!(positive_duration("0s").unwrap_err().contains("longer than zero"));
    }

    #[test]
    fn durations_are_written_as_they_are_read() {
        assert_eq!(format_duration(Duration::from_secs(90)), "1m 30s");
        assert_eq!(format_duration(Duration::from_micros(1_234_567)), "1s 230ms");
        assert_eq!(format_duration(Duration::ZERO), "0s");
    }
}
