//! Sessions that each commit a row of their own business with a job, beside the same with a bare insert.

use taskq::prelude::*;
use taskq::{Client, Notify};
use tokio_postgres::Statement;
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::callers::{self, Write, Written};
use super::job::{Numbered, refused};
use super::plain;
use super::progress::Progress;
use super::report::Row;
use super::rounds::{Rounds, interleave};
use super::scene::{Scene, Session};
use crate::cli::EnqueueBenchArgs;
use crate::exit::Failure;

const TABLE: &str = r#"CREATE TABLE "{schema}".bench_orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL, number bigint NOT NULL)"#;
const ORDER: &str = r#"INSERT INTO "{schema}".bench_orders (customer, number) VALUES ($1, $2)"#;
const WRITTEN: &str = r#"SELECT (SELECT count(*) FROM "{schema}".bench_orders),
    (SELECT count(*) FROM "{schema}".jobs WHERE status = 'pending')"#;

/// What stands beside the business row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Beside {
    /// A prepared insert of one row of the same content as the job's.
    Insert,
    /// `in_tx`, which tells nobody.
    Quiet,
    /// `in_tx` as it is by itself: the commit tells the workers.
    Telling,
}

impl Beside {
    const ALL: [Self; 3] = [Self::Insert, Self::Quiet, Self::Telling];

    const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Quiet => "in_tx, notify = none",
            Self::Telling => "in_tx",
        }
    }
}

/// A session of its own.
struct Till {
    session: Session,
    order: Statement,
    beside: With,
}

enum With {
    Insert(Statement),
    Enqueue(Client, Notify),
}

impl Till {
    async fn open(scene: &Scene, beside: Beside, client: &Client) -> Result<Self, Failure> {
        let session = scene.session().await?;
        let order = session.client.prepare(&session.sql(ORDER)).await?;
        let beside = match beside {
            Beside::Insert => With::Insert(plain::prepare(&session).await?),
            Beside::Quiet => With::Enqueue(client.clone(), Notify::None),
            Beside::Telling => With::Enqueue(client.clone(), Notify::default()),
        };
        let mut till = Self { session, order, beside };
        // What a session does the first time is no part of what is measured.
        till.write(Numbered { n: 0 }).await?;
        Ok(till)
    }
}

impl Write for Till {
    async fn write(&mut self, job: Numbered) -> Result<(), Failure> {
        let mut tx = self.session.client.transaction().await?;
        #[expect(clippy::cast_possible_wrap, reason = "a few million at most")]
        tx.execute(&self.order, &[&"a customer", &(job.n as i64)]).await?;
        match &self.beside {
            With::Insert(insert) => {
                let id = Uuid::now_v7();
                tx.execute(insert, &[&id, &Numbered::QUEUE, &Numbered::ACTOR, &Json(job)]).await?;
            }
            With::Enqueue(client, notify) => {
                let enqueue = client.enqueue(&job).notify(*notify);
                enqueue.in_tx(&mut tx).await.map_err(|error| refused(&error))?;
            }
        }
        Ok(tx.commit().await?)
    }
}

/// How many jobs this part writes in one round.
pub(super) fn jobs(args: &EnqueueBenchArgs) -> u64 {
    args.transactions * Beside::ALL.len() as u64
}

/// Measures the part.
pub(super) async fn rows(
    args: &EnqueueBenchArgs,
    rounds: Rounds,
    scene: &Scene,
    progress: &Progress,
) -> Result<Vec<Row>, Failure> {
    let (sessions, jobs) = (u64::from(args.callers), args.transactions);
    let part = format!("{sessions} sessions, transactions");
    scene.control().run(TABLE).await?;
    let client = scene.client().await?;
    let written = interleave(rounds, &Beside::ALL, async |beside, _| {
        progress.say(format!("{part}: {}", beside.name()));
        scene.empty().await?;
        scene.control().run(r#"TRUNCATE "{schema}".bench_orders"#).await?;
        let mut tills = Vec::new();
        for _ in 0..sessions {
            tills.push(Till::open(scene, *beside, &client).await?);
        }
        let written: Written = callers::write(tills, jobs).await?;
        progress.advance(jobs);
        let found = scene.control().one(WRITTEN, &[]).await?;
        let (orders, found): (i64, i64) = (found.get(0), found.get(1));
        let expected = i64::try_from(jobs + sessions).ok();
        if [Some(orders), Some(found)] != [expected; 2] {
            let message = format!("{}: {orders} rows and {found} jobs were committed", beside.name());
            return Err(Failure::failed(message));
        }
        Ok(written)
    });
    Ok(callers::rows(&part, "insert", &Beside::ALL.map(Beside::name), &written.await?))
}
