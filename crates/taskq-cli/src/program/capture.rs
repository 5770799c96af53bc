//! What a program writes.

use std::collections::VecDeque;

use tokio::io::{AsyncRead, AsyncReadExt};

const CHUNK: usize = 16 * 1024;

/// The beginning of an output, up to a limit; what comes behind is read and counted, not kept.
#[derive(Debug)]
pub(super) struct Head {
    bytes: Vec<u8>,
    total: u64,
    limit: usize,
}

impl Head {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), total: 0, limit }
    }

    /// Reads to the end. An error of reading is an end: what came before it counts.
    pub(super) async fn fill(&mut self, mut source: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; CHUNK];
        while let Ok(read @ 1..) = source.read(&mut chunk).await {
            self.total += read as u64;
            if self.overflowed() {
                // It will not be used: give the memory back while the rest is drained.
                self.bytes = Vec::new();
            } else {
                self.bytes.extend_from_slice(&chunk[..read]);
            }
        }
    }

    /// How many bytes were written in all.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The whole output; `None` when it was larger than the limit.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        (!self.overflowed()).then_some(self.bytes.as_slice())
    }

    fn overflowed(&self) -> bool {
        self.total > self.limit as u64
    }
}

/// The end of an output.
#[derive(Debug)]
pub(super) struct Tail {
    bytes: VecDeque<u8>,
    limit: usize,
}

impl Tail {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: VecDeque::new(), limit }
    }

    /// Reads to the end. An error of reading is an end.
    pub(super) async fn fill(&mut self, mut source: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; CHUNK];
        while let Ok(read @ 1..) = source.read(&mut chunk).await {
            let new = &chunk[read.saturating_sub(self.limit)..read];
            let excess = (self.bytes.len() + new.len()).saturating_sub(self.limit);
            self.bytes.drain(..excess);
            self.bytes.extend(new);
        }
    }

    /// The last bytes, without the rest of a character that the limit cut in two.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        let full = self.bytes.len() == self.limit;
        let bytes = Vec::from(self.bytes);
        let cut =
            if full { bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count() } else { 0 };
        bytes[cut..].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_head_keeps_what_fits_and_counts_the_rest() {
        let mut head = Head::new(20_000);
        head.fill(&*vec![b'x'; 20_000]).await;
        assert_eq!(head.whole().map(<[u8]>::len), Some(20_000));
        let mut head = Head::new(20_000);
        head.fill(&*vec![b'x'; 50_001]).await;
        assert_eq!((head.whole(), head.total()), (None, 50_001));
        assert_eq!(head.bytes.capacity(), 0, "nothing is kept of an output that is not used");
    }

    #[tokio::test]
    async fn a_tail_keeps_the_end() {
        let mut tail = Tail::new(5);
        tail.fill(&b"abcdefgh"[..]).await;
        tail.fill(&b"ij"[..]).await;
        assert_eq!(tail.into_bytes(), b"fghij");
        let mut tail = Tail::new(5);
        tail.fill("aéééé".as_bytes()).await;
        assert_eq!(tail.into_bytes(), "éé".as_bytes());
        let mut tail = Tail::new(5);
        tail.fill(&b"abc"[..]).await;
        assert_eq!(tail.into_bytes(), b"abc");
    }
}
