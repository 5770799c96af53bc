//! What a program's end means for its job.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use taskq::{JobError, JobResult, Json, JsonError, RESULT_LIMIT};

use super::Ended;

/// The exit code of a failure that no retry can mend (`EX_DATAERR`).
const FINAL: i32 = 65;
/// The exit code that asks to run again later (`EX_TEMPFAIL`).
const SNOOZE: i32 = 75;
/// The class of the error when what was written is no result, as for handlers in Rust.
const INVALID_RESULT: &str = "invalid_output";

/// Turns a program's end into what its handler returns; `snooze` is the delay after exit code 75.
pub(super) fn outcome(ended: &Ended, snooze: Duration) -> JobResult<Option<Json>> {
    match ended.status.code() {
        None if ended.asked => {
            Err(JobError::cancel("cancelled on request while it ran").with_class("cancelled"))
        }
        Some(0) => result(ended),
        Some(FINAL) => Err(JobError::fail(said(ended)).with_class(class(ended.status))),
        Some(SNOOZE) => Err(JobError::snooze(snooze)),
        _ => Err(JobError::from(said(ended)).with_class(class(ended.status))),
    }
}

/// Reads the result: JSON, else text; nothing if nothing was written. One that is too large fails the job for
/// good: the program would write it again.
fn result(ended: &Ended) -> JobResult<Option<Json>> {
    let Some(bytes) = ended.stdout.whole() else { return Err(too_large(ended.stdout.total())) };
    if bytes.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(bytes);
    // Parsed in full, because the store refuses more than the form: a lone surrogate, a number beyond bounds,
    // nesting without end. What it would refuse is kept as text.
    if serde_json::from_str::<serde_json::Value>(&text).is_ok()
        && let Ok(json) = Json::from_text(text.clone().into_owned(), RESULT_LIMIT)
    {
        return Ok(Some(json));
    }
    match Json::from_value(&text.replace('\0', "\u{fffd}"), RESULT_LIMIT) {
        Ok(json) => Ok(Some(json)),
        Err(JsonError::TooLarge { bytes, .. }) => Err(too_large(bytes as u64)),
        Err(error) => Err(JobError::fail(error).with_class(INVALID_RESULT)),
    }
}

fn too_large(bytes: u64) -> JobError {
    let message = format!("the program wrote a result of {bytes} bytes, more than {RESULT_LIMIT}");
    JobError::fail(message).with_class(INVALID_RESULT)
}

/// What the program said of its failure.
fn said(ended: &Ended) -> String {
    let said = ended.stderr.trim_ascii();
    if said.is_empty() {
        return format!("{} and nothing on standard error", ended.status);
    }
    String::from_utf8_lossy(said).into_owned()
}

fn class(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit_{code}"),
        (None, Some(signal)) => format!("signal_{signal}"),
        (None, None) => "exit".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use taskq::JobErrorKind;

    use super::*;
    use crate::program::capture::Head;

    async fn ended(code: i32, stdout: &[u8], stderr: &[u8]) -> Ended {
        let mut head = Head::new(RESULT_LIMIT);
        head.fill(stdout).await;
        Ended { status: ExitStatus::from_raw(code << 8), asked: false, stdout: head, stderr: stderr.to_vec() }
    }

    async fn text_of(stdout: &[u8]) -> Option<String> {
        let result = outcome(&ended(0, stdout, b"").await, Duration::ZERO).unwrap();
        result.map(|json| json.as_str().to_owned())
    }

    async fn failure_of(code: i32, stdout: &[u8], stderr: &[u8]) -> (JobErrorKind, String, String) {
        let error = outcome(&ended(code, stdout, stderr).await, Duration::ZERO).unwrap_err();
        let record = error.record().unwrap();
        (error.kind(), record.class, record.message)
    }

    #[tokio::test]
    async fn standard_output_is_the_result() {
        assert_eq!(text_of(b"{\"a\": 1}\n").await.unwrap(), r#"{"a": 1}"#);
        assert_eq!(text_of(b"abc  -\n").await.unwrap(), r#""abc  -\n""#);
        assert_eq!(text_of(b"").await, None);
        assert_eq!(text_of(b"a\xff\0b").await.unwrap(), "\"a\u{fffd}\u{fffd}b\"");
    }

    #[tokio::test]
    async fn json_that_the_store_would_refuse_stays_text() {
        assert_eq!(text_of(br#""\u0000""#).await.unwrap(), r#""\"\\u0000\"""#);
        assert_eq!(text_of(br#""\ud800""#).await.unwrap(), r#""\"\\ud800\"""#);
        assert_eq!(text_of(b"1e999").await.unwrap(), r#""1e999""#);
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        assert_eq!(text_of(deep.as_bytes()).await.unwrap(), format!("\"{deep}\""));
    }

    #[tokio::test]
    async fn a_result_over_the_limit_fails_for_good() {
        let (kind, class, message) = failure_of(0, &vec![b'1'; RESULT_LIMIT + 1], b"").await;
        assert_eq!((kind, class.as_str()), (JobErrorKind::Fail, "invalid_output"));
        assert!(message.contains("1048577 bytes"), "{message}");
        // It fits, but not when every quote is escaped.
        let (kind, _, message) = failure_of(0, &vec![b'"'; RESULT_LIMIT], b"").await;
        assert_eq!(kind, JobErrorKind::Fail);
        assert!(message.contains("more than"), "{message}");
    }

    #[tokio::test]
    async fn exit_codes_say_what_happens_next() {
        let snoozed = outcome(&ended(75, b"", b"").await, Duration::from_secs(3)).unwrap_err();
        assert_eq!(snoozed.kind(), JobErrorKind::Snooze(Duration::from_secs(3)));
        for (code, expected) in
            [(65, JobErrorKind::Fail), (1, JobErrorKind::Retry), (127, JobErrorKind::Retry)]
        {
            let (kind, class, message) = failure_of(code, b"ignored", b" oh\0no \n").await;
            assert_eq!((kind, class), (expected, format!("exit_{code}")));
            assert_eq!(message, "oh\u{fffd}no");
        }
        let killed = Ended { status: ExitStatus::from_raw(9), ..ended(0, b"", b"").await };
        let error = outcome(&killed, Duration::ZERO).unwrap_err();
        let record = error.record().unwrap();
        assert_eq!((error.kind(), record.class.as_str()), (JobErrorKind::Retry, "signal_9"));
        assert!(record.message.contains("nothing on standard error"), "{}", record.message);
    }
}
