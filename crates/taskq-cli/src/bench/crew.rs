//! Worker processes, seen from the benchmark.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

use super::child::{Done, GO, Orders, Said, WORD};
use super::clock::{now_ns, seconds};
use crate::exit::Failure;
use crate::program::this_binary;

/// How long workers may be silent before the benchmark gives up.
const PATIENCE: Duration = Duration::from_mins(2);

/// Some worker processes with the same orders.
pub(super) struct Crew {
    members: Vec<Member>,
    /// The processor time that the members took to get ready.
    ready_cpu_ns: u64,
    said: mpsc::UnboundedReceiver<(usize, Option<Said>)>,
}

struct Member {
    process: Child,
    commands: ChildStdin,
}

/// What workers had done together, at the moments they told.
#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    began_ns: u64,
    ready_cpu_ns: u64,
    members: Vec<Done>,
    points: Vec<Point>,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    at_ns: u64,
    succeeded: u64,
    peak_bytes: Option<u64>,
}

impl Crew {
    /// Starts one process for each orders and waits until all are connected.
    pub(super) async fn start(orders: &[Orders]) -> Result<Self, Failure> {
        let (tell, said) = mpsc::unbounded_channel();
        let mut crew = Self { members: Vec::new(), ready_cpu_ns: 0, said };
        for (at, orders) in orders.iter().enumerate() {
            let mut process = Command::new(this_binary()?)
                .arg0("taskq")
                .arg(WORD)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .map_err(|error| Failure::failed(format!("a worker process cannot be started: {error}")))?;
            let (Some(mut commands), Some(lines)) = (process.stdin.take(), process.stdout.take()) else {
                return Err(Failure::failed("a worker process has no pipes"));
            };
            let line = serde_json::to_string(orders).map_err(|error| Failure::failed(error.to_string()))?;
            command(&mut commands, &line).await?;
            tokio::spawn(listen(at, lines, tell.clone()));
            crew.members.push(Member { process, commands });
        }
        for _ in orders {
            match crew.next().await? {
                (_, Said::Ready { cpu_ns }) => crew.ready_cpu_ns += cpu_ns,
                (_, other) => {
                    return Err(Failure::failed(format!("a worker said {other:?} before it was ready")));
                }
            }
        }
        Ok(crew)
    }

    /// Lets the workers begin.
    pub(super) async fn go(&mut self) -> Result<Track, Failure> {
        let began_ns = now_ns();
        for member in &mut self.members {
            command(&mut member.commands, GO).await?;
        }
        let members = vec![Done::default(); self.members.len()];
        Ok(Track { began_ns, ready_cpu_ns: self.ready_cpu_ns, members, points: Vec::new() })
    }

    /// Follows the work until `jobs` have succeeded; `seen` hears how many more there are each time.
    pub(super) async fn follow(
        &mut self,
        track: &mut Track,
        jobs: u64,
        mut seen: impl FnMut(u64),
    ) -> Result<(), Failure> {
        while track.succeeded() < jobs {
            if let (at, Said::Progress(done)) = self.next().await? {
                let before = track.succeeded();
                track.note(at, done);
                seen(track.succeeded() - before);
            }
        }
        Ok(())
    }

    /// Waits until a handler is started; returns the number of its job and the time.
    pub(super) async fn started(&mut self) -> Result<(u64, u64), Failure> {
        loop {
            if let (_, Said::Started { n, at_ns }) = self.next().await? {
                return Ok((n, at_ns));
            }
        }
    }

    /// Stops the workers in good order.
    pub(super) async fn stop(self) -> Result<(), Failure> {
        for Member { mut process, commands } in self.members {
            // The end of its input is the command.
            drop(commands);
            let status = tokio::time::timeout(PATIENCE, process.wait()).await;
            match status {
                Ok(Ok(status)) if status.success() => {}
                Ok(Ok(status)) => {
                    return Err(Failure::failed(format!("a worker process ended with {status}")));
                }
                Ok(Err(error)) => return Err(error.into()),
                Err(_) => return Err(Failure::failed("a worker process does not end")),
            }
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<(usize, Said), Failure> {
        match tokio::time::timeout(PATIENCE, self.said.recv()).await {
            Ok(Some((at, Some(said)))) => Ok((at, said)),
            Ok(_) => Err(Failure::failed("a worker process has ended early")),
            Err(_) => Err(Failure::failed(format!("the workers were silent for {PATIENCE:?}"))),
        }
    }
}

async fn command(commands: &mut ChildStdin, line: &str) -> Result<(), Failure> {
    let sent = commands.write_all(format!("{line}\n").as_bytes()).await;
    sent.map_err(|error| Failure::failed(format!("a worker process does not listen: {error}")))
}

async fn listen(at: usize, lines: ChildStdout, tell: mpsc::UnboundedSender<(usize, Option<Said>)>) {
    let mut lines = BufReader::new(lines).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(said) = serde_json::from_str(&line) else { break };
        if tell.send((at, Some(said))).is_err() {
            return;
        }
    }
    // Nobody listens once the crew is stopped.
    let _ = tell.send((at, None));
}

impl Track {
    fn note(&mut self, at: usize, done: Done) {
        self.members[at] = done;
        let peaks = self.members.iter().filter_map(|member| member.peak_bytes);
        self.points.push(Point { at_ns: done.at_ns, succeeded: self.succeeded(), peak_bytes: peaks.max() });
    }

    /// How many jobs have succeeded.
    pub(super) fn succeeded(&self) -> u64 {
        self.members.iter().map(|done| done.succeeded).sum()
    }

    /// Nanoseconds from the begin to the end of the last job.
    pub(super) fn elapsed_ns(&self) -> u64 {
        let last = self.members.iter().map(|done| done.at_ns).max().unwrap_or(self.began_ns);
        last.saturating_sub(self.began_ns)
    }

    /// How many jobs a second, from the begin to the end of the last one.
    #[expect(clippy::cast_precision_loss, reason = "a rate is computed")]
    pub(super) fn rate(&self) -> f64 {
        self.succeeded() as f64 / seconds(self.elapsed_ns())
    }

    /// Nanoseconds from the begin to when `jobs` had succeeded, by a straight line between what was told.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an interpolation"
    )]
    pub(super) fn ns_at(&self, jobs: u64) -> u64 {
        let (mut before_ns, mut before) = (self.began_ns, 0);
        for point in &self.points {
            if point.succeeded >= jobs {
                let share = jobs.saturating_sub(before) as f64 / (point.succeeded - before).max(1) as f64;
                let gap = point.at_ns.saturating_sub(before_ns) as f64;
                return (before_ns + (gap * share) as u64).saturating_sub(self.began_ns);
            }
            (before_ns, before) = (point.at_ns, point.succeeded);
        }
        self.elapsed_ns()
    }

    /// The peak of the largest worker's memory by when `jobs` had succeeded.
    pub(super) fn peak_bytes_at(&self, jobs: u64) -> Option<u64> {
        let point = self.points.iter().find(|point| point.succeeded >= jobs).or(self.points.last())?;
        point.peak_bytes
    }

    /// The processor time of all workers, from the begin to the end of the last job.
    pub(super) fn cpu_ns(&self) -> u64 {
        self.members.iter().map(|done| done.cpu_ns).sum::<u64>().saturating_sub(self.ready_cpu_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_track_adds_its_members_up() {
        let mut track =
            Track { began_ns: 100, ready_cpu_ns: 4, members: vec![Done::default(); 2], points: Vec::new() };
        let done = |at_ns, succeeded, peak| Done { at_ns, succeeded, cpu_ns: 7, peak_bytes: Some(peak) };
        track.note(0, done(200, 10, 5));
        track.note(1, done(300, 10, 9));
        track.note(0, done(400, 30, 6));
        assert_eq!((track.succeeded(), track.elapsed_ns(), track.cpu_ns()), (40, 300, 10));
        assert_eq!((track.ns_at(5), track.ns_at(15), track.ns_at(40)), (50, 150, 300));
        assert_eq!((track.peak_bytes_at(4), track.peak_bytes_at(40)), (Some(5), Some(9)));
    }
}
