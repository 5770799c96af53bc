//! The guide: its console snippets are run, its links lead somewhere. Its Rust is compiled with the crate `taskq`.

use std::path::{Path, PathBuf};
use std::process::Command;

use taskq_testkit::{ChildProcess, PgSource, TestDatabase, shared_server};

use crate::harness::{Database, WITHIN};

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide");

/// Every page with its text, by name.
fn pages() -> Vec<(PathBuf, String)> {
    let files = std::fs::read_dir(GUIDE).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> =
        files.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect();
    pages.sort();
    pages
}

/// What a reader is told to type, in order.
fn commands(text: &str) -> Vec<&str> {
    let mut in_console = false;
    let mut commands = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(language) => in_console = language == "console",
            None if in_console => {
                let command = line.strip_prefix("$ ");
                commands.push(command.unwrap_or_else(|| panic!("it is not said to be typed: {line}")));
            }
            None => {}
        }
    }
    commands
}

/// Runs a page's commands in one shell.
async fn run(page: &Path, commands: &[&str], database: &TestDatabase) {
    let taskq = Path::new(env!("CARGO_BIN_EXE_taskq")).parent().unwrap();
    let programs = PgSource::from_env().unwrap().resolve().unwrap().bin_dir().to_owned();
    let path = format!("{}:{}:{}", taskq.display(), programs.display(), std::env::var("PATH").unwrap());
    // Nothing that it leaves in the background outlives it.
    let script = format!(
        "set -euo pipefail; trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{}",
        commands.join("\n")
    );
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(script).env("PATH", path).env("TASKQ_PG_DSN", database.dsn());
    let mut bash = ChildProcess::spawn(&mut bash).unwrap();
    let status = bash.wait(WITHIN * 3).await;
    assert!(status.success(), "{}: {status}: {:#?} {:#?}", page.display(), bash.stdout(), bash.stderr());
}

#[tokio::test]
async fn what_the_guide_says_to_type_works() {
    let mut pages_with_commands = 0;
    for (page, text) in pages() {
        let commands = commands(&text);
        if commands.is_empty() {
            continue;
        }
        pages_with_commands += 1;
        if commands.iter().any(|command| command.starts_with("taskq migrate")) {
            run(&page, &commands, &shared_server().await.empty_database().await.unwrap()).await;
        } else {
            run(&page, &commands, &Database::new().await.database).await;
        }
    }
    assert!(pages_with_commands >= 6, "{pages_with_commands} pages with commands");
}

#[test]
fn the_guide_links_to_what_is_there_and_lists_its_pages() {
    let pages = pages();
    let index = &pages.iter().find(|(page, _)| page.ends_with("README.md")).unwrap().1;
    for (page, text) in &pages {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(name == "README.md" || index.contains(&format!("]({name})")), "{name} is not in the index");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap();
            assert!(file.is_empty() || Path::new(GUIDE).join(file).exists(), "{name} links to {target}");
        }
    }
}
