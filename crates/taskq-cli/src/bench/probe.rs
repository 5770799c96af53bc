//! What a stretch of work costs the server: processor time and WAL.

use super::scene::Scene;
use crate::exit::Failure;

/// The server's counters at the begin of a stretch of work.
#[derive(Debug)]
pub(super) struct Probe {
    lsn: String,
    cpu_s: Option<f64>,
}

/// What the server used between two moments, whoever it was for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    /// The processor time of all of its processes.
    pub(super) server_cpu_s: Option<f64>,
    /// The WAL written.
    pub(super) wal_bytes: u64,
    /// How much of it is full-page images, which depend on when the last checkpoint was.
    pub(super) full_page_bytes: Option<u64>,
}

impl Spent {
    /// The WAL without full-page images where they are known.
    #[expect(clippy::cast_precision_loss, reason = "a share is computed")]
    pub(super) fn wal_bytes_per(&self, jobs: u64) -> f64 {
        self.wal_bytes.saturating_sub(self.full_page_bytes.unwrap_or(0)) as f64 / jobs.max(1) as f64
    }
}

impl Probe {
    /// Reads the counters.
    pub(super) async fn start(scene: &Scene) -> Result<Self, Failure> {
        let row = scene.control().one("SELECT pg_current_wal_insert_lsn()::text", &[]).await?;
        Ok(Self { lsn: row.get(0), cpu_s: scene.cpu().and_then(super::clock::ServerCpu::read) })
    }

    /// Reads them again.
    pub(super) async fn stop(self, scene: &Scene) -> Result<Spent, Failure> {
        let now = scene.cpu().and_then(super::clock::ServerCpu::read);
        let server_cpu_s = self.cpu_s.zip(now).map(|(before, after)| after - before);
        let end = "SELECT pg_current_wal_insert_lsn()::text, pg_current_wal_flush_lsn()::text,
            (pg_current_wal_insert_lsn() - $1::text::pg_lsn)::bigint";
        let row = scene.control().one(end, &[&self.lsn]).await?;
        let wal_bytes = u64::try_from(row.get::<_, i64>(2)).unwrap_or(0);
        let full_page_bytes = match scene.walinspect() {
            Some(function) => {
                // What is not flushed yet cannot be looked at; all that was committed is.
                let images = format!(
                    "SELECT coalesce(sum(fpi_size), 0)::bigint FROM {function}($1::text::pg_lsn, $2::text::pg_lsn)"
                );
                let flushed: &str = row.get(1);
                let images = scene.control().one(&images, &[&self.lsn, &flushed]).await?;
                Some(u64::try_from(images.get::<_, i64>(0)).unwrap_or(0))
            }
            None => None,
        };
        Ok(Spent { server_cpu_s, wal_bytes, full_page_bytes })
    }
}

/// What to tell a reader of WAL figures where full-page images cannot be told from the rest.
pub(super) fn wal_note(scene: &Scene) -> Option<String> {
    scene.walinspect().is_none().then(|| {
        "wal_bytes_per_job includes full-page images: the extension pg_walinspect, which could tell them apart, is not \
         in this database."
            .to_owned()
    })
}
