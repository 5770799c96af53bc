//! The two other roles of this binary: the guard, and the first stage of a program.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, BufRead};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal};
use tokio::signal::unix::{SignalKind, signal};

use super::{GO, GUARD, START};
use crate::exit::{Exit, Failure};

/// What this binary is, other than the command line for people.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role<'a> {
    /// Kills the programs of a worker that died.
    Guard,
    /// Becomes a program once the guard knows its group.
    Start(&'a [OsString]),
}

impl<'a> Role<'a> {
    /// Finds the role that the arguments, this program's name first, ask for.
    pub(crate) fn of(arguments: &'a [OsString]) -> Option<Self> {
        match arguments {
            [_, role] if role == GUARD => Some(Self::Guard),
            [_, role, command @ ..] if role == START => Some(Self::Start(command)),
            _ => None,
        }
    }

    /// Plays the role to its end.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        match self {
            Self::Guard => guard_programs().map(|()| Exit::Done),
            Self::Start(command) => Err(start_program(command)),
        }
    }
}

/// Reads the worker's list of process groups until the worker is gone, then kills those still listed.
///
/// Signals that ask a whole service to stop are passed over: the worker stops its programs itself, and the
/// guard is needed for as long as the worker lives.
fn guard_programs() -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::failed(format!("the guard of programs cannot start: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
    let entered = runtime.enter();
    let passed_over = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()]
        .map(signal)
        .into_iter()
        .collect::<io::Result<Vec<_>>>()
        .map_err(failed)?;

    let groups = listed(io::stdin().lock());
    for group in &groups {
        // A group that ended by itself in this moment is gone, as wanted.
        let _ = rustix::process::kill_process_group(*group, Signal::KILL);
    }
    drop((passed_over, entered));
    Ok(())
}

/// Reads `+GROUP` and `-GROUP` lines; returns the groups that are left at the end. A last line without its line
/// break was cut off by the worker's death and counts: the program was spawned.
fn listed(lines: impl BufRead) -> HashSet<Pid> {
    let mut groups = HashSet::new();
    for line in lines.lines().map_while(Result::ok) {
        let Some((sign, number)) = line.split_at_checked(1) else { continue };
        let Some(group) = number.parse().ok().and_then(Pid::from_raw) else { continue };
        match sign {
            "+" => groups.insert(group),
            "-" => groups.remove(&group),
            _ => continue,
        };
    }
    groups
}

/// Waits until the worker has announced this process, then becomes the program. Returns only if that fails.
fn start_program(command: &[OsString]) -> Failure {
    let mut go = [0];
    // Not through the standard library's reader: it would take more of the payload than this byte.
    let read = loop {
        match rustix::io::read(io::stdin(), &mut go) {
            Err(rustix::io::Errno::INTR) => {}
            read => break read,
        }
    };
    if read != Ok(1) || go[0] != GO {
        return Failure::failed("the worker is gone");
    }
    let Some((program, arguments)) = command.split_first() else {
        return Failure::usage("no program is given");
    };
    let error = Command::new(program).args(arguments).exec();
    Failure::failed(format!("cannot run `{}`: {error}", program.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_and_not_removed_is_listed() {
        let pid = |number| Pid::from_raw(number).unwrap();
        let groups = listed(&b"+12\n+13\n-12\nnoise\n+\n-\n+14"[..]);
        assert_eq!(groups, HashSet::from([pid(13), pid(14)]));
    }
}
