//! The pages of the reference, which the binary prints of itself.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// The pages: what the binary calls each, and where it goes.
const PAGES: [(&str, &str); 2] =
    [("cli", "docs/reference/cli.md"), ("settings", "docs/reference/settings.md")];

/// Says which pages differ from what the binary prints, and unless they are only checked, writes them.
pub(crate) fn run(root: &Path, check: bool) -> anyhow::Result<Vec<&'static str>> {
    let mut stale = Vec::new();
    for (page, path) in PAGES {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(root).args([
            "run",
            "--quiet",
            "--locked",
            "-p",
            "taskq-cli",
            "--",
            "reference",
            page,
        ]);
        let output = cargo.output().context("cannot run cargo")?;
        ensure!(
            output.status.success(),
            "`taskq reference {page}` failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let file = root.join(path);
        if fs::read(&file).is_ok_and(|written| written == output.stdout) {
            continue;
        }
        if !check {
            fs::create_dir_all(file.parent().context("a page has a directory")?)?;
            fs::write(&file, &output.stdout).with_context(|| format!("cannot write {path}"))?;
        }
        stale.push(path);
    }
    Ok(stale)
}
