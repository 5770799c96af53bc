//! Validated names: parsed once at the edge, never validated again.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest name or key, in bytes of UTF-8.
pub const NAME_LIMIT: usize = 255;

/// Why a text is not a name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidName {
    /// The text is empty.
    #[error("{what} is empty")]
    Empty {
        /// What was named: `queue`, `actor`, …
        what: &'static str,
    },
    /// The text is longer than [`NAME_LIMIT`].
    #[error("{what} has {bytes} bytes, more than {NAME_LIMIT}")]
    TooLong {
        /// What was named.
        what: &'static str,
        /// The length of the text.
        bytes: usize,
    },
    /// The text contains a control character.
    #[error("{what} contains a control character")]
    ControlCharacter {
        /// What was named.
        what: &'static str,
    },
}

/// Checks a name or key: 1 to [`NAME_LIMIT`] bytes without control characters.
pub(crate) fn check(what: &'static str, text: &str) -> Result<(), InvalidName> {
    if text.is_empty() {
        return Err(InvalidName::Empty { what });
    }
    if text.len() > NAME_LIMIT {
        return Err(InvalidName::TooLong { what, bytes: text.len() });
    }
    // ASCII controls and DEL, as the SQL function does it.
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err(InvalidName::ControlCharacter { what });
    }
    Ok(())
}

macro_rules! name {
    ($type:ident, $what:literal, $doc:literal) => {
        #[doc = $doc]
        ///
        /// 1 to [`NAME_LIMIT`] bytes without control characters. Cheap to clone.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(Arc<str>);

        impl $type {
            /// Checks and wraps a text.
            ///
            /// # Errors
            /// [`InvalidName`] when the text is empty, too long or contains a control character.
            pub fn new(text: impl Into<Arc<str>>) -> Result<Self, InvalidName> {
                let text = text.into();
                check($what, &text)?;
                Ok(Self(text))
            }

            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $type {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $type {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0.as_ref().to_owned()
            }
        }
    };
}

name!(QueueName, "queue", "Names a queue: what a worker subscribes to.");
name!(ActorName, "actor", "Names an actor: the handler that runs a job.");
name!(IdempotencyKey, "idempotency_key", "Makes one enqueue of an actor's job safe to repeat.");
name!(HookName, "hook", "Names a hook of ends: whoever is told of every end of a job.");
name!(
    FairnessKey,
    "fairness_key",
    "Names the cohort of a job whose queue lets cohorts take turns, such as a tenant."
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_printable() {
        assert_eq!(QueueName::new(""), Err(InvalidName::Empty { what: "queue" }));
        assert!(QueueName::new("q".repeat(NAME_LIMIT)).is_ok());
        assert_eq!(
            QueueName::new("q".repeat(NAME_LIMIT + 1)),
            Err(InvalidName::TooLong { what: "queue", bytes: NAME_LIMIT + 1 })
        );
        for text in ["a\0b", "a\nb", "\u{7f}"] {
            assert_eq!(ActorName::new(text), Err(InvalidName::ControlCharacter { what: "actor" }));
        }
        assert!(ActorName::new("mail.welcome é").is_ok());
    }
}
