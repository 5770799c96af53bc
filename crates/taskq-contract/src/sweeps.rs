//! The leader's sweeps but for promoting and rescuing: deadlines, events, keys, and what is told of them.

use std::time::Duration;

use taskq_core::model::{EventLevel, IdempotencyKey, JobId, JobRecord, Keep, Outcome, Status};
use taskq_core::store::{
    LookFrom, Setting, Sweep, SweepCall, SweepFailure, SweepKey, SweepNote, SweepProbe, SweepRun,
    SweepSummary, Swept,
};

use crate::draft::{Draft, draft, json};
use crate::leading::Leading;
use crate::scene::{DAY, HOUR, MINUTE, Scene, assert_invalid};
use crate::worker::{LEASE, failed, of, succeeded};

const SECOND: Duration = Duration::from_secs(1);

/// The sweeps that take rows in an order of time. Events come first, since others tell some, and the archive before those that
/// end jobs.
const ORDERED: [Sweep; 5] =
    [Sweep::Events, Sweep::Archive, Sweep::Promote, Sweep::Deadlines, Sweep::IdempotencyKeys];

impl Leading<'_> {
    /// Runs a batch of a sweep behind a key.
    async fn sweep_behind(&self, sweep: Sweep, limit: u32, after: Option<SweepKey>) -> Swept {
        let call = SweepCall { after, ..self.call(limit) };
        self.scene().store.sweep(sweep, call).await.expect("it leads")
    }
}

impl Scene<'_> {
    /// Gives a sweep three rows that become due one after the other, at the latest in eight days.
    async fn rows_for(&self, sweep: Sweep) {
        for minute in 1..=3 {
            match sweep {
                Sweep::Promote => {
                    self.add(draft().after(minute * MINUTE)).await;
                }
                Sweep::Deadlines => {
                    late(self, draft(), minute * MINUTE).await;
                }
                Sweep::Events => {
                    let (_, job) = self.running(draft().priority(9)).await;
                    self.request_cancel(job.id).await;
                    self.advance(MINUTE).await;
                }
                Sweep::Archive => {
                    // Of a success nothing is told.
                    let (worker, job) = self.running(draft().priority(9)).await;
                    worker.end(&job, succeeded()).await;
                    self.advance(SECOND).await;
                }
                Sweep::IdempotencyKeys => {
                    let key = IdempotencyKey::new(minute.to_string()).expect("a valid key");
                    self.add(draft().with(|job| job.idempotency_key = Some(key))).await;
                    self.advance(MINUTE).await;
                }
                _ => unreachable!("{sweep:?} has no order"),
            }
        }
    }

    async fn summary(&self, sweep: Sweep) -> SweepSummary {
        let summaries = self.store.sweeps().await.expect("reading succeeds");
        assert_eq!(summaries.iter().map(|it| it.sweep).collect::<Vec<_>>(), Sweep::ALL);
        summaries.into_iter().find(|it| it.sweep == sweep).expect("every sweep is told")
    }

    async fn set(&self, setting: Setting) {
        self.operator().await.set_setting(setting).await.expect("the value is in bounds");
    }
}

/// A job that waits and must start by a time.
async fn late(scene: &Scene<'_>, job: Draft, by: Duration) -> JobId {
    let deadline = scene.now().await + by;
    scene.add(job.deadline(deadline)).await
}

pub(crate) async fn a_batch_goes_on_behind_the_one_before(scene: Scene<'_>) {
    for sweep in ORDERED {
        scene.rows_for(sweep).await;
    }
    scene.advance(9 * DAY).await;
    let leader = scene.leading().await;
    for sweep in ORDERED {
        assert_eq!(scene.summary(sweep).await.backlog.value, 3, "{sweep:?}");
        let first = leader.sweep_behind(sweep, 1, None).await;
        assert_eq!((first.rows, first.more), (1, true), "{sweep:?}");
        assert_eq!(first.due_in, Some(Duration::ZERO), "{sweep:?}");
        let second = leader.sweep_behind(sweep, 1, first.reached.clone()).await;
        assert!(second.reached > first.reached, "{sweep:?}");
        let third = leader.sweep_behind(sweep, 5, second.reached.clone()).await;
        assert_eq!((third.rows, third.more, third.due_in), (1, false, None), "{sweep:?}");
        let none = leader.sweep_behind(sweep, 5, third.reached.clone()).await;
        assert_eq!((none.rows, none.more, &none.reached), (0, false, &third.reached), "{sweep:?}");
        assert_eq!(scene.summary(sweep).await.backlog.value, 0, "{sweep:?}");
    }
}

pub(crate) async fn what_lies_below_a_key_is_seen_from_the_start_only(scene: Scene<'_>) {
    for sweep in ORDERED {
        scene.rows_for(sweep).await;
    }
    scene.advance(9 * DAY).await;
    let leader = scene.leading().await;
    let later = SweepKey { at: scene.now().await, id: String::new() };
    for sweep in ORDERED {
        let ask =
            async |from| leader.ask(vec![SweepProbe { from, ..SweepProbe::new(sweep) }]).await.remove(0);
        assert!(!ask(LookFrom::After(later.clone())).await.is_now(), "{sweep:?}");
        let beyond = leader.sweep_behind(sweep, 5, Some(later.clone())).await;
        assert_eq!((beyond.rows, beyond.reached), (0, Some(later.clone())), "{sweep:?}");
        let due = ask(LookFrom::Start).await;
        assert!(due.is_now() && due.behind > MINUTE, "{sweep:?}: {due:?}");
        assert_eq!(leader.sweep_behind(sweep, 5, None).await.rows, 3, "{sweep:?}");
    }
}

pub(crate) async fn the_probe_tells_up_to_where_nothing_lives(scene: Scene<'_>) {
    let leader = scene.leading().await;
    for sweep in ORDERED {
        let (due, span) = scene.during(leader.due_of(sweep)).await;
        assert_eq!(due.due_in, None, "{sweep:?}");
        span.assert_holds(due.clear_to);
        scene.rows_for(sweep).await;
    }
    leader.step_down().await;
    scene.advance(9 * DAY).await;
    let leader = scene.leading().await;
    for sweep in ORDERED {
        let clear_to = leader.due_of(sweep).await.clear_to.expect("it has an order");
        assert!(clear_to < scene.now().await - 8 * HOUR, "{sweep:?}: {clear_to}");
        // Behind that place lies everything.
        let from = LookFrom::After(SweepKey { at: clear_to, id: String::new() });
        let probe = SweepProbe { from, ..SweepProbe::new(sweep) };
        assert!(leader.ask(vec![probe]).await[0].is_now(), "{sweep:?}");
    }
    for sweep in [Sweep::MarkLost, Sweep::Reclaim, Sweep::Workers] {
        assert_eq!(leader.due_of(sweep).await.clear_to, None, "{sweep:?} has no order");
    }
}

pub(crate) async fn a_batch_out_of_bounds_is_refused(scene: Scene<'_>) {
    let leader = scene.leading().await;
    for sweep in Sweep::ALL.into_iter().filter(|sweep| *sweep != Sweep::Reclaim) {
        for limit in [0, 100_001] {
            assert_invalid(leader.try_sweep(sweep, limit).await, None);
        }
        assert_eq!(leader.try_sweep(sweep, 100_000).await.expect("at its bound").rows, 0, "{sweep:?}");
    }
    assert_invalid(leader.try_sweep(Sweep::Reclaim, 1).await, None);
}

pub(crate) async fn a_job_fails_when_its_deadline_passes_before_it_starts(scene: Scene<'_>) {
    let ready = late(&scene, draft(), MINUTE).await;
    let scheduled = late(&scene, draft().after(MINUTE), 2 * MINUTE).await;
    let (in_time, without) = (late(&scene, draft(), HOUR).await, scene.add(draft()).await);
    scene.advance(3 * MINUTE).await;
    let leader = scene.leading().await;
    assert_eq!(leader.due_now().await, [Sweep::Promote, Sweep::Deadlines]);
    let (swept, span) = scene.during(leader.sweep(Sweep::Deadlines)).await;
    assert_eq!(swept.rows, 2);
    assert_eq!(swept.due_in, None, "a deadline that is far away is not looked for");
    for id in [ready, scheduled] {
        let job = scene.job(id).await;
        assert_eq!((job.status, job.attempt), (Status::Failed, 0));
        assert_eq!(job.error.expect("the reason is recorded").class, "deadline");
        span.assert_holds(job.finished_at);
    }
    for id in [in_time, without] {
        assert_eq!(scene.status(id).await, Status::Pending);
    }
    assert_eq!(leader.due_now().await, [], "what has failed is not promoted");
}

pub(crate) async fn a_job_that_waits_for_another_attempt_has_its_deadline(scene: Scene<'_>) {
    let deadline = scene.now().await + HOUR;
    let (worker, job) = scene.running(draft().deadline(deadline).retry_every(30 * MINUTE)).await;
    assert_eq!(worker.end(&job, failed()).await, Status::Scheduled);
    scene.advance(2 * HOUR).await;
    let leader = scene.leading().await;
    assert_eq!(leader.sweep(Sweep::Deadlines).await.rows, 1);
    let ended = scene.job(job.id).await;
    assert_eq!((ended.status, ended.attempt), (Status::Failed, 1));
}

pub(crate) async fn a_running_job_is_not_taken_at_its_deadline(scene: Scene<'_>) {
    let deadline = scene.now().await + MINUTE;
    let (worker, job) = scene.running(draft().deadline(deadline)).await;
    scene.advance(2 * MINUTE).await;
    let leader = scene.leading().await;
    assert_eq!(leader.sweep(Sweep::Deadlines).await.rows, 0);
    assert_eq!(worker.end(&job, succeeded()).await, Status::Succeeded);
}

pub(crate) async fn a_worker_is_told_of_attempts_that_take_too_long(scene: Scene<'_>) {
    let bounded = draft().with(|job| job.start_to_close = Some(MINUTE));
    let (worker, job) = scene.running(bounded.clone()).await;
    let other = scene.worker().await;
    scene.add(draft()).await;
    assert_eq!(other.claim(1).await.len(), 1, "it has no bound");
    let overdue = async || worker.try_beat().await.expect("its lease runs").overdue;
    assert_eq!(overdue().await, []);
    scene.advance(MINUTE).await;
    assert_eq!(overdue().await, [], "the worker's own clock comes first");
    scene.advance(6 * SECOND).await;
    assert_eq!(overdue().await, [(job.id, job.epoch)]);
    assert_eq!(overdue().await, [(job.id, job.epoch)], "at every beat");
    assert_eq!(other.try_beat().await.expect("its lease runs").overdue, []);
    for step in [LEASE * 6 / 10; 2] {
        scene.advance(step).await;
        worker.beat().await;
    }
    assert_eq!(overdue().await, [], "it was told for a whole lease");
    assert_eq!(scene.status(job.id).await, Status::Running, "nobody took it");
    assert_eq!(worker.end(&job, succeeded()).await, Status::Succeeded);
    assert_eq!(overdue().await, []);
}

pub(crate) async fn a_result_is_kept_for_its_time_and_its_stamp_for_longer(scene: Scene<'_>) {
    let result = || Outcome::Succeeded { result: Some(json("[1]")) };
    let (worker, kept) = scene.running(draft()).await;
    worker.end(&kept, result()).await;
    assert_eq!(scene.job(kept.id).await.result_expires_at, None, "for ever unless it is set");
    scene.set(Setting::ResultTtl(HOUR)).await;
    let (worker, job) = scene.running(draft()).await;
    // Beside an outcome of another kind, and one without a result.
    let ids = scene.add_all([draft(), draft(), draft()]).await;
    let others = worker.claim(3).await;
    let (_, span) = scene.during(worker.end(&job, result())).await;
    span.later(HOUR).assert_holds(scene.job(job.id).await.result_expires_at);
    let (_, span) = scene
        .during(worker.settle_all([
            of(&others[0], result()),
            of(&others[1], succeeded()),
            of(&others[2], failed()),
        ]))
        .await;
    span.later(HOUR).assert_holds(scene.job(ids[0]).await.result_expires_at);
    for id in &ids[1..] {
        assert_eq!(scene.job(*id).await.result_expires_at, None, "it has no result");
    }

    let leader = scene.leading().await;
    assert_eq!(leader.sweep(Sweep::Results).await.rows, 0);
    leader.step_down().await;
    scene.advance(HOUR).await;
    let leader = scene.leading().await;
    assert!(leader.due_of(Sweep::Results).await.is_now());
    assert_eq!(scene.summary(Sweep::Results).await.backlog.value, 2);
    let before = scene.job(job.id).await;
    assert_eq!(leader.sweep(Sweep::Results).await.rows, 2);
    assert_eq!(scene.job(job.id).await, JobRecord { result: None, ..before }, "nothing else changes");
    assert!(scene.job(kept.id).await.result.is_some());
    assert!(!leader.due_of(Sweep::Results).await.is_now());
    assert_eq!(leader.sweep(Sweep::Results).await.rows, 0);

    scene.retry(&[job.id]).await;
    assert_eq!(scene.job(job.id).await.result_expires_at, None, "a fresh start");
}

pub(crate) async fn expired_keys_are_forgotten(scene: Scene<'_>) {
    let keyed = |key: &str| {
        let key = IdempotencyKey::new(key).expect("a valid key");
        draft().with(|job| job.idempotency_key = Some(key))
    };
    scene.enqueue([keyed("a"), keyed("b"), draft()]).await;
    scene.advance(6 * DAY).await;
    scene.add(keyed("c")).await;
    let leader = scene.leading().await;
    assert_eq!(leader.sweep(Sweep::IdempotencyKeys).await.rows, 0);
    leader.step_down().await;
    scene.advance(DAY).await;
    let leader = scene.leading().await;
    assert_eq!(leader.due_now().await, [Sweep::IdempotencyKeys]);
    let swept = leader.sweep(Sweep::IdempotencyKeys).await;
    assert_eq!(swept.rows, 2);
    assert!(swept.due_in.expect("a key is left") > 5 * DAY);
    assert_eq!(leader.due_now().await, []);
}

pub(crate) async fn events_are_kept_for_a_time(scene: Scene<'_>) {
    let (first, second) = (scene.add(draft()).await, scene.add(draft()).await);
    scene.cancel(&[first]).await;
    scene.advance(DAY).await;
    scene.cancel(&[second]).await;
    scene.advance(6 * DAY).await;
    let leader = scene.leading().await;
    let swept = leader.sweep(Sweep::Events).await;
    assert_eq!((swept.rows, swept.more), (1, false));
    let left = swept.due_in.expect("an event is left");
    assert!(left <= DAY && left > 23 * HOUR, "{left:?}");

    // Lowered, it takes effect at once; zero keeps everything, and a leader may have its own idea.
    scene.set(Setting::EventRetentionPeriod(Duration::ZERO)).await;
    assert_eq!(leader.due_of(Sweep::Events).await.due_in, None);
    assert_eq!(leader.sweep(Sweep::Events).await, Swept::default());
    let own = SweepProbe { period: Some(HOUR), ..SweepProbe::new(Sweep::Events) };
    assert!(leader.ask(vec![own]).await[0].is_now());
    scene.set(Setting::EventRetentionPeriod(DAY)).await;
    assert!(leader.due_of(Sweep::Events).await.is_now());
    let own = SweepCall { period: Some(30 * DAY), ..leader.call(10) };
    assert_eq!(scene.store.sweep(Sweep::Events, own).await.expect("it leads").rows, 0);
    assert_eq!(leader.sweep(Sweep::Events).await.rows, 1);
}

pub(crate) async fn the_size_of_a_batch_of_events_is_a_setting(scene: Scene<'_>) {
    let leader = scene.leading().await;
    assert_eq!(leader.due_of(Sweep::Events).await.batch, None);
    scene.set(Setting::EventRetentionBatchSize(7)).await;
    assert_eq!(leader.due_of(Sweep::Events).await.batch, Some(7));
    for sweep in Sweep::ALL.into_iter().filter(|sweep| *sweep != Sweep::Events) {
        assert_eq!(leader.due_of(sweep).await.batch, None, "{sweep:?}");
    }
}

pub(crate) async fn a_result_that_is_not_kept_does_not_expire(scene: Scene<'_>) {
    scene.set(Setting::ResultTtl(HOUR)).await;
    let (worker, job) = scene.running(draft().with(|job| job.keep = Keep::None)).await;
    worker.end(&job, Outcome::Succeeded { result: Some(json("1")) }).await;
    scene.advance(2 * HOUR).await;
    assert_eq!(scene.leading().await.sweep(Sweep::Results).await.rows, 0);
}

pub(crate) async fn settings_out_of_bounds_are_refused(scene: Scene<'_>) {
    let before = scene.store.settings().await.expect("reading succeeds");
    assert_eq!(before.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), Setting::NAMES);
    assert!(before.iter().all(|it| it.value.is_none() && it.problem.is_none()));
    let too_long = 36_601 * DAY;
    for setting in [
        Setting::EventRetentionPeriod(too_long),
        Setting::ResultTtl(too_long),
        Setting::EventRetentionBatchSize(0),
        Setting::EventRetentionBatchSize(100_001),
    ] {
        assert_invalid(scene.operator().await.set_setting(setting).await, None);
    }
    assert_eq!(scene.store.settings().await.expect("reading succeeds"), before);
    scene.set(Setting::EventLevel(EventLevel::All)).await;
    scene.set(Setting::EventRetentionPeriod(36_600 * DAY)).await;
    scene.set(Setting::EventRetentionBatchSize(100_000)).await;
    scene.set(Setting::ResultTtl(HOUR)).await;
    scene.set(Setting::HotPeriod(2 * HOUR)).await;
    scene.set(Setting::FailedHotPeriod(HOUR)).await;
    scene.set(Setting::ArchiveRetentionPeriod(DAY)).await;
    let set = scene.store.settings().await.expect("reading succeeds");
    assert!(set.iter().all(|it| it.value.is_some() && it.problem.is_none()), "{set:?}");
}

fn note(sweep: Sweep) -> SweepNote {
    SweepNote { sweep, run: None, error: None, batch: 10, reached: None, overrides: None }
}

pub(crate) async fn what_the_leader_writes_down_is_told(scene: Scene<'_>) {
    let leader = scene.leading().await;
    let write = async |notes| {
        scene.store.note_sweeps(leader.worker.id, leader.epoch, notes).await.expect("it leads");
    };
    let unseen = scene.summary(Sweep::Events).await;
    assert_eq!((unseen.last_run_at, unseen.swept, unseen.batch, unseen.last_error), (None, 0, None, None));
    let run = SweepRun { ago: MINUTE, took: 2 * SECOND, rows: 5, rows_since: 9 };
    let error = SweepFailure { ago: HOUR, message: "it broke".to_owned() };
    let overrides = Some(json(r#"{"event_retention_period": "60.000000 seconds"}"#));
    let noted = SweepNote { run: Some(run), overrides: overrides.clone(), ..note(Sweep::Events) };
    let ((), span) = scene.during(write(vec![noted, note(Sweep::Promote)])).await;
    let told = scene.summary(Sweep::Events).await;
    span.later_by(Duration::ZERO, Duration::ZERO).assert_holds(told.last_run_at.map(|at| at + MINUTE));
    assert_eq!((told.duration, told.rows, told.swept), (Some(2 * SECOND), 5, 9));
    assert_eq!((told.batch, told.last_error, told.overrides), (Some(10), None, overrides));

    // A note without a run leaves the last one, and an error stays until the next.
    write(vec![SweepNote { error: Some(error), batch: 5, ..note(Sweep::Events) }]).await;
    let more = SweepRun { rows: 1, rows_since: 2, ..run };
    write(vec![SweepNote { run: Some(more), ..note(Sweep::Events) }]).await;
    let told = scene.summary(Sweep::Events).await;
    assert_eq!((told.rows, told.swept), (1, 11));
    assert_eq!(told.last_error.as_deref(), Some("it broke"));
    assert!(told.last_error_at < told.last_run_at);
    assert_eq!(scene.summary(Sweep::Promote).await.swept, 0);
}

pub(crate) async fn a_new_leader_goes_on_where_the_last_note_says(scene: Scene<'_>) {
    scene.rows_for(Sweep::Promote).await;
    scene.advance(HOUR).await;
    let leader = scene.leading().await;
    let from_note = async |leader: &Leading<'_>| {
        let probe = SweepProbe { from: LookFrom::LastNote, ..SweepProbe::new(Sweep::Promote) };
        leader.ask(vec![probe]).await[0].is_now()
    };
    assert!(from_note(&leader).await, "without a note it looks from the start");
    let reached = Some(SweepKey { at: scene.now().await, id: String::new() });
    let noted = SweepNote { reached, ..note(Sweep::Promote) };
    scene.store.note_sweeps(leader.worker.id, leader.epoch, vec![noted]).await.expect("it leads");
    leader.step_down().await;
    let leader = scene.leading().await;
    assert!(!from_note(&leader).await);
    assert!(leader.due_of(Sweep::Promote).await.is_now());
}
