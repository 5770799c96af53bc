//! JSON text that PostgreSQL can store.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

mod finite;

/// The largest payload, in bytes of its JSON text.
pub const PAYLOAD_LIMIT: usize = 1024 * 1024;
/// The largest result, in bytes of its JSON text.
pub const RESULT_LIMIT: usize = 1024 * 1024;

/// A JSON document, kept as text: the claim path never parses a payload.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

/// Why a value cannot become a JSON document of a job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The value holds a NaN or an infinity, which JSON cannot say and which must not turn into null.
    #[error("{0} is not a finite number, which JSON cannot express")]
    NotFinite(f64),
    /// The document contains the character U+0000, which PostgreSQL cannot store.
    #[error("the document contains the character U+0000, which PostgreSQL cannot store")]
    Nul,
    /// The document is larger than the limit.
    #[error("the document has {bytes} bytes, more than {limit}")]
    TooLarge {
        /// The length of its text.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The text is not JSON, or the value does not serialise.
    #[error("the document is not valid JSON")]
    Syntax(#[source] serde_json::Error),
}

impl Json {
    /// Serialises a value.
    ///
    /// # Errors
    /// [`JsonError`] when the value fails to serialise, holds a NaN, an infinity or U+0000, or is larger than
    /// `limit` bytes.
    pub fn from_value<T: Serialize + ?Sized>(value: &T, limit: usize) -> Result<Self, JsonError> {
        finite::check(value)?;
        let text = serde_json::to_string(value).map_err(JsonError::Syntax)?;
        Self::from_text(text, limit)
    }

    /// Parses a text.
    ///
    /// # Errors
    /// [`JsonError`] when the text is not JSON, holds U+0000, or is larger than `limit` bytes.
    pub fn from_text(text: String, limit: usize) -> Result<Self, JsonError> {
        if text.len() > limit {
            return Err(JsonError::TooLarge { bytes: text.len(), limit });
        }
        if has_escaped_nul(&text) {
            return Err(JsonError::Nul);
        }
        RawValue::from_string(text).map(Self).map_err(JsonError::Syntax)
    }

    /// Wraps a text that the store delivered.
    ///
    /// # Errors
    /// [`JsonError::Syntax`] when the text is not JSON.
    pub fn from_store(text: String) -> Result<Self, JsonError> {
        RawValue::from_string(text).map(Self).map_err(JsonError::Syntax)
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Parses the document into a type.
    ///
    /// # Errors
    /// What `serde_json` says when the document does not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }
}

/// Equal means the same document, whatever its white space and the order of its keys.
impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        if self.as_str() == other.as_str() {
            return true;
        }
        match (self.parse::<serde_json::Value>(), other.parse::<serde_json::Value>()) {
            (Ok(left), Ok(right)) => left == right,
            _ => false,
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Finds an escaped NUL: `\u0000` behind an even number of further backslashes.
fn has_escaped_nul(text: &str) -> bool {
    text.match_indices("\\u0000").any(|(at, _)| {
        let before = text[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
        before % 2 == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_postgresql_cannot_store_is_refused() {
        let nul = Json::from_value("a\0b", PAYLOAD_LIMIT);
        assert!(matches!(nul, Err(JsonError::Nul)), "{nul:?}");
        assert!(Json::from_value("a\\u0000b", PAYLOAD_LIMIT).is_ok(), "an escaped backslash is no NUL");
        let large = Json::from_value(&"x".repeat(PAYLOAD_LIMIT), PAYLOAD_LIMIT);
        assert!(matches!(large, Err(JsonError::TooLarge { .. })));
        assert!(matches!(Json::from_text("{".to_owned(), 10), Err(JsonError::Syntax(_))));
    }

    #[test]
    fn numbers_that_json_lacks_are_refused_at_any_depth() {
        #[derive(Serialize)]
        struct Reading {
            values: Vec<Option<f32>>,
        }
        let good = Reading { values: vec![None, Some(1.5)] };
        assert_eq!(Json::from_value(&good, 100).unwrap().as_str(), r#"{"values":[null,1.5]}"#);
        let bad = Json::from_value(&Reading { values: vec![Some(f32::NAN)] }, 100);
        assert!(matches!(bad, Err(JsonError::NotFinite(value)) if value.is_nan()));
        let bad = Json::from_value(&std::collections::BTreeMap::from([("k", f64::INFINITY)]), 100);
        assert!(matches!(bad, Err(JsonError::NotFinite(_))));
    }
}
