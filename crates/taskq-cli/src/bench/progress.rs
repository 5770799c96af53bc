//! How far a benchmark is, on a terminal.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on standard error. Where there is no terminal, nothing is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Starts at nothing.
    pub(crate) fn new() -> Self {
        let terminal = io::stderr().is_terminal();
        let target =
            if terminal { ProgressDrawTarget::stderr_with_hz(5) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{bar:30} {percent:>3}%  {elapsed}  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        Self(bar)
    }

    /// Adds to what there is to do, in a unit of the benchmark's own.
    pub(crate) fn expect(&self, units: u64) {
        self.0.inc_length(units);
    }

    /// Notes that a part of it is done.
    pub(crate) fn advance(&self, units: u64) {
        self.0.inc(units);
    }

    /// Says what is being done.
    pub(crate) fn say(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
        self.0.tick();
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}
