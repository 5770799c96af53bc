//! A web tier and a worker as two programs. What they share is a module of job types: data, and nothing of what a handler
//! needs. Here they are two roles of one program; as a rule they are two crates, and the types a third.
//!
//! `cargo run -p taskq --example web_tier -- web postgres://…` and `… -- worker postgres://…`

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

mod types;
mod web;
mod worker;

use anyhow::{Context, bail};
use taskq::TaskQ;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let role = args.next().context("say `web` or `worker`")?;
    let url = args.next().context("say the URL of a database")?;
    TaskQ::migrate_url(&url).await?;
    let taskq = TaskQ::connect(&url).await?;
    match role.as_str() {
        "web" => web::run(&taskq).await,
        "worker" => worker::run(&taskq).await,
        other => bail!("there is no role `{other}`"),
    }
}
