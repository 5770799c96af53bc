//! Child processes under test.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use crate::wait::try_wait_for;

/// A child process in a process group of its own, its output captured. Dropping it kills the group.
pub struct ChildProcess {
    child: Child,
    stdout: Lines,
    stderr: Lines,
}

/// How long the last output may take to arrive after the process has ended.
const LAST_OUTPUT: Duration = Duration::from_secs(10);

/// How long the kernel may take to stop or end a process.
const OBEYS: Duration = Duration::from_mins(1);

/// What a stream has brought so far, shared with the thread that reads it.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Captured>>);

#[derive(Default)]
struct Captured {
    lines: Vec<String>,
    complete: bool,
}

impl ChildProcess {
    /// Starts `command` with an empty standard input. Its output is read all the time, so it never waits for a reader.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().map(Lines::read).unwrap_or_default();
        let stderr = child.stderr.take().map(Lines::read).unwrap_or_default();
        Ok(Self { child, stdout, stderr })
    }

    /// The process id, which is also the id of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The lines of standard output so far.
    pub fn stdout(&self) -> Vec<String> {
        self.stdout.so_far()
    }

    /// The lines of standard error so far.
    pub fn stderr(&self) -> Vec<String> {
        self.stderr.so_far()
    }

    /// Waits for a line of standard output or standard error that contains `text`; returns the line.
    ///
    /// # Panics
    ///
    /// No such line came in time; the message shows what came.
    pub async fn wait_for_line(&self, text: &str, within: Duration) -> String {
        let found = async || {
            [&self.stdout, &self.stderr]
                .into_iter()
                .find_map(|lines| lines.so_far().into_iter().find(|line| line.contains(text)))
        };
        let line = try_wait_for(within, found).await;
        line.unwrap_or_else(|| self.give_up(&format!("a line with {text:?}"), within))
    }

    /// Waits for the end of the process, and for its output to be complete unless one of its children keeps it open.
    ///
    /// # Panics
    ///
    /// It still runs when the time is over; the message shows its output.
    pub async fn wait(&mut self, within: Duration) -> ExitStatus {
        let ended = async || self.child.try_wait().ok().flatten();
        let status = try_wait_for(within, ended).await;
        let status = status.unwrap_or_else(|| self.give_up("the end of the process", within));
        let complete = async || (self.stdout.complete() && self.stderr.complete()).then_some(());
        try_wait_for(LAST_OUTPUT, complete).await;
        status
    }

    /// Stops the process, as `SIGSTOP` does, and waits until it has stopped; its children go on.
    ///
    /// # Errors
    ///
    /// The process has ended.
    pub async fn freeze(&mut self) -> io::Result<()> {
        self.signal(Signal::STOP)?;
        let process = WaitId::Pid(self.living()?);
        // Looks without taking the news away from those who wait for the end.
        let look =
            WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let stopped = async || match waitid(process.clone(), look) {
            Ok(None) => None,
            Ok(Some(status)) if status.stopped() => Some(Ok(())),
            Ok(Some(_)) => Some(Err(io::ErrorKind::NotFound.into())),
            Err(error) => Some(Err(error.into())),
        };
        try_wait_for(OBEYS, stopped).await.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Lets a frozen process go on.
    ///
    /// # Errors
    ///
    /// The process has ended.
    pub fn thaw(&mut self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Kills the process alone, as `kill -9` does, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// The process had ended already.
    pub async fn kill(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL)?;
        Ok(self.wait(OBEYS).await)
    }

    /// Sends a signal to the process alone, not to its children.
    ///
    /// # Errors
    ///
    /// The process has ended and was waited for.
    pub fn signal(&mut self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(self.living()?, signal)?)
    }

    /// Sends a signal to the process and its children, as a terminal does on Ctrl-C.
    ///
    /// # Errors
    ///
    /// The process has ended and was waited for.
    pub fn signal_group(&mut self, signal: Signal) -> io::Result<()> {
        Ok(kill_process_group(self.living()?, signal)?)
    }

    /// The id, as long as it cannot have gone to another process.
    fn living(&mut self) -> io::Result<Pid> {
        if self.child.try_wait()?.is_some() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Pid::from_child(&self.child))
    }

    fn give_up(&self, what: &str, within: Duration) -> ! {
        let (stdout, stderr) = (self.stdout().join("\n"), self.stderr().join("\n"));
        panic!("not within {within:?}: {what}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // Both fail only if the process is gone, which is what is wanted.
        if self.signal_group(Signal::KILL).is_ok() {
            let _ = self.child.wait();
        }
    }
}

impl Lines {
    /// Reads until the stream ends, on a thread of its own.
    fn read(stream: impl Read + Send + 'static) -> Self {
        let lines = Self::default();
        let sink = lines.clone();
        thread::spawn(move || {
            for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
                sink.lock().lines.push(String::from_utf8_lossy(&line).into_owned());
            }
            sink.lock().complete = true;
        });
        lines
    }

    fn so_far(&self) -> Vec<String> {
        self.lock().lines.clone()
    }

    fn complete(&self) -> bool {
        self.lock().complete
    }

    fn lock(&self) -> MutexGuard<'_, Captured> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
