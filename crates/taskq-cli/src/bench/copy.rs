//! Rows of jobs by binary COPY.

use std::pin::Pin;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::SinkExt;
use serde::Serialize;
use tokio_postgres::CopyInSink;
use uuid::Uuid;

use super::scene::Session;
use crate::exit::Failure;

/// How much is sent at once.
const PIECE: usize = 64 * 1024;

/// Microseconds since 2000, as PostgreSQL keeps times.
const NOW: &str =
    "SELECT (extract(epoch FROM clock_timestamp() - '2000-01-01Z'::timestamptz) * 1000000)::bigint";

/// Reads the server's clock, in microseconds since 2000.
pub(super) async fn server_time(session: &Session) -> Result<i64, Failure> {
    Ok(session.one(NOW, &[]).await?.get(0))
}

/// A COPY under way into some columns of the table of jobs.
pub(super) struct Copy {
    sink: Pin<Box<CopyInSink<Bytes>>>,
    buffer: BytesMut,
    columns: i16,
}

impl Copy {
    /// Begins to write rows of these columns.
    pub(super) async fn begin(session: &Session, columns: &[&str]) -> Result<Self, Failure> {
        let copy = format!(r#"COPY "{{schema}}".jobs ({}) FROM STDIN (FORMAT binary)"#, columns.join(", "));
        let sink = Box::pin(session.client.copy_in(&session.sql(&copy)).await?);
        let mut buffer = BytesMut::with_capacity(2 * PIECE);
        buffer.put_slice(b"PGCOPY\n\xff\r\n\0");
        // No flags, no extension of the header.
        buffer.put_u64(0);
        let columns = i16::try_from(columns.len()).expect("the table has fewer columns");
        Ok(Self { sink, buffer, columns })
    }

    /// Begins a row. Each of its columns follows.
    pub(super) fn row(&mut self) -> &mut Self {
        self.buffer.put_i16(self.columns);
        self
    }

    /// Adds a value in its binary form.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.buffer.put_u32(u32::try_from(bytes.len()).expect("a benchmark's values are short"));
        self.buffer.put_slice(bytes);
        self
    }

    /// Adds an id.
    pub(super) fn id(&mut self, id: Uuid) -> &mut Self {
        self.bytes(id.as_bytes())
    }

    /// Adds a text, or the word of an enum.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    /// Adds a smallint.
    pub(super) fn small(&mut self, number: i16) -> &mut Self {
        self.bytes(&number.to_be_bytes())
    }

    /// Adds an integer.
    pub(super) fn integer(&mut self, number: i32) -> &mut Self {
        self.bytes(&number.to_be_bytes())
    }

    /// Adds a time, in microseconds since 2000, or a bigint.
    pub(super) fn big(&mut self, number: i64) -> &mut Self {
        self.bytes(&number.to_be_bytes())
    }

    /// Adds a document.
    pub(super) fn json(&mut self, value: &impl Serialize) -> Result<&mut Self, Failure> {
        let mut document = vec![1]; // the version of jsonb's binary form
        serde_json::to_writer(&mut document, value).map_err(|error| Failure::failed(error.to_string()))?;
        Ok(self.bytes(&document))
    }

    /// Adds a value, or NULL.
    pub(super) fn maybe<T>(
        &mut self,
        value: Option<T>,
        add: impl FnOnce(&mut Self, T) -> &mut Self,
    ) -> &mut Self {
        if let Some(value) = value {
            return add(self, value);
        }
        self.buffer.put_i32(-1);
        self
    }

    /// Sends what has gathered, if it is enough.
    pub(super) async fn flow(&mut self) -> Result<(), Failure> {
        if self.buffer.len() >= PIECE {
            self.sink.send(self.buffer.split().freeze()).await?;
        }
        Ok(())
    }

    /// Ends it; returns how many rows were written.
    pub(super) async fn finish(mut self) -> Result<u64, Failure> {
        self.buffer.put_i16(-1);
        self.sink.send(self.buffer.split().freeze()).await?;
        Ok(self.sink.as_mut().finish().await?)
    }
}
