//! The append-only log of what handlers did and of what was done to their processes.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::str::{FromStr, Split};
use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};
use uuid::Uuid;

/// The log of one process: a file of its own in a directory that all processes of a test share. Cheap to clone.
///
/// Every event is one line, appended in one write, so a process that is killed leaves whole lines.
#[derive(Clone, Debug)]
pub struct ExecutionLog {
    file: Arc<File>,
    pid: u32,
}

/// An attempt that runs; dropping it notes the end.
#[must_use = "dropping it notes the end of the attempt"]
#[derive(Debug)]
pub struct RunningAttempt {
    log: ExecutionLog,
    attempt: AttemptKey,
}

/// Which attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptKey {
    /// The job.
    pub job: Uuid,
    /// Its claim epoch.
    pub epoch: i64,
    /// The number that the attempt has by the job's budget.
    pub attempt: i32,
}

/// A line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When, in nanoseconds of the monotonic clock, which all processes of one boot share.
    pub at: u64,
    /// The process concerned.
    pub pid: u32,
    /// What happened.
    pub event: Event,
}

/// What a log tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A handler began.
    Start(AttemptKey),
    /// The handler's code ran no more.
    End(AttemptKey),
    /// The process has ended: it was killed, or it died by itself.
    Killed,
    /// The process was stopped, for longer than its lease.
    Frozen,
}

impl ExecutionLog {
    /// Opens this process's file in `directory`, which is made if it is missing.
    ///
    /// # Errors
    ///
    /// The directory or the file cannot be made.
    pub fn open(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let pid = std::process::id();
        let path = directory.join(format!("{pid}.{EXTENSION}"));
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self { file: Arc::new(file), pid })
    }

    /// Notes that an attempt begins; it ends when the value is dropped.
    ///
    /// # Errors
    ///
    /// The line cannot be written.
    pub fn begin(&self, job: Uuid, epoch: i64, attempt: i32) -> io::Result<RunningAttempt> {
        let attempt = AttemptKey { job, epoch, attempt };
        self.append(self.pid, Event::Start(attempt))?;
        Ok(RunningAttempt { log: self.clone(), attempt })
    }

    /// Notes that another process is gone, killed or dead by itself. To be called once it has been waited for.
    ///
    /// # Errors
    ///
    /// The line cannot be written.
    pub fn killed(&self, pid: u32) -> io::Result<()> {
        self.append(pid, Event::Killed)
    }

    /// Notes that another process has stopped for longer than its lease. What it runs counts as ended: nothing
    /// that it writes afterwards is accepted, though its code goes on when it is thawed.
    ///
    /// # Errors
    ///
    /// The line cannot be written.
    pub fn frozen(&self, pid: u32) -> io::Result<()> {
        self.append(pid, Event::Frozen)
    }

    fn append(&self, pid: u32, event: Event) -> io::Result<()> {
        let line = format!("{}\n", Record { at: monotonic_nanoseconds(), pid, event });
        // One write: lines of several threads, or of a process with the same id later, do not mix.
        let written = (&*self.file).write(line.as_bytes())?;
        if written == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

impl Drop for RunningAttempt {
    fn drop(&mut self) {
        // An end that cannot be noted is found by the check.
        let _ = self.log.append(self.log.pid, Event::End(self.attempt));
    }
}

/// Reads the logs of all processes in `directory`, in the order of time.
///
/// # Errors
///
/// The directory or a file cannot be read, or a line is not what a log has; the message names file and line.
pub fn read_log(directory: &Path) -> io::Result<Vec<Record>> {
    let mut records = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != EXTENSION) {
            continue;
        }
        for (index, line) in fs::read_to_string(&path)?.lines().enumerate() {
            let malformed = || {
                let place = format!("{}, line {}: {line:?}", path.display(), index + 1);
                io::Error::new(io::ErrorKind::InvalidData, place)
            };
            records.push(parse(line).ok_or_else(malformed)?);
        }
    }
    records.sort_by_key(|record: &Record| record.at);
    Ok(records)
}

const EXTENSION: &str = "log";

fn monotonic_nanoseconds() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.at, self.pid)?;
        match self.event {
            Event::Start(AttemptKey { job, epoch, attempt }) => write!(f, "start {job} {epoch} {attempt}"),
            Event::End(AttemptKey { job, epoch, attempt }) => write!(f, "end {job} {epoch} {attempt}"),
            Event::Killed => f.write_str("killed"),
            Event::Frozen => f.write_str("frozen"),
        }
    }
}

/// The record of a line; none if it is not what a log has.
fn parse(line: &str) -> Option<Record> {
    let mut words = line.split(' ');
    let (at, pid, kind) = (next(&mut words)?, next(&mut words)?, words.next()?);
    let event = match kind {
        "start" => Event::Start(attempt_key(&mut words)?),
        "end" => Event::End(attempt_key(&mut words)?),
        "killed" => Event::Killed,
        "frozen" => Event::Frozen,
        _ => return None,
    };
    words.next().is_none().then_some(Record { at, pid, event })
}

fn attempt_key(words: &mut Split<'_, char>) -> Option<AttemptKey> {
    Some(AttemptKey { job: next(words)?, epoch: next(words)?, attempt: next(words)? })
}

fn next<T: FromStr>(words: &mut Split<'_, char>) -> Option<T> {
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_logged_is_read_in_the_order_of_time() {
        let directory = std::env::temp_dir().join(format!("taskq-log-{}", crate::random::token().unwrap()));
        let (log, job) = (ExecutionLog::open(&directory).unwrap(), Uuid::now_v7());
        let running = log.begin(job, 3, 2).unwrap();
        log.frozen(7).unwrap();
        drop(running);
        log.killed(7).unwrap();
        // A process that ran before all this.
        let earlier = Record { at: 1, pid: 7, event: Event::Killed };
        fs::write(directory.join("7.log"), format!("{earlier}\n")).unwrap();

        let key = AttemptKey { job, epoch: 3, attempt: 2 };
        let records = read_log(&directory).unwrap();
        let events: Vec<Event> = records.iter().map(|record| record.event).collect();
        assert_eq!(events, [Event::Killed, Event::Start(key), Event::Frozen, Event::End(key), Event::Killed]);
        assert_eq!(records[0], earlier);
        assert_eq!(records[1].pid, std::process::id());

        fs::write(directory.join("8.log"), "1 8 killed\n12 8 start").unwrap();
        let error = read_log(&directory).unwrap_err().to_string();
        fs::remove_dir_all(&directory).unwrap();
        assert!(error.ends_with("8.log, line 2: \"12 8 start\""), "{error}");
    }
}
