//! One run of a program.

use std::io;
use std::os::unix::process::CommandExt;
use std::pin::pin;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use taskq::RESULT_LIMIT;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::capture::{Head, Tail};
use super::{GO, Guard, START, this_binary};
use crate::parse;

/// How much of the end of standard error is kept.
const STDERR_LIMIT: usize = 8 * 1024;
/// How long the outputs are read on after a program's end. Its group is dead by then; only a process that left
/// the group can still hold them open.
const DRAIN: Duration = Duration::from_secs(1);

/// What a program is run with.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    /// The program.
    pub(super) command: &'a parse::Command,
    /// What it gets on standard input.
    pub(super) payload: &'a [u8],
    /// What is added to its environment.
    pub(super) environment: &'a [(&'static str, String)],
}

/// A program that has ended and is reaped.
#[derive(Debug)]
pub(super) struct Ended {
    /// How it ended.
    pub(super) status: ExitStatus,
    /// Whether it was asked to end.
    pub(super) asked: bool,
    /// What it wrote to standard output.
    pub(super) stdout: Head,
    /// The end of what it wrote to standard error.
    pub(super) stderr: Vec<u8>,
}

/// Runs a program to its end. Its group gets SIGTERM when `ask` is done, and is killed when `stop` is cancelled. When
/// this returns, the program is reaped and what was left of its group has been killed.
///
/// # Errors
/// What the system says when no process can be started.
///
/// # Cancel safety
/// Not cancel safe: a dropped future leaves the program running under guard. Cancel `stop` instead.
pub(super) async fn run(
    guard: &Guard,
    attempt: &Attempt<'_>,
    ask: impl Future<Output = ()>,
    stop: &CancellationToken,
) -> io::Result<Ended> {
    // Before the child is there, so that its end cannot be missed.
    let mut ends = signal(SignalKind::child())?;
    let mut child = spawn(attempt)?;
    let group = Pid::from_child(&child);
    let pipes = match take_pipes(&mut child).and_then(|pipes| guard.add(group).map(|()| pipes)) {
        Ok(pipes) => pipes,
        Err(error) => {
            // Nothing has told it to become the program yet.
            child.kill()?;
            child.wait()?;
            return Err(error);
        }
    };

    let mut stdout = Head::new(RESULT_LIMIT);
    let mut stderr = Tail::new(STDERR_LIMIT);
    let (mut asked, mut killed) = (false, false);
    let mut ask = pin!(ask);
    let status = {
        let mut streams = pin!(async {
            tokio::join!(
                feed(pipes.stdin, attempt.payload),
                stdout.fill(pipes.stdout),
                stderr.fill(pipes.stderr)
            );
        });
        let mut streams_open = true;
        while !has_ended(group)? {
            tokio::select! {
                _ = ends.recv() => {}
                () = &mut streams, if streams_open => streams_open = false,
                () = &mut ask, if !asked => {
                    asked = true;
                    signal_group(group, Signal::TERM);
                }
                () = stop.cancelled(), if !killed => {
                    killed = true;
                    signal_group(group, Signal::KILL);
                }
            }
        }
        // The leader is dead and not yet reaped, so the group's number is still its own.
        signal_group(group, Signal::KILL);
        guard.remove(group);
        let status = child.wait()?;
        if streams_open {
            // Whoever left the group keeps its own pipes; what was read so far counts.
            let _ = tokio::time::timeout(DRAIN, streams).await;
        }
        status
    };
    Ok(Ended { status, asked, stdout, stderr: stderr.into_bytes() })
}

struct Pipes {
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: ChildStderr,
}

fn spawn(attempt: &Attempt<'_>) -> io::Result<Child> {
    Command::new(this_binary()?)
        .arg0("taskq")
        .arg(START)
        .arg(&attempt.command.program)
        .args(&attempt.command.arguments)
        // A worker that is a program itself must not pass on a deadline that this job does not have.
        .env_remove("TASKQ_DEADLINE")
        .envs(attempt.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

fn take_pipes(child: &mut Child) -> io::Result<Pipes> {
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::Error::other("the program's pipes are missing"));
    };
    Ok(Pipes {
        stdin: ChildStdin::from_std(stdin)?,
        stdout: ChildStdout::from_std(stdout)?,
        stderr: ChildStderr::from_std(stderr)?,
    })
}

/// Lets the program start and writes its payload. A program need not read it.
async fn feed(mut stdin: ChildStdin, payload: &[u8]) {
    let written = async {
        stdin.write_all(&[GO]).await?;
        stdin.write_all(payload).await
    };
    if let Err(error) = written.await
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        tracing::warn!(%error, "the payload could not be written to the program");
    }
}

/// Says whether the leader has ended, and leaves it to be reaped.
fn has_ended(leader: Pid) -> io::Result<bool> {
    loop {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match rustix::process::waitid(WaitId::Pid(leader), options) {
            Ok(status) => return Ok(status.is_some()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn signal_group(group: Pid, signal: Signal) {
    // The only process left may be the leader, dead and not yet reaped: then there is nobody to signal.
    let _ = rustix::process::kill_process_group(group, signal);
}
