//! What one job of the demo computes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

const CHUNK: usize = 128 * 1024;

/// The facts about one file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Digest {
    /// Its SHA-256 in hexadecimal.
    pub(crate) sha256: String,
    /// How many line breaks it has.
    pub(crate) lines: u64,
    /// Its length.
    pub(crate) bytes: u64,
}

/// Reads a file in chunks, so that its size does not matter, until `stop` is cancelled.
///
/// # Errors
/// What the system says; [`io::ErrorKind::Interrupted`] when stopped; an error when the path is no regular file
/// any more.
pub(crate) fn digest(path: &Path, stop: &CancellationToken) -> io::Result<Digest> {
    let mut file = open(path)?;
    let mut sha256 = Sha256::new();
    let (mut lines, mut bytes) = (0, 0);
    let mut chunk = vec![0; CHUNK];
    loop {
        if stop.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let read = match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let read = &chunk[..read];
        sha256.update(read);
        lines += line_breaks(read);
        bytes += read.len() as u64;
    }
    Ok(Digest { sha256: hexadecimal(&sha256.finalize()), lines, bytes })
}

/// Opens what was a regular file when it was found. It may be a link or a pipe by now: neither is followed nor
/// waited for.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file any more"));
    }
    Ok(file)
}

fn line_breaks(bytes: &[u8]) -> u64 {
    // Sums of 255 fit a byte, which lets the compiler use wide registers.
    bytes
        .chunks(255)
        .map(|chunk| u64::from(chunk.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>()))
        .sum()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        for half in [byte >> 4, byte & 0xf] {
            text.push(char::from_digit(u32::from(half), 16).unwrap_or('?'));
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_digested_in_chunks() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let run = || digest(&path, &CancellationToken::new()).unwrap();

        fs::write(&path, "abc").unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(run(), Digest { sha256: abc.to_owned(), lines: 0, bytes: 3 });
        fs::write(&path, "\n".repeat(CHUNK + 1_000)).unwrap();
        let large = run();
        assert_eq!((large.lines, large.bytes), (CHUNK as u64 + 1_000, CHUNK as u64 + 1_000));
    }

    #[test]
    fn what_is_no_regular_file_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let stop = CancellationToken::new();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        assert!(digest(&link, &stop).is_err());
        assert!(digest(directory.path(), &stop).is_err());
        assert_eq!(
            digest(&directory.path().join("gone"), &stop).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );

        let file = directory.path().join("file");
        fs::write(&file, "x").unwrap();
        stop.cancel();
        assert_eq!(digest(&file, &stop).unwrap_err().kind(), io::ErrorKind::Interrupted);
    }
}
