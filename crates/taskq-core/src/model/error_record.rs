//! What is recorded of an error.

use serde::{Deserialize, Serialize};

/// The longest error class, in bytes.
pub const CLASS_LIMIT: usize = 255;
/// The longest error message, in bytes.
pub const MESSAGE_LIMIT: usize = 64 * 1024;
/// The longest backtrace, in bytes.
pub const BACKTRACE_LIMIT: usize = 64 * 1024;

/// What is recorded of an attempt's error.
///
/// Its text is derived, not supplied, so it is cleaned and truncated instead of refused: recording an outcome
/// never fails because of its text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ErrorRecord {
    /// A short, stable word for the kind of error: `error`, `panic`, `timeout`, …
    pub class: String,
    /// What went wrong, for a person.
    pub message: String,
    /// Where it went wrong, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backtrace: Option<String>,
}

impl ErrorRecord {
    /// Makes a record, cleaning and truncating its texts.
    pub fn new(class: &str, message: &str) -> Self {
        Self { class: clean(class, CLASS_LIMIT), message: clean(message, MESSAGE_LIMIT), backtrace: None }
    }

    /// Adds a backtrace, cleaned and truncated.
    #[must_use]
    pub fn with_backtrace(mut self, backtrace: &str) -> Self {
        self.backtrace = Some(clean(backtrace, BACKTRACE_LIMIT));
        self
    }

    /// Makes a record of bytes that may not be text, such as the output of a program.
    pub fn from_bytes(class: &str, message: &[u8]) -> Self {
        // One lossy replacement is three bytes for one, so a window of the limit is enough and keeps a huge
        // output from being copied whole.
        let window = &message[..message.len().min(MESSAGE_LIMIT + 4)];
        Self::new(class, &String::from_utf8_lossy(window))
    }
}

/// Replaces NUL, which PostgreSQL cannot store, and cuts at a character's boundary.
fn clean(text: &str, limit: usize) -> String {
    let cut = &text[..text.floor_char_boundary(limit)];
    let cleaned = cut.replace('\0', "\u{fffd}");
    if cleaned.len() <= limit {
        return cleaned;
    }
    cleaned[..cleaned.floor_char_boundary(limit)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cleaned_and_truncated() {
        let record = ErrorRecord::new("c", &"\0".repeat(50_000_000)).with_backtrace(&"é".repeat(40_000));
        assert!(record.message.len() <= MESSAGE_LIMIT);
        assert!(!record.message.contains('\0'));
        assert_eq!(record.backtrace.map(|text| text.len()), Some(BACKTRACE_LIMIT));
        assert_eq!(ErrorRecord::from_bytes("c", b"a\xffb").message, "a\u{fffd}b");
    }
}
