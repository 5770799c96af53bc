//! `taskq job tail`.

use std::time::Duration;

use taskq::{EventCursor, EventRecord, Events, JobId};

use super::connect::connect;
use super::signals;
use crate::cli::TailArgs;
use crate::config::DatabaseSettings;
use crate::exit::{Exit, Failure};
use crate::output;

/// How long to wait before a database that cannot be asked is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// Prints what happens to jobs until Ctrl-C, or until the present.
pub(super) async fn run(args: TailArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let client = connect(&database).await?;
    let events = match args.from.or(args.from_start.then_some(EventCursor::START)) {
        Some(cursor) => client.events().from(cursor),
        None => client.events(),
    };
    let filter = Filter { ids: args.ids, kinds: args.kinds };
    if args.no_follow {
        return until_now(events, &filter, args.output.json).await;
    }
    let mut stopped = signals::Ended::listen()?;
    tokio::select! {
        ended = follow(events, &filter, args.output.json) => ended,
        () = stopped.wait() => Ok(Exit::Done),
    }
}

/// Which events are printed.
struct Filter {
    ids: Vec<JobId>,
    kinds: Vec<String>,
}

impl Filter {
    fn lets(&self, event: &EventRecord) -> bool {
        (self.ids.is_empty() || self.ids.contains(&event.job_id))
            && (self.kinds.is_empty() || self.kinds.contains(&event.kind))
    }
}

async fn until_now(mut events: Events, filter: &Filter, json: bool) -> Result<Exit, Failure> {
    while let Some(event) = events.try_next().await? {
        print(&event, filter, json)?;
    }
    Ok(Exit::Done)
}

async fn follow(mut events: Events, filter: &Filter, json: bool) -> Result<Exit, Failure> {
    loop {
        match events.next().await {
            Ok(event) => print(&event, filter, json)?,
            Err(error) if error.is_transient() => {
                output::note(&format!("{error}; trying again"));
                tokio::time::sleep(RETRY).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn print(event: &EventRecord, filter: &Filter, json: bool) -> Result<(), Failure> {
    if !filter.lets(event) {
        return Ok(());
    }
    if json {
        let line = serde_json::to_string(event)
            .map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
        return output::line(&line);
    }
    let detail = event.detail.as_ref().map_or("", |detail| detail.as_str());
    let at = output::time(event.occurred_at);
    let line = format!("{}  {at}  {}  {}  {detail}", event.cursor, event.job_id, event.kind);
    output::line(&output::plain(line.trim_end()))
}
