//! The reference pages, made from what the command line says of itself: `docs/reference/cli.md` and
//! `docs/reference/settings.md`. `cargo xtask gen` writes them, a test holds them against the files.

mod settings;
mod verbs;

/// The page of the verbs.
pub(crate) fn verbs() -> String {
    ended(&verbs::page())
}

/// The page of the settings.
pub(crate) fn settings() -> String {
    ended(&settings::page())
}

/// A file ends with one line break.
fn ended(page: &str) -> String {
    format!("{}\n", page.trim_end())
}

/// What stands at the head of every page.
const MADE: &str =
    "<!-- Made by `cargo xtask gen`; change the descriptions in crates/taskq-cli instead. -->\n";

/// One line of clap's text, without what would end a table's cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_pages_are_what_the_command_line_says() {
        for (name, page) in [("cli.md", super::verbs()), ("settings.md", super::settings())] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
            let written = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(written == page, "docs/reference/{name} is out of date: run `cargo xtask gen`");
        }
    }
}
