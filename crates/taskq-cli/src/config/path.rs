//! Finding programs as the system does.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Checks that a program can be found: at its path if it has a slash, else in one of the directories of
/// `search` (the value of `PATH`).
pub(crate) fn find_program(program: &str, search: Option<&OsStr>) -> Result<(), String> {
    if program.contains('/') {
        let path = Path::new(program);
        return match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() && is_executable(&metadata) => Ok(()),
            Ok(metadata) if metadata.is_dir() => Err(format!("`{program}` is a directory")),
            Ok(_) => Err(format!("`{program}` is not executable")),
            Err(error) => Err(format!("cannot run `{program}`: {error}")),
        };
    }
    let found = search.is_some_and(|search| {
        std::env::split_paths(search).any(|directory| {
            fs::metadata(directory.join(program))
                .is_ok_and(|metadata| metadata.is_file() && is_executable(&metadata))
        })
    });
    if found { Ok(()) } else { Err(format!("the program `{program}` is not in PATH")) }
}

fn is_executable(metadata: &fs::Metadata) -> bool {
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_the_system_finds_them() {
        let search = Some(OsStr::new("/nonexistent:/bin:/usr/bin"));
        assert_eq!(find_program("sh", search), Ok(()));
        assert_eq!(find_program("/bin/sh", None), Ok(()));
        assert!(find_program("sh", None).is_err());
        assert!(find_program("no-such-program", search).unwrap_err().contains("not in PATH"));
        assert!(find_program("/bin", search).unwrap_err().contains("directory"));
        assert!(find_program("/etc/passwd", search).unwrap_err().contains("not executable"));
        assert!(find_program("./nothing-here", search).unwrap_err().contains("cannot run"));
    }
}
