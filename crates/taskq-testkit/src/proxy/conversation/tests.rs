//! Replies are found among those of requests that were sent ahead.

use super::*;
use crate::proxy::Swallow;

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(LENGTH + body.len()).unwrap().to_be_bytes();
    [&[tag], &length[..], body].concat()
}

fn parse(name: &str, sql: &str) -> Vec<u8> {
    message(b'P', format!("{name}\0{sql}\0\0\0").as_bytes())
}

/// Bind of an unnamed portal, Execute, Sync.
fn execute(name: &str) -> Vec<u8> {
    let bind = message(b'B', format!("\0{name}\0\0\0\0\0\0\0").as_bytes());
    [bind, message(b'E', b"\0\0\0\0\0"), message(b'S', b"")].concat()
}

fn ready(status: u8) -> Vec<u8> {
    message(b'Z', &[status])
}

fn complete(tag: &str, status: u8) -> Vec<u8> {
    [message(b'C', format!("{tag}\0").as_bytes()), ready(status)].concat()
}

/// A conversation after its startup, with one order.
fn conversation(text: &str) -> (Conversation, Swallow) {
    let orders = Orders::default();
    let order = orders.add(text);
    let mut conversation = Conversation::new(orders);
    let startup = [&9_u32.to_be_bytes()[..], &196_608_u32.to_be_bytes(), b"\0"].concat();
    assert_eq!(say(&mut conversation, &startup), startup);
    assert_eq!(hear(&mut conversation, &ready(b'I')), Some(ready(b'I')));
    (conversation, order)
}

/// Sends byte by byte; returns what is forwarded.
fn say(conversation: &mut Conversation, bytes: &[u8]) -> Vec<u8> {
    let (mut arrived, mut forwarded) = (BytesMut::new(), Vec::new());
    for byte in bytes {
        arrived.extend_from_slice(&[*byte]);
        while let Some(next) = conversation.next_from_client(&mut arrived).unwrap() {
            match next {
                FromClient::Forward(message) => forwarded.extend_from_slice(&message),
                FromClient::Refuse(answer) => assert_eq!(answer, b"N"),
            }
        }
    }
    forwarded
}

/// Answers byte by byte; returns what is forwarded, none when an order is complete.
fn hear(conversation: &mut Conversation, bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut arrived, mut forwarded) = (BytesMut::new(), Vec::new());
    for byte in bytes {
        arrived.extend_from_slice(&[*byte]);
        let (bytes, complete) = conversation.next_from_server(&mut arrived).unwrap();
        forwarded.extend_from_slice(&bytes);
        if let Some(catch) = complete {
            catch.done();
            return None;
        }
    }
    Some(forwarded)
}

#[test]
fn only_the_reply_to_the_statement_that_was_meant_is_swallowed() {
    let (mut conversation, order) = conversation("settle");
    let before = [parse("a", "SELECT 1"), parse("b", "SELECT taskq.settle($1)"), message(b'S', b"")].concat();
    assert_eq!(say(&mut conversation, &before), before, "preparing it is not running it");
    let ahead = [execute("a"), execute("b"), execute("a")].concat();
    assert_eq!(say(&mut conversation, &ahead), ahead, "the server gets it all");

    let (prepared, first) = (ready(b'I'), complete("SELECT 1", b'I'));
    assert_eq!(hear(&mut conversation, &prepared), Some(prepared));
    assert_eq!(hear(&mut conversation, &first), Some(first));
    assert!(!order.has_happened());
    assert_eq!(hear(&mut conversation, &complete("SELECT 1", b'I')), None);
    assert!(order.has_happened());
}

#[test]
fn in_a_transaction_it_is_the_reply_to_the_commit() {
    let (mut conversation, order) = conversation("settle");
    let query = |sql: &str| message(b'Q', format!("{sql}\0").as_bytes());
    say(&mut conversation, &[query("BEGIN"), query("SELECT settle()")].concat());
    let replies = [complete("BEGIN", b'T'), complete("SELECT 1", b'T')].concat();
    assert_eq!(hear(&mut conversation, &replies), Some(replies));
    assert!(!order.has_happened());
    say(&mut conversation, &query("COMMIT"));
    assert_eq!(hear(&mut conversation, &complete("COMMIT", b'I')), None);
}

#[test]
fn what_commits_nothing_keeps_its_reply_and_the_next_one_is_waited_for() {
    let (mut conversation, order) = conversation("settle");
    let query = |sql: &str| message(b'Q', format!("{sql}\0").as_bytes());
    let failed = [message(b'E', b"SERROR\0\0"), ready(b'I')].concat();
    say(&mut conversation, &query("SELECT settle()"));
    assert_eq!(hear(&mut conversation, &failed), Some(failed));

    say(&mut conversation, &[query("BEGIN"), query("SELECT settle()"), query("ROLLBACK")].concat());
    let undone = [complete("BEGIN", b'T'), complete("SELECT 1", b'T'), complete("ROLLBACK", b'I')].concat();
    assert_eq!(hear(&mut conversation, &undone), Some(undone));
    assert!(!order.has_happened());

    say(&mut conversation, &query("SELECT settle()"));
    assert_eq!(hear(&mut conversation, &complete("SELECT 1", b'I')), None);
}

#[test]
fn a_sync_that_copy_ignores_does_not_count() {
    let (mut conversation, _order) = conversation("COPY");
    say(&mut conversation, &[parse("", "COPY t FROM STDIN"), execute("")].concat());
    let copy_in = message(b'G', &[0, 0, 0]);
    assert_eq!(hear(&mut conversation, &copy_in), Some(copy_in.clone()), "the client waits for it");
    say(&mut conversation, &[message(b'd', b"1\n"), message(b'c', b""), message(b'S', b"")].concat());
    assert_eq!(hear(&mut conversation, &complete("COPY 1", b'I')), None);
}

#[test]
fn one_order_swallows_one_reply_and_waits_again_when_its_connection_dies() {
    let orders = Orders::default();
    let order = orders.add("settle");
    let first = orders.catch("settle").unwrap();
    assert!(orders.catch("settle").is_none());
    drop(first);
    orders.catch("settle").unwrap().done();
    assert!(order.has_happened());
    assert!(orders.catch("settle").is_none());

    drop(orders.add("claim"));
    assert!(orders.catch("claim").is_none(), "called off");
}

#[test]
fn encryption_is_refused_and_what_is_no_message_is_an_error() {
    let mut conversation = Conversation::new(Orders::default());
    let encryption = [8_u32.to_be_bytes(), ENCRYPTION_REQUESTS[0].to_be_bytes()].concat();
    assert!(say(&mut conversation, &encryption).is_empty());
    let mut nonsense = BytesMut::from(&b"\0\0\0\x04"[..]);
    assert!(conversation.next_from_client(&mut nonsense).is_err());

    conversation.phase = Phase::Messages;
    for nonsense in [&b"Q\0\0\0\x03"[..], b"Q\xff\0\0\0", b"Q\0\0\0\x05x"] {
        assert!(conversation.next_from_client(&mut BytesMut::from(nonsense)).is_err(), "{nonsense:?}");
    }
}
