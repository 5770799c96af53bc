//! The transport below a connection: a socket to one address.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

/// Where one attempt to connect goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    #[cfg(unix)]
    Unix(PathBuf),
}

/// How a TCP connection finds out that the other side is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Liveness {
    /// Whether probes are sent at all.
    pub(crate) keepalives: bool,
    /// How long a connection is idle before the first probe.
    pub(crate) idle: Duration,
    pub(crate) interval: Duration,
    pub(crate) retries: u32,
    /// How long sent data may stay unacknowledged; zero leaves it to the system.
    pub(crate) unacknowledged: Duration,
}

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Stream {
    /// Connects to one address.
    pub(crate) async fn connect(address: &Address, liveness: &Liveness) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                liveness.apply(&stream)?;
                Ok(Self::Tcp(stream))
            }
            #[cfg(unix)]
            Address::Unix(path) => Ok(Self::Unix(UnixStream::connect(path).await?)),
        }
    }

    /// This side's address, if the other side can see it.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok(),
            #[cfg(unix)]
            Self::Unix(_) => None,
        }
    }
}

impl Liveness {
    fn apply(&self, stream: &TcpStream) -> io::Result<()> {
        let socket = SockRef::from(stream);
        #[cfg(target_os = "linux")]
        if !self.unacknowledged.is_zero() {
            socket.set_tcp_user_timeout(Some(self.unacknowledged))?;
        }
        if self.keepalives {
            let keepalive = TcpKeepalive::new().with_time(self.idle);
            #[cfg(any(target_os = "linux", target_os = "macos"))]
            let keepalive = keepalive.with_interval(self.interval).with_retries(self.retries);
            socket.set_tcp_keepalive(&keepalive)?;
        }
        Ok(())
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
