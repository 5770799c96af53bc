//! Logs, on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

/// Checks a filter: a level or a list of `target=level`.
pub(crate) fn check(filter: &str) -> Result<(), String> {
    const EXPECTED: &str = "expected error, warn, info, debug, trace or a filter such as taskq=debug";
    if filter.trim().is_empty() {
        return Err(EXPECTED.to_owned());
    }
    EnvFilter::builder().parse(filter).map(drop).map_err(|error| format!("{EXPECTED}: {error}"))
}

/// Starts logging what a checked filter lets through.
pub(crate) fn start(filter: &str) {
    let filter = EnvFilter::builder().parse_lossy(filter);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
}
