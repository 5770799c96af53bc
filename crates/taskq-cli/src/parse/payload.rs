//! Payloads: an argument or standard input.

use std::io::{self, Read};

use taskq::{Json, JsonError, PAYLOAD_LIMIT};

use crate::exit::Failure;

/// Reads a payload: the argument itself, or the whole of `input` when the argument is `-`.
pub(crate) fn payload(argument: &str, input: impl Read) -> Result<Json, Failure> {
    let (text, place) = if argument == "-" {
        (read(input)?, "the payload on standard input")
    } else {
        (argument.to_owned(), "the payload")
    };
    Json::from_text(text, PAYLOAD_LIMIT).map_err(|error| match error {
        JsonError::Syntax(source) => Failure::usage(format!("{place} is not valid JSON: {source}")),
        JsonError::TooLarge { bytes, limit } => Failure::usage(if argument == "-" {
            format!("{place} is larger than {limit} bytes")
        } else {
            format!("{place} has {bytes} bytes, more than {limit}")
        }),
        JsonError::Nul => {
            Failure::usage(format!("{place} contains the character U+0000, which PostgreSQL cannot store"))
        }
        other => Failure::usage(format!("{place}: {other}")),
    })
}

fn read(input: impl Read) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    // One byte more than may be is enough to know that it is too much.
    let bound = PAYLOAD_LIMIT as u64 + 1;
    input
        .take(bound)
        .read_to_end(&mut bytes)
        .map_err(|error: io::Error| Failure::failed(format!("cannot read standard input: {error}")))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        if error.as_bytes().len() > PAYLOAD_LIMIT && at + 4 > PAYLOAD_LIMIT {
            // The bound may have cut a character in two.
            return Failure::usage(format!(
                "the payload on standard input is larger than {PAYLOAD_LIMIT} bytes"
            ));
        }
        Failure::usage(format!("the payload on standard input is not UTF-8 at byte {at}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    fn refusal(argument: &str, input: &[u8]) -> String {
        let failure = payload(argument, input).unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage);
        failure.to_string()
    }

    #[test]
    fn payloads_come_from_the_argument_or_the_input() {
        assert_eq!(payload(r#"{"a":1}"#, &b""[..]).unwrap().as_str(), r#"{"a":1}"#);
        assert_eq!(payload("-", &b"[1, 2]\n"[..]).unwrap().as_str(), "[1, 2]");
    }

    #[test]
    fn bad_payloads_are_refused_with_their_position() {
        assert!(refusal(r#"{"a":}"#, b"").contains("line 1 column 6"));
        assert!(refusal("-", b"").contains("EOF"));
        assert!(refusal(r#""\u0000""#, b"").contains("U+0000"));
        assert!(refusal("-", b"\"\xff\"").contains("byte 1"));
        assert!(refusal("-", &vec![b' '; PAYLOAD_LIMIT + 1]).contains("larger than"));
        let cut = [vec![b'"'], "é".repeat(PAYLOAD_LIMIT).into_bytes()].concat();
        assert!(refusal("-", &cut).contains("larger than"));
    }
}
