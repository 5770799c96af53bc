//! The two forms of a DSN, taken apart into options and their values.

/// What is wrong with a text, without its values: they may be secret.
pub(super) type Problem = String;

/// An option and its value, in the order in which they were given.
pub(super) type Pairs = Vec<(String, String)>;

/// Takes a URL (`postgres://…`) or libpq's `key=value` form apart.
pub(super) fn parse(text: &str) -> Result<Pairs, Problem> {
    let url = ["postgres://", "postgresql://"].into_iter().find_map(|scheme| text.strip_prefix(scheme));
    match url {
        Some(rest) => parse_url(rest),
        None => parse_pairs(text),
    }
}

fn parse_url(rest: &str) -> Result<Pairs, Problem> {
    let mut pairs = Pairs::new();
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let (authority, database) = rest.split_once('/').map_or((rest, ""), |(hosts, name)| (hosts, name));
    let (login, servers) =
        authority.rsplit_once('@').map_or(("", authority), |(login, hosts)| (login, hosts));
    let (user, password) = login.split_once(':').map_or((login, None), |(user, word)| (user, Some(word)));
    let mut put = |key: &str, value: &str| -> Result<(), Problem> {
        if !value.is_empty() {
            pairs.push((key.to_owned(), decode(value).ok_or_else(|| bad_escape(key))?));
        }
        Ok(())
    };
    put("user", user)?;
    put("password", password.unwrap_or_default())?;
    put("dbname", database)?;
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for server in servers.split(',') {
        let (host, port) = host_and_port(server)?;
        hosts.push(host);
        ports.push(port);
    }
    for (key, values) in [("host", hosts), ("port", ports)] {
        if values.iter().any(|value| !value.is_empty()) {
            put(key, &values.join(","))?;
        }
    }
    for parameter in query.into_iter().flat_map(|query| query.split('&')).filter(|part| !part.is_empty()) {
        let (key, value) =
            parameter.split_once('=').ok_or_else(|| "a parameter of the URL has no value".to_owned())?;
        let key = decode(key).ok_or_else(|| bad_escape("a parameter"))?;
        let value = decode(value).ok_or_else(|| bad_escape(&key))?;
        // As other drivers say it.
        match (key.as_str(), value.as_str()) {
            ("ssl", "true") => pairs.push(("sslmode".to_owned(), "require".to_owned())),
            _ => pairs.push((key, value)),
        }
    }
    Ok(pairs)
}

fn host_and_port(server: &str) -> Result<(&str, &str), Problem> {
    if let Some(rest) = server.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(|| "the host has a [ without its ]".to_owned())?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, port)),
            None if rest.is_empty() => Ok((host, "")),
            None => Err("something follows the ] of the host".to_owned()),
        };
    }
    Ok(server.rsplit_once(':').unwrap_or((server, "")))
}

fn bad_escape(what: &str) -> Problem {
    format!("{what}: a % is not followed by the two digits of a byte, or the bytes are no text")
}

/// Replaces what is written as `%` and two hexadecimal digits.
fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let value = digit(bytes.next()?)? * 16 + digit(bytes.next()?)?;
            decoded.push(u8::try_from(value).ok().filter(|byte| *byte != 0)?);
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).ok()
}

fn parse_pairs(text: &str) -> Result<Pairs, Problem> {
    let mut pairs = Pairs::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        let Some(value) = after.trim_start().strip_prefix('=') else {
            // It may be a password that was not quoted.
            return Err(
                "something that is no key=value pair, nor a URL that begins with postgres://".to_owned()
            );
        };
        let (value, after) = value_of(key, value.trim_start())?;
        pairs.push((key.to_owned(), value));
        rest = after.trim_start();
    }
    Ok(pairs)
}

/// Reads a value, in quotes or up to the next space; a backslash takes the next character as it is.
fn value_of<'a>(key: &str, text: &'a str) -> Result<(String, &'a str), Problem> {
    let quoted = text.starts_with('\'');
    let start = usize::from(quoted);
    let mut value = String::new();
    let mut characters = text[start..].char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => value.extend(characters.next().map(|(_, next)| next)),
            '\'' if quoted => return Ok((value, &text[start + at + 1..])),
            c if !quoted && c.is_whitespace() => return Ok((value, &text[at..])),
            c => value.push(c),
        }
    }
    if quoted { Err(format!("{key}: the quote is not closed")) } else { Ok((value, "")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        let pairs = parse(text).unwrap();
        pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn urls_are_taken_apart() {
        assert_eq!(parsed("postgres://"), "");
        assert_eq!(parsed("postgresql:///d"), "dbname=d");
        assert_eq!(
            parsed("postgres://u%40x:p%3a%2f@a:1,[::1]:2,c/d?sslmode=disable&options=-c%20a%3db"),
            "user=u@x|password=p:/|dbname=d|host=a,::1,c|port=1,2,|sslmode=disable|options=-c a=b"
        );
        assert_eq!(parsed("postgres://%2Ftmp/d?ssl=true"), "dbname=d|host=/tmp|sslmode=require");
        for bad in [
            "postgres://a%zz",
            "postgres://[::1/d",
            "postgres://[::1]x/d",
            "postgres://a?x",
            "postgres://%00",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn pairs_are_taken_apart() {
        assert_eq!(parsed(" host = a  port=1"), "host=a|port=1");
        assert_eq!(parsed(r"password='it\'s \\' user=a\ b options=''"), r"password=it's \|user=a b|options=");
        for bad in ["host", "host=a b", "password='x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
