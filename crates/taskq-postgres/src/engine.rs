//! The store's own runtime: one thread that drives the connections, apart from user code.

use std::future::Future;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread::ThreadId;
use std::time::Duration;

use taskq_core::store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

/// How long connections may take to say goodbye when the store is dropped.
const FAREWELL: Duration = Duration::from_millis(500);

/// Where [`Busy`] tokens come from; gives none once the engine is told to stop.
#[derive(Clone, Debug)]
pub(crate) struct Door(mpsc::WeakSender<()>);

/// Keeps the engine's thread alive, for a while, after it is told to stop; held by what must end in order.
#[derive(Debug)]
pub(crate) struct Busy(#[expect(dead_code, reason = "only its life counts")] mpsc::Sender<()>);

impl Door {
    /// Takes a token.
    pub(crate) fn enter(&self) -> Option<Busy> {
        self.0.upgrade().map(Busy)
    }
}

/// A thread with a current-thread runtime. Dropping it ends the thread without blocking, from any context.
#[derive(Debug)]
pub(crate) struct Engine {
    handle: Handle,
    door: Door,
    thread: ThreadId,
    stop: Mutex<Option<(oneshot::Sender<()>, mpsc::Sender<()>)>>,
}

impl Engine {
    /// Starts the thread.
    pub(crate) fn start() -> Result<Self, StoreError> {
        let fail = |error: std::io::Error| StoreError::Unavailable {
            message: "the thread that drives connections does not start".to_owned(),
            source: Some(error.into()),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let (busy, mut idle) = mpsc::channel::<()>(1);
        let thread = std::thread::Builder::new()
            .name("taskq-engine".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    // Ends as well when the sender is dropped unsent.
                    let _ = stopped.await;
                    let _ = tokio::time::timeout(FAREWELL, idle.recv()).await;
                });
                runtime.shutdown_background();
            })
            .map_err(fail)?;
        Ok(Self {
            handle,
            door: Door(busy.downgrade()),
            thread: thread.thread().id(),
            stop: Mutex::new(Some((stop, busy))),
        })
    }

    /// The runtime's handle.
    pub(crate) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Where what must end in order takes its token.
    pub(crate) fn door(&self) -> Door {
        self.door.clone()
    }

    /// Runs a future on the engine.
    ///
    /// # Cancel safety
    /// The future runs to its end even if this one is dropped.
    pub(crate) async fn run<F>(&self, future: F) -> F::Output
    where
        F: Future<Output: OnEngine> + Send + 'static,
    {
        match self.handle.spawn(future).await {
            Ok(output) => output,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => F::Output::closed(),
        }
    }

    /// Says whether the caller runs on the engine's thread, where waiting for the engine would be for ever.
    pub(crate) fn is_here(&self) -> bool {
        std::thread::current().id() == self.thread
    }

    /// Tells the thread to end; it first lets connections say goodbye.
    pub(crate) fn stop(&self) {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((stop, _)) = stop {
            // The thread may have ended by a panic of its own.
            let _ = stop.send(());
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What a call on an engine that has ended answers.
pub(crate) trait OnEngine: Send + 'static {
    fn closed() -> Self;
}

impl<T: Send + 'static> OnEngine for Result<T, StoreError> {
    fn closed() -> Self {
        Err(StoreError::Unavailable { message: "the store is closed".to_owned(), source: None })
    }
}
