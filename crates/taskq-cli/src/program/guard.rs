//! The worker's side of the guard.

use std::collections::HashSet;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;
use rustix::process::Pid;

use super::{GUARD, this_binary};

/// The process that kills this worker's programs when the worker is killed.
#[derive(Debug)]
pub(crate) struct Guard(Mutex<State>);

#[derive(Debug)]
struct State {
    helper: Helper,
    groups: HashSet<Pid>,
}

#[derive(Debug)]
struct Helper {
    process: Child,
    /// Closed before the process is waited for: its end is what the process acts on.
    list: Option<ChildStdin>,
}

impl Guard {
    /// Starts the guard.
    ///
    /// # Errors
    /// What the system says when the process cannot be started.
    pub(crate) fn start() -> io::Result<Self> {
        Ok(Self(Mutex::new(State { helper: Helper::start()?, groups: HashSet::new() })))
    }

    /// Puts a process group under guard. When this returns, the group does not outlive the worker.
    ///
    /// A guard that was killed is replaced.
    ///
    /// # Errors
    /// What the system says when the guard is gone and cannot be replaced.
    pub(super) fn add(&self, group: Pid) -> io::Result<()> {
        let mut state = self.state();
        state.groups.insert(group);
        let said = state.helper.say('+', group);
        let ready = said.or_else(|_| state.replace());
        if ready.is_err() {
            state.groups.remove(&group);
        }
        ready
    }

    /// Takes a process group off the list. Must be called before its leader is reaped: the number may belong to
    /// someone else afterwards.
    pub(super) fn remove(&self, group: Pid) {
        let mut state = self.state();
        state.groups.remove(&group);
        if state.helper.say('-', group).is_err() {
            // The next `add` meets the same and reports it; a list without this group is right already.
            let _ = state.replace();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The list is complete after every statement, so a panic elsewhere has left it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn replace(&mut self) -> io::Result<()> {
        tracing::warn!("the guard of programs is gone: starting another");
        let mut helper = Helper::start()?;
        for group in &self.groups {
            helper.say('+', *group)?;
        }
        let mut old = std::mem::replace(&mut self.helper, helper);
        // It may only be frozen, and must not act on its list any more.
        let _ = old.process.kill();
        Ok(())
    }
}

impl Helper {
    fn start() -> io::Result<Self> {
        let mut process = Command::new(this_binary()?)
            .arg0("taskq")
            .arg(GUARD)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        let list = process.stdin.take();
        if let Some(list) = &list {
            // A guard that is frozen must not freeze the worker: it is replaced like one that is gone.
            rustix::fs::fcntl_setfl(list, OFlags::NONBLOCK)?;
        }
        Ok(Self { process, list })
    }

    fn say(&mut self, sign: char, group: Pid) -> io::Result<()> {
        let list = self.list.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        // One write of a short line: it arrives whole or not at all.
        list.write_all(format!("{sign}{}\n", group.as_raw_nonzero()).as_bytes())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.list.take());
        // It ends at once: nothing but its list keeps it.
        let _ = self.process.wait();
    }
}
