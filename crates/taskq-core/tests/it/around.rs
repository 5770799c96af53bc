//! Code around attempts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use taskq_core::client::WaitError;
use taskq_core::model::{Json, RESULT_LIMIT, RetryPolicy};
use taskq_core::testing;
use taskq_core::worker::{Around, Context, JobError, JobResult, Next, Worker};

use crate::jobs::*;

tokio::task_local! {
    static TENANT: &'static str;
}

#[derive(Clone, Default)]
struct Story(Arc<Mutex<Vec<String>>>);

impl Story {
    fn tell(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Tells when it begins and what comes back.
struct Telling(&'static str, Story);

impl Around for Telling {
    async fn around(&self, ctx: Context, next: Next) -> JobResult<Option<Json>> {
        let Self(name, story) = self;
        story.tell(format!("{name}: {} {} of {}", ctx.actor(), ctx.attempt(), next.payload()));
        let result = next.run().await;
        let became = match &result {
            Ok(output) => output.as_ref().map_or("nothing", Json::as_str).to_owned(),
            Err(error) => format!("{:?}", error.kind()),
        };
        story.tell(format!("{name}: {became}"));
        result
    }
}

#[tokio::test]
async fn the_first_that_is_added_is_the_outermost() {
    let (client, story) = (testing::client(), Story::default());
    let inner = story.clone();
    let worker = Worker::builder(&client)
        .queue(QUEUE, 1)
        .queue("default", 1)
        .around(Telling("outer", story.clone()))
        .around(async |_: Context, next: Next| TENANT.scope("acme", next.run()).await)
        .around(Telling("inner", story.clone()))
        .handle::<Double>(move |job: Double, _: Context| {
            inner.tell(TENANT.get());
            async move { if job.value < 0 { Err(JobError::fail("negative")) } else { Ok(job.value * 2) } }
        })
        .handle::<Note>(async |_: Note, _: Context| Ok(()))
        .build()
        .unwrap()
        .start();
    let double = client.enqueue(&Double { value: 2 }).await.unwrap();
    assert_eq!(double.wait_timeout(DEADLINE).await.unwrap(), 4);
    let payload = r#"{"value":2}"#;
    let expected = [
        &format!("outer: double 1 of {payload}"),
        &format!("inner: double 1 of {payload}"),
        "acme",
        "inner: 4",
        "outer: 4",
    ];
    assert_eq!(story.told(), expected);
    let failed = client.enqueue(&Double { value: -1 }).await.unwrap();
    failed.wait_timeout(DEADLINE).await.unwrap_err();
    assert_eq!(story.told()[3..], ["inner: Fail", "outer: Fail"]);
    client.enqueue(&Note { text: String::new() }).await.unwrap().wait_timeout(DEADLINE).await.unwrap();
    assert_eq!(story.told()[2..], ["inner: nothing", "outer: nothing"], "whatever the handler");
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test]
async fn code_around_may_change_what_goes_in_and_what_comes_out() {
    let client = testing::client();
    let worker = Worker::builder(&client)
        .queue(QUEUE, 1)
        .around(async |_: Context, next: Next| {
            let job: Double = next.payload().parse()?;
            match job.value {
                1 => Ok(Some(Json::from_value(&10, 10)?)),
                2 => next.with_payload(Json::from_value(&Double { value: 200 }, 100)?).run().await,
                3 => next.run().await.or(Ok(None)),
                4 => panic!("out of order"),
                _ => Ok(Some(Json::from_text(format!("\"{}\"", "x".repeat(RESULT_LIMIT)), usize::MAX)?)),
            }
        })
        .handle::<Double>(async |job: Double, _: Context| match job.value {
            200 => Ok(400),
            value => Err(JobError::from(format!("{value} should not come here"))),
        })
        .build()
        .unwrap()
        .start();
    let run = async |value| {
        let once = RetryPolicy::fixed(Duration::ZERO);
        let handle = client.enqueue(&Double { value }).max_attempts(1).retry(once).await.unwrap();
        handle.wait_timeout(DEADLINE).await
    };
    assert_eq!(run(1).await.unwrap(), 10, "the handler did not run");
    assert_eq!(run(2).await.unwrap(), 400);
    assert!(matches!(run(3).await, Err(WaitError::Output(_))), "succeeded, without a number");
    let failure = async |value| match run(value).await {
        Err(WaitError::Failed { error: Some(error) }) => (error.class, error.message),
        other => panic!("{other:?}"),
    };
    assert_eq!(failure(4).await, ("panic".to_owned(), "out of order".to_owned()));
    assert_eq!(failure(5).await.0, "invalid_output");
    worker.stop();
    worker.join().await.unwrap();
}
