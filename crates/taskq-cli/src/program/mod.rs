//! Programs as actors: each attempt is one run of a program, in its own process group and without a shell.
//!
//! Three processes take part besides the worker. `program-start`, this binary again, is what the worker really
//! spawns: it waits for one byte on its standard input and then becomes the program. Before the worker writes
//! that byte it tells the *guard* the process group. So there is no moment at which the program runs and the
//! guard does not know it: when the worker is killed in between, `program-start` meets the end of its input and
//! ends. The guard, this binary too, in a process group of its own, reads the groups from a pipe whose other
//! end only the worker holds; at the end of that pipe it kills the groups that are still listed.

mod capture;
mod guard;
mod handler;
mod outcome;
mod run;
mod stages;

pub(crate) use guard::Guard;
pub(crate) use handler::ProgramHandler;
pub(crate) use stages::Role;

use outcome::outcome;
use run::Ended;

/// The word that makes this binary the guard.
const GUARD: &str = "program-guard";
/// The word that makes this binary a program's first stage.
const START: &str = "program-start";
/// What a program's first stage waits for.
const GO: u8 = b'!';

/// This binary, to be run again. On Linux the name stays right when the file is replaced by an upgrade.
pub(crate) fn this_binary() -> std::io::Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}
