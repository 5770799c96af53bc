//! How fast each sweep is in a full database, what it does to claims beside it, and how long a month's end takes.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use tokio_postgres::Client;
use uuid::Uuid;

use crate::scene::{Scene, fact, ms, size};

/// A sweep as its function, with rows for it.
struct Subject {
    name: &'static str,
    function: &'static str,
    batch: u32,
    /// Whether a batch goes on behind the one before.
    is_ordered: bool,
    /// How long a batch may take.
    limit: Duration,
    /// Makes `$rows` rows that are due.
    fill: &'static str,
}

const LIMIT: Duration = Duration::from_millis(1_750);
/// A finished job of an hour ago.
const FINISHED: &str = "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload, started_at,
        finished_at, prune_at, attempt, claim_epoch, result, result_expires_at)
    SELECT taskq.make_id(now(), n), now(), now(), 'succeeded', 'old', 'a', '{\"text\": \"thirty bytes or so, as most\"}', now(),
        $finished, $prune, 1, 1, $result FROM generate_series(1, $rows) n";

const SUBJECTS: [Subject; 8] = [
    Subject {
        name: "promote",
        function: "promote",
        batch: 1_000,
        is_ordered: true,
        limit: LIMIT,
        fill: "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload)
               SELECT gen_random_uuid(), now(), now() - interval '1 s' + n * interval '1 us', 'scheduled', 'due', 'a', '1'
               FROM generate_series(1, $rows) n",
    },
    Subject {
        name: "deadlines",
        function: "sweep_deadlines",
        batch: 1_000,
        is_ordered: true,
        limit: LIMIT,
        fill: "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload, schedule_to_close)
               SELECT gen_random_uuid(), now(), now(), 'pending', 'late', 'a', '1', now() - interval '1 s'
               FROM generate_series(1, $rows) n",
    },
    Subject {
        name: "results",
        function: "sweep_results",
        batch: 1_000,
        is_ordered: true,
        limit: LIMIT,
        fill: "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload, finished_at, prune_at,
                   result, result_expires_at)
               SELECT gen_random_uuid(), now(), now(), 'succeeded', 'old', 'a', '1', now(), now() + interval '1 hour', '\"done\"',
                   now() - interval '1 s' FROM generate_series(1, $rows) n",
    },
    Subject {
        name: "events",
        function: "sweep_events",
        batch: 10_000,
        is_ordered: true,
        limit: LIMIT,
        fill: "INSERT INTO taskq.job_events (job_id, occurred_at, kind)
               SELECT gen_random_uuid(), now() - interval '8 days', 'expired' FROM generate_series(1, $rows * 5)",
    },
    Subject {
        name: "idempotency_keys",
        function: "forget_keys",
        batch: 5_000,
        is_ordered: false,
        limit: LIMIT,
        fill: "INSERT INTO taskq.idempotency_keys
               SELECT 'a', gen_random_uuid()::text, gen_random_uuid(), now() - interval '1 s' FROM generate_series(1, $rows) n",
    },
    Subject {
        name: "archive",
        function: "sweep_archive",
        batch: 1_000,
        is_ordered: true,
        limit: LIMIT,
        fill: "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload, finished_at, prune_at)
               SELECT taskq.make_id(now(), n), now(), now(), 'succeeded', 'old', 'a', '1', now() - interval '1 hour',
                   now() - interval '1 s' FROM generate_series(1, $rows) n",
    },
    Subject {
        name: "restamp",
        function: "sweep_restamp",
        batch: 1_000,
        is_ordered: false,
        limit: LIMIT,
        // Another hot period each time, so that every stamp changes.
        fill: "SELECT taskq.set_setting('hot_period', to_jsonb((60 + (random() * 1000)::integer) || ' minutes'))",
    },
    Subject {
        name: "reclaim",
        function: "reclaim",
        batch: 1_000,
        is_ordered: false,
        limit: Duration::from_secs(8),
        fill: "WITH lost AS (
                   INSERT INTO taskq.workers (id, started_at, beat_at, lease_expires_at, queues, actors, state)
                   SELECT gen_random_uuid(), now() - interval '1 day', now(), now() - interval '1 s', '{q}', '{gone}', 'lost'
                   FROM generate_series(1, 50) RETURNING id)
               INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload, locked_by_worker, started_at,
                   attempt, claim_epoch)
               SELECT gen_random_uuid(), now(), now(), 'running', 'q', 'a', '1', l.id, now() - n * interval '1 s', 1, 1
               FROM lost l, generate_series(1, $rows / 50) n",
    },
];

/// What the drain of a sweep took.
#[derive(Default)]
struct Drain {
    rows: i64,
    took: Duration,
    slowest: Duration,
}

/// A session that leads for an hour.
struct Leader {
    client: Client,
    arguments: String,
}

impl Leader {
    async fn of(scene: &Scene) -> Self {
        let (client, worker) = (scene.admin().await, Uuid::now_v7());
        let sql = format!("SELECT taskq.register_worker('{worker}', '{{none}}', '{{none}}', '2 hours')");
        client.batch_execute(&sql).await.unwrap();
        let beat = format!(
            "SELECT epoch FROM taskq.heartbeat('{worker}', '2 hours', NULL, '2 hours') WHERE kind = 'leader'"
        );
        let epoch: i64 = client.query_one(&beat, &[]).await.unwrap().get(0);
        Self { client, arguments: format!("'{worker}', {epoch}") }
    }

    /// Runs batches until one is not full.
    async fn drain(&self, subject: &Subject) -> Drain {
        let (mut drain, mut place) = (Drain::default(), String::new());
        loop {
            let (function, batch, arguments) = (subject.function, subject.batch, &self.arguments);
            let sql = match subject.name {
                "reclaim" => format!(
                    "SELECT count(id), count(id) > 0 OR count(*) > 0, max(reached_at)::text, max(reached_id)
                     FROM taskq.reclaim({arguments}, {batch}{place})"
                ),
                _ => format!(
                    "SELECT swept, more, reached_at::text, reached_id::text FROM taskq.{function}({arguments}, {batch}{place})"
                ),
            };
            let begun = Instant::now();
            let row = self.client.query_one(&sql, &[]).await.unwrap();
            let took = begun.elapsed();
            drain.rows += row.get::<_, i64>(0);
            drain.took += took;
            drain.slowest = drain.slowest.max(took);
            place.clear();
            if let (Some(at), Some(id)) = (row.get::<_, Option<String>>(2), row.get::<_, Option<String>>(3))
                && (subject.is_ordered || subject.name == "reclaim")
            {
                write!(place, ", after_at => '{at}', after_id => '{id}'").unwrap();
            }
            if !row.get::<_, bool>(1) {
                return drain;
            }
        }
    }
}

async fn fill(admin: &Client, subject: &Subject, rows: u64) {
    admin.batch_execute(&subject.fill.replace("$rows", &rows.to_string())).await.unwrap();
}

/// Makes jobs that are ready.
async fn ready(admin: &Client, jobs: u64) {
    let sql = format!(
        "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload)
         SELECT gen_random_uuid(), now(), now(), 'pending', 'work', 'a', '1' FROM generate_series(1, {jobs})"
    );
    admin.batch_execute(&sql).await.unwrap();
}

/// A million archived jobs in thirteen months, 200,000 finished ones that stay, 200,000 that are ready.
async fn furnish(scene: &Scene, leader: &Leader) -> Drain {
    let admin = scene.admin().await;
    let archived = size("TASKQ_SOAK_ARCHIVED", 50_000, 1_000_000);
    let stay = archived / 5;
    let finished = |rows: u64, finished: &str, prune: &str| {
        let sql = FINISHED.replace("$rows", &rows.to_string()).replace("$finished", finished);
        sql.replace("$prune", prune).replace("$result", "NULL, NULL")
    };
    let old = "now() - n % 390 * interval '1 day'";
    admin.batch_execute(&finished(archived, old, "now() - interval '1 s'")).await.unwrap();
    let drain = leader.drain(&SUBJECTS[5]).await;
    admin.batch_execute(&finished(stay, "now()", "now() + interval '1 hour'")).await.unwrap();
    ready(&admin, stay).await;
    admin.batch_execute("VACUUM ANALYZE").await.unwrap();
    drain
}

fn rate(drain: &Drain) -> String {
    let per_second = drain.rows.cast_unsigned() * 1_000 / ms(drain.took).max(1);
    format!("{} rows, {per_second} a second, the slowest batch {} ms", drain.rows, ms(drain.slowest))
}

/// Time that a server process has used, in clock ticks: of a hundredth of a second.
fn ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    fields.iter().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn sweep_rates() {
    let scene = Scene::new().await;
    let leader = Leader::of(&scene).await;
    let admin = scene.admin().await;
    fact("archiving a million over thirteen months", rate(&furnish(&scene, &leader).await));
    let rows = size("TASKQ_SOAK_ROWS", 5_000, 50_000);
    for subject in &SUBJECTS {
        fill(&admin, subject, rows).await;
        let drain = leader.drain(subject).await;
        fact(subject.name, rate(&drain));
        assert!(drain.rows >= rows.min(5_000).cast_signed(), "{}: {} rows", subject.name, drain.rows);
        assert!(drain.slowest < subject.limit, "{}: {:?}", subject.name, drain.slowest);
    }
}

/// How long claims took, and the processor's time of the server for them.
#[derive(Default)]
struct Claims {
    took: Vec<Duration>,
    ticks: u64,
}

impl Claims {
    fn describe(&mut self) -> String {
        self.took.sort();
        let at = |percent: usize| self.took[self.took.len() * percent / 100].as_secs_f64() * 1e3;
        let micros = self.ticks * 10_000 / u64::try_from(self.took.len()).unwrap();
        format!(
            "{} claims of 50, p50 {:.1} ms, p95 {:.1} ms, {micros} µs of the server's processor for a claim with its settle",
            self.took.len(),
            at(50),
            at(95)
        )
    }
}

/// Claims 50 and settles them, and notes what the claim took.
async fn claim(session: &Client, worker: Uuid, claims: &mut Claims) {
    let claim = "SELECT jsonb_agg(jsonb_build_object('id', id, 'epoch', epoch, 'outcome', 'succeeded'))
        FROM taskq.claim('{work}', 50, $1, '2 hours')";
    let begun = Instant::now();
    let row = session.query_one(claim, &[&worker]).await.unwrap();
    claims.took.push(begun.elapsed());
    let Some(outcomes) = row.get::<_, Option<serde_json::Value>>(0) else {
        // That was no claim of 50; a long sweep outlasts what was ready.
        claims.took.pop();
        return ready(session, 50_000).await;
    };
    let settle = "SELECT count(*) FROM taskq.settle($1, $2)";
    session.query_one(settle, &[&worker, &outcomes]).await.unwrap();
}

/// Claims alone and beside each sweep by turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn claims_beside_sweeps() {
    let scene = Scene::new().await;
    let leader = Leader::of(&scene).await;
    furnish(&scene, &leader).await;
    let (admin, session) = (scene.admin().await, scene.admin().await);
    let worker = Uuid::now_v7();
    let sql = format!("SELECT taskq.register_worker('{worker}', '{{work}}', '{{a}}', '2 hours')");
    session.batch_execute(&sql).await.unwrap();
    let pid: i32 = session.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let (rows, rounds) = (size("TASKQ_SOAK_ROWS", 5_000, 20_000), size("TASKQ_SOAK_ROUNDS", 2, 6));
    for subject in &SUBJECTS {
        let (mut alone, mut beside, mut swept) = (Claims::default(), Claims::default(), Drain::default());
        for _ in 0..rounds {
            fill(&admin, subject, rows).await;
            ready(&admin, 10_000).await;
            let before = ticks(pid);
            for _ in 0..50 {
                claim(&session, worker, &mut alone).await;
            }
            alone.ticks += ticks(pid) - before;
            let before = ticks(pid);
            let drain = {
                let drain = leader.drain(subject);
                tokio::pin!(drain);
                loop {
                    // A claim that has begun is finished, while the sweep goes on.
                    let one = claim(&session, worker, &mut beside);
                    tokio::pin!(one);
                    let ended = tokio::select! {
                        drain = &mut drain => Some(drain),
                        () = &mut one => None,
                    };
                    if let Some(drain) = ended {
                        one.await;
                        break drain;
                    }
                }
            };
            beside.ticks += ticks(pid) - before;
            swept.rows += drain.rows;
            swept.took += drain.took;
            swept.slowest = swept.slowest.max(drain.slowest);
        }
        fact(&format!("{}: alone", subject.name), alone.describe());
        fact(&format!("{}: beside it", subject.name), beside.describe());
        fact(&format!("{}: meanwhile", subject.name), rate(&swept));
    }
}

/// Drops months of three sizes: the statement, under whose locks readers wait, and the commit, in which the files go. Beside
/// it what the file system needs to give back a file of that size.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn a_month_ends() {
    let scene = Scene::new().await;
    let leader = Leader::of(&scene).await;
    let session = &leader.client;
    // This month and the next are made by the first.
    session
        .batch_execute(&format!("SELECT * FROM taskq.expire_archive({}, 1)", leader.arguments))
        .await
        .unwrap();
    for megabytes in [50, 200, size("TASKQ_SOAK_MB", 200, 1_000)] {
        // Rows of about 220 bytes with their indexes.
        let rows = megabytes * 4_700;
        let sql = FINISHED.replace("$rows", &rows.to_string()).replace("$result", "NULL, NULL");
        let sql = sql
            .replace("$finished", "now() - interval '500 days'")
            .replace("$prune", "now() - interval '1 s'");
        session.batch_execute(&sql).await.unwrap();
        leader.drain(&SUBJECTS[5]).await;
        session.batch_execute("CHECKPOINT").await.unwrap();
        let bytes = "SELECT coalesce(sum(pg_total_relation_size(i.inhrelid)), 0)::bigint FROM pg_inherits i
            WHERE i.inhparent IN ('taskq.jobs_archive'::regclass, 'taskq.job_attempts_archive'::regclass)
                AND pg_total_relation_size(i.inhrelid) > 1000000";
        let bytes = scene.number(bytes).await;
        let call = format!("SELECT swept FROM taskq.expire_archive({}, 1)", leader.arguments);
        // A vacuum of so young a month holds it for a while: the sweep comes again.
        let (statement, commit) = loop {
            session.batch_execute("BEGIN").await.unwrap();
            let begun = Instant::now();
            let dropped: i64 = session.query_one(&call, &[]).await.unwrap().get(0);
            let statement = begun.elapsed();
            let begun = Instant::now();
            session.batch_execute("COMMIT").await.unwrap();
            if dropped == 1 {
                break (statement, begun.elapsed());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        };

        let path = scene.server.data_dir().join("a-file-as-large");
        let file = fs::File::create(&path).unwrap();
        let block = vec![7_u8; 1 << 20];
        for _ in 0..bytes >> 20 {
            std::io::Write::write_all(&mut &file, &block).unwrap();
        }
        file.sync_all().unwrap();
        let begun = Instant::now();
        file.set_len(0).unwrap();
        let truncated = begun.elapsed();
        fs::remove_file(&path).unwrap();
        fact(
            &format!("a month of {} MB", bytes >> 20),
            format!(
                "statement {} ms, commit {} ms; a file as large is truncated in {} ms",
                ms(statement),
                ms(commit),
                ms(truncated)
            ),
        );
    }
}
