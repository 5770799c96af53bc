//! The deliberate breaks: patches with a header that says what they break and which test must notice.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// What stands before the command in a header.
const TEST: &str = "# test:";

/// A deliberate break.
#[derive(Debug)]
pub(crate) struct Mutation {
    /// The file's name without its extension.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// What is broken, in one line.
    pub(crate) what: String,
    /// The arguments of the cargo command that must fail.
    pub(crate) test: Vec<String>,
}

/// The mutations in `directory` whose name contains `filter`, by name.
pub(crate) fn read(directory: &Path, filter: &str) -> anyhow::Result<Vec<Mutation>> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut mutations = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "patch") {
            let text = fs::read_to_string(&path);
            let mutation = text.map_err(Into::into).and_then(|text| parse(path.clone(), &text));
            mutations.push(mutation.with_context(|| path.display().to_string())?);
        }
    }
    mutations.retain(|mutation| mutation.name.contains(filter));
    mutations.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(mutations)
}

fn parse(path: PathBuf, text: &str) -> anyhow::Result<Mutation> {
    let header: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
    let mut commands = header.iter().filter_map(|line| line.strip_prefix(TEST));
    let command = commands.next().with_context(|| format!("the header has no line `{TEST} cargo test …`"))?;
    if commands.next().is_some() {
        bail!("the header names two commands");
    }
    let mut words = command.split_whitespace().map(ToOwned::to_owned);
    if (words.next().as_deref(), words.next().as_deref()) != (Some("cargo"), Some("test")) {
        bail!("the command is not `cargo test …`");
    }
    let what: Vec<&str> = header
        .iter()
        .filter(|line| !line.starts_with(TEST))
        .map(|line| line.trim_start_matches('#').trim())
        .collect();
    if what.is_empty() {
        bail!("the header does not say what is broken");
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Mutation { name, path, what: what.join(" "), test: words.collect() })
}

impl Mutation {
    /// The command as it stands in the header.
    pub(crate) fn command(&self) -> String {
        format!("cargo test {}", self.test.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_says_what_is_broken_and_what_must_notice() {
        let text =
            "# The fence does not\n# look.\n# test: cargo test -p x fence\n--- a/f\n+++ b/f\n# test: no\n";
        let mutation = parse("mutations/fence.patch".into(), text).unwrap();
        assert_eq!((mutation.name.as_str(), mutation.what.as_str()), ("fence", "The fence does not look."));
        assert_eq!(mutation.test, ["-p", "x", "fence"]);
        assert_eq!(mutation.command(), "cargo test -p x fence");
    }

    #[test]
    fn a_header_that_leaves_something_out_is_refused() {
        for text in [
            "--- a/f\n",
            "# What\n--- a/f\n",
            "# test: cargo test\n",
            "# What\n# test: cargo run\n",
            "# What\n# test: cargo test a\n# test: cargo test b\n",
        ] {
            assert!(parse("x.patch".into(), text).is_err(), "{text:?}");
        }
    }
}
