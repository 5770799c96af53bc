//! Being asked to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// Listens for the signals that ask a process to end: SIGINT (Ctrl-C), SIGTERM and SIGHUP.
#[derive(Debug)]
pub(super) struct Ended([Signal; 3]);

impl Ended {
    /// Starts to listen.
    pub(super) fn listen() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|error| Failure::failed(format!("cannot receive signals: {error}")));
        Ok(Self([
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    /// Waits for one of them.
    ///
    /// # Cancel safety
    /// Cancel safe: a signal that came meanwhile is met by the next call.
    pub(super) async fn wait(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
