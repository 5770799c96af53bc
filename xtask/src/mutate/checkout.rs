//! A scratch copy of the checkout, where things may be broken.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::patch::Mutation;

/// A work tree of its own, removed when it is dropped.
pub(crate) struct Checkout {
    root: PathBuf,
    path: PathBuf,
    /// Held against a second run at the same time.
    _lock: File,
}

impl Checkout {
    /// Copies what git tracks at `root`, changes that are not committed included, to a directory in `place`.
    pub(crate) fn create(root: &Path, place: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(place)?;
        let lock = File::create(place.join("lock"))?;
        lock.try_lock().context("another run is under way")?;
        let path = place.join("checkout");
        // One that a killed run left.
        let _ = git(root, &["worktree", "remove", "--force", &path.to_string_lossy()]);
        let uncommitted = git(root, &["stash", "create"])?;
        let commit = if uncommitted.is_empty() { "HEAD" } else { &uncommitted };
        git(root, &["worktree", "add", "--quiet", "--detach", &path.to_string_lossy(), commit])?;
        Ok(Self { root: root.to_owned(), path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Breaks what the mutation breaks.
    pub(crate) fn apply(&self, mutation: &Mutation) -> anyhow::Result<()> {
        git(&self.path, &["apply", &mutation.path.to_string_lossy()]).map(drop)
    }

    /// Mends it.
    pub(crate) fn revert(&self, mutation: &Mutation) -> anyhow::Result<()> {
        git(&self.path, &["apply", "--reverse", &mutation.path.to_string_lossy()]).map(drop)
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        // The next run removes what remains.
        let _ = git(&self.root, &["worktree", "remove", "--force", &self.path.to_string_lossy()]);
    }
}

/// Runs git; returns what it prints.
fn git(directory: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").current_dir(directory).args(arguments).output();
    let output = output.context("cannot run git")?;
    if !output.status.success() {
        bail!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
