//! The password file.

use std::fs;
use std::path::Path;

/// What a line of the file is to fit.
pub(super) struct Wanted<'a> {
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) database: &'a str,
    pub(super) user: &'a str,
}

/// Looks a password up; `None` when no line fits.
///
/// # Errors
/// Why the file cannot be used: it cannot be read, or others can read it as well.
pub(super) fn look_up(path: &Path, wanted: &Wanted<'_>) -> Result<Option<String>, String> {
    let refuse = |problem: &dyn std::fmt::Display| format!("the password file {}: {problem}", path.display());
    let metadata = fs::metadata(path).map_err(|error| refuse(&error))?;
    // `/dev/null` says that there is none.
    if !metadata.is_file() {
        return Ok(None);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(refuse(&"the group or others have access to it: chmod 0600"));
        }
    }
    let text = fs::read_to_string(path).map_err(|error| refuse(&error))?;
    Ok(text.lines().find_map(|line| password_of(line, wanted)))
}

fn password_of(line: &str, wanted: &Wanted<'_>) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let port = wanted.port.to_string();
    let mut rest = line;
    for value in [wanted.host, &port, wanted.database, wanted.user] {
        let (field, after) = field_of(rest)?;
        if field != value && rest.split(':').next() != Some("*") {
            return None;
        }
        rest = after;
    }
    // What is left may have colons of its own; a backslash takes the next character as it is.
    let mut password = String::new();
    let mut characters = rest.chars();
    while let Some(character) = characters.next() {
        password.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    Some(password)
}

/// Splits a line at its first colon that no backslash precedes.
fn field_of(text: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => field.extend(characters.next().map(|(_, next)| next)),
            ':' => return Some((field, &text[at + 1..])),
            character => field.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Option<String> {
        password_of(line, &Wanted { host: "db:1", port: 5432, database: "app", user: "web" })
    }

    #[test]
    fn lines_fit_by_their_fields() {
        assert_eq!(found(r"db\:1:5432:app:web:secret").as_deref(), Some("secret"));
        assert_eq!(found(r"*:*:*:*:a\:b\\c:d").as_deref(), Some(r"a:b\c:d"));
        for other in [r"db:5432:app:web:x", "*:5433:app:web:x", "*:*:app:*", "#*:*:*:*:x", "", r"\*:*:*:*:x"]
        {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
