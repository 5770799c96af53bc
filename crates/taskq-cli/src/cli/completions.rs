//! `taskq completions`.

use clap::{Args, ValueEnum};

/// What `taskq completions` is told.
#[derive(Args, Debug)]
#[command(after_help = "\
Prints a script that the shell reads. Examples:
  bash        taskq completions bash > ~/.local/share/bash-completion/completions/taskq
  zsh         taskq completions zsh > ~/.zfunc/_taskq        # with fpath+=~/.zfunc before compinit
  fish        taskq completions fish > ~/.config/fish/completions/taskq.fish
  powershell  taskq completions powershell >> $PROFILE")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: ShellArg,
}

/// A shell that completes words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ShellArg {
    /// GNU bash.
    Bash,
    /// Zsh.
    Zsh,
    /// The friendly interactive shell.
    Fish,
    /// `PowerShell`.
    #[value(name = "powershell")]
    PowerShell,
}
