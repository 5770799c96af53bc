//! Names and secrets from the operating system's random source.

use std::fs::File;
use std::io::{self, Read};

use crate::hex::hex;

/// 128 random bits as 32 hexadecimal digits, good enough for a password.
pub(crate) fn token() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hex(&bytes))
}
