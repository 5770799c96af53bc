//! Every setting with the places that it can be given in.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory};

use super::{MADE, cell};
use crate::cli::Cli;
use crate::config::FILE_SETTINGS;

/// Writes the page.
pub(super) fn page() -> String {
    let mut root = Cli::command();
    root.build();
    let worker = root.find_subcommand("worker").cloned().unwrap_or_default();
    let mut page = format!("{MADE}\n# Settings\n\n");
    page.push_str(
        "A flag comes before a variable, a variable before the file of `taskq worker --config FILE`. An empty variable \
         counts as not set. Everything that is wrong is reported at once, each with where it was given: the flag, the \
         variable, or the file with its line. Durations are written as `90s`, `5m` or `2h`.\n\n\
         | file | flag | variable | meaning |\n|---|---|---|---|\n",
    );
    for (key, says) in FILE_SETTINGS {
        let arg = argument(&root, &worker, key);
        let flag = arg.and_then(Arg::get_long).map_or("", |long| long);
        let variable = arg.and_then(Arg::get_env).map(|name| name.to_string_lossy().into_owned());
        let help = arg.and_then(Arg::get_help).map(ToString::to_string).unwrap_or_default();
        let meaning = if says.is_empty() { cell(&help) } else { cell(says) };
        let flag = if flag.is_empty() { String::new() } else { format!("`--{flag}`") };
        let variable = variable.map(|name| format!("`{name}`")).unwrap_or_default();
        let _ = writeln!(page, "| `{key}` | {flag} | {variable} | {meaning} |");
    }
    page.push_str(
        "\nThe other variables: `COLUMNS` is how wide tables may be where there is no terminal; `TASKQ_PG` says which \
         PostgreSQL `taskq dev`, `demo` and `bench` start: `auto`, `fetch` or the directory of its programs.\n\n\
         What the database itself keeps, for every worker, `taskq leader` lists with its value; `SELECT taskq.set_setting(NAME, \
         VALUE)` changes it at once.\n\n\
         ## A file\n\n```toml\n",
    );
    page.push_str(crate::config::EXAMPLE_FILE);
    page.push_str("```\n");
    page
}

/// The argument that gives the same as a key of the file.
fn argument<'a>(root: &'a Command, worker: &'a Command, key: &str) -> Option<&'a Arg> {
    let named = |arg: &&Arg| arg.get_id().as_str() == key;
    root.get_arguments().find(named).or_else(|| worker.get_arguments().find(named))
}
