//! Passwords that somebody hands out anew for each connection.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use taskq_core::store::StoreError;
use tokio::time::timeout;

/// How long an answer may take unless said otherwise.
const PATIENCE: Duration = Duration::from_secs(10);

type Answer = Result<String, Box<dyn Error + Send + Sync>>;

/// Hands out a password at each connect and reconnect, as where credentials rotate. Two are equal when one is a clone of the
/// other.
#[derive(Clone)]
pub struct PasswordCallback {
    ask: Arc<dyn Fn() -> BoxFuture<'static, Answer> + Send + Sync>,
    patience: Duration,
}

impl PasswordCallback {
    /// Wraps a function. It is called on the store's own thread, which drives every connection: it must not block.
    pub fn new<F, E>(ask: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let ask = move || {
            let answer = ask();
            async move { answer.await.map_err(Into::into) }.boxed()
        };
        Self { ask: Arc::new(ask), patience: PATIENCE }
    }

    /// Sets how long an answer may take. Default 10 s.
    #[must_use]
    pub const fn with_timeout(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }

    pub(crate) async fn ask(&self) -> Result<String, StoreError> {
        match timeout(self.patience, (self.ask)()).await {
            Ok(Ok(password)) => Ok(password),
            Ok(Err(error)) => Err(StoreError::Password {
                message: error.to_string().replace('\n', " "),
                source: Some(error),
            }),
            Err(_) => {
                let message = format!("no answer in {:?}", self.patience);
                Err(StoreError::Password { message, source: None })
            }
        }
    }
}

impl PartialEq for PasswordCallback {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.ask, &other.ask) && self.patience == other.patience
    }
}

impl Eq for PasswordCallback {}

impl fmt::Debug for PasswordCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordCallback").field("timeout", &self.patience).finish_non_exhaustive()
    }
}
