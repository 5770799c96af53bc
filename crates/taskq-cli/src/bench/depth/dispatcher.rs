//! A session that claims and rolls back.

use serde_json::Value;
use tokio_postgres::SimpleQueryMessage;
use uuid::Uuid;

use super::super::clock::{BackendCpu, now_ns};
use super::super::scene::{Annex, QUEUE, Scene, Session};
use super::WANT;
use crate::exit::Failure;

/// A statement that claims, with its arguments.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// The types of its parameters and the statement.
    pub(super) prepare: String,
    /// The values.
    pub(super) arguments: String,
}

impl Claim {
    /// The claim of this version, as any client calls it.
    pub(super) fn function(worker: Uuid) -> Self {
        Self {
            prepare: r#"(text[], integer, uuid, interval) AS SELECT * FROM "{schema}".claim($1, $2, $3, $4)"#
                .to_owned(),
            arguments: format!("ARRAY['{QUEUE}'], {WANT}, '{worker}', '1 day'"),
        }
    }
}

/// A session with its settings and a prepared claim.
pub(super) struct Dispatcher {
    session: Session,
    execute: String,
    cpu: Option<BackendCpu>,
}

/// What a claim took.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    /// How long it took, the way to the server and back included.
    pub(super) ns: u64,
    /// For how much of that the server's process ran, where it can be read.
    pub(super) cpu_ns: Option<u64>,
    /// The jobs, in the order of their ids.
    pub(super) ids: Vec<String>,
}

impl Dispatcher {
    /// Opens a session.
    pub(super) async fn open(
        scene: &Scene,
        place: &Annex,
        settings: &[&str],
        claim: &Claim,
    ) -> Result<Self, Failure> {
        let session = place.session().await?;
        let backend = session.one("SELECT pg_backend_pid()", &[]).await?.get(0);
        let cpu = scene.cpu().and_then(|_| BackendCpu::of(backend));
        for setting in settings {
            session.run(&format!("SET {setting}")).await?;
        }
        session.run(&format!("PREPARE dispatch {}", claim.prepare)).await?;
        Ok(Self { session, execute: format!("EXECUTE dispatch ({})", claim.arguments), cpu })
    }

    /// Claims, and rolls back.
    pub(super) async fn claim(&self) -> Result<Taken, Failure> {
        self.rolled_back(async |session| {
            let before = self.cpu.and_then(BackendCpu::read);
            let began_ns = now_ns();
            let answer = session.client.simple_query(&self.execute).await?;
            let ns = now_ns() - began_ns;
            let after = self.cpu.and_then(BackendCpu::read);
            let cpu_ns = before.zip(after).map(|(before, after)| after.saturating_sub(before));
            let mut ids: Vec<_> = answer
                .iter()
                .filter_map(|message| match message {
                    SimpleQueryMessage::Row(row) => row.get("id").map(str::to_owned),
                    _ => None,
                })
                .collect();
            ids.sort_unstable();
            Ok(Taken { ns, cpu_ns, ids })
        })
        .await
    }

    /// Claims a number of times.
    pub(super) async fn repeat(&self, times: u32) -> Result<(), Failure> {
        for _ in 0..times {
            self.claim().await?;
        }
        Ok(())
    }

    /// Counts the buffers that a claim touches, those inside of functions included.
    pub(super) async fn buffers(&self) -> Result<f64, Failure> {
        let explain = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {}", self.execute);
        self.rolled_back(async |session| {
            let answer = session.client.simple_query(&explain).await?;
            let plan = answer.iter().find_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            });
            let plan: Value = plan.and_then(|plan| serde_json::from_str(plan).ok()).unwrap_or_default();
            let count = |field: &str| plan[0]["Plan"][field].as_f64();
            let blocks =
                count("Shared Hit Blocks").zip(count("Shared Read Blocks")).map(|(hit, read)| hit + read);
            blocks.ok_or_else(|| Failure::failed("the server explains no buffers"))
        })
        .await
    }

    async fn rolled_back<T>(
        &self,
        work: impl AsyncFnOnce(&Session) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.session.run("BEGIN").await?;
        let done = work(&self.session).await?;
        self.session.run("ROLLBACK").await?;
        Ok(done)
    }
}
