//! Times: ISO 8601 with a zone.

use jiff::Timestamp;

/// Reads a time such as `2030-01-31T08:00Z` or `2030-01-31 08:00+02:00`.
pub(crate) fn time(text: &str) -> Result<Timestamp, String> {
    text.trim().parse().map_err(|_| {
        "expected a time with its zone, such as 2030-01-31T08:00Z or 2030-01-31T08:00+02:00, \
         up to 9999-12-30T22:00Z"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_zone() {
        assert_eq!(time("2030-01-31T08:00+02:00"), time("2030-01-31 06:00:00Z"));
        assert!(time("9999-12-30T00:00Z").is_ok());
        for text in ["2030-01-31T08:00", "infinity", "-infinity", "tomorrow", "", "10000-01-01T00:00Z"] {
            assert!(time(text).unwrap_err().contains("with its zone"), "{text}");
        }
    }
}
