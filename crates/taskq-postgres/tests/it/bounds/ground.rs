//! Where claims are measured: a database with a worker and as many rows of as many kinds as an axis asks for.

use uuid::Uuid;

use super::oracle::{Meter, Work};
use crate::sql::scene::Scene;

/// How many jobs the claims that are measured ask for.
pub(crate) const WANT: i32 = 50;
/// How many candidates a claim may look at for each job that it wants, as the workers ask for.
pub(crate) const OVERSAMPLE: i32 = 2;
/// How many lanes the worker has, where an axis does not say otherwise.
pub(crate) const LANES: usize = 8;

/// The most buffers that a claim of 50 may touch.
const BUFFERS: i64 = 1_000;
/// The most rows that may go through one node of a plan, and that all scans together may look at: so many for each
/// candidate that the claim may look at, besides one for each lane and one for each row that others hold.
const WIDEST: f64 = 2.0;
const ROWS: f64 = 5.0;

/// How jobs of the queue are handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    StrictFifo,
    /// Where each of the worker's actors has so many cohorts with ready jobs.
    RoundRobin(usize),
}

/// Fewer lanes than a claim wants jobs.
pub(crate) const ROUND_ROBIN: Mode = Mode::RoundRobin(5);

/// Columns of rows that differ from those of a ready job of one of the worker's lanes, as SQL over `n`, the row's number.
pub(crate) type Columns = &'static [(&'static str, &'static str)];

pub(crate) struct Ground {
    pub(crate) scene: Scene,
    mode: Mode,
    pub(crate) worker: Uuid,
    pub(crate) lanes: usize,
}

impl Ground {
    /// A queue without jobs and a worker of it. Nothing is vacuumed or analyzed but by the test.
    pub(crate) async fn new(mode: Mode, lanes: usize) -> Self {
        let scene = Scene::new().await;
        scene
            .run(
                "ALTER TABLE taskq.jobs SET (autovacuum_enabled = off);
                 ALTER TABLE taskq.job_attempts SET (autovacuum_enabled = off);
                 ALTER TABLE taskq.workers SET (autovacuum_enabled = off)",
            )
            .await;
        if mode != Mode::StrictFifo {
            scene.run("SELECT * FROM taskq.set_queue('q', 'round_robin')").await;
        }
        let worker = scene.worker(lanes).await;
        Self { scene, mode, worker, lanes }
    }

    pub(crate) fn dsn(&self) -> &str {
        self.scene.database.dsn()
    }

    /// Adds rows: ready jobs of the worker's lanes by turns, except for what `columns` says.
    pub(crate) async fn add(&self, count: usize, columns: &[(&str, &str)]) {
        let lanes = self.lanes;
        let actor = format!("'actor' || n % {lanes}");
        let cohort = match self.mode {
            Mode::StrictFifo => "''".to_owned(),
            Mode::RoundRobin(cohorts) => format!("'cohort' || n / {lanes} % {cohorts}"),
        };
        let mut values: Vec<(&str, &str)> = vec![
            ("id", "taskq.make_id(now(), n)"),
            ("created_at", "now()"),
            ("scheduled_at", "now() - interval '1 hour' + n * interval '1 microsecond'"),
            ("status", "'pending'"),
            ("queue", "'q'"),
            ("actor", &actor),
            ("cohort", &cohort),
            ("payload", "to_jsonb(n)"),
        ];
        for (column, value) in columns {
            values.retain(|(name, _)| name != column);
            values.push((column, value));
        }
        let (names, values): (Vec<_>, Vec<_>) = values.into_iter().unzip();
        let (names, values) = (names.join(", "), values.join(", "));
        self.scene
            .run(&format!(
                "INSERT INTO taskq.jobs ({names}) SELECT {values} FROM generate_series(1, {count}) n"
            ))
            .await;
    }

    /// Takes every job away.
    pub(crate) async fn clear(&self) {
        self.scene.run("TRUNCATE taskq.jobs, taskq.job_attempts").await;
    }

    /// Lets a session run every statement of a claim often enough to keep its plans, while there is next to nothing.
    pub(crate) async fn early_plans(&self, meter: &mut Meter) {
        for _ in 0..8 {
            self.add(2, &[]).await;
            assert_eq!(meter.claim(self.worker, 2, OVERSAMPLE).await.jobs, 2);
        }
    }

    /// What of a claim breaks a bound; `peers` is how many rows others hold.
    pub(crate) fn objections(&self, work: &Work, peers: usize) -> Vec<String> {
        let candidates = f64::from(WANT * OVERSAMPLE);
        let others = f64::from(u32::try_from(self.lanes + peers).unwrap());
        let mut objections = Vec::new();
        let mut demand = |holds: bool, what: &str| {
            if !holds {
                objections.push(format!("{what}: {work}"));
            }
        };
        demand(work.jobs == i64::from(WANT), "not full");
        demand(work.buffers <= BUFFERS + 2 * i64::try_from(peers).unwrap(), "too many buffers");
        demand(work.widest <= WIDEST * candidates + others, "too wide a node");
        demand(work.rows <= ROWS * candidates + others, "too many rows read");
        demand(!work.compiled, "compiled");
        objections
    }

    /// The same, and that it costs no more than a quarter beyond what it cost before, and a buffer for each job: an index may
    /// have grown by a level.
    pub(crate) fn objections_beside(&self, work: &Work, before: &Work) -> Vec<String> {
        let mut objections = self.objections(work, 0);
        let most = before.buffers * 125 / 100 + i64::from(WANT);
        if work.buffers > most || work.rows > before.rows * 1.25 {
            objections.push(format!("it grows: {before}; then {work}"));
        }
        objections
    }
}
