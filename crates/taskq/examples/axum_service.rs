//! A web service with a worker in the same process: a route enqueues in the transaction of its deed, and both shut down in
//! order.
//!
//! `cargo run -p taskq --example axum_service -- postgres://… [127.0.0.1:8080]`, then
//! `curl -d '{"name": "Ada"}' -H 'content-type: application/json' http://127.0.0.1:8080/users`

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use anyhow::Context as _;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use taskq::prelude::*;
use taskq::{Absence, JobId, WaitError};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "user.welcome", queue = "mail", output = String, start_to_close = "1m")]
struct WelcomeUser {
    name: String,
}

async fn welcome(job: WelcomeUser, _: Context) -> JobResult<String> {
    Ok(format!("welcome, {}", job.name))
}

#[derive(Clone)]
struct Service {
    pool: PgPool,
    taskq: TaskQ,
}

#[derive(Deserialize)]
struct NewUser {
    name: String,
}

#[derive(Serialize)]
struct Created {
    job: JobId,
}

/// What went wrong is the server's own affair.
struct Failure(anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl axum::response::IntoResponse for Failure {
    fn into_response(self) -> axum::response::Response {
        println!("a request failed: {:#}", self.0);
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

/// Writes the user and the job that welcomes them, both or neither.
async fn create_user(
    State(service): State<Service>,
    Json(user): Json<NewUser>,
) -> Result<(StatusCode, Json<Created>), Failure> {
    let mut tx = service.pool.begin().await?;
    sqlx::query("INSERT INTO public.users (name) VALUES ($1)").bind(&user.name).execute(&mut *tx).await?;
    let handle = service.taskq.enqueue(&WelcomeUser { name: user.name }).in_tx(&mut tx).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(Created { job: handle.id() })))
}

async fn status(
    State(service): State<Service>,
    Path(id): Path<JobId>,
) -> Result<(StatusCode, String), Failure> {
    match service.taskq.handle::<WelcomeUser>(id).status().await {
        Ok(status) => Ok((StatusCode::OK, status.to_string())),
        Err(WaitError::Absent(Absence::NeverExisted)) => Ok((StatusCode::NOT_FOUND, String::new())),
        Err(error) => Err(error.into()),
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let url = args.next().context("say the URL of a database")?;
    let address = args.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    TaskQ::migrate_url(&url).await?;
    let service = Service { pool: PgPool::connect(&url).await?, taskq: TaskQ::connect(&url).await? };
    let table = "CREATE TABLE IF NOT EXISTS public.users (id bigserial PRIMARY KEY, name text NOT NULL)";
    sqlx::raw_sql(table).execute(&service.pool).await?;

    let worker = Worker::builder(&service.taskq).queue("mail", 10).handle::<WelcomeUser>(welcome).build()?;
    let worker = worker.start();
    let app = Router::new()
        .route("/users", post(create_user))
        .route("/jobs/{id}", get(status))
        .with_state(service.clone());
    let listener = TcpListener::bind(&address).await?;
    println!("listening on {}", listener.local_addr()?);
    let mut terminate = signal(SignalKind::terminate())?;
    let asked_to_end = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    // Requests under way are answered first; none that comes later can enqueue.
    axum::serve(listener, app).with_graceful_shutdown(asked_to_end).await?;
    worker.stop();
    let report = worker.join().await?;
    println!("{} jobs succeeded", report.succeeded);
    // At once: a runtime that is dropped would wait for handlers that never end.
    std::process::exit(report.exit_code())
}
