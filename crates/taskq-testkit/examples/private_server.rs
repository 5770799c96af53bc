//! Runs a private server until its input ends: `cargo run -p taskq-testkit --example private_server`.

use taskq_testkit::{Options, PgSource, PrivateServer};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = PrivateServer::start(Options::durable(PgSource::from_env()?)).await?;
    let report =
        format!("PostgreSQL {} in {}\n{}\n", server.version(), server.bin_dir().display(), server.dsn());
    std::io::Write::write_all(&mut std::io::stdout(), report.as_bytes())?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    server.stop().await?;
    Ok(())
}
