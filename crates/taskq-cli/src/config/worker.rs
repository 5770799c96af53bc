//! The settings of `taskq worker`.

use std::ffi::OsStr;
use std::fs;
use std::time::Duration;

use clap::ArgMatches;
use taskq::{ActorName, DEFAULT_SLOTS, QueueName, SLOTS_LIMIT};

use super::database::{self, DatabaseSettings, GivenDatabase};
use super::file::{self, ActorEntry, CommandText, FileSettings, QueueEntry};
use super::given::{Given, Problems};
use super::path::find_program;
use super::retention::{self, GivenRetention, Retention};
use super::times::{self, Times};
use crate::cli::WorkerArgs;
use crate::exit::Failure;
use crate::parse::{self, Command};

/// The delay after a program's exit code 75, unless something else is said.
const DEFAULT_SNOOZE: Duration = Duration::from_mins(1);
/// What is logged, unless something else is said.
const DEFAULT_LOG: &str = "info";

/// The checked settings of a worker.
#[derive(Debug)]
pub(crate) struct WorkerSettings {
    /// The database.
    pub(crate) database: DatabaseSettings,
    /// The queues with their slots; at least one.
    pub(crate) queues: Vec<(QueueName, u32)>,
    /// The actors with their programs; at least one.
    pub(crate) actors: Vec<ProgramActor>,
    /// How long it waits for what.
    pub(crate) times: Times,
    /// How long events are kept while it leads.
    pub(crate) retention: Retention,
    /// What is logged.
    pub(crate) log: String,
}

/// An actor that a program serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ProgramActor {
    /// The actor.
    pub(crate) name: ActorName,
    /// Its program.
    pub(crate) command: Command,
    /// How much later the job runs again after exit code 75.
    pub(crate) snooze: Duration,
}

/// Notes which logs were asked for, and where.
pub(crate) fn given_log(args: &WorkerArgs, matches: &ArgMatches) -> Option<Given<String>> {
    let matches = matches.subcommand_matches("worker").unwrap_or(matches);
    database::given(args.log_level.as_ref(), matches, "log_level", "--log-level", "TASKQ_LOG")
}

/// Checks the settings of a worker: the flags, the variables and the file together.
///
/// `search` is where programs are looked for, as `PATH` says it.
pub(crate) fn worker(
    args: &WorkerArgs,
    given: GivenDatabase,
    log: Option<Given<String>>,
    retention: GivenRetention,
    search: Option<&OsStr>,
) -> Result<WorkerSettings, Failure> {
    let mut problems = Problems::default();
    let file = match &args.config {
        Some(path) => {
            let text = fs::read_to_string(path).map_err(|error| {
                Failure::usage(format!("--config: cannot read {}: {error}", path.display()))
            })?;
            file::read(path, &text, &mut problems)?
        }
        None => FileSettings::default(),
    };

    let times = times::check(args, &file, &mut problems);
    let retention = retention::check(retention, &file, &mut problems);
    let given = GivenDatabase {
        dsn: given.dsn.or(file.dsn),
        schema: given.schema.or(file.schema),
        pooled: given.pooled.or(file.pooled),
    };
    let database = database::check(given, &mut problems);
    let slots = args.slots.clone().map(|slots| Given::flag("--slots", slots)).or(file.slots);
    let slots = slots.map_or(Some(DEFAULT_SLOTS), |slots| problems.check(&slots, |text| check_slots(text)));

    let queues = if args.queues.is_empty() { file.queues } else { flag_queues(&args.queues) };
    let queues = check_queues(queues, slots, &mut problems);
    if args.actors.is_empty() && file.actors.is_empty() {
        problems.missing(
            "no actor to serve: give --actor NAME='command', or [actors.NAME] in the file of --config",
        );
    }
    let actors: Vec<_> = if args.actors.is_empty() {
        file.actors.iter().filter_map(|actor| file_actor(actor, &mut problems)).collect()
    } else {
        args.actors.iter().filter_map(|text| flag_actor(text, &mut problems)).collect()
    };
    let actors = check_actors(actors, search, &mut problems);
    let log = log.or(file.log_level).map_or_else(
        || Some(DEFAULT_LOG.to_owned()),
        |filter| problems.check(&filter, |text| crate::logging::check(text)).map(|()| filter.value),
    );

    problems.into_result()?;
    let (Some(database), Some(times), Some(log)) = (database, times, log) else {
        return Err(Failure::usage("the settings are incomplete"));
    };
    Ok(WorkerSettings { database, queues, actors, times, retention, log })
}

fn check_slots(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|slots| (1..=SLOTS_LIMIT).contains(slots))
        .ok_or_else(|| format!("`{text}` is not a number of slots from 1 to {SLOTS_LIMIT}"))
}

fn flag_queues(names: &[String]) -> Vec<QueueEntry> {
    names.iter().map(|name| QueueEntry { name: Given::flag("--queue", name.clone()), slots: None }).collect()
}

fn check_queues(
    entries: Vec<QueueEntry>,
    default: Option<u32>,
    problems: &mut Problems,
) -> Vec<(QueueName, u32)> {
    if entries.is_empty() {
        problems.missing("no queue to serve: give --queue Q, or [queues.Q] in the file of --config");
    }
    let mut queues: Vec<(QueueName, u32)> = Vec::new();
    for entry in entries {
        let name = problems.check(&entry.name, |name| QueueName::new(name.as_str()));
        let slots = match &entry.slots {
            Some(slots) => problems.check(slots, |text| check_slots(text)),
            None => default,
        };
        let (Some(name), Some(slots)) = (name, slots) else { continue };
        if queues.iter().any(|(known, _)| *known == name) {
            problems.at(&entry.name.source, format!("the queue `{name}` is given twice"));
        }
        queues.push((name, slots));
    }
    queues
}

fn flag_actor(text: &str, problems: &mut Problems) -> Option<Given<ProgramActor>> {
    let given = Given::flag("--actor", text);
    let (name, command) = problems
        .check(&given, |text| parse::actor_program(text).map_err(|problem| format!("`{text}`: {problem}")))?;
    Some(Given { value: ProgramActor { name, command, snooze: DEFAULT_SNOOZE }, source: given.source })
}

fn file_actor(entry: &ActorEntry, problems: &mut Problems) -> Option<Given<ProgramActor>> {
    let name = problems.check(&entry.name, |name| ActorName::new(name.as_str()));
    let command = entry.command.as_ref().and_then(|command| {
        problems.check(command, |text| match text {
            CommandText::Line(line) => parse::command(line),
            CommandText::Words(words) => parse::from_words(words.clone()),
        })
    });
    let snooze = entry
        .snooze
        .as_ref()
        .map_or(Some(DEFAULT_SNOOZE), |snooze| problems.check(snooze, |text| parse::positive_duration(text)));
    let actor = ProgramActor { name: name?, command: command?, snooze: snooze? };
    Some(Given { value: actor, source: entry.name.source.clone() })
}

fn check_actors(
    actors: Vec<Given<ProgramActor>>,
    search: Option<&OsStr>,
    problems: &mut Problems,
) -> Vec<ProgramActor> {
    let mut checked: Vec<ProgramActor> = Vec::new();
    for Given { value: actor, source } in actors {
        if checked.iter().any(|known| known.name == actor.name) {
            problems.at(&source, format!("the actor `{}` is given twice", actor.name));
        }
        if let Err(problem) = find_program(&actor.command.program, search) {
            problems.at(&source, format!("actor `{}`: {problem}", actor.name));
        }
        checked.push(actor);
    }
    checked
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::config::given::Source;

    fn args() -> WorkerArgs {
        WorkerArgs {
            config: None,
            queues: vec![],
            slots: None,
            actors: vec![],
            cancel_grace: None,
            forced_grace: None,
            shutdown_grace: None,
            lease: None,
            event_retention_period: None,
            event_retention_batch_size: None,
            log_level: None,
        }
    }

    fn dsn() -> GivenDatabase {
        let dsn =
            Given { value: "postgres://localhost/x".to_owned(), source: Source::Variable("TASKQ_PG_DSN") };
        GivenDatabase { dsn: Some(dsn), schema: None, pooled: None }
    }

    fn with_file(text: &str, mut args: WorkerArgs) -> Result<WorkerSettings, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("taskq.toml");
        fs::write(&path, text).unwrap();
        args.config = Some(path.clone());
        let search = Some(OsStr::new("/bin:/usr/bin"));
        worker(&args, dsn(), None, GivenRetention::default(), search).map_err(|failure| {
            let shown = PathBuf::from("taskq.toml");
            failure.to_string().replace(&path.display().to_string(), &shown.display().to_string())
        })
    }

    #[test]
    fn a_file_and_flags_make_one_set_of_settings() {
        let text = "slots = 8\n[queues.a]\n[queues.b]\nslots = 2\n[actors.sum]\ncommand = \"sh -c 'exit 75'\"\n\
                    snooze = \"5m\"\n[actors.cat]\ncommand = [\"cat\", \"a b\"]\n";
        let settings = with_file(text, args()).unwrap();
        let queues: Vec<_> = settings.queues.iter().map(|(name, slots)| (name.as_str(), *slots)).collect();
        assert_eq!(queues, [("a", 8), ("b", 2)]);
        let sum = settings.actors.iter().find(|actor| actor.name.as_str() == "sum").unwrap();
        assert_eq!(sum.command.arguments, ["-c", "exit 75"]);
        assert_eq!(sum.snooze, Duration::from_mins(5));

        let flags = WorkerArgs { queues: vec!["c".to_owned()], slots: Some("3".to_owned()), ..args() };
        let settings = with_file(text, flags).unwrap();
        assert_eq!(settings.queues, [(QueueName::new("c").unwrap(), 3)]);
        assert_eq!(settings.actors.len(), 2);
    }

    #[test]
    fn all_problems_are_reported_at_once_with_their_source() {
        let text = "quues = 1\nslots = \"x\"\n[queues.a]\nslots = 0\n[actors.sum]\n[actors.cat]\n\
                    command = \"no-such-program\"\nsnooze = \"1 month\"\n[actors.dog]\ncommand = \"no-such-dog\"\n";
        let flags = WorkerArgs { log_level: Some("info".to_owned()), ..args() };
        let said = with_file(text, flags).unwrap_err();
        for part in [
            "6 problems",
            "taskq.toml:1: unknown setting `quues`",
            "taskq.toml:2: expected a number, found string",
            "taskq.toml:4: `0` is not a number of slots",
            "taskq.toml:5: the actor `sum` has no command",
            "taskq.toml:8: months",
            "taskq.toml:9: actor `dog`: the program `no-such-dog` is not in PATH",
        ] {
            assert!(said.contains(part), "{part} is not in: {said}");
        }
    }

    #[test]
    fn a_flag_replaces_the_files_time() {
        let text = "cancel_grace = '5s'\nforced_grace = '2s'\nshutdown_grace = '0s'\nlease = '1m'\n[queues.a]\n\
                    [actors.cat]\ncommand = 'cat'\n";
        let flags = WorkerArgs { cancel_grace: Some("7s".to_owned()), ..args() };
        let expected = Times {
            cancel_grace: Duration::from_secs(7),
            forced_grace: Duration::from_secs(2),
            shutdown_grace: Duration::ZERO,
            lease: Duration::from_mins(1),
        };
        assert_eq!(with_file(text, flags).unwrap().times, expected);
        let flags = WorkerArgs { lease: Some("0s".to_owned()), ..args() };
        let said = with_file(&text.replace("'2s'", "'25h'"), flags).unwrap_err();
        assert!(said.contains("taskq.toml:2: `25h` is not between 1s and 24h"), "{said}");
        assert!(said.contains("--lease: `0s` is not between 1s and 24h"), "{said}");
    }

    #[test]
    fn the_file_may_set_how_long_events_are_kept() {
        let text = "event_retention_period = '1 day'\nevent_retention_batch_size = 500\n[queues.a]\n\
                    [actors.cat]\ncommand = 'cat'\n";
        let retention = with_file(text, args()).unwrap().retention;
        assert_eq!((retention.period, retention.batch_size), (Some(Duration::from_hours(24)), Some(500)));
        let said = with_file(&text.replace("500", "0"), args()).unwrap_err();
        assert!(said.contains("taskq.toml:2: event_retention_batch_size `0`"), "{said}");
    }

    #[test]
    fn a_file_that_is_no_toml_names_its_line() {
        let said = with_file("slots = 1\n[queues\n", args()).unwrap_err();
        assert!(said.starts_with("taskq.toml:2: "), "{said}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let failure = worker(
            &args(),
            GivenDatabase { dsn: None, schema: None, pooled: None },
            None,
            GivenRetention::default(),
            None,
        )
        .unwrap_err()
        .to_string();
        for part in ["3 problems", "TASKQ_PG_DSN", "--queue", "--actor"] {
            assert!(failure.contains(part), "{part} is not in: {failure}");
        }
        let twice = WorkerArgs {
            queues: vec!["a".to_owned(), "a".to_owned()],
            actors: vec!["s=sh".to_owned(), "s=sh".to_owned()],
            ..args()
        };
        let failure = worker(&twice, dsn(), None, GivenRetention::default(), Some(OsStr::new("/bin")))
            .unwrap_err()
            .to_string();
        assert!(failure.contains("queue `a` is given twice") && failure.contains("actor `s` is given twice"));
    }
}
