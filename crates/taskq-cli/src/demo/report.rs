//! The summary for people.

use std::fmt::Write;

use super::{Skipped, Summary};
use crate::output;

/// How many reasons of failure are written out.
const REASONS: usize = 10;
/// How many directories that could not be read are named.
const DIRECTORIES: usize = 5;

/// Writes the summary: a table, then why jobs failed, then what was left out.
pub(crate) fn report(summary: &Summary) -> String {
    let spread =
        |spread: super::summary::Spread| format!("p50 {:.1} ms, p99 {:.1} ms", spread.p50, spread.p99);
    let mut text = output::facts([
        ("jobs", summary.jobs.to_string()),
        ("succeeded", summary.succeeded.to_string()),
        ("failed", summary.failed.to_string()),
        ("retries", summary.retries.to_string()),
        ("read", format!("{} in {} lines", output::bytes(summary.bytes), summary.lines)),
        ("time", format!("{:.2} s, {:.0} jobs/s", summary.seconds, summary.jobs_per_s)),
        ("queue time", spread(summary.queue_time_ms)),
        ("run time", spread(summary.run_time_ms)),
    ]);
    // Writing to a string cannot fail.
    for failure in summary.failures.iter().take(REASONS) {
        let _ = write!(text, "\n\n{} failed: {}", failure.jobs, output::plain(&failure.error));
        for example in &failure.examples {
            let _ = write!(text, "\n  {}", one_line(example));
        }
        let shown = failure.examples.len() as u64;
        if failure.jobs > shown {
            let _ = write!(text, "\n  and {} more", failure.jobs - shown);
        }
    }
    if summary.failures.len() > REASONS {
        let _ = write!(text, "\n\nand {} other reasons", summary.failures.len() - REASONS);
    }
    if let Some(left_out) = left_out(&summary.skipped) {
        let _ = write!(text, "\n\n{left_out}");
    }
    text
}

fn left_out(skipped: &Skipped) -> Option<String> {
    let Skipped { links, special, not_utf8, unreadable } = skipped;
    let kinds = [
        (*links, "symbolic links"),
        (*special, "pipes, sockets and devices"),
        (*not_utf8, "files whose name is not UTF-8"),
        (unreadable.len() as u64, "directories that cannot be read"),
    ];
    let named: Vec<_> = kinds
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, kind)| format!("{number} {kind}"))
        .collect();
    if named.is_empty() {
        return None;
    }
    let mut text = format!("left out: {}", named.join(", "));
    for directory in unreadable.iter().take(DIRECTORIES) {
        let _ = write!(text, "\n  {}: {}", one_line(&directory.path.to_string_lossy()), directory.error);
    }
    Some(text)
}

/// A path on one line, whatever characters it has.
fn one_line(path: &str) -> String {
    output::plain(path).replace(['\n', '\t'], "\u{fffd}")
}
