//! The stream of events, in simulated time.

use std::time::Duration;

use taskq_core::client::Client;
use taskq_core::model::{EventCursor, JobId};
use taskq_core::store::StoreError;

use crate::jobs::*;
use crate::probe::*;

const SECOND: Duration = Duration::from_secs(1);

/// Something happens to so many jobs.
async fn happen(client: &Client, count: i64) -> Vec<JobId> {
    let mut ids = Vec::new();
    for value in 0..count {
        let id = client.enqueue(&Double { value }).await.unwrap().id();
        client.cancel([id], None).await.unwrap();
        ids.push(id);
    }
    ids
}

#[tokio::test(start_paused = true)]
async fn a_stream_begins_now_and_goes_on_where_it_was_left() {
    let (_, client) = Probe::simulated().shared();
    happen(&client, 3).await;
    let mut events = client.events();
    assert_eq!(events.cursor(), None);
    assert_eq!(events.try_next().await.unwrap(), None, "what has happened is not told");
    let later = happen(&client, 2).await;
    let first = events.next().await.unwrap();
    assert_eq!((first.job_id, first.kind.as_str()), (later[0], "cancelled"));

    // Left with one event read and not returned.
    let cursor = events.cursor().unwrap();
    assert_eq!(cursor, first.cursor);
    let mut again = client.events().from(cursor);
    assert_eq!(again.next().await.unwrap().job_id, later[1]);
    assert_eq!(again.try_next().await.unwrap(), None);
    assert!(again.cursor().unwrap() > cursor, "it moves on without events");

    let mut all = client.events().from(EventCursor::START);
    let mut told = 0;
    while all.try_next().await.unwrap().is_some() {
        told += 1;
    }
    assert_eq!(told, 5);
}

#[tokio::test(start_paused = true)]
async fn a_stream_waits_for_what_comes() {
    let (store, client) = Probe::simulated().shared();
    let mut events = client.events();
    assert_eq!(events.try_next().await.unwrap(), None);
    let (other, looks) = (client.clone(), store.count("events"));
    let later = tokio::spawn(async move {
        tokio::time::sleep(SECOND * 60).await;
        happen(&other, 1).await[0]
    });
    let event = events.next().await.unwrap();
    assert_eq!(event.job_id, later.await.unwrap());
    let looks = store.count("events") - looks;
    assert!((55..75).contains(&looks), "{looks} looks in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_failure_skips_nothing() {
    let (store, client) = Probe::simulated().shared();
    let mut events = client.events().from(EventCursor::START);
    let ids = happen(&client, 2).await;
    store.fail(|call| matches!(call, Call::Events).then(unavailable));
    for _ in 0..2 {
        assert!(matches!(events.next().await, Err(StoreError::Unavailable { .. })));
    }
    store.heal();
    for id in ids {
        assert_eq!(events.next().await.unwrap().job_id, id);
    }
}
