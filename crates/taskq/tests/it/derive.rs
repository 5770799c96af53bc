//! What `#[derive(Job)]` makes. What it refuses is tested beside the macro.

use serde::{Deserialize, Serialize};
use taskq::{DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE, Job};

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "plain")]
struct Plain;

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "full", queue = "bulk", output = Vec<(i64, String)>)]
#[job(max_attempts = 32_767, version = 3)]
struct Full {
    field: i64,
}

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
