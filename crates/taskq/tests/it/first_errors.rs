//! What a first program prints that returns its errors from `main`, which is their `Debug` form.

use taskq::prelude::*;
use taskq_testkit::shared_server;

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(actor = "mail.welcome", queue = "mail")]
struct Welcome;

#[tokio::test]
async fn a_program_that_cannot_connect_says_what_to_do() {
    let server = shared_server().await;
    let database = format!("first_{}", uuid::Uuid::now_v7().simple()).chars().take(40).collect::<String>();
    let dsn = server.create_database(&database).await.unwrap();
    let missing = TaskQ::connect(&dsn).await.unwrap_err();
    assert_eq!(format!("{missing:?}"), "the schema \"taskq\" is missing: run `taskq migrate up`");
    server.drop_database(&database).await.unwrap();
    let nobody = format!("{:?}", TaskQ::connect("postgres://localhost:1/app").await.unwrap_err());
    assert!(
        nobody.starts_with("the server cannot be reached: ") && nobody.contains("localhost:1"),
        "{nobody}"
    );
    let nonsense =
        format!("{:?}", TaskQ::connect("postgres://localhost/app?sslmode=maybe").await.unwrap_err());
    assert!(nonsense.starts_with("the DSN cannot be used: ") && nonsense.contains("sslmode"), "{nonsense}");
}

#[test]
fn a_worker_that_cannot_be_built_says_what_to_do() {
    let taskq = TaskQ::in_memory();
    let welcome = async |_: Welcome, _: Context| Ok(());
    let unserved =
        Worker::builder(&taskq).queue("default", 1).handle::<Welcome>(welcome).build().unwrap_err();
    assert!(format!("{unserved:?}").contains("add `.queue(\"mail\", slots)`"), "{unserved:?}");
    assert_eq!(format!("{unserved:?}"), unserved.to_string());
    let none = Worker::builder(&taskq).queue("mail", 1).build().unwrap_err();
    assert!(format!("{none:?}").contains("add `.handle::<J>(handler)`"), "{none:?}");
    let twice =
        Worker::builder(&taskq).queue("mail", 1).handle::<Welcome>(welcome).handle::<Welcome>(welcome);
    let twice = twice.build().unwrap_err();
    assert!(format!("{twice:?}").contains("remove one, or give its job another actor"), "{twice:?}");
}
