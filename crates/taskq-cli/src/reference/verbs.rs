//! Every verb with its arguments, options and examples.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory};

use super::{MADE, cell};
use crate::cli::Cli;

/// Writes the page.
pub(super) fn page() -> String {
    let mut root = Cli::command();
    root.build();
    let mut page = format!("{MADE}\n# The command line\n\n");
    let _ = writeln!(page, "{}.\n", about(&root));
    let _ = writeln!(page, "```text\n{}\n```\n", after(&root));
    page.push_str("## Everywhere\n\n");
    options(&mut page, root.get_arguments().filter(|arg| arg.is_global_set()));
    for verb in shown(&root) {
        describe(&mut page, verb, "taskq");
    }
    page
}

fn describe(page: &mut String, command: &Command, parent: &str) {
    let name = format!("{parent} {}", command.get_name());
    let mut verbs = shown(command).peekable();
    if verbs.peek().is_none() {
        let _ = writeln!(page, "## {name}\n\n{}.\n", about(command));
        let usage = command.clone().render_usage().to_string();
        let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
        let _ = writeln!(page, "```text\n{usage}\n```\n");
        options(page, command.get_arguments().filter(|arg| !arg.is_global_set()));
    }
    if !after(command).is_empty() {
        if verbs.peek().is_some() {
            let _ = writeln!(page, "## {name} …\n\n{}.\n", about(command));
        }
        let _ = writeln!(page, "```text\n{}\n```\n", after(command));
    }
    for verb in verbs {
        describe(page, verb, &name);
    }
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
}

fn options<'a>(page: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    let rows: Vec<_> = arguments
        .filter(|arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version"))
        .map(|arg| format!("| `{}` | {} |", form(arg), meaning(arg)))
        .collect();
    if !rows.is_empty() {
        let _ = writeln!(page, "| option | meaning |\n|---|---|\n{}\n", rows.join("\n"));
    }
}

/// How an argument is written.
fn form(arg: &Arg) -> String {
    let values: Vec<_> = arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
    let values = if arg.get_action().takes_values() { values.join(" ") } else { String::new() };
    let written = match arg.get_long() {
        Some(long) if values.is_empty() => format!("--{long}"),
        Some(long) => format!("--{long} {values}"),
        None => values,
    };
    written.replace('|', "\\|")
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let mut text = cell(&help);
    if !text.ends_with('.') {
        text.push('.');
    }
    let choices: Vec<_> = if arg.is_hide_possible_values_set() || !arg.get_action().takes_values() {
        Vec::new()
    } else {
        arg.get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| format!("`{}`", value.get_name()))
            .collect()
    };
    if !choices.is_empty() {
        let _ = write!(text, " One of {}.", choices.join(", "));
    }
    if let [default] = arg.get_default_values()
        && !arg.is_hide_default_value_set()
        && arg.get_action().takes_values()
    {
        let _ = write!(text, " Default: `{}`.", default.to_string_lossy());
    }
    if let Some(variable) = arg.get_env() {
        let _ = write!(text, " Variable: `{}`.", variable.to_string_lossy());
    }
    text
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn after(command: &Command) -> String {
    command.get_after_help().map(ToString::to_string).unwrap_or_default()
}
