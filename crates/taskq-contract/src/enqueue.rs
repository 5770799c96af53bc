//! Enqueueing.

use std::time::Duration;

use taskq_core::model::{
    EnqueueOutcome, Enqueued, Epoch, JobId, NAME_LIMIT, NewJob, PAYLOAD_LIMIT, RetryPolicy, Schedule, Status,
};
use taskq_core::store::JobFilter;

use crate::draft::{Draft, draft, json, json_of_bytes, time};
use crate::scene::{DAY, HOUR, MINUTE, Scene, assert_invalid};
use crate::worker::succeeded;

/// The longest delay.
const DELAY_LIMIT: Duration = Duration::from_hours(24 * 36_600);

pub(crate) async fn a_job_is_stored_as_it_was_given(scene: Scene<'_>) {
    let policy = RetryPolicy {
        base: Duration::from_millis(1_500),
        factor: 1.5,
        cap: Duration::from_micros(90_000_001),
        jitter: 0.25,
    };
    let given =
        draft().queue("mail é").actor("mail.welcome").priority(-7).max_attempts(3).policy(policy).with(
            |job| {
                job.payload =
                    json(r#"{"user": 9007199254740993, "list": [1.5, null, true, "é \" \\u0000"]}"#);
                job.payload_version = 4;
                job.schedule = Schedule::At(time("2035-05-06T07:08:09.123456Z"));
                job.schedule_to_close = Some(time("2036-05-06T07:08:09.654321Z"));
                job.start_to_close = Some(Duration::from_micros(90_061_000_001));
                job.tags = vec!["blue".to_owned(), "a b".to_owned(), "blue".to_owned()];
                job.metadata = Some(json(r#"{"tenant": {"id": 5}}"#));
                job.trace_context =
                    Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned());
            },
        );
    let (enqueued, when) = scene.during(scene.enqueue([given.clone()])).await;
    let job = given.0;
    assert_eq!(
        enqueued,
        [Enqueued { id: job.id, outcome: EnqueueOutcome::Created, status: Some(Status::Scheduled) }]
    );
    let stored = scene.job(job.id).await;
    assert_eq!(stored.id, job.id);
    assert_eq!(stored.queue, job.queue);
    assert_eq!(stored.actor, job.actor);
    assert_eq!(stored.status, Status::Scheduled);
    assert_eq!(stored.priority, job.priority);
    assert_eq!(stored.max_attempts, job.max_attempts);
    assert_eq!(stored.payload, job.payload);
    assert_eq!(stored.payload_version, job.payload_version);
    assert_eq!(stored.scheduled_at, time("2035-05-06T07:08:09.123456Z"));
    assert_eq!(stored.schedule_to_close, job.schedule_to_close);
    assert_eq!(stored.start_to_close, job.start_to_close);
    assert_eq!(stored.retry_policy, job.retry_policy);
    assert_eq!(stored.tags, job.tags);
    assert_eq!(stored.metadata, job.metadata);
    assert_eq!(stored.trace_context, job.trace_context);
    when.assert_holds(stored.created_at);
}

pub(crate) async fn a_new_job_has_no_history(scene: Scene<'_>) {
    let (id, when) = scene.during(scene.add(draft())).await;
    let stored = scene.job(id).await;
    assert_eq!(stored.status, Status::Pending);
    assert_eq!((stored.attempt, stored.epoch), (0, Epoch(0)));
    assert_eq!((stored.started_at, stored.finished_at, stored.worker), (None, None, None));
    assert_eq!((stored.error, stored.result, stored.progress), (None, None, None));
    assert_eq!((stored.schedule_to_close, stored.start_to_close), (None, None));
    assert_eq!((stored.retry_policy, stored.metadata, stored.trace_context), (None, None, None));
    assert!(stored.tags.is_empty());
    when.assert_holds(stored.scheduled_at);
    assert!(scene.attempts(id).await.is_empty());
}

pub(crate) async fn answers_come_in_the_order_of_the_jobs(scene: Scene<'_>) {
    let mut jobs: Vec<Draft> = (0..500).map(|_| draft()).collect();
    jobs.reverse();
    for job in jobs.iter_mut().step_by(3) {
        job.0.schedule = Schedule::After(HOUR);
    }
    let expected: Vec<(JobId, Option<Status>)> = jobs
        .iter()
        .enumerate()
        .map(|(index, job)| (job.id(), if index % 3 == 0 { Status::Scheduled } else { Status::Pending }))
        .map(|(id, status)| (id, Some(status)))
        .collect();
    let answers = scene.enqueue(jobs).await;
    assert!(answers.iter().all(|answer| answer.outcome == EnqueueOutcome::Created));
    let answers: Vec<(JobId, Option<Status>)> =
        answers.iter().map(|answer| (answer.id, answer.status)).collect();
    assert_eq!(answers, expected);
}

pub(crate) async fn no_jobs_are_no_error(scene: Scene<'_>) {
    assert_eq!(scene.enqueue([]).await, []);
}

pub(crate) async fn a_time_to_come_makes_a_job_scheduled(scene: Scene<'_>) {
    let at = scene.now().await + HOUR;
    let stored = scene.job(scene.add(draft().at(at)).await).await;
    assert_eq!((stored.status, stored.scheduled_at), (Status::Scheduled, at));
}

pub(crate) async fn a_time_that_has_passed_is_kept_and_means_at_once(scene: Scene<'_>) {
    let at = scene.now().await - DAY;
    let stored = scene.job(scene.add(draft().at(at)).await).await;
    assert_eq!((stored.status, stored.scheduled_at), (Status::Pending, at));
}

pub(crate) async fn a_delay_counts_by_the_stores_clock(scene: Scene<'_>) {
    scene.advance(3 * DAY).await;
    let (id, when) = scene.during(scene.add(draft().after(HOUR))).await;
    let stored = scene.job(id).await;
    assert_eq!(stored.status, Status::Scheduled);
    when.later(HOUR).assert_holds(stored.scheduled_at);
}

pub(crate) async fn a_delay_of_zero_means_at_once(scene: Scene<'_>) {
    let (id, when) = scene.during(scene.add(draft().after(Duration::ZERO))).await;
    let stored = scene.job(id).await;
    assert_eq!(stored.status, Status::Pending);
    when.assert_holds(stored.scheduled_at);
}

pub(crate) async fn an_id_that_exists_changes_nothing(scene: Scene<'_>) {
    let first = draft();
    scene.add(first.clone()).await;
    let before = scene.job(first.id()).await;
    let again = Draft(NewJob { id: first.id(), ..draft().queue("other").priority(9).after(HOUR).0 });
    let answers = scene.enqueue([again, draft()]).await;
    assert_eq!(
        answers[0],
        Enqueued { id: first.id(), outcome: EnqueueOutcome::Existing, status: Some(Status::Pending) }
    );
    assert_eq!(answers[1].outcome, EnqueueOutcome::Created);
    assert_eq!(scene.job(first.id()).await, before);
}

pub(crate) async fn an_id_that_exists_is_answered_with_the_status_of_its_job(scene: Scene<'_>) {
    let job = draft();
    let (worker, claimed) = scene.running(job.clone()).await;
    let running = scene.enqueue([job.clone()]).await[0];
    assert_eq!((running.outcome, running.status), (EnqueueOutcome::Existing, Some(Status::Running)));
    worker.end(&claimed, succeeded()).await;
    let ended = scene.enqueue([job.clone()]).await[0];
    assert_eq!((ended.outcome, ended.status), (EnqueueOutcome::Existing, Some(Status::Succeeded)));
    assert!(worker.claim(10).await.is_empty(), "a job that ended does not run again");

    let later = draft().after(HOUR);
    scene.add(later.clone()).await;
    assert_eq!(scene.enqueue([later]).await[0].status, Some(Status::Scheduled));
}

pub(crate) async fn an_id_twice_in_a_call_is_written_once(scene: Scene<'_>) {
    let first = draft().priority(1);
    let second = Draft(NewJob { id: first.id(), ..draft().priority(2).after(HOUR).0 });
    let answers = scene.enqueue([first.clone(), draft(), second]).await;
    let outcomes: Vec<EnqueueOutcome> = answers.iter().map(|answer| answer.outcome).collect();
    assert_eq!(outcomes, [EnqueueOutcome::Created, EnqueueOutcome::Created, EnqueueOutcome::Existing]);
    assert_eq!((answers[2].id, answers[2].status), (first.id(), Some(Status::Pending)));
    assert_eq!(scene.job(first.id()).await.priority, 1);
}

pub(crate) async fn one_bad_job_refuses_the_call_and_is_named(scene: Scene<'_>) {
    let bad = || draft().max_attempts(0);
    assert_invalid(scene.try_enqueue([draft(), draft(), bad(), draft(), bad()]).await, Some(2));
    let stored = scene.store.jobs(JobFilter { limit: 10, ..JobFilter::default() }).await.expect("a list");
    assert_eq!(stored, [], "nothing was written");
}

pub(crate) async fn a_bad_job_is_refused_even_if_its_id_exists(scene: Scene<'_>) {
    let job = draft();
    scene.add(job.clone()).await;
    assert_invalid(scene.try_enqueue([job.max_attempts(-1)]).await, Some(0));
}

pub(crate) async fn what_is_out_of_bounds_is_refused(scene: Scene<'_>) {
    let now = scene.now().await;
    let policy = RetryPolicy::default();
    let far = RetryPolicy::LIMIT + Duration::from_micros(1);
    let bad: Vec<(&str, Draft)> = vec![
        ("payload", draft().with(|job| job.payload = json_of_bytes(PAYLOAD_LIMIT + 1))),
        ("payload_version 0", draft().with(|job| job.payload_version = 0)),
        ("payload_version < 0", draft().with(|job| job.payload_version = i32::MIN)),
        ("max_attempts 0", draft().max_attempts(0)),
        ("max_attempts < 0", draft().max_attempts(i16::MIN)),
        ("start_to_close 0", draft().with(|job| job.start_to_close = Some(Duration::ZERO))),
        (
            "start_to_close below what is stored",
            draft().with(|job| job.start_to_close = Some(Duration::from_nanos(999))),
        ),
        ("delay", draft().after(DELAY_LIMIT + Duration::from_secs(1))),
        ("delay beyond any time", draft().after(Duration::MAX)),
        ("scheduled_at in year 0", draft().at(time("0000-12-31T23:59:59Z"))),
        ("scheduled_at", draft().at(time("-000001-12-31T23:59:59Z"))),
        ("schedule_to_close", draft().deadline(time("-009000-01-01T00:00:00Z"))),
        ("deadline behind now", draft().deadline(now - MINUTE)),
        ("deadline before the time", draft().at(now + DAY).deadline(now + HOUR)),
        ("deadline at the time", draft().at(now + DAY).deadline(now + DAY)),
        ("deadline before the delay ends", draft().after(DAY).deadline(now + HOUR)),
        ("policy.base", draft().policy(RetryPolicy { base: far, ..policy })),
        ("policy.cap", draft().policy(RetryPolicy { cap: far, ..policy })),
        ("policy.factor < 1", draft().policy(RetryPolicy { factor: 0.99, ..policy })),
        ("policy.factor > 100", draft().policy(RetryPolicy { factor: 100.5, ..policy })),
        ("policy.jitter < 0", draft().policy(RetryPolicy { jitter: -0.1, ..policy })),
        ("policy.jitter > 1", draft().policy(RetryPolicy { jitter: 1.1, ..policy })),
        ("policy.factor not a number", draft().policy(RetryPolicy { factor: f64::NAN, ..policy })),
        ("policy.factor infinite", draft().policy(RetryPolicy { factor: f64::INFINITY, ..policy })),
        ("policy.jitter not a number", draft().policy(RetryPolicy { jitter: f64::NAN, ..policy })),
        ("tags", draft().with(|job| job.tags = vec!["t".to_owned(); 65])),
        ("tag empty", draft().with(|job| job.tags = vec!["t".to_owned(), String::new()])),
        ("tag long", draft().with(|job| job.tags = vec!["t".repeat(NAME_LIMIT + 1)])),
        ("tag control", draft().with(|job| job.tags = vec!["a\tb".to_owned()])),
        ("tag nul", draft().with(|job| job.tags = vec!["a\0b".to_owned()])),
        ("metadata large", draft().with(|job| job.metadata = Some(object_of_bytes(64 * 1024 + 1)))),
        ("metadata list", draft().with(|job| job.metadata = Some(json("[]")))),
        ("metadata null", draft().with(|job| job.metadata = Some(json("null")))),
        ("trace_context empty", draft().with(|job| job.trace_context = Some(String::new()))),
        ("trace_context long", draft().with(|job| job.trace_context = Some("t".repeat(NAME_LIMIT + 1)))),
        ("trace_context control", draft().with(|job| job.trace_context = Some("a\u{7f}b".to_owned()))),
    ];
    for (what, bad) in bad {
        let id = bad.id();
        let good = draft();
        let kept = good.id();
        let answer = scene.try_enqueue([good, bad]).await;
        assert!(answer.is_err(), "{what} is refused");
        assert_invalid(answer, Some(1));
        for id in [id, kept] {
            assert_eq!(
                scene.store.job(id).await.expect("reading succeeds"),
                None,
                "{what}: nothing is written"
            );
        }
    }
}

pub(crate) async fn what_is_at_its_bound_is_accepted(scene: Scene<'_>) {
    let (longest, shortest) = (RetryPolicy::LIMIT, Duration::ZERO);
    let good: Vec<(&str, Draft)> = vec![
        ("payload", draft().with(|job| job.payload = json_of_bytes(PAYLOAD_LIMIT))),
        ("payload that is no object", draft().with(|job| job.payload = json("null"))),
        ("payload_version", draft().with(|job| job.payload_version = i32::MAX)),
        ("max_attempts", draft().max_attempts(i16::MAX)),
        ("max_attempts 1", draft().max_attempts(1)),
        ("priority least", draft().priority(i16::MIN)),
        ("priority most", draft().priority(i16::MAX)),
        ("start_to_close", draft().with(|job| job.start_to_close = Some(Duration::from_micros(1)))),
        ("delay", draft().after(DELAY_LIMIT)),
        ("scheduled_at last", draft().at(time("9999-12-30T22:00:00.999999Z"))),
        ("scheduled_at first", draft().at(time("0001-01-01T00:00:00Z"))),
        ("deadline last", draft().deadline(time("9999-12-30T22:00:00.999999Z"))),
        (
            "policy longest",
            draft().policy(RetryPolicy { base: longest, factor: 100.0, cap: longest, jitter: 1.0 }),
        ),
        (
            "policy shortest",
            draft().policy(RetryPolicy { base: shortest, factor: 1.0, cap: shortest, jitter: 0.0 }),
        ),
        ("tags", draft().with(|job| job.tags = vec!["t".repeat(NAME_LIMIT); 64])),
        ("metadata", draft().with(|job| job.metadata = Some(object_of_bytes(64 * 1024)))),
        ("metadata empty", draft().with(|job| job.metadata = Some(json("{}")))),
        ("trace_context", draft().with(|job| job.trace_context = Some("t".repeat(NAME_LIMIT)))),
        ("queue and actor", draft().queue(&"q".repeat(NAME_LIMIT)).actor(&"a".repeat(NAME_LIMIT))),
    ];
    for (what, good) in good {
        let given = good.0.clone();
        let answer = scene.try_enqueue([good]).await;
        assert!(answer.is_ok(), "{what} is accepted: {answer:?}");
        let stored = scene.job(given.id).await;
        assert_eq!(stored.payload, given.payload, "{what}");
        assert_eq!(stored.metadata, given.metadata, "{what}");
        assert_eq!(stored.schedule_to_close, given.schedule_to_close, "{what}");
        assert_eq!(stored.start_to_close, given.start_to_close, "{what}");
        assert_eq!(stored.retry_policy, given.retry_policy, "{what}");
        assert_eq!(stored.tags, given.tags, "{what}");
        if let Schedule::At(at) = given.schedule {
            assert_eq!(stored.scheduled_at, at, "{what}");
        }
    }
}

pub(crate) async fn a_deadline_is_measured_against_the_scheduled_time_not_against_now(scene: Scene<'_>) {
    let now = scene.now().await;
    let backdated = draft().at(now - DAY).deadline(now - HOUR);
    let delayed = draft().after(HOUR).deadline(now + DAY);
    let statuses: Vec<Option<Status>> =
        scene.enqueue([backdated, delayed]).await.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [Some(Status::Pending), Some(Status::Scheduled)]);
}

/// An object whose text has exactly so many bytes.
fn object_of_bytes(bytes: usize) -> taskq_core::model::Json {
    json(&format!("{{\"k\":\"{}\"}}", "x".repeat(bytes - r#"{"k":""}"#.len())))
}
