//! How much work a plain job costs, counted: what the store's calls make the server do, for 200 jobs a call.
//!
//! Bounds are a little above what was counted, so that lost speed cannot go unnoticed, and a check of the bounds shows
//! that each can be broken.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use taskq_core::model::{
    ActorName, ClaimedJob, Json, NewJob, Outcome, PAYLOAD_LIMIT, QueueName, SettleReason, Settlement,
    WorkerId,
};
use taskq_core::store::{ClaimRequest, QueueSlots, Registration, Store};
use taskq_postgres::PostgresStore;
use taskq_testkit::{Options, PgSource, PrivateServer};

use super::life::{entries, position};
use super::mutant::Mutant;
use super::scene::Scene;

const JOBS: usize = 200;
const ROUNDS: usize = 2;
const ACTORS: usize = 8;
const LEASE: Duration = Duration::from_hours(1);

/// The most that one phase of a job's life may cost.
struct Bound {
    phase: &'static str,
    /// Statements a call, the call itself and those inside the functions.
    statements: f64,
    /// Rows that those statements return or change, a job.
    rows: f64,
    /// Buffers touched, a job.
    buffers: f64,
    /// Index entries written, a job.
    entries: f64,
    /// Bytes of WAL a job, at least and at most: far less means that something is not counted.
    wal: (f64, f64),
}

const BOUNDS: [Bound; 3] = [
    Bound { phase: "enqueue", statements: 12.0, rows: 3.2, buffers: 6.0, entries: 2.0, wal: (250.0, 360.0) },
    Bound { phase: "claim", statements: 10.0, rows: 3.2, buffers: 11.0, entries: 2.0, wal: (350.0, 480.0) },
    Bound { phase: "settle", statements: 4.0, rows: 0.1, buffers: 12.5, entries: 2.0, wal: (280.0, 390.0) },
];

/// What a phase cost: as in [`Bound`].
#[derive(Debug)]
struct Work {
    statements: f64,
    rows: f64,
    buffers: f64,
    entries: f64,
    wal: f64,
}

impl Bound {
    /// Says which bounds the work breaks.
    fn objections(&self, work: &Work) -> String {
        let mut text = String::new();
        let upper = [
            ("statements a call", work.statements, self.statements),
            ("rows a job", work.rows, self.rows),
            ("buffers a job", work.buffers, self.buffers),
            ("index entries a job", work.entries, self.entries),
            ("bytes of WAL a job", work.wal, self.wal.1),
        ];
        for (what, counted, bound) in upper {
            if counted > bound {
                let _ = writeln!(text, "{}: {counted:.2} {what}, more than {bound}", self.phase);
            }
        }
        if work.wal < self.wal.0 {
            let _ = writeln!(
                text,
                "{}: {:.0} bytes of WAL a job, fewer than {}",
                self.phase, work.wal, self.wal.0
            );
        }
        text
    }
}

/// A worker with jobs on a database of its own.
struct Bench {
    scene: Scene,
    store: Arc<PostgresStore>,
    worker: WorkerId,
    queue: QueueName,
    actors: Vec<ActorName>,
}

impl Bench {
    async fn new(server: &PrivateServer) -> Self {
        let scene = Scene::of(crate::database::migrated_on(server.cluster()).await).await;
        scene
            .run(&format!(
                "CREATE EXTENSION pg_walinspect; CREATE EXTENSION pg_stat_statements;
                 ALTER DATABASE {} SET pg_stat_statements.track = 'all'; SET pg_stat_statements.track = 'none'",
                scene.database.name()
            ))
            .await;
        let store = crate::database::store(&scene.database).await;
        let queue = QueueName::new("q").unwrap();
        let actors: Vec<_> = (0..ACTORS).map(|n| ActorName::new(format!("actor{n}")).unwrap()).collect();
        let worker = WorkerId::new();
        let registration = Registration {
            worker,
            queues: vec![queue.clone()],
            actors: actors.clone(),
            lease: LEASE,
            info: None,
        };
        store.register_worker(registration).await.unwrap();
        Self { scene, store, worker, queue, actors }
    }

    async fn enqueue(&self) {
        let jobs = (0..JOBS).map(|n| {
            let payload = Json::from_value(&n, PAYLOAD_LIMIT).unwrap();
            NewJob::new(self.queue.clone(), self.actors[n % ACTORS].clone(), payload)
        });
        assert_eq!(self.store.enqueue(jobs.collect()).await.unwrap().len(), JOBS);
    }

    async fn claim(&self) -> Vec<ClaimedJob> {
        let slots = u32::try_from(JOBS).unwrap();
        let queues = vec![QueueSlots { queue: self.queue.clone(), slots, turn: None }];
        let request = ClaimRequest { worker: self.worker, queues, lease: LEASE, oversample: 2 };
        let jobs = self.store.claim(request).await.unwrap().jobs;
        assert_eq!(jobs.len(), JOBS);
        jobs
    }

    async fn settle(&self, jobs: Vec<ClaimedJob>) {
        let settlements = jobs.into_iter().map(|job| Settlement {
            id: job.id,
            epoch: job.epoch,
            outcome: Outcome::Succeeded { result: None },
        });
        let settled = self.store.settle(self.worker, settlements.collect()).await.unwrap();
        assert_eq!(settled.len(), JOBS);
        assert!(settled.iter().all(|settled| settled.reason == SettleReason::Applied));
    }

    /// Counts what a phase costs. Everything else on the server is idle.
    async fn count(&self, phase: impl AsyncFnOnce()) -> Work {
        self.scene.run("SELECT pg_stat_statements_reset()").await;
        let start = position(&self.scene).await;
        phase().await;
        let end = position(&self.scene).await;
        let row = self
            .scene
            .client
            .query_one(
                // What a function does is counted for its call as well, except for the statements and their rows.
                "SELECT sum(s.calls)::float8, sum(s.rows)::float8,
                    sum(s.shared_blks_hit + s.shared_blks_read) FILTER (WHERE s.toplevel)::float8,
                    sum(s.wal_bytes) FILTER (WHERE s.toplevel)::float8
                 FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid AND d.datname = current_database()",
                &[],
            )
            .await
            .unwrap();
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        let (rounds, jobs, written) = (
            ROUNDS as f64,
            (ROUNDS * JOBS) as f64,
            entries(&self.scene, &start, &end).await.into_values().sum::<i64>() as f64,
        );
        Work {
            statements: row.get::<_, f64>(0) / rounds,
            rows: row.get::<_, f64>(1) / jobs,
            buffers: row.get::<_, f64>(2) / jobs,
            entries: written / jobs,
            wal: row.get::<_, f64>(3) / jobs,
        }
    }

    /// Leads jobs through their lives; says what each phase cost.
    async fn lives(&self) -> [Work; 3] {
        // Sessions, plans and the catalog's rows are there after two rounds.
        for _ in 0..2 {
            self.enqueue().await;
            let jobs = self.claim().await;
            self.settle(jobs).await;
        }
        let enqueue = self
            .count(async || {
                for _ in 0..ROUNDS {
                    self.enqueue().await;
                }
            })
            .await;
        let mut claimed = Vec::new();
        let claim = self
            .count(async || {
                for _ in 0..ROUNDS {
                    claimed.push(self.claim().await);
                }
            })
            .await;
        let settle = self
            .count(async || {
                for jobs in claimed {
                    self.settle(jobs).await;
                }
            })
            .await;
        [enqueue, claim, settle]
    }

    async fn objections(&self) -> String {
        let works = self.lives().await;
        BOUNDS.iter().zip(&works).map(|(bound, work)| bound.objections(work)).collect()
    }
}

/// Statements of a claim of up to 32 jobs that finds one, the call itself and those inside the functions.
async fn statements_of_a_pickup(bench: &Bench, actors: usize) -> i64 {
    let worker = bench.scene.worker(actors).await;
    let session = bench.scene.session().await;
    let mut statements = 0;
    // The first claim prepares its statements.
    for _ in 0..2 {
        bench.scene.enqueue(1, 1).await;
        bench.scene.run("SELECT pg_stat_statements_reset()").await;
        let call = format!(
            "SELECT id FROM taskq.claim_slots('{worker}', '{{q}}', '{{32}}', '1 hour', 2, '{{NULL}}', '{{NULL}}')"
        );
        assert_eq!(session.query(&call, &[]).await.unwrap().len(), 1);
        statements = bench
            .scene
            .value(
                "SELECT sum(s.calls)::bigint FROM pg_stat_statements s
                 JOIN pg_database d ON d.oid = s.dbid AND d.datname = current_database()",
            )
            .await;
    }
    statements
}

#[tokio::test]
async fn a_job_alone_is_claimed_in_few_statements() {
    let options = Options::for_tests(PgSource::from_env().unwrap());
    let server = PrivateServer::start(options).await.unwrap();
    let bench = Bench::new(&server).await;
    assert_eq!(statements_of_a_pickup(&bench, 1).await, 6);
    assert_eq!(statements_of_a_pickup(&bench, ACTORS).await, 7);
    let once_more = "IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM FROM taskq.workers w WHERE w.id = worker;";
    let own = "IF NOT FOUND THEN
        RETURN;
    END IF;";
    Mutant::of("claim_lane").replace(own, once_more).apply(&bench.scene).await;
    assert_eq!(statements_of_a_pickup(&bench, 1).await, 7, "the counter does not count");
}

#[tokio::test]
async fn a_plain_job_costs_no_more_than_it_did() {
    let options = Options::for_tests(PgSource::from_env().unwrap()).setting("autovacuum", "off");
    let server = PrivateServer::start(options).await.unwrap();
    assert_eq!(Bench::new(&server).await.objections().await, "");

    // What costs more in one way each.
    let bench = Bench::new(&server).await;
    bench.scene.run("CREATE INDEX one_more ON taskq.jobs (created_at)").await;
    let one_by_one = "FOR n IN 1 .. cardinality(tids) LOOP
            PERFORM FROM taskq.jobs j WHERE j.ctid = tids[n];
        END LOOP;
        IF tell AND took THEN";
    Mutant::of("claim_group").replace("IF tell AND took THEN", one_by_one).apply(&bench.scene).await;
    let long_way = ("'succeeded' = ALL (outcomes)", "false");
    Mutant::of("settle_batch").replace(long_way.0, long_way.1).apply(&bench.scene).await;
    let said = bench.objections().await;
    for (phase, what) in [
        ("enqueue", "index entries a job"),
        ("claim", "index entries a job"),
        ("settle", "index entries a job"),
        ("claim", "statements a call"),
        ("settle", "statements a call"),
        ("settle", "buffers a job"),
        ("settle", "bytes of WAL a job"),
    ] {
        let found = said.lines().any(|line| line.starts_with(phase) && line.contains(what));
        assert!(found, "no objection to the {what} of {phase}:\n{said}");
    }
}
