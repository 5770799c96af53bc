//! What a benchmark has to say: rows of named figures, as JSON and as a table.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::machine::Machine;
use super::scene::ServerFacts;
use crate::exit::Failure;
use crate::output;

/// The figures of one benchmark.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(super) bench: &'static str,
    pub(super) server: ServerFacts,
    pub(super) machine: Machine,
    pub(super) rows: Vec<Row>,
    /// The fields that the table shows; the JSON has them all.
    #[serde(skip)]
    pub(super) columns: &'static [&'static str],
    /// What a reader of the table must know.
    #[serde(skip)]
    pub(super) notes: Vec<String>,
}

/// The figures of one case. The name of each says its unit: `_s`, `_ms`, `_per_s`, `_bytes`, `ratio_…`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row(Vec<(Cow<'static, str>, Value)>);

impl Row {
    /// Begins the row of a case.
    pub(super) fn of(case: impl Into<String>) -> Self {
        Self::default().with("case", case.into())
    }

    /// Adds a figure. What could not be measured is `None`.
    pub(super) fn with(mut self, field: impl Into<Cow<'static, str>>, figure: impl Into<Figure>) -> Self {
        self.0.push((field.into(), figure.into().0));
        self
    }

    /// Returns a figure that is a number.
    pub(super) fn number(&self, field: &str) -> Option<f64> {
        self.get(field)?.as_f64()
    }

    fn get(&self, field: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| name == field).map(|(_, value)| value)
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (field, value) in &self.0 {
            map.serialize_entry(field, value)?;
        }
        map.end()
    }
}

/// A value of a [`Row`].
#[derive(Clone, Debug)]
pub(super) struct Figure(Value);

impl From<f64> for Figure {
    fn from(value: f64) -> Self {
        // More digits would only pretend to be known.
        Self(Value::from((value * 10_000.0).round() / 10_000.0))
    }
}

impl From<u64> for Figure {
    fn from(value: u64) -> Self {
        Self(value.into())
    }
}

impl From<u32> for Figure {
    fn from(value: u32) -> Self {
        Self(value.into())
    }
}

impl From<bool> for Figure {
    fn from(value: bool) -> Self {
        Self(value.into())
    }
}

impl From<String> for Figure {
    fn from(value: String) -> Self {
        Self(value.into())
    }
}

impl From<&str> for Figure {
    fn from(value: &str) -> Self {
        Self(value.into())
    }
}

impl<T: Into<Self>> From<Option<T>> for Figure {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self(Value::Null), Into::into)
    }
}

impl Report {
    /// Lays it out for people.
    pub(crate) fn text(&self) -> String {
        let shown: Vec<&str> = self
            .columns
            .iter()
            .copied()
            .filter(|column| {
                self.rows.iter().any(|row| row.get(column).is_some_and(|value| !value.is_null()))
            })
            .collect();
        let cells = |row: &Row| {
            shown
                .iter()
                .map(|field| row.get(field).map_or_else(String::new, |value| cell(field, value)))
                .collect()
        };
        let header: Vec<_> = shown.iter().map(|field| field.replace('_', " ")).collect();
        let table = output::columns(&header, &self.rows.iter().map(cells).collect::<Vec<_>>());
        let mut text = format!("{}\n{}\n\n{table}", self.server.line(), self.machine.line());
        for note in &self.notes {
            text.push_str("\n\n");
            text.push_str(note);
        }
        text
    }
}

/// Writes a figure by the unit that its name says.
fn cell(field: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => {
            let figure = number.as_f64().unwrap_or(0.0);
            if field.ends_with("_bytes") && number.is_u64() {
                return output::bytes(number.as_u64().unwrap_or(0));
            }
            let decimals = match field {
                _ if field.contains("_per_") || number.is_u64() => 0,
                _ if field.ends_with("_ms") => 3,
                _ => 2,
            };
            // A rate below ten, of statements of an idle worker, is not a whole number.
            let decimals = if decimals == 0 && figure < 10.0 && !number.is_u64() { 2 } else { decimals };
            grouped(&format!("{figure:.decimals$}"))
        }
        other => other.to_string(),
    }
}

/// Puts a comma between thousands.
fn grouped(number: &str) -> String {
    let (whole, fraction) =
        number.split_once('.').map_or((number, None), |(whole, rest)| (whole, Some(rest)));
    let mut text = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && digit.is_ascii_digit() && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    if let Some(fraction) = fraction {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// The file that a report is written to. Opened before anything is measured, so that a wrong path costs no run.
#[derive(Debug)]
pub(crate) struct ReportFile {
    path: PathBuf,
    file: File,
    /// Whether it is new and must not stay empty.
    unwritten: bool,
}

impl ReportFile {
    /// Opens or creates the file; what is in it stays until the report is written.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let unwritten = !path.exists();
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file
            .map_err(|error| Failure::usage(format!("--json: cannot write {}: {error}", path.display())))?;
        Ok(Self { path: path.to_owned(), file, unwritten })
    }

    /// Writes the report in place of what the file held.
    pub(crate) fn write(mut self, report: &Report) -> Result<(), Failure> {
        let failed = |error: String| Failure::failed(format!("cannot write the report: {error}"));
        let text = serde_json::to_string_pretty(report).map_err(|error| failed(error.to_string()))?;
        let mut write = || {
            self.file.set_len(0)?;
            self.file.rewind()?;
            writeln!(self.file, "{text}")?;
            self.file.sync_all()
        };
        write().map_err(|error| failed(error.to_string()))?;
        self.unwritten = false;
        Ok(())
    }
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        if self.unwritten {
            // Nobody takes an empty file for a report; that it cannot be removed harms nobody.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_by_their_unit() {
        assert_eq!(cell("jobs_per_s", &Value::from(23_456.7)), "23,457");
        assert_eq!(cell("statements_per_s", &Value::from(0.65)), "0.65");
        assert_eq!(cell("peak_bytes", &Value::from(1_572_864)), "1.5 MiB");
        assert_eq!(cell("wal_bytes_per_job", &Value::from(1013.4)), "1,013");
        assert_eq!(cell("p50_ms", &Value::from(1.5)), "1.500");
        assert_eq!(cell("jobs", &Value::from(1_000_000)), "1,000,000");
        assert_eq!(cell("ratio_to_sql_loop", &Value::from(0.614)), "0.61");
        assert_eq!(cell("server_cpu_s", &Value::Null), "-");
        assert_eq!(grouped("-123456.5"), "-123,456.5");
    }

    #[test]
    fn a_file_without_a_report_does_not_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.json");
        drop(ReportFile::open(&path).unwrap());
        assert!(!path.exists());
        std::fs::write(&path, "old").unwrap();
        drop(ReportFile::open(&path).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    }
}
