//! Counts the work of a claim: what every node of every plan read and touched, in the statements of its functions too.
//!
//! The server explains each statement to the session that runs it (`auto_explain`, as notices), so nothing is guessed
//! from times or from a log that other tests write to as well.

use std::fmt;
use std::future::poll_fn;

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, NoTls};
use uuid::Uuid;

use super::ground::Ground;

/// Lets a session see the plans of all that it runs.
const EXPLAIN: &str = "
    LOAD 'auto_explain';
    SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;
    SET auto_explain.log_analyze = on; SET auto_explain.log_buffers = on; SET auto_explain.log_timing = off;
    SET auto_explain.log_format = json; SET auto_explain.log_level = notice;
";

/// A session whose claims are counted.
pub(crate) struct Meter {
    pub(crate) client: Client,
    plans: UnboundedReceiver<Value>,
}

/// What one call did.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Work {
    /// How many jobs it returned.
    pub(crate) jobs: i64,
    /// Rows that its scans of tables looked at, whatever became of them.
    pub(crate) rows: f64,
    /// The most rows that went through one node of one plan.
    pub(crate) widest: f64,
    /// Which node that was.
    pub(crate) widest_node: String,
    /// Buffers that it touched for tables and indexes, without those of the catalogs.
    pub(crate) buffers: i64,
    /// Whether any statement that reads `jobs` was compiled; what the caller wraps around a claim is its own affair.
    pub(crate) compiled: bool,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { jobs, rows, widest, widest_node, buffers, .. } = self;
        write!(f, "{jobs} jobs, {rows} rows read, {buffers} buffers, {widest} rows through {widest_node}")
    }
}

impl Meter {
    pub(crate) async fn open(ground: &Ground) -> Self {
        let (client, mut connection) = tokio_postgres::connect(ground.dsn(), NoTls).await.unwrap();
        let (send, plans) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notice(notice) = message
                    && let Some((_, plan)) = notice.message().split_once("plan:\n")
                {
                    let _ = send.send(serde_json::from_str(plan).unwrap());
                }
            }
        });
        client.batch_execute(EXPLAIN).await.unwrap();
        Self { client, plans }
    }

    pub(crate) async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap();
    }

    /// Runs a query that returns how many jobs it has claimed, and says what that cost.
    pub(crate) async fn count(
        &mut self,
        query: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Work, tokio_postgres::Error> {
        while self.plans.try_recv().is_ok() {}
        let row = self.client.query_one(query, parameters).await?;
        let mut work = Work { jobs: row.get(0), ..Work::default() };
        // They came before the answer.
        while let Ok(explained) = self.plans.try_recv() {
            work.compiled |= explained.get("JIT").is_some() && reads_jobs(&explained["Plan"]);
            work.add(&explained["Plan"]);
        }
        assert!(work.rows > 0.0 || work.jobs == 0, "the plans of the functions' statements are not seen");
        Ok(work)
    }

    /// Claims, and says what that cost or why it failed.
    pub(crate) async fn try_claim(
        &mut self,
        worker: Uuid,
        want: i32,
        oversample: i32,
    ) -> Result<Work, tokio_postgres::Error> {
        let call = "SELECT count(*) FROM taskq.claim(ARRAY['q'], $1, $2, '1 hour', $3)";
        self.count(call, &[&want, &worker, &oversample]).await
    }

    /// Claims and keeps what it got.
    pub(crate) async fn claim(&mut self, worker: Uuid, want: i32, oversample: i32) -> Work {
        self.try_claim(worker, want, oversample).await.unwrap()
    }

    /// What a claim costs that is taken back afterwards: the least of three, since the first one after many rows were
    /// written also tidies up after them.
    pub(crate) async fn cost(&mut self, worker: Uuid, want: i32, oversample: i32) -> Work {
        let mut least: Option<Work> = None;
        for _ in 0..3 {
            self.run("BEGIN").await;
            let work = self.claim(worker, want, oversample).await;
            self.run("ROLLBACK").await;
            if least.as_ref().is_none_or(|least| work.buffers < least.buffers) {
                least = Some(work);
            }
        }
        least.unwrap()
    }
}

impl Work {
    /// Adds a node with those below it; returns the buffers of all of them.
    fn add(&mut self, node: &Value) -> i64 {
        let below: i64 = node["Plans"].as_array().into_iter().flatten().map(|child| self.add(child)).sum();
        // Whole in 15 to 17, and averages over the loops in all versions.
        let number = |name: &str| node[name].as_f64().unwrap_or(0.0);
        #[expect(clippy::cast_possible_truncation, reason = "counts of buffers are whole and far below 2^53")]
        let touched = (number("Shared Hit Blocks")
            + number("Shared Read Blocks")
            + number("Temp Written Blocks")) as i64;
        let kind = node["Node Type"].as_str().unwrap_or_default();
        let of_table = node.get("Relation Name").is_some() || node.get("Index Name").is_some();
        if of_table || kind == "LockRows" {
            // Others call functions, whose statements are explained by themselves.
            self.buffers += touched - below;
        }
        let removed: f64 =
            ["Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter"]
                .into_iter()
                .map(number)
                .sum();
        let loops = number("Actual Loops");
        // A loop that finds nothing has looked as well.
        let rows = ((number("Actual Rows") + removed) * loops).max(loops);
        if of_table && kind != "ModifyTable" {
            self.rows += rows;
        }
        if rows > self.widest {
            self.widest = rows;
            let name = |key: &str| node[key].as_str().map(|name| format!(" of {name}")).unwrap_or_default();
            self.widest_node = format!("{kind}{}{}", name("Relation Name"), name("Index Name"));
        }
        touched
    }
}

fn reads_jobs(node: &Value) -> bool {
    node["Relation Name"] == "jobs" || node["Plans"].as_array().into_iter().flatten().any(reads_jobs)
}
