//! What one connection says, read closely enough to know which reply belongs to which statement.

use std::collections::{HashMap, VecDeque};
use std::io;

use bytes::{Buf, Bytes, BytesMut};

use super::swallow::{Catch, Orders};

/// The codes in place of a protocol version that ask for encryption. A proxy says no, to be able to read on.
const ENCRYPTION_REQUESTS: [u32; 2] = [80_877_103, 80_877_104];
const CANCEL_REQUEST: u32 = 80_877_102;

/// The bytes of a message's length, which counts itself.
const LENGTH: usize = 4;

/// The state of one connection's protocol.
///
/// The server answers in order, and ends its answer to each simple query and to each Sync with one `ReadyForQuery`.
/// Counting these tells whose reply is coming, however many requests a client sends ahead.
pub(super) struct Conversation {
    orders: Orders,
    phase: Phase,
    /// The SQL of prepared statements and of portals, by name.
    statements: HashMap<Bytes, String>,
    portals: HashMap<Bytes, String>,
    /// What the requests since the last Sync have caught.
    open: Option<Catch>,
    /// The requests that the server has not answered completely.
    unanswered: VecDeque<Request>,
    /// The reply that is held back, and what it was caught for.
    held: BytesMut,
    caught: Option<Catch>,
    undone: bool,
}

enum Phase {
    Startup,
    Messages,
    /// A request to cancel has no reply and nothing after it.
    Cancel,
}

struct Request {
    ends_with_sync: bool,
    catch: Option<Catch>,
}

/// What a client sent.
pub(super) enum FromClient {
    /// To be forwarded.
    Forward(Bytes),
    /// A request for encryption, to be answered with these bytes.
    Refuse(&'static [u8]),
}

impl Conversation {
    pub(super) fn new(orders: Orders) -> Self {
        Self {
            orders,
            phase: Phase::Startup,
            statements: HashMap::new(),
            portals: HashMap::new(),
            open: None,
            unanswered: VecDeque::new(),
            held: BytesMut::new(),
            caught: None,
            undone: false,
        }
    }

    /// Takes the next complete message of the client from what has arrived.
    pub(super) fn next_from_client(&mut self, arrived: &mut BytesMut) -> io::Result<Option<FromClient>> {
        match self.phase {
            Phase::Startup => self.startup(arrived),
            Phase::Messages => {
                let Some(message) = next_message(arrived)? else { return Ok(None) };
                self.request(&message)?;
                Ok(Some(FromClient::Forward(message)))
            }
            Phase::Cancel => {
                let rest = arrived.split().freeze();
                Ok((!rest.is_empty()).then_some(FromClient::Forward(rest)))
            }
        }
    }

    /// Takes what can be forwarded to the client from what has arrived.
    ///
    /// With an order that is complete the reply is gone, and the connection is to be cut after what comes before it.
    pub(super) fn next_from_server(&mut self, arrived: &mut BytesMut) -> io::Result<(Bytes, Option<Catch>)> {
        let mut forwarded = BytesMut::new();
        while let Some(message) = next_message(arrived)? {
            let holding = self.caught.is_some()
                || self.unanswered.front().is_some_and(|request| request.catch.is_some());
            self.held.extend_from_slice(&message);
            if let Some(complete) = self.reply(&message) {
                return Ok((forwarded.freeze(), Some(complete)));
            }
            // A client sends COPY data only when it has been asked for.
            if !holding || matches!(message[0], b'Z' | b'G') {
                forwarded.unsplit(self.held.split());
            }
        }
        Ok((forwarded.freeze(), None))
    }

    fn startup(&mut self, arrived: &mut BytesMut) -> io::Result<Option<FromClient>> {
        let Some(total) = length_at(arrived, 0)? else { return Ok(None) };
        if total < 2 * LENGTH {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if arrived.len() < total {
            return Ok(None);
        }
        let message = arrived.split_to(total).freeze();
        let code = message.slice(LENGTH..).get_u32();
        if ENCRYPTION_REQUESTS.contains(&code) {
            return Ok(Some(FromClient::Refuse(b"N")));
        }
        if code == CANCEL_REQUEST {
            self.phase = Phase::Cancel;
        } else {
            self.phase = Phase::Messages;
            self.unanswered.push_back(Request { ends_with_sync: false, catch: None });
        }
        Ok(Some(FromClient::Forward(message)))
    }

    /// Notes a message of the client before the server can answer it.
    fn request(&mut self, message: &Bytes) -> io::Result<()> {
        let mut body = message.slice(1 + LENGTH..);
        match message[0] {
            b'P' => {
                let name = text(&mut body)?;
                self.statements.insert(name, lossy(&text(&mut body)?));
            }
            b'B' => {
                let (portal, statement) = (text(&mut body)?, text(&mut body)?);
                let sql = self.statements.get(&statement).cloned().unwrap_or_default();
                self.portals.insert(portal, sql);
            }
            b'E' => {
                let portal = text(&mut body)?;
                if self.open.is_none() {
                    self.open = self.portals.get(&portal).and_then(|sql| self.orders.catch(sql));
                }
            }
            b'Q' => {
                let sql = lossy(&text(&mut body)?);
                let catch = self.open.take().or_else(|| self.orders.catch(&sql));
                self.unanswered.push_back(Request { ends_with_sync: false, catch });
            }
            b'S' => self.unanswered.push_back(Request { ends_with_sync: true, catch: self.open.take() }),
            // A function call, from before the extended protocol.
            b'F' => self.unanswered.push_back(Request { ends_with_sync: false, catch: None }),
            _ => {}
        }
        Ok(())
    }

    /// Notes a message of the server; returns the order that it completes.
    fn reply(&mut self, message: &Bytes) -> Option<Catch> {
        let body = &message[1 + LENGTH..];
        match message[0] {
            // While it reads COPY data the server ignores a Sync, so the request goes on to the next one.
            b'G' if self.unanswered.front().is_some_and(|request| request.ends_with_sync) => {
                let catch = self.unanswered.pop_front().and_then(|request| request.catch);
                let heir = self.unanswered.front_mut().map_or(&mut self.open, |request| &mut request.catch);
                *heir = catch.or_else(|| heir.take());
            }
            b'E' => self.undone = true,
            b'C' if body.starts_with(b"ROLLBACK\0") => self.undone = true,
            b'Z' => {
                self.orders.note_answer();
                let caught = self.unanswered.pop_front().and_then(|request| request.catch);
                self.caught = self.caught.take().or(caught);
                let undone = std::mem::take(&mut self.undone);
                match body.first() {
                    _ if undone => self.caught = None,
                    Some(b'I') => return self.caught.take(),
                    // In a transaction: the reply to its commit is the one to swallow.
                    _ => {}
                }
            }
            _ => {}
        }
        None
    }
}

/// Takes a message off, its type byte and length included, if it is complete.
fn next_message(arrived: &mut BytesMut) -> io::Result<Option<Bytes>> {
    let total = length_at(arrived, 1)?.map(|length| 1 + length);
    Ok(total.filter(|total| arrived.len() >= *total).map(|total| arrived.split_to(total).freeze()))
}

/// The length that stands at `offset`, if it has arrived.
fn length_at(arrived: &BytesMut, offset: usize) -> io::Result<Option<usize>> {
    let Some(mut field) = arrived.get(offset..offset + LENGTH) else { return Ok(None) };
    let length = usize::try_from(field.get_i32()).ok().filter(|length| *length >= LENGTH);
    length.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Takes off a text that a zero byte ends.
fn text(body: &mut Bytes) -> io::Result<Bytes> {
    let end = body.iter().position(|byte| *byte == 0).ok_or(io::ErrorKind::InvalidData)?;
    let text = body.split_to(end);
    body.advance(1);
    Ok(text)
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests;
