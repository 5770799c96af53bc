//! The process that starts, stops and removes a private server for its owner, and outlives it long enough to clean up.

use std::env;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::account::Account;
use crate::random;

const SCRIPT: &str = include_str!("keeper.sh");

/// A running keeper and the server's directory, which it removes when this value goes away.
pub(crate) struct Keeper {
    account: Account,
    bin_dir: PathBuf,
    directory: PathBuf,
    process: Child,
    /// Closed to tell the keeper to clean up; the system closes it when the owner dies.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// What the keeper answers to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Failed,
}

impl Keeper {
    /// Makes a new directory with `files` in it, owned by `account` and closed to others, and a keeper for it.
    pub(crate) fn spawn(account: &Account, bin_dir: &Path, files: &[(&str, &str)]) -> io::Result<Self> {
        let directory = account.server_root().join(format!("taskq-pg-{}", random::token()?));
        DirBuilder::new().mode(0o700).create(&directory)?;
        let keeper = fill(account, &directory, files)
            .and_then(|()| spawn_script(account, bin_dir, &directory))
            .and_then(|process| {
                Self::around(process, account.clone(), bin_dir.to_owned(), directory.clone())
            });
        if keeper.is_err() {
            // Without a keeper there is nobody else to do it; the error that matters is the first one.
            let _ = fs::remove_dir_all(&directory);
        }
        keeper
    }

    fn around(
        mut process: Child,
        account: Account,
        bin_dir: PathBuf,
        directory: PathBuf,
    ) -> io::Result<Self> {
        let commands = process.stdin.take();
        let answers = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { account, bin_dir, directory, process, commands, answers: BufReader::new(answers) })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// Sends one command and waits for the answer; an error means that the keeper is gone.
    pub(crate) fn ask(&mut self, command: &str) -> io::Result<Answer> {
        let mut commands = self.commands.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(commands, "{command}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        match answer.trim_end() {
            "ok" => Ok(Answer::Done),
            "failed" => Ok(Answer::Failed),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Ends the keeper and leaves the server and its directory as they are.
    pub(crate) fn leave(&mut self) -> io::Result<()> {
        self.ask("leave")?;
        self.commands = None;
        self.process.wait().map(drop)
    }

    /// Lets the keeper stop the server and remove the directory, and waits until it has.
    pub(crate) fn clean_up(&mut self) -> io::Result<()> {
        if self.commands.take().is_none() {
            return Ok(());
        }
        if !self.process.wait()?.success() {
            // Somebody killed it. Another one finds the server by its directory.
            let mut successor = spawn_script(&self.account, &self.bin_dir, &self.directory)?;
            drop(successor.stdin.take());
            successor.wait()?;
        }
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Best effort: nobody is left to hear of a failure.
        let _ = self.clean_up();
    }
}

/// Writes all files before the directory is handed over, so that root never follows a link another account planted.
fn fill(account: &Account, directory: &Path, files: &[(&str, &str)]) -> io::Result<()> {
    for (name, content) in files.iter().chain(&[("keeper.sh", SCRIPT)]) {
        let path = directory.join(name);
        fs::write(&path, content)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        account.give(&path)?;
    }
    account.give(directory)
}

fn spawn_script(account: &Account, bin_dir: &Path, directory: &Path) -> io::Result<Child> {
    let mut command = Command::new("/bin/sh");
    command.arg(directory.join("keeper.sh")).arg(bin_dir).arg(directory);
    account.apply(&mut command);
    // The caller's PGDATA, PGPORT and the like are about other servers.
    for (name, _) in env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
        command.env_remove(name);
    }
    // The server's messages are looked at, so they must not be translated.
    command.env("LC_ALL", "C");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Its own group: what ends the owner's group, such as Ctrl-C, does not reach it.
    command.process_group(0).spawn()
}
