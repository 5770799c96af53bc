//! Literals, for statements that carry their values in their text.

/// Writes a literal that reads the same whatever `standard_conforming_strings` says.
pub(super) fn literal(sql: &mut String, text: &str) {
    sql.push_str("E'");
    for character in text.chars() {
        if matches!(character, '\'' | '\\') {
            sql.push(character);
        }
        sql.push(character);
    }
    sql.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_ends_where_it_should() {
        let mut sql = String::new();
        literal(&mut sql, r#"{"a": "it's \" $1"}"#);
        assert_eq!(sql, r#"E'{"a": "it''s \\" $1"}'"#);
    }
}
