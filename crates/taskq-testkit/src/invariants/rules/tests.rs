//! A story in which every rule holds, and what is found when one does not.

use super::*;
use crate::invariants::PastAttempt;

/// A job that was killed once, released once, frozen once, and succeeded at its fourth claim.
struct Story {
    enqueued: Vec<Uuid>,
    log: Vec<Record>,
    jobs: Vec<JobFacts>,
}

const JOB: Uuid = Uuid::from_u128(1);

fn key(epoch: i64, attempt: i32) -> AttemptKey {
    AttemptKey { job: JOB, epoch, attempt }
}

fn at(at: u64, pid: u32, event: Event) -> Record {
    Record { at, pid, event }
}

fn story() -> Story {
    let past = |epoch, attempt, outcome: &str| PastAttempt { epoch, attempt, outcome: outcome.to_owned() };
    Story {
        enqueued: vec![JOB],
        log: vec![
            at(10, 1, Event::Start(key(1, 1))),
            at(20, 1, Event::Killed),
            at(30, 2, Event::Start(key(2, 2))),
            at(40, 2, Event::End(key(2, 2))),
            at(50, 2, Event::Start(key(3, 2))),
            at(60, 2, Event::Frozen),
            at(70, 3, Event::Start(key(4, 3))),
            // The frozen process is thawed and notices.
            at(80, 2, Event::End(key(3, 2))),
            at(90, 3, Event::End(key(4, 3))),
        ],
        jobs: vec![JobFacts {
            id: JOB,
            status: "succeeded".to_owned(),
            epoch: 4,
            attempt: 3,
            max_attempts: 3,
            last_on_job: true,
            past: vec![past(1, 1, "crashed"), past(2, 2, "released"), past(3, 2, "crashed")],
        }],
    }
}

/// What is found after a change of the story.
fn found(change: impl FnOnce(&mut Story)) -> Vec<String> {
    let mut story = story();
    change(&mut story);
    let found = violations(&story.enqueued, &story.log, &story.jobs);
    assert!(found.iter().all(|sentence| sentence.contains("job 00000000-")), "{found:?}");
    found
}

#[track_caller]
fn one(change: impl FnOnce(&mut Story), sentence: &str) {
    let found = found(change);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(sentence), "{found:?}");
}

#[test]
fn a_story_with_every_excuse_violates_nothing() {
    assert_eq!(found(|_| {}), [""; 0]);
}

#[test]
fn a_lost_and_an_unfinished_job_are_found() {
    one(|story| story.enqueued.push(Uuid::from_u128(2)), "was enqueued and is not there");
    one(|story| story.jobs[0].status = "running".to_owned(), "has not ended: it is running");
    let without = found(|story| story.jobs.clear());
    assert_eq!(without.len(), 2, "{without:?}");
    assert!(without[1].contains("ran and is not in the database"));
}

#[test]
fn a_success_that_never_ran_is_found() {
    one(|story| story.log.retain(|record| record.pid != 3), "without having run under it");
}

#[test]
fn an_overlap_is_found_also_with_one_before_the_last() {
    one(|story| story.log[1].at = 31, "ran twice at once: epoch 1 in process 1 and epoch 2 in process 2");
    let sorted = |story: &mut Story| story.log.sort_by_key(|record| record.at);
    let long = found(|story| {
        story.log[1].at = 55;
        sorted(story);
    });
    assert_eq!(long.len(), 2, "{long:?}");
    assert!(long[1].contains("epoch 1 in process 1 and epoch 3 in process 2"), "{long:?}");
    one(
        |story| {
            story.log.remove(5);
        },
        "epoch 3 in process 2 and epoch 4 in process 3",
    );
}

#[test]
fn an_attempt_that_never_ended_is_found() {
    one(
        |story| {
            story.log.pop();
        },
        "has not ended its attempt of epoch 4 in process 3",
    );
    let alive = found(|story| {
        story.log.remove(1);
    });
    assert!(alive[0].contains("has not ended its attempt of epoch 1 in process 1"), "{alive:?}");
    one(
        |story| {
            story.log.remove(2);
        },
        "ended an attempt of epoch 2 in process 2 that it had not started",
    );
}

#[test]
fn epochs_that_do_not_grow_are_found() {
    let swapped = found(|story| {
        for index in [2, 3] {
            story.log[index].event = match story.log[index].event {
                Event::Start(_) => Event::Start(key(1, 1)),
                _ => Event::End(key(1, 1)),
            };
        }
    });
    assert_eq!(swapped.len(), 1, "{swapped:?}");
    assert!(swapped[0].contains("started epoch 1 after epoch 1"), "{swapped:?}");
}

#[test]
fn more_starts_than_claims_are_found() {
    let late = [at(100, 3, Event::Start(key(5, 3))), at(110, 3, Event::End(key(5, 3)))];
    let unclaimed = found(|story| story.log.extend(late));
    assert!(unclaimed[0].contains("started 5 times and was claimed 4 times"), "{unclaimed:?}");
    assert!(unclaimed[1].contains("ran under epoch 5, beyond its last one, 4"), "{unclaimed:?}");
}

#[test]
fn attempts_that_do_not_add_up_are_found() {
    one(|story| drop(story.jobs[0].past.remove(0)), "has attempts of the epochs [2, 3], not of 1 to 3");
    one(|story| story.jobs[0].last_on_job = false, "not of 1 to 4");
    one(|story| story.jobs[0].past[0].attempt = 2, "ran epoch 1 as attempt 1, recorded as attempt 2");
}

#[test]
fn a_wrong_count_is_found() {
    let burnt = found(|story| story.jobs[0].past[2].attempt = 3);
    assert!(burnt.iter().any(|s| s.contains("epoch 3 as attempt 3 after epoch 2 released as attempt 2")));
    let skipped = found(|story| {
        story.jobs[0].past[0].attempt = 0;
    });
    assert!(skipped.iter().any(|s| s.contains("recorded epoch 1 as attempt 0 of at most 3")), "{skipped:?}");
    let spent = found(|story| story.jobs[0].max_attempts = 2);
    assert_eq!(spent.len(), 1, "{spent:?}");
    assert!(spent[0].contains("counts 3 attempts of at most 2"), "{spent:?}");
    let forgiven = |story: &mut Story| {
        story.jobs[0].attempt = 2;
        for record in &mut story.log {
            if let Event::Start(key) | Event::End(key) = &mut record.event
                && key.epoch == 4
            {
                key.attempt = 2;
            }
        }
    };
    assert_eq!(found(forgiven), [""; 0]);
}
