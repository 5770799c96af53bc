//! psycopg, the Python driver that the foreign worker of the tests uses: wheels that are downloaded and unpacked, never
//! installed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::fetch::{FetchError, PIPS, STAGING, UNZIPS, create_dir, remove_leftovers, run_first};
use crate::random;

/// Together they need nothing else: the second carries its own libpq.
const REQUIREMENTS: [&str; 3] = ["psycopg==3.2.9", "psycopg-binary==3.2.9", "typing-extensions==4.13.2"];
const DIRECTORY: &str = "psycopg-3.2.9";

/// Fetches psycopg unless it is in the cache already; returns the directory for `PYTHONPATH`.
///
/// Blocks. Safe to call from several processes at once: one fetches, the others wait for it.
///
/// # Errors
///
/// There is no Python with pip, no such package for it, or no cache to keep it in.
pub fn psycopg() -> Result<PathBuf, FetchError> {
    let cache = Account::for_this_process()
        .ok()
        .flatten()
        .and_then(|account| account.cache_root())
        .ok_or(FetchError::NoCache)?;
    let done = cache.join(DIRECTORY);
    if done.is_dir() {
        return Ok(done);
    }
    let in_cache = |error| FetchError::Cache { path: cache.clone(), error };
    create_dir(&cache).map_err(in_cache)?;
    let lock = File::create(cache.join("fetch.lock")).map_err(in_cache)?;
    lock.lock().map_err(in_cache)?;
    if done.is_dir() {
        return Ok(done);
    }
    remove_leftovers(&cache).map_err(in_cache)?;

    let staging = cache.join(format!("{STAGING}{}", random::token().map_err(in_cache)?));
    create_dir(&staging).map_err(in_cache)?;
    let result = download(&staging.join("wheels"), &staging.join("packages"))
        .and_then(|()| fs::rename(staging.join("packages"), &done).map_err(in_cache));
    // What remains is removed by the next fetch at the latest.
    let _ = fs::remove_dir_all(&staging);
    result.map(|()| done)
}

fn download(wheels: &Path, packages: &Path) -> Result<(), FetchError> {
    // Binary only: a source distribution would run its author's code here.
    let arguments = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"];
    run_first(&PIPS, |pip| {
        pip.args(arguments).arg(wheels).args(REQUIREMENTS);
    })?
    .map_err(FetchError::Download)?;
    let unpacked = |error: std::io::Error| FetchError::Unpack(error.to_string());
    for entry in fs::read_dir(wheels).map_err(unpacked)? {
        let wheel = entry.map_err(unpacked)?.path();
        run_first(&UNZIPS, |unzip| {
            unzip.arg("-e").arg(&wheel).arg(packages);
        })?
        .map_err(FetchError::Unpack)?;
    }
    Ok(())
}
