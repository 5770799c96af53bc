//! How far the demo is, on standard error.

use std::convert::Infallible;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// How often a line is written where there is no terminal to draw on.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// Counts in memory, so that showing it costs the run nothing. A bar on a terminal, plain lines elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    terminal: bool,
}

impl Progress {
    /// Starts at nothing.
    pub(crate) fn new() -> Self {
        let terminal = io::stderr().is_terminal();
        // Drawn a few times a second whatever happens; positions between cost one atomic addition.
        let target =
            if terminal { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} jobs  {per_sec}  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        Self { bar, terminal }
    }

    /// Says what is being done before there are jobs to count.
    pub(crate) fn phase(&self, phase: &'static str) {
        if self.terminal {
            self.bar.set_message(phase);
            self.bar.tick();
        }
    }

    /// Counts jobs that were enqueued.
    pub(crate) fn enqueued(&self, jobs: u64) {
        self.bar.inc_length(jobs);
    }

    /// Counts jobs that ended.
    pub(crate) fn ended(&self, jobs: u64) {
        self.bar.inc(jobs);
    }

    /// Writes a line every few seconds where there is no terminal. Never returns.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn lines(&self) -> Infallible {
        if self.terminal {
            return std::future::pending().await;
        }
        let mut ticks = interval_at(Instant::now() + LINE_EVERY, LINE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let (ended, known) = (self.bar.position(), self.bar.length().unwrap_or(0));
            // Nobody reads it: no reason to stop the run.
            let _ = writeln!(io::stderr(), "{ended} of {known} jobs ended");
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
