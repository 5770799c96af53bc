//! SQL text as far as migrations must understand it: comments, literals, statements.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// A piece of a SQL text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Piece<'a> {
    /// White space or a comment.
    Gap,
    /// The end of a statement.
    Semicolon,
    /// A literal, a quoted identifier, a dollar-quoted body: taken as it stands.
    Quoted(&'a str),
    /// Anything else up to the next of the above.
    Plain(&'a str),
}

/// Returns the text without comments, each run of white space outside quotes turned into one space.
pub(super) fn normalise(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut gap = false;
    for piece in pieces(sql) {
        let text = match piece {
            Piece::Gap => {
                gap = !out.is_empty();
                continue;
            }
            Piece::Semicolon => ";",
            Piece::Quoted(text) | Piece::Plain(text) => text,
        };
        if std::mem::take(&mut gap) {
            out.push(' ');
        }
        out.push_str(text);
    }
    out
}

/// Returns the hash of the normalised text: comments and blank lines do not count.
pub(super) fn checksum(sql: &str) -> String {
    hex(&Sha256::digest(normalise(sql)))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// Splits a text into its statements, without comments.
pub(super) fn statements(sql: &str) -> Vec<String> {
    let mut statements = vec![String::new()];
    for piece in pieces(sql) {
        let current = statements.last_mut().expect("there is always a last statement");
        match piece {
            Piece::Gap if current.is_empty() => {}
            Piece::Gap => current.push(' '),
            Piece::Semicolon => statements.push(String::new()),
            Piece::Quoted(text) | Piece::Plain(text) => current.push_str(text),
        }
    }
    statements.retain(|statement| !statement.trim().is_empty());
    statements
}

/// Says whether a statement builds or drops an index beside the traffic.
pub(super) fn is_concurrent(statement: &str) -> bool {
    words(statement).take(5).any(|word| word.eq_ignore_ascii_case("CONCURRENTLY"))
}

/// The index that a statement builds beside the traffic, if it is one that may be run again.
pub(super) fn index_built(statement: &str) -> Option<&str> {
    let mut words = words(statement);
    let mut is_next = |wanted: &str| words.next().is_some_and(|word| word.eq_ignore_ascii_case(wanted));
    if !is_next("CREATE") {
        return None;
    }
    if !is_next("INDEX") && !is_next("INDEX") {
        return None;
    }
    let is_safe = ["CONCURRENTLY", "IF", "NOT", "EXISTS"].into_iter().all(is_next);
    is_safe.then(|| words.next()).flatten()
}

fn words(statement: &str) -> impl Iterator<Item = &str> {
    statement.split_whitespace()
}

/// Divides a text into its pieces. Whatever is not closed reaches to the end.
fn pieces(sql: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = sql;
    // A letter before a quote or a dollar changes what it means.
    let mut before = ' ';
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let (length, make): (usize, fn(&str) -> Piece<'_>) = if first.is_whitespace() {
            (rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len()), |_| Piece::Gap)
        } else if rest.starts_with("--") {
            (rest.find('\n').unwrap_or(rest.len()), |_| Piece::Gap)
        } else if rest.starts_with("/*") {
            (block_comment(rest), |_| Piece::Gap)
        } else if first == ';' {
            (1, |_| Piece::Semicolon)
        } else if first == '\'' || first == '"' {
            let escapes = first == '\'' && (before == 'e' || before == 'E');
            (quoted(rest, first, escapes), |text| Piece::Quoted(text))
        } else if let Some(length) = dollar_quoted(rest, before) {
            (length, |text| Piece::Quoted(text))
        } else {
            (plain(rest), |text| Piece::Plain(text))
        };
        let (piece, after) = rest.split_at(length);
        before = piece.chars().next_back().unwrap_or(' ');
        rest = after;
        Some(make(piece))
    })
}

/// The length of a block comment; they nest.
fn block_comment(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_u32);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    text.len()
}

/// The length of a quoted text; a doubled quote stays inside.
fn quoted(text: &str, quote: char, escapes: bool) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if escapes && c == '\\' {
            chars.next();
        } else if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return at + 1;
        }
    }
    text.len()
}

/// The length of a dollar-quoted text, if one starts here.
fn dollar_quoted(text: &str, before: char) -> Option<usize> {
    if !text.starts_with('$') || before.is_alphanumeric() || before == '_' || before == '$' {
        return None;
    }
    let tag = &text[..text[1..].find('$')? + 2];
    let name = &tag[1..tag.len() - 1];
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    if !is_name {
        return None;
    }
    let body = &text[tag.len()..];
    Some(body.find(tag).map_or(text.len(), |end| tag.len() * 2 + end))
}

/// The length of what needs no care, at least one character.
fn plain(text: &str) -> usize {
    let special = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | ';' | '$' | '-' | '/');
    let first = text.chars().next().map_or(0, char::len_utf8);
    text[first..].find(special).map_or(text.len(), |at| first + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_white_space_do_not_count() {
        let plain = "CREATE TABLE t (a int); SELECT 1 - 2 / 3;";
        let same = "-- head; with 'quotes'\n\nCREATE  TABLE t (a /* x /* y */ ; z */ int);\n\
                    -- c\r\nSELECT 1 - 2 / 3;\n-- tail";
        assert_eq!(normalise(same), plain);
        assert_eq!(checksum(same), checksum(plain));
    }

    #[test]
    fn what_is_quoted_counts() {
        for (left, right) in [
            ("SELECT '-- a'", "SELECT '-- b'"),
            ("SELECT 'a  b'", "SELECT 'a b'"),
            ("SELECT 'it''s -- x'", "SELECT 'it''s -- y'"),
            ("SELECT E'it\\'s -- x'", "SELECT E'it\\'s -- y'"),
            ("SELECT 1 AS \"a--b\"", "SELECT 1 AS \"a--c\""),
            ("DO $$ BEGIN -- x\nEND $$", "DO $$ BEGIN -- y\nEND $$"),
            ("DO $a$ $$ -- x $a$", "DO $a$ $$ -- y $a$"),
            ("SELECT 1", "SELECT 2"),
        ] {
            assert_ne!(checksum(left), checksum(right), "{left}");
        }
        assert_eq!(normalise("SELECT 'a\\' -- gone\n, 'b'"), "SELECT 'a\\' , 'b'");
    }

    #[test]
    fn statements_end_at_semicolons_outside_quotes() {
        let sql = "-- x;\nSELECT ';', $$;$$, $t$;$t$ /* ; */;\n\nCREATE INDEX a$b ON t (c);;\n";
        assert_eq!(statements(sql), ["SELECT ';', $$;$$, $t$;$t$  ", "CREATE INDEX a$b ON t (c)"]);
    }

    #[test]
    fn what_is_built_beside_the_traffic_is_known() {
        for (statement, index) in [
            ("CREATE INDEX CONCURRENTLY IF NOT EXISTS a ON t (b)", Some("a")),
            ("create unique index concurrently if not exists a ON t (b)", Some("a")),
            ("CREATE INDEX CONCURRENTLY a ON t (b)", None),
            ("DROP INDEX CONCURRENTLY IF EXISTS a", None),
        ] {
            assert!(is_concurrent(statement), "{statement}");
            assert_eq!(index_built(statement), index, "{statement}");
        }
        assert!(!is_concurrent("CREATE INDEX IF NOT EXISTS a ON t (b)"));
        assert_eq!(index_built("CREATE TABLE concurrently (a int)"), None);
    }

    #[test]
    fn what_is_not_closed_reaches_to_the_end() {
        for sql in ["'abc", "\"abc", "$$abc", "$abc", "/* abc", "-- abc", "E'\\", "é€", "$1 $é$"] {
            normalise(sql);
            statements(sql);
        }
    }
}
