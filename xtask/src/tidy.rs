//! Checks that neither compiler nor linter makes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

/// The longest file that a reader is asked to take in.
const LONGEST_FILE: usize = 900;

/// The kinds of files that are written by hand and read by people.
const READ: [&str; 5] = ["rs", "sql", "sh", "toml", "md"];

/// Not ours, or made by a program.
const PASSED_OVER: [&str; 2] = ["target", ".git"];

/// Where every file defines one SQL function.
const SQL_FUNCTIONS: &str = "crates/taskq-postgres/sql/functions";

/// The faults of the repository at `root`, one line each.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut files = Vec::new();
    collect(root, &mut files)?;
    files.sort();

    let mut faults = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(&file);
        let lines = text.lines().count();
        if lines > LONGEST_FILE {
            faults.push(format!("{}: {lines} lines, more than {LONGEST_FILE}", name.display()));
        }
        if name.starts_with(SQL_FUNCTIONS) && has_extension(name, &["sql"]) && !text.starts_with("--") {
            let asks = "has no header comment (what it does, who calls it, which indexes and locks)";
            faults.push(format!("{}: {asks}", name.display()));
        }
    }
    faults.extend(stale_mutations(root)?);
    Ok(faults)
}

/// The deliberate breaks that the code has moved away from. Nobody notices otherwise until they are run.
fn stale_mutations(root: &Path) -> anyhow::Result<Vec<String>> {
    let Ok(entries) = fs::read_dir(root.join("mutations")) else {
        return Ok(Vec::new());
    };
    let mut stale = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if !has_extension(&path, &["patch"]) {
            continue;
        }
        let mut git = Command::new("git");
        git.current_dir(root).args(["apply", "--check"]).arg(&path).stderr(Stdio::null());
        if !git.status().context("cannot run git")?.success() {
            let name = path.strip_prefix(root).unwrap_or(&path);
            stale.push(format!("{}: does not fit the code any more", name.display()));
        }
    }
    stale.sort();
    Ok(stale)
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        let kind = entry.file_type()?;
        if kind.is_dir() && !PASSED_OVER.iter().any(|name| entry.file_name() == *name) {
            collect(&path, files)?;
        } else if kind.is_file() && has_extension(&path, &READ) {
            files.push(path);
        }
    }
    Ok(())
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().is_some_and(|found| extensions.iter().any(|extension| found == *extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_found() {
        let root = std::env::temp_dir().join(format!("taskq-tidy-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("src/long.rs", &"\n".repeat(LONGEST_FILE + 1));
        write("src/full.rs", &"\n".repeat(LONGEST_FILE));
        write("target/long.rs", &"\n".repeat(LONGEST_FILE + 1));
        write("crates/taskq-postgres/sql/functions/bare.sql", "CREATE FUNCTION f();\n");
        write("crates/taskq-postgres/sql/functions/told.sql", "-- Does something.\nCREATE FUNCTION g();\n");
        write("crates/taskq-postgres/sql/migrations/bare.sql", "CREATE TABLE t ();\n");

        let patch = |from: &str| {
            format!(
                "# Breaks it.\n--- a/src/code.rs\n+++ b/src/code.rs\n@@ -1 +1 @@\n-{from}\n+fn broken() {{}}\n"
            )
        };
        write("src/code.rs", "fn whole() {}\n");
        write("mutations/fits.patch", &patch("fn whole() {}"));
        write("mutations/stale.patch", &patch("fn earlier() {}"));

        let faults = check(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert_eq!(faults[2], "mutations/stale.patch: does not fit the code any more");
        assert!(faults[0].starts_with("crates/taskq-postgres/sql/functions/bare.sql: has no header"));
        assert!(faults[1].starts_with("src/long.rs: 901 lines"));
    }
}
