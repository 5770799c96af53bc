//! Events, and the feed in which they are told.

use std::collections::BTreeMap;
use std::time::Duration;

use taskq_core::model::{EventCursor, EventLevel, EventRecord, JobId, Outcome};
use taskq_core::store::Setting;

use crate::draft::draft;
use crate::scene::{HOUR, MINUTE, Scene, assert_invalid};
use crate::worker::{LEASE, abandoned, failed, failed_for_good, snoozed, succeeded};

/// How often the feed is looked at until it tells what must come: on a server, transactions of others hold it back.
const LOOKS: u32 = 12_000;

/// Everything that was told of each job, in order.
type Story = BTreeMap<JobId, Vec<String>>;

impl Scene<'_> {
    /// Reads the feed from a place until everything has been told that has happened by now, page by page.
    async fn feed(&self, from: EventCursor, page: u32) -> (Vec<EventRecord>, EventCursor) {
        // The last that happens, so all the others come before it.
        let last = self.add(draft()).await;
        self.set_level(EventLevel::All).await;
        self.cancel(&[last]).await;
        let (mut events, mut next) = (Vec::new(), from);
        for _ in 0..LOOKS {
            let told = self.store.events(Some(next), page).await.expect("the page is in bounds");
            assert!(told.next >= next && told.events.len() <= page as usize);
            next = told.next;
            events.extend(told.events);
            if events.iter().any(|event| event.job_id == last) {
                events.retain(|event| event.job_id != last);
                return (events, next);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the feed does not tell what has happened");
    }

    async fn set_level(&self, level: EventLevel) {
        self.operator().await.set_setting(Setting::EventLevel(level)).await.expect("a level");
    }
}

fn story(events: &[EventRecord]) -> Story {
    let mut story = Story::new();
    for event in events {
        story.entry(event.job_id).or_default().push(event.kind.clone());
    }
    story
}

/// Lets jobs live in every way, and says what is told of each: everything, and what is out of the ordinary.
async fn lives(scene: &Scene<'_>) -> Vec<(JobId, Vec<&'static str>, Vec<&'static str>)> {
    let mut lives = Vec::new();
    let ends: [(Outcome, &str, &[&str]); 4] = [
        (succeeded(), "succeeded", &[]),
        (failed_for_good(), "failed", &[]),
        (abandoned(), "abandoned", &["abandoned"]),
        (Outcome::Cancelled { error: None }, "cancelled", &["cancelled"]),
    ];
    for (outcome, kind, notable) in ends {
        let (worker, job) = scene.running(draft()).await;
        worker.end(&job, outcome).await;
        lives.push((job.id, vec!["enqueued", "claimed", kind], notable.to_vec()));
    }
    let back: [(Outcome, &str, &[&str]); 3] = [
        (failed(), "retried", &["retried"]),
        (snoozed(HOUR), "snoozed", &["snoozed"]),
        (Outcome::Released, "released", &[]),
    ];
    for (outcome, kind, notable) in back {
        let (worker, job) = scene.running(draft().queue("q").retry_every(HOUR)).await;
        worker.end(&job, outcome).await;
        scene.cancel(&[job.id]).await;
        let notable = notable.iter().copied().chain(["cancelled"]).collect();
        lives.push((job.id, vec!["enqueued", "claimed", kind, "cancelled"], notable));
    }

    let (worker, job) = scene.running(draft()).await;
    scene.request_cancel(job.id).await;
    worker.end(&job, failed()).await;
    scene.retry(&[job.id]).await;
    scene.cancel(&[job.id]).await;
    let notable = vec!["cancel_requested", "cancelled", "retried_by_operator", "cancelled"];
    let all = ["enqueued", "claimed"].into_iter().chain(notable.clone()).collect();
    lives.push((job.id, all, notable));

    let (worker, job) = scene.running(draft()).await;
    worker.release().await;
    scene.cancel(&[job.id]).await;
    lives.push((job.id, vec!["enqueued", "claimed", "released", "cancelled"], vec!["cancelled"]));

    let (worker, job) = scene.running(draft()).await;
    scene.request_cancel(job.id).await;
    worker.release().await;
    let notable = vec!["cancel_requested", "cancelled"];
    lives.push((job.id, ["enqueued", "claimed"].into_iter().chain(notable.clone()).collect(), notable));

    for (attempts, kind) in [(1, "crashed"), (2, "reclaimed")] {
        let (_worker, job) = scene.running(draft().max_attempts(attempts)).await;
        scene.advance(LEASE).await;
        scene.rescue().await;
        lives.push((job.id, vec!["enqueued", "claimed", kind], vec![kind]));
    }
    for job in scene.store.jobs(all_scheduled()).await.expect("in bounds") {
        scene.cancel(&[job.id]).await;
        let life = lives.iter_mut().find(|life| life.0 == job.id).expect("one of them");
        life.1.push("cancelled");
        life.2.push("cancelled");
    }

    let deadline = scene.now().await + MINUTE;
    let (by_claim, by_sweep) = (
        scene.add(draft().deadline(deadline)).await,
        scene.add(draft().queue("other").deadline(deadline)).await,
    );
    scene.advance(HOUR).await;
    assert!(scene.worker().await.claim(1).await.is_empty());
    let leader = scene.leading().await;
    leader.sweep(taskq_core::store::Sweep::Deadlines).await;
    leader.step_down().await;
    for id in [by_claim, by_sweep] {
        lives.push((id, vec!["enqueued", "expired"], vec!["expired"]));
    }
    lives
}

fn all_scheduled() -> taskq_core::store::JobFilter {
    taskq_core::store::JobFilter {
        status: Some(taskq_core::model::Status::Scheduled),
        limit: 1_000,
        ..Default::default()
    }
}

pub(crate) async fn at_the_level_all_every_transition_is_told(scene: Scene<'_>) {
    scene.set_level(EventLevel::All).await;
    let expected: Story = lives(&scene).await.into_iter().map(|(id, all, _)| (id, owned(all))).collect();
    let (events, _) = scene.feed(EventCursor::START, 1_000).await;
    assert_eq!(story(&events), expected);
}

pub(crate) async fn unless_set_otherwise_what_is_out_of_the_ordinary_is_told(scene: Scene<'_>) {
    let lives = lives(&scene).await;
    let expected: Story = lives
        .into_iter()
        .filter(|(.., notable)| !notable.is_empty())
        .map(|(id, _, notable)| (id, owned(notable)))
        .collect();
    let (events, _) = scene.feed(EventCursor::START, 1_000).await;
    assert_eq!(story(&events), expected);
}

pub(crate) async fn at_the_level_ends_every_end_is_told_besides(scene: Scene<'_>) {
    scene.set_level(EventLevel::Ends).await;
    let told = |all: Vec<&'static str>| {
        owned(all.into_iter().filter(|kind| !["enqueued", "claimed", "released"].contains(kind)).collect())
    };
    let expected: Story = lives(&scene).await.into_iter().map(|(id, all, _)| (id, told(all))).collect();
    let (events, _) = scene.feed(EventCursor::START, 1_000).await;
    assert_eq!(story(&events), expected);
}

pub(crate) async fn at_the_level_off_nothing_is_told(scene: Scene<'_>) {
    scene.set_level(EventLevel::Off).await;
    lives(&scene).await;
    assert_eq!(scene.feed(EventCursor::START, 1_000).await.0, []);
}

fn owned(kinds: Vec<&'static str>) -> Vec<String> {
    kinds.into_iter().map(ToOwned::to_owned).collect()
}

pub(crate) async fn an_event_says_what_happened_to_which_attempt_and_when(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft().retry_every(HOUR)).await;
    let (_, span) = scene.during(worker.end(&job, failed())).await;
    let (events, _) = scene.feed(EventCursor::START, 10).await;
    assert_eq!(events.len(), 1);
    span.assert_holds(events[0].occurred_at);
    let detail: serde_json::Value =
        events[0].detail.as_ref().expect("there is more to say").parse().expect("JSON");
    assert_eq!((detail["epoch"].as_i64(), detail["attempt"].as_i64()), (Some(1), Some(1)));
    assert_eq!(detail["class"], "error");
    assert!(detail["next_at"].is_string());
}

pub(crate) async fn the_feed_is_read_page_by_page_and_goes_on_where_it_was_left(scene: Scene<'_>) {
    let cancelled = async |jobs: usize| {
        let ids = scene.add_all((0..jobs).map(|_| draft())).await;
        for id in &ids {
            scene.cancel(&[*id]).await;
        }
        ids
    };
    let first = cancelled(5).await;
    let (events, next) = scene.feed(EventCursor::START, 2).await;
    assert_eq!(events.iter().map(|event| event.job_id).collect::<Vec<_>>(), first, "in order");
    assert!(events.windows(2).all(|pair| pair[0].cursor < pair[1].cursor));
    let second = cancelled(3).await;
    let (events, _) = scene.feed(next, 100).await;
    assert_eq!(story(&events).into_keys().filter(|id| second.contains(id)).count(), 3);
    assert!(events.iter().all(|event| !first.contains(&event.job_id)), "nothing is told twice");
    // From the middle, by a cursor that went through its text.
    let (all, _) = scene.feed(EventCursor::START, 100).await;
    let middle = all[3].cursor.to_string().parse().expect("a cursor");
    let (rest, _) = scene.feed(middle, 100).await;
    assert_eq!(rest[..4], all[4..8]);
}

pub(crate) async fn the_feed_can_begin_now(scene: Scene<'_>) {
    let before = scene.add(draft()).await;
    scene.cancel(&[before]).await;
    // Until what happened before is behind the present.
    scene.feed(EventCursor::START, 100).await;
    let now = scene.store.events(None, 1).await.expect("the page is in bounds");
    assert_eq!(now.events, []);
    let after = scene.add(draft()).await;
    scene.cancel(&[after]).await;
    let (events, _) = scene.feed(now.next, 100).await;
    assert!(events.iter().any(|event| event.job_id == after));
    assert!(events.iter().all(|event| event.job_id != before));
}

pub(crate) async fn a_place_that_no_reader_can_have_reached_is_refused(scene: Scene<'_>) {
    let now = scene.store.events(None, 1).await.expect("the page is in bounds").next;
    scene.store.events(Some(now), 1).await.expect("a reader that has read everything");
    // Far beyond what others of the server do meanwhile.
    for xid in [now.xid + (1 << 40), u64::MAX] {
        let error = scene
            .store
            .events(Some(EventCursor { xid, id: 0 }), 1)
            .await
            .expect_err("it would wait for ever");
        assert!(error.to_string().contains("0-0"), "it says what to do: {error}");
        assert_invalid::<()>(Err(error), None);
    }
}

pub(crate) async fn a_page_of_events_out_of_bounds_is_refused(scene: Scene<'_>) {
    for limit in [0, 10_001] {
        assert_invalid(scene.store.events(Some(EventCursor::START), limit).await, None);
        assert_invalid(scene.store.events(None, limit).await, None);
    }
    scene.store.events(Some(EventCursor::START), 10_000).await.expect("at its bound");
}
