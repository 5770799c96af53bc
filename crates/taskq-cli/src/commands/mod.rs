//! The verbs, one a file.

mod bench;
mod completions;
mod connect;
mod demo;
mod dev;
mod doctor;
mod enqueue;
mod job;
mod lane;
mod migrate;
mod operate;
mod server;
mod sessions;
mod signals;
mod stats;
mod tail;
mod worker;

use std::env;
use std::future::Future;

use clap::ArgMatches;

use crate::cli::{Cli, Command, JobCommand, PageArg};
use crate::config::{self, GivenDatabase};
use crate::exit::{Exit, Failure};
use crate::{logging, output, reference};

/// The filter of the logs of verbs that do one thing and end: what goes wrong is their error line.
const QUIET: &str = "error";

/// Runs the verb that the command line names.
pub(crate) fn dispatch(cli: Cli, matches: &ArgMatches) -> Result<Exit, Failure> {
    let given = config::given_database(&cli.database, matches);
    match cli.command {
        Command::Worker(args) => {
            let log = config::given_log(&args, matches);
            let retention = config::given_retention(&args, matches);
            let search = env::var_os("PATH");
            let settings = config::worker(&args, given, log, retention, search.as_deref())?;
            logging::start(&settings.log);
            block_on(worker::run(settings))
        }
        Command::Demo(args) => quietly(demo::run(args, given)),
        Command::Dev(args) => quietly(dev::run(args, given)),
        Command::Bench(benchmark) => quietly(bench::run(benchmark, given)),
        Command::Migrate(verb) => with_database(given, |database| migrate::run(verb, database)),
        Command::Enqueue(args) => with_database(given, |database| enqueue::run(args, database)),
        Command::Job(JobCommand::List(args)) => with_database(given, |database| job::list(args, database)),
        Command::Job(JobCommand::Show(args)) => with_database(given, |database| job::show(args, database)),
        Command::Job(JobCommand::Wait(args)) => with_database(given, |database| job::wait(args, database)),
        Command::Job(JobCommand::Tail(args)) => with_database(given, |database| tail::run(args, database)),
        Command::Job(JobCommand::Cancel(args)) => {
            with_database(given, |database| operate::cancel(args, database))
        }
        Command::Job(JobCommand::Retry(args)) => {
            with_database(given, |database| operate::retry(args, database))
        }
        Command::Queue(verb) => with_database(given, |database| lane::queue(verb, database)),
        Command::Actor(verb) => with_database(given, |database| lane::actor(verb, database)),
        Command::Prune(args) => with_database(given, |database| operate::prune(args, database)),
        Command::Workers(args) => with_database(given, |database| sessions::workers(args, database)),
        Command::Leader(args) => with_database(given, |database| sessions::leader(args, database)),
        Command::Doctor(args) => with_database(given, |database| doctor::run(args, database)),
        Command::Completions(args) => completions::run(&args),
        Command::Reference(args) => {
            let page = match args.page {
                PageArg::Cli => reference::verbs(),
                PageArg::Settings => reference::settings(),
            };
            output::line(page.trim_end()).map(|()| Exit::Done)
        }
        Command::Stats(args) => with_database(given, |database| stats::run(args, database)),
    }
}

/// Runs a verb that needs a database.
fn with_database<F: Future<Output = Result<Exit, Failure>>>(
    given: GivenDatabase,
    verb: impl FnOnce(config::DatabaseSettings) -> F,
) -> Result<Exit, Failure> {
    let database = config::database(given)?;
    quietly(verb(database))
}

fn quietly(verb: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    logging::start(QUIET);
    block_on(verb)
}

fn block_on(verb: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?
        .block_on(verb)
}
