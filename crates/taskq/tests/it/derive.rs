//! What `#[derive(Job)]` makes. What it refuses is tested beside the macro.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskq::{DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE, Job, Keep, RetryPolicy};

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "plain")]
struct Plain;

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "full", queue = "bulk", output = Vec<(i64, String)>)]
#[job(max_attempts = 32_767, version = 3, priority = -7, start_to_close = "1m 30s", keep = none)]
#[job(retry(base = "2s", factor = 3, jitter = 0.5))]
struct Full {
    field: i64,
}

const PATIENT: RetryPolicy = RetryPolicy::fixed(Duration::from_hours(2));

mod elsewhere {
    pub(super) mod queue {
        pub(crate) use taskq::{Job, Keep, RetryPolicy};
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "constant", retry = PATIENT, keep = all, crate = elsewhere::queue)]
struct Constant;

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "fixed", retry(fixed = "250ms"), crate = "elsewhere::queue", priority = 32_767)]
struct Fixed;

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "generic", output = T)]
#[serde(bound = "T: Serialize + serde::de::DeserializeOwned")]
struct Generic<T: Serialize + serde::de::DeserializeOwned + Send + 'static>(T);

fn facts<J: Job>() -> (&'static str, &'static str, i16, i32) {
    (J::ACTOR, J::QUEUE, J::MAX_ATTEMPTS, J::VERSION)
}

#[test]
fn attributes_become_constants_and_the_rest_has_defaults() {
    assert_eq!(facts::<Plain>(), ("plain", DEFAULT_QUEUE, DEFAULT_MAX_ATTEMPTS, 1));
    assert_eq!(facts::<Full>(), ("full", "bulk", 32_767, 3));
    assert_eq!(facts::<Generic<u8>>(), ("generic", DEFAULT_QUEUE, DEFAULT_MAX_ATTEMPTS, 1));
    let nothing: <Plain as Job>::Output = ();
    let rows: <Full as Job>::Output = vec![(1, String::new())];
    assert_eq!((nothing, rows.len()), ((), 1));
}

#[test]
fn what_a_type_says_of_its_attempts_is_what_its_jobs_have() {
    let full = RetryPolicy { base: Duration::from_secs(2), factor: 3.0, jitter: 0.5, ..RetryPolicy::DEFAULT };
    assert_eq!((Full::PRIORITY, Full::START_TO_CLOSE), (-7, Some(Duration::from_secs(90))));
    assert_eq!((Full::RETRY, Full::KEEP), (Some(full), Keep::None));
    assert_eq!((Plain::PRIORITY, Plain::START_TO_CLOSE), (0, None));
    assert_eq!((Plain::RETRY, Plain::KEEP), (None, Keep::All));
    assert_eq!((Constant::RETRY, Constant::KEEP), (Some(PATIENT), Keep::All));
    assert_eq!(Fixed::RETRY, Some(RetryPolicy::fixed(Duration::from_millis(250))));

    let taskq = taskq::TaskQ::in_memory();
    let job = taskq.enqueue(&Full { field: 1 }).into_new_job().unwrap();
    assert_eq!((job.priority, job.max_attempts, job.payload_version), (-7, 32_767, 3));
    assert_eq!(
        (job.start_to_close, job.retry_policy, job.keep),
        (Full::START_TO_CLOSE, Full::RETRY, Keep::None)
    );
    let other =
        taskq.enqueue(&Full { field: 1 }).priority(1).keep(Keep::All).start_to_close(Duration::from_secs(1));
    let other = other.into_new_job().unwrap();
    assert_eq!((other.priority, other.keep), (1, Keep::All));
    assert_eq!(other.start_to_close, Some(Duration::from_secs(1)));
}
