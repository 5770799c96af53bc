//! The files under a directory.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// What the walk left out, besides hidden entries and directories named `target`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Skipped {
    /// Symbolic links: none is followed.
    pub(crate) links: u64,
    /// Pipes, sockets and devices.
    pub(crate) special: u64,
    /// Files whose path is not UTF-8, which a JSON payload cannot say.
    pub(crate) not_utf8: u64,
    /// Directories that could not be read.
    pub(crate) unreadable: Vec<Unreadable>,
}

/// A directory that could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Unreadable {
    /// Its path.
    pub(crate) path: PathBuf,
    /// What the system said.
    pub(crate) error: String,
}

/// Visits the regular files under `root`, a directory at a time and in the order of their names, until `visit`
/// breaks.
///
/// # Errors
/// What the system says when `root` itself cannot be read. Directories below it are only noted.
pub(crate) fn walk(root: &Path, mut visit: impl FnMut(String) -> ControlFlow<()>) -> io::Result<Skipped> {
    let mut skipped = Skipped::default();
    let mut found = entries(root)?;
    let mut directory = root.to_owned();
    // A stack, not recursion: a tree may be deeper than a thread's stack allows.
    let mut pending = Vec::new();
    loop {
        let first_below = pending.len();
        for (name, kind) in found {
            let path = directory.join(&name);
            match kind {
                Kind::Directory if name.as_bytes() == b"target" => {}
                Kind::Directory => pending.push(path),
                Kind::File => match path.into_os_string().into_string() {
                    Ok(path) => {
                        if visit(path).is_break() {
                            return Ok(skipped);
                        }
                    }
                    Err(_) => skipped.not_utf8 += 1,
                },
                Kind::Link => skipped.links += 1,
                Kind::Special => skipped.special += 1,
            }
        }
        pending[first_below..].reverse();
        let Some(next) = pending.pop() else { break };
        directory = next;
        found = entries(&directory).unwrap_or_else(|error| {
            skipped.unreadable.push(Unreadable { path: directory.clone(), error: error.to_string() });
            Vec::new()
        });
    }
    Ok(skipped)
}

enum Kind {
    Directory,
    File,
    Link,
    Special,
}

fn entries(directory: &Path) -> io::Result<Vec<(std::ffi::OsString, Kind)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_bytes().starts_with(b".") {
            continue;
        }
        let file_type = entry.file_type()?;
        let kind = if file_type.is_dir() {
            Kind::Directory
        } else if file_type.is_file() {
            Kind::File
        } else if file_type.is_symlink() {
            Kind::Link
        } else {
            Kind::Special
        };
        found.push((name, kind));
    }
    found.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn regular_files_are_found_in_order() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for directory in ["b/deep", ".git", "target", "b/target"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for file in ["z", "a", "b/x", "b/deep/y", ".hidden", ".git/c", "target/d", "b/target/e", "a b\nc"] {
            fs::write(root.join(file), "").unwrap();
        }
        fs::write(root.join(std::ffi::OsStr::from_bytes(b"bad\xff")), "").unwrap();
        std::os::unix::fs::symlink("/", root.join("link")).unwrap();
        let _socket = UnixListener::bind(root.join("socket")).unwrap();

        let mut files = Vec::new();
        let skipped = walk(root, |file| {
            files.push(file.strip_prefix(root.to_str().unwrap()).unwrap()[1..].to_owned());
            ControlFlow::Continue(())
        });
        let skipped = skipped.unwrap();
        assert_eq!(files, ["a", "a b\nc", "z", "b/x", "b/deep/y"]);
        assert_eq!(skipped, Skipped { links: 1, special: 1, not_utf8: 1, unreadable: vec![] });
    }

    #[test]
    fn a_walk_can_be_stopped() {
        let root = tempfile::tempdir().unwrap();
        for file in ["a", "b"] {
            fs::write(root.path().join(file), "").unwrap();
        }
        let mut seen = 0;
        walk(root.path(), |_| {
            seen += 1;
            ControlFlow::Break(())
        })
        .unwrap();
        assert_eq!(seen, 1);
        assert!(walk(&root.path().join("gone"), |_| ControlFlow::Continue(())).is_err());
    }
}
