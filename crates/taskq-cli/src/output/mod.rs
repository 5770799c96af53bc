//! Facts on standard output: tables and lines for people, JSON for programs.

mod job;
mod table;
mod text;

use std::io::{self, Write};

use serde::Serialize;

pub(crate) use job::{JOB_HEADER, JobFacts, Surroundings, job_row};
pub(crate) use table::{columns, facts, table};
pub(crate) use text::{bytes, joined, plain, time};

use crate::exit::Failure;

/// Prints a value as JSON, indented.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
    line(&text)
}

/// Prints a text and a line break.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()?;
    Ok(())
}

/// Prints a line on standard error: what is neither a fact nor an error.
pub(crate) fn note(text: &str) {
    // A closed standard error is no reason to fail.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Returns the word that a value without fields has in JSON.
pub(crate) fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
