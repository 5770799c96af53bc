//! The settings file of `taskq worker`.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::given::{Given, Problems, Source};
use crate::exit::Failure;

/// A file with every setting.
pub(crate) const EXAMPLE_FILE: &str = r#"dsn = "postgres://…"        # the command line and the environment come first
schema = "taskq"
pooled = "auto"             # whether a pooler in transaction mode is in between: or "yes", "no"
slots = 32                  # of each queue
cancel_grace = "30s"        # from SIGTERM to SIGKILL of a cancelled program
forced_grace = "10s"        # from SIGKILL until its job is abandoned
shutdown_grace = "30s"
lease = "30s"
event_retention_period = "7 days"   # while this worker leads, instead of the database's setting
event_retention_batch_size = 10000
log_level = "info"

[queues.files]
slots = 4                   # of this queue

[actors.sum]
command = "sha256sum"       # or ["sha256sum", "--binary"]
snooze = "60s"              # the delay after exit code 75
"#;

/// Every setting of the file, in the order of the reference; what has no flag of the same name says here what it means.
pub(crate) const FILE_SETTINGS: &[(&str, &str)] = &[
    ("dsn", ""),
    ("schema", ""),
    ("pooled", ""),
    ("queues.NAME", "A queue to serve; in place of all of these, `--queue Q`"),
    ("queues.NAME.slots", "How many jobs of this queue run at once"),
    ("slots", ""),
    ("actors.NAME", "An actor to serve; in place of all of these, `--actor NAME='COMMAND'`"),
    ("actors.NAME.command", "The program: a line that is split as a shell would, or a list of words"),
    ("actors.NAME.snooze", "How much later a job runs again after exit code 75 [default: 60s]"),
    ("cancel_grace", ""),
    ("forced_grace", ""),
    ("shutdown_grace", ""),
    ("lease", ""),
    ("event_retention_period", ""),
    ("event_retention_batch_size", ""),
    ("log_level", ""),
];

/// What a settings file says, unchecked but for its form.
#[derive(Default, Debug)]
pub(crate) struct FileSettings {
    pub(crate) dsn: Option<Given<String>>,
    pub(crate) schema: Option<Given<String>>,
    pub(crate) pooled: Option<Given<String>>,
    pub(crate) slots: Option<Given<String>>,
    pub(crate) cancel_grace: Option<Given<String>>,
    pub(crate) forced_grace: Option<Given<String>>,
    pub(crate) shutdown_grace: Option<Given<String>>,
    pub(crate) lease: Option<Given<String>>,
    pub(crate) event_retention_period: Option<Given<String>>,
    pub(crate) event_retention_batch_size: Option<Given<String>>,
    pub(crate) log_level: Option<Given<String>>,
    pub(crate) queues: Vec<QueueEntry>,
    pub(crate) actors: Vec<ActorEntry>,
}

/// A `[queues.NAME]` table.
#[derive(Debug)]
pub(crate) struct QueueEntry {
    pub(crate) name: Given<String>,
    pub(crate) slots: Option<Given<String>>,
}

/// An `[actors.NAME]` table.
#[derive(Debug)]
pub(crate) struct ActorEntry {
    pub(crate) name: Given<String>,
    pub(crate) command: Option<Given<CommandText>>,
    pub(crate) snooze: Option<Given<String>>,
}

/// A command as a line or as its words.
#[derive(Debug)]
pub(crate) enum CommandText {
    Line(String),
    Words(Vec<String>),
}

/// Reads a settings file. What is malformed is noted in `problems`, and the rest is read on.
pub(crate) fn read(path: &Path, text: &str, problems: &mut Problems) -> Result<FileSettings, Failure> {
    let reader = Reader { path, text };
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| reader.line(span.start));
        Failure::usage(format!("{}:{line}: {}", path.display(), error.message()))
    })?;
    let mut settings = FileSettings::default();
    for (key, value) in table.get_ref() {
        match key.get_ref().as_ref() {
            "dsn" => settings.dsn = reader.text(value, problems),
            "schema" => settings.schema = reader.text(value, problems),
            "pooled" => settings.pooled = reader.text(value, problems),
            "slots" => settings.slots = reader.number(value, problems),
            "cancel_grace" => settings.cancel_grace = reader.text(value, problems),
            "forced_grace" => settings.forced_grace = reader.text(value, problems),
            "shutdown_grace" => settings.shutdown_grace = reader.text(value, problems),
            "lease" => settings.lease = reader.text(value, problems),
            "event_retention_period" => settings.event_retention_period = reader.text(value, problems),
            "event_retention_batch_size" => {
                settings.event_retention_batch_size = reader.number(value, problems);
            }
            "log_level" => settings.log_level = reader.text(value, problems),
            "queues" => {
                for (name, table) in reader.tables(value, problems) {
                    settings.queues.push(reader.queue(name, table, problems));
                }
            }
            "actors" => {
                for (name, table) in reader.tables(value, problems) {
                    settings.actors.push(reader.actor(name, table, problems));
                }
            }
            unknown => problems.at(&reader.source(key.span().start), format!("unknown setting `{unknown}`")),
        }
    }
    Ok(settings)
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl<'a> Reader<'a> {
    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }

    fn source(&self, at: usize) -> Source {
        Source::File { path: self.path.to_owned(), line: self.line(at) }
    }

    fn given<T>(&self, value: T, at: usize) -> Given<T> {
        Given { value, source: self.source(at) }
    }

    fn wrong(&self, value: &Spanned<DeValue<'_>>, expected: &str, problems: &mut Problems) {
        let found = value.get_ref().type_str();
        problems.at(&self.source(value.span().start), format!("expected {expected}, found {found}"));
    }

    fn text(&self, value: &Spanned<DeValue<'_>>, problems: &mut Problems) -> Option<Given<String>> {
        if let Some(text) = value.get_ref().as_str() {
            return Some(self.given(text.to_owned(), value.span().start));
        }
        self.wrong(value, "a string", problems);
        None
    }

    /// A number stays text here, so that a flag and the file are checked alike.
    fn number(&self, value: &Spanned<DeValue<'_>>, problems: &mut Problems) -> Option<Given<String>> {
        if let Some(number) = value.get_ref().as_integer() {
            return Some(self.given(number.to_string(), value.span().start));
        }
        self.wrong(value, "a number", problems);
        None
    }

    fn command(&self, value: &Spanned<DeValue<'_>>, problems: &mut Problems) -> Option<Given<CommandText>> {
        let at = value.span().start;
        if let Some(line) = value.get_ref().as_str() {
            return Some(self.given(CommandText::Line(line.to_owned()), at));
        }
        let words = value.get_ref().as_array().and_then(|array| {
            array.iter().map(|word| word.get_ref().as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        if let Some(words) = words {
            return Some(self.given(CommandText::Words(words), at));
        }
        self.wrong(value, "a string or an array of strings", problems);
        None
    }

    fn tables<'t>(
        &self,
        value: &'t Spanned<DeValue<'a>>,
        problems: &mut Problems,
    ) -> Vec<(Given<String>, &'t DeTable<'a>)> {
        let Some(outer) = value.get_ref().as_table() else {
            self.wrong(value, "a table of tables", problems);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for (name, inner) in outer {
            match inner.get_ref().as_table() {
                Some(table) => {
                    tables.push((self.given(name.get_ref().to_string(), name.span().start), table));
                }
                None => self.wrong(inner, "a table", problems),
            }
        }
        tables
    }

    fn queue(&self, name: Given<String>, table: &DeTable<'_>, problems: &mut Problems) -> QueueEntry {
        let mut entry = QueueEntry { name, slots: None };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "slots" => entry.slots = self.number(value, problems),
                unknown => {
                    let problem = format!("unknown setting `{unknown}` of a queue");
                    problems.at(&self.source(key.span().start), problem);
                }
            }
        }
        entry
    }

    fn actor(&self, name: Given<String>, table: &DeTable<'_>, problems: &mut Problems) -> ActorEntry {
        let mut entry = ActorEntry { name, command: None, snooze: None };
        let mut has_command = false;
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "command" => {
                    has_command = true;
                    entry.command = self.command(value, problems);
                }
                "snooze" => entry.snooze = self.text(value, problems),
                unknown => {
                    let problem = format!("unknown setting `{unknown}` of an actor");
                    problems.at(&self.source(key.span().start), problem);
                }
            }
        }
        if !has_command {
            problems.at(&entry.name.source, format!("the actor `{}` has no command", entry.name.value));
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_listed_and_read() {
        let path = Path::new("taskq.toml");
        let mut problems = Problems::default();
        read(path, EXAMPLE_FILE, &mut problems).unwrap();
        problems.into_result().unwrap();
        let table = DeTable::parse(EXAMPLE_FILE).unwrap();
        let keys: Vec<_> = table.get_ref().keys().map(|key| key.get_ref().to_string()).collect();
        let listed = |key: &str| FILE_SETTINGS.iter().any(|(name, _)| name.split('.').next() == Some(key));
        assert!(keys.iter().all(|key| listed(key)), "{keys:?}");
        for (name, _) in FILE_SETTINGS {
            let first = name.split('.').next().unwrap();
            assert!(keys.iter().any(|key| key == first), "{name} is not in the example");
        }
        let mut unknown = Problems::default();
        read(path, "colour = 1\n", &mut unknown).unwrap();
        assert!(unknown.into_result().is_err());
    }
}
