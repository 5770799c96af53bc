//! Draining a queue by a loop in SQL: one session, claim a batch, settle it, a durable commit each.

use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::clock::{now_ns, own_cpu_ns};
use super::probe::{Probe, Spent};
use super::scene::{Scene, Session};
use crate::exit::Failure;

/// How many jobs each round claims and settles.
pub(super) const BATCH: i32 = 200;

/// Where the loop runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Through {
    /// A procedure of its own that loops on the server: the least that keeps the same rows.
    Procedure,
    /// A client that claims and settles in turn, which brings it the payloads.
    Turns(Turns),
}

/// What a client calls in turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turns {
    /// Two statements of its own.
    Statements,
    /// The public functions `claim` and `settle`.
    Functions,
}

const PROCEDURE: &str = include_str!("sql/loop.sql");
const CALL: &str = "CALL pg_temp.drain($1, $2, $3, NULL)";

/// The heads of the actors' lanes, merged, locked by key where nobody else has them, and updated by their ids.
const CLAIM: &str = r#"
    WITH heads AS MATERIALIZED (
        SELECT h.id
        FROM unnest($2::text[]) a(actor)
        CROSS JOIN LATERAL (
            SELECT j.id, j.priority, j.scheduled_at FROM "{schema}".jobs j
            WHERE j.queue = $1 AND j.actor = a.actor AND j.cohort = '' AND j.status = 'pending'
            ORDER BY j.priority DESC, j.scheduled_at, j.id
            LIMIT $3
        ) h
        ORDER BY h.priority DESC, h.scheduled_at, h.id
        LIMIT $3
    ), locked AS MATERIALIZED (
        SELECT l.id
        FROM heads h
        CROSS JOIN LATERAL (
            SELECT j.id FROM "{schema}".jobs j
            WHERE j.id = h.id AND j.status::text = 'pending'
            FOR NO KEY UPDATE SKIP LOCKED
        ) l
    )
    UPDATE "{schema}".jobs j
    SET status = 'running', attempt = j.attempt + 1, claim_epoch = j.claim_epoch + 1, locked_by_worker = $4,
        started_at = now()
    WHERE j.id = ANY (ARRAY(SELECT l.id FROM locked l))
    RETURNING j.id, j.claim_epoch, j.actor, j.payload
"#;

const SETTLE: &str = r#"
    UPDATE "{schema}".jobs j
    SET status = 'succeeded', finished_at = now(), prune_at = now() + interval '1 hour'
    WHERE j.id = ANY ($1) AND j.locked_by_worker = $2 AND j.status::text = 'running'
"#;

const CLAIM_FUNCTION: &str = r#"
    SELECT id, epoch, actor, payload FROM "{schema}".claim(ARRAY[$1::text], $2, $3, interval '1 hour')
"#;

const SETTLE_FUNCTION: &str = r#"
    SELECT id, accepted, reason, status FROM "{schema}".settle($1, $2::text::jsonb)
"#;

/// Keeps the plans of plain statements to index probes, as the functions keep their own.
const PLANNER: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;
    SET enable_mergejoin = off; SET jit = off";

/// What a loop did.
pub(super) struct Looped {
    /// How many jobs it ended.
    pub(super) jobs: u64,
    /// How long that took, without the connection and the preparation of statements.
    pub(super) elapsed_ns: u64,
    /// The processor time of this process meanwhile.
    pub(super) cpu_ns: u64,
    /// What it cost the server.
    pub(super) spent: Spent,
}

/// Drains a queue; `seen` hears how many jobs each round ended.
pub(super) async fn drain(
    scene: &Scene,
    through: Through,
    queue: &str,
    actors: &[String],
    mut seen: impl FnMut(u64),
) -> Result<Looped, Failure> {
    Session::alone(scene.database(), async |session| {
        let rounds = match through {
            Through::Procedure => {
                session.run(PROCEDURE).await?;
                None
            }
            Through::Turns(turns) => Some(Loop::prepare(session, turns, queue, actors).await?),
        };
        let probe = Probe::start(scene).await?;
        let (began_ns, began_cpu_ns, mut jobs) = (now_ns(), own_cpu_ns(), 0);
        if let Some(rounds) = rounds {
            loop {
                let ended = rounds.turn().await?;
                if ended == 0 {
                    break;
                }
                seen(ended);
                jobs += ended;
            }
        } else {
            let ended: i64 = session.one(CALL, &[&queue, &actors, &BATCH]).await?.get(0);
            jobs = u64::try_from(ended).unwrap_or(0);
            seen(jobs);
        }
        let (elapsed_ns, cpu_ns) = (now_ns() - began_ns, own_cpu_ns() - began_cpu_ns);
        // While its session is there: what has ended is counted only once the server has noticed.
        let spent = probe.stop(scene).await?;
        Ok(Looped { jobs, elapsed_ns, cpu_ns, spent })
    })
    .await
}

struct Loop<'a> {
    session: &'a Session,
    turns: Turns,
    queue: &'a str,
    actors: &'a [String],
    worker: Uuid,
    claim: Statement,
    settle: Statement,
}

impl<'a> Loop<'a> {
    async fn prepare(
        session: &'a Session,
        turns: Turns,
        queue: &'a str,
        actors: &'a [String],
    ) -> Result<Self, Failure> {
        let worker = Uuid::now_v7();
        let (claim, settle) = match turns {
            Turns::Statements => {
                session.run(PLANNER).await?;
                (CLAIM, SETTLE)
            }
            Turns::Functions => {
                let register =
                    r#"SELECT "{schema}".register_worker($1, ARRAY[$2], $3, interval '1 hour', NULL)"#;
                session.one(register, &[&worker, &queue, &actors]).await?;
                (CLAIM_FUNCTION, SETTLE_FUNCTION)
            }
        };
        let claim = session.client.prepare(&session.sql(claim)).await?;
        let settle = session.client.prepare(&session.sql(settle)).await?;
        Ok(Self { session, turns, queue, actors, worker, claim, settle })
    }

    /// Claims a batch and settles it; returns how many jobs that ended.
    async fn turn(&self) -> Result<u64, Failure> {
        let (client, worker) = (&self.session.client, &self.worker);
        match self.turns {
            Turns::Statements => {
                let parameters: [&(dyn ToSql + Sync); 4] =
                    [&self.queue, &self.actors, &i64::from(BATCH), worker];
                let claimed = client.query(&self.claim, &parameters).await?;
                if claimed.is_empty() {
                    return Ok(0);
                }
                let ids: Vec<Uuid> = claimed.iter().map(|row| row.get(0)).collect();
                Ok(client.execute(&self.settle, &[&ids, worker]).await?)
            }
            Turns::Functions => {
                let claimed = client.query(&self.claim, &[&self.queue, &BATCH, worker]).await?;
                if claimed.is_empty() {
                    return Ok(0);
                }
                let answers = client.query(&self.settle, &[worker, &outcomes(&claimed)]).await?;
                Ok(answers.iter().filter(|row| row.get(1)).count() as u64)
            }
        }
    }
}

/// Writes the document that says that all have succeeded.
fn outcomes(claimed: &[tokio_postgres::Row]) -> String {
    let documents: Vec<_> = claimed
        .iter()
        .map(|row| {
            let (id, epoch): (Uuid, i64) = (row.get(0), row.get(1));
            format!(r#"{{"id":"{id}","epoch":{epoch},"outcome":"succeeded"}}"#)
        })
        .collect();
    format!("[{}]", documents.join(","))
}
