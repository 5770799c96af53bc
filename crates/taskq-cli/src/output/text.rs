//! Small texts for people.

use jiff::Timestamp;

/// Makes a text safe for a terminal: control characters, which could move its cursor or change its colours, are
/// replaced. Line breaks and tabs stay.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\n' | '\t' => character,
            control if control.is_control() => '\u{fffd}',
            other => other,
        })
        .collect()
}

/// Writes a time to the second, in UTC.
pub(crate) fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// Writes a time, or a dash.
pub(crate) fn maybe_time(moment: Option<Timestamp>) -> String {
    moment.map_or_else(|| "-".to_owned(), time)
}

/// Writes a number of bytes.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10).min(5);
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let value = bytes as f64 / 1024f64.powi(i32::try_from(power).unwrap_or(1));
    format!("{value:.1} {}", UNITS[power as usize - 1])
}

/// Writes names, one behind the other.
pub(crate) fn joined<T: ToString>(names: &[T]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Shortens a text to its first line, at most `limit` characters.
pub(crate) fn brief(text: &str, limit: usize) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    if line.chars().count() <= limit && line.len() == text.trim().len() {
        return line.to_owned();
    }
    let mut short: String = line.chars().take(limit.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(1_572_864), "1.5 MiB");
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
    }

    #[test]
    fn brief_texts_show_that_something_is_missing() {
        assert_eq!(brief("short", 10), "short");
        assert_eq!(brief("\nfirst\nsecond\n", 10), "first…");
        assert_eq!(brief("ééééé", 4), "ééé…");
    }
}
