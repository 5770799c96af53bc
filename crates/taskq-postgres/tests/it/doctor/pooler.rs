//! A pooler in transaction mode: many clients, one server session, which each has for a transaction at a time.

use std::io;
use std::sync::Arc;

use taskq_postgres::Verdict;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use super::{doctor, examine};
use crate::database::migrated;

/// The request of a client that would rather encrypt.
const ENCRYPTION: [u8; 4] = 80_877_103_u32.to_be_bytes();
/// What a server says when it waits for the client.
const READY: u8 = b'Z';

/// The one session, and what it said when it began.
struct Upstream {
    server: TcpStream,
    greeting: Vec<u8>,
}

/// Reads a message of the protocol whole: its kind, and all of its bytes.
async fn message(from: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut bytes = vec![0; 5];
    from.read_exact(&mut bytes).await?;
    let length = u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]) as usize;
    bytes.resize(1 + length, 0);
    from.read_exact(&mut bytes[5..]).await?;
    Ok((bytes[0], bytes))
}

/// Reads the message with which a client begins, which has no kind. Nothing is encrypted here.
async fn startup(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    loop {
        let mut bytes = vec![0; 4];
        from.read_exact(&mut bytes).await?;
        let length = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        bytes.resize(length, 0);
        from.read_exact(&mut bytes[4..]).await?;
        if bytes[4..] != ENCRYPTION {
            return Ok(bytes);
        }
        from.write_all(b"N").await?;
    }
}

impl Upstream {
    /// Opens the session with the first client, who answers what the server asks to let it in.
    async fn open(address: String, startup: &[u8], client: &mut TcpStream) -> io::Result<Self> {
        let mut server = TcpStream::connect(address).await?;
        server.write_all(startup).await?;
        // What later clients are told: that they are let in, and what follows.
        let mut greeting = Vec::new();
        loop {
            let (kind, bytes) = message(&mut server).await?;
            client.write_all(&bytes).await?;
            let request =
                (kind == b'R').then(|| u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]));
            match request {
                // The server has said its last word of a SASL exchange.
                Some(12) => {}
                Some(1..) => {
                    let (_, answer) = message(client).await?;
                    server.write_all(&answer).await?;
                }
                _ => greeting.extend(bytes),
            }
            if kind == READY {
                return Ok(Self { server, greeting });
            }
        }
    }

    /// Serves one transaction of a client. Says whether the client goes on.
    async fn serve(&mut self, first: (u8, Vec<u8>), client: &mut TcpStream) -> io::Result<bool> {
        let mut next = Some(first);
        loop {
            let (kind, bytes) = match next.take() {
                Some(message) => message,
                None => message(client).await?,
            };
            if kind == b'X' {
                return Ok(false);
            }
            self.server.write_all(&bytes).await?;
            if kind != b'Q' && kind != b'S' {
                continue;
            }
            loop {
                let (kind, bytes) = message(&mut self.server).await?;
                client.write_all(&bytes).await?;
                if kind == READY {
                    // Idle outside a transaction: the session is anybody's.
                    if bytes[5] == b'I' {
                        return Ok(true);
                    }
                    break;
                }
            }
        }
    }
}

/// Starts a pooler before a server; returns its port.
async fn start(server: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let upstream: Arc<Mutex<Option<Upstream>>> = Arc::default();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (upstream, server) = (Arc::clone(&upstream), server.clone());
            tokio::spawn(async move {
                let hello = startup(&mut client).await?;
                {
                    let mut upstream = upstream.lock().await;
                    match &*upstream {
                        Some(upstream) => client.write_all(&upstream.greeting).await?,
                        None => *upstream = Some(Upstream::open(server, &hello, &mut client).await?),
                    }
                }
                loop {
                    let first = message(&mut client).await?;
                    let mut upstream = upstream.lock().await;
                    if !upstream.as_mut().unwrap().serve(first, &mut client).await? {
                        return Ok::<_, io::Error>(());
                    }
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn a_pooler_in_transaction_mode_is_told() {
    let database = migrated().await;
    let config: tokio_postgres::Config = database.dsn().parse().unwrap();
    let port = config.get_ports()[0];
    let pooler = start(format!("127.0.0.1:{port}")).await;
    let through = database.dsn().replace(&format!(":{port}"), &format!(":{pooler}"));
    assert_ne!(through, database.dsn());
    let found = examine(&doctor(&through)).await;
    let problem = found.iter().find(|it| it.check == "pooler").unwrap();
    assert_eq!(problem.verdict, Verdict::Problem, "{found:?}");
    assert!(problem.remedy.as_ref().unwrap().contains("session mode"));
}
