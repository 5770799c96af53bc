//! One connection through a proxy.

use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::conversation::{Conversation, FromClient};
use super::faults::{Direction, Faults};
use super::swallow::{Catch, Orders};

/// How many pieces may be on their way in one direction before the sender is held up.
const ON_THEIR_WAY: usize = 1024;

/// What is on its way, with the time it arrived.
type Piece = (Instant, Content);

enum Content {
    Bytes(Bytes),
    End,
    /// In the place of the reply: the cut comes after what was sent before it.
    Swallowed(Catch),
}

/// Why a connection ends before both sides have closed it.
enum Cut {
    Swallowed(Catch),
    Unreadable,
    Asked,
}

/// Carries one connection until both sides have closed it or it is cut.
///
/// `cuts` is how often the proxy's connections had been cut when this one was accepted.
pub(super) async fn run(
    mut client: TcpStream,
    target: (String, u16),
    orders: Orders,
    cuts: u64,
    mut faults: watch::Receiver<Faults>,
) {
    let mut asked = faults.clone();
    let cut = async move {
        // An error means that the proxy is gone.
        let _ = asked.wait_for(|faults| faults.cuts != cuts || faults.gone).await;
    };
    tokio::pin!(cut);
    let connecting = async {
        let _ = faults.wait_for(|faults| !faults.black_hole(Direction::ToServer)).await;
        TcpStream::connect((target.0.as_str(), target.1)).await
    };
    let server = tokio::select! {
        connected = connecting => connected.ok(),
        () = &mut cut => None,
    };
    let Some(mut server) = server else {
        reset(&client);
        return;
    };
    let ended = tokio::select! {
        ended = carry(&mut client, &mut server, orders, &faults) => ended,
        () = cut => Err(Cut::Asked),
    };
    if let Err(cut) = ended {
        reset(&client);
        reset(&server);
        drop((client, server));
        if let Cut::Swallowed(catch) = cut {
            catch.done();
        }
    }
}

/// Makes the connection end with a reset instead of a farewell when it is dropped.
pub(super) fn reset(stream: &TcpStream) {
    // Fails only if the connection has ended already.
    let _ = stream.set_zero_linger();
}

async fn carry(
    client: &mut TcpStream,
    server: &mut TcpStream,
    orders: Orders,
    faults: &watch::Receiver<Faults>,
) -> Result<(), Cut> {
    // Small messages are not to wait for each other's acknowledgement.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let conversation = Mutex::new(Conversation::new(orders));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let (server_queue, server_pieces) = mpsc::channel(ON_THEIR_WAY);
    let (client_queue, client_pieces) = mpsc::channel(ON_THEIR_WAY);
    let refusals = client_queue.clone();
    tokio::try_join!(
        read_client(from_client, &conversation, server_queue, refusals),
        read_server(from_server, &conversation, client_queue),
        deliver(server_pieces, to_server, Direction::ToServer, faults.clone()),
        deliver(client_pieces, to_client, Direction::ToClient, faults.clone()),
    )?;
    Ok(())
}

async fn read_client(
    mut client: ReadHalf<'_>,
    conversation: &Mutex<Conversation>,
    to_server: mpsc::Sender<Piece>,
    to_client: mpsc::Sender<Piece>,
) -> Result<(), Cut> {
    let mut arrived = BytesMut::new();
    while read(&mut client, &mut arrived).await {
        loop {
            let next = lock(conversation).next_from_client(&mut arrived).map_err(|_| Cut::Unreadable)?;
            let (queue, bytes) = match next {
                Some(FromClient::Forward(message)) => (&to_server, message),
                Some(FromClient::Refuse(answer)) => (&to_client, Bytes::from_static(answer)),
                None => break,
            };
            if queue.send((Instant::now(), Content::Bytes(bytes))).await.is_err() {
                return Ok(());
            }
        }
    }
    let _ = to_server.send((Instant::now(), Content::End)).await;
    Ok(())
}

async fn read_server(
    mut server: ReadHalf<'_>,
    conversation: &Mutex<Conversation>,
    to_client: mpsc::Sender<Piece>,
) -> Result<(), Cut> {
    let mut arrived = BytesMut::new();
    while read(&mut server, &mut arrived).await {
        let (bytes, complete) =
            lock(conversation).next_from_server(&mut arrived).map_err(|_| Cut::Unreadable)?;
        if !bytes.is_empty() && to_client.send((Instant::now(), Content::Bytes(bytes))).await.is_err() {
            return Ok(());
        }
        if let Some(catch) = complete {
            let _ = to_client.send((Instant::now(), Content::Swallowed(catch))).await;
            return Ok(());
        }
    }
    let _ = to_client.send((Instant::now(), Content::End)).await;
    Ok(())
}

/// Reads what is there; false at the end of the stream, which a broken connection is too.
async fn read(stream: &mut ReadHalf<'_>, arrived: &mut BytesMut) -> bool {
    stream.read_buf(arrived).await.is_ok_and(|count| count > 0)
}

/// Writes each piece when it is due, until the end of the stream or until nobody reads.
async fn deliver(
    mut pieces: mpsc::Receiver<Piece>,
    mut stream: WriteHalf<'_>,
    direction: Direction,
    mut faults: watch::Receiver<Faults>,
) -> Result<(), Cut> {
    while let Some((arrived, content)) = pieces.recv().await {
        until_due(arrived, direction, &mut faults).await;
        match content {
            Content::Bytes(bytes) if stream.write_all(&bytes).await.is_ok() => {}
            // One who does not read any more needs no farewell.
            Content::Bytes(_) => break,
            Content::End => {
                let _ = stream.shutdown().await;
                break;
            }
            Content::Swallowed(catch) => return Err(Cut::Swallowed(catch)),
        }
    }
    Ok(())
}

/// Waits until what has arrived may be delivered, under the faults of every moment.
async fn until_due(arrived: Instant, direction: Direction, faults: &mut watch::Receiver<Faults>) {
    loop {
        let (open, delay) = {
            let now = faults.borrow_and_update();
            (!now.black_hole(direction), now.delay(direction))
        };
        tokio::select! {
            () = sleep_until(arrived + delay), if open => return,
            changed = faults.changed() => if changed.is_err() { return },
        }
    }
}

/// A panic while it was locked ended the connection that it belongs to.
fn lock(conversation: &Mutex<Conversation>) -> std::sync::MutexGuard<'_, Conversation> {
    conversation.lock().unwrap_or_else(PoisonError::into_inner)
}
