//! Panics of handlers: caught around each poll, with a backtrace where the hook is installed.

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;

use crate::model::ErrorRecord;

thread_local! {
    /// Whether this thread is running a handler right now.
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
    /// Where the handler on this thread panicked.
    static BACKTRACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs a panic hook that keeps the backtrace of a handler's panic, to be recorded with the attempt.
///
/// The hook that is there runs as before, after it. For binaries; a library leaves the process's hook alone.
/// Further calls do nothing.
pub fn install_panic_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let next = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if IN_HANDLER.get() {
                let place = info.location().map(|place| format!("{place}\n")).unwrap_or_default();
                BACKTRACE.set(Some(format!("{place}{}", Backtrace::force_capture())));
            }
            next(info);
        }));
    });
}

/// Runs a handler's code and turns a panic into its record.
pub(super) fn catch<T>(run: impl FnOnce() -> T) -> Result<T, ErrorRecord> {
    let outer = IN_HANDLER.replace(true);
    // A panicking handler is never polled again, so nobody sees what it left half done.
    let result = panic::catch_unwind(AssertUnwindSafe(run));
    IN_HANDLER.set(outer);
    result.map_err(|payload| {
        let record = ErrorRecord::new("panic", message(payload.as_ref()));
        let record = match BACKTRACE.take() {
            Some(backtrace) => record.with_backtrace(&backtrace),
            None => record,
        };
        // What a payload does when it is dropped is the handler's code as well.
        drop(panic::catch_unwind(AssertUnwindSafe(move || drop(payload))));
        record
    })
}

/// A handler's future whose panics are caught, also the one in its destructor.
pub(super) struct Caught<T>(Option<BoxFuture<'static, T>>);

impl<T> Caught<T> {
    pub(super) fn new(future: BoxFuture<'static, T>) -> Self {
        Self(Some(future))
    }
}

impl<T> Future for Caught<T> {
    type Output = Result<T, ErrorRecord>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.0.as_mut().expect("a future that is done is not polled again");
        match catch(|| future.as_mut().poll(cx)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(record) => Poll::Ready(Err(record)),
        }
    }
}

impl<T> Drop for Caught<T> {
    fn drop(&mut self) {
        if let Some(future) = self.0.take()
            && let Err(record) = catch(move || drop(future))
        {
            tracing::warn!(panic = record.message, "a handler's destructor panicked");
        }
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("the handler panicked with something that is no text")
}
