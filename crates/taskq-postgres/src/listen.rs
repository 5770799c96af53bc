//! Wake-ups: what NOTIFY says, while anybody wants to hear it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use taskq_core::model::{QueueName, WorkerId};
use taskq_core::store::{Wake, Wakes};
use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio::task::AbortHandle;
use tokio_postgres::Notification;

use crate::error::chain;
use crate::schema::SchemaName;
use crate::session::{OnNotification, Session};

/// How many hints a slow subscriber may be behind before it is told to look at everything.
const BACKLOG: usize = 1_024;

/// Distributes wake-ups.
#[derive(Clone)]
pub(crate) struct Hub(Arc<Inner>);

struct Inner {
    ready: String,
    due: String,
    cancel: String,
    hints: broadcast::Sender<Wake>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    listener: Option<AbortHandle>,
    /// Notifications arrive at present.
    healthy: bool,
    /// They cannot arrive on the connection that there is.
    silent: bool,
}

impl Hub {
    pub(crate) fn new(schema: &SchemaName) -> Self {
        Self(Arc::new(Inner {
            ready: schema.ready_channel(),
            due: schema.due_channel(),
            cancel: schema.cancel_channel(),
            hints: broadcast::Sender::new(BACKLOG),
            state: Mutex::default(),
        }))
    }

    /// What the connection calls with its notifications.
    pub(crate) fn ear(&self) -> OnNotification {
        let hub = self.clone();
        Arc::new(move |notification| hub.heard(notification))
    }

    /// Subscribes, and starts to listen if nobody does yet.
    pub(crate) fn subscribe(&self, claim: &Session, engine: &Handle) -> Wakes {
        let wakes = Wakes::new(self.0.hints.subscribe());
        let mut state = self.state();
        if state.healthy {
            // The newcomer learns that hints arrive; the others look once more.
            self.tell(Wake::Everything);
        } else if state.silent {
            self.tell(Wake::Silence);
        }
        if state.listener.is_none() {
            let task = engine.spawn(listen(self.clone(), claim.clone()));
            state.listener = Some(task.abort_handle());
        }
        wakes
    }

    /// Stops listening for good.
    pub(crate) fn close(&self) {
        if let Some(listener) = self.state().listener.take() {
            listener.abort();
        }
    }

    fn heard(&self, notification: &Notification) {
        let inner = &self.0;
        if notification.channel() == inner.due {
            self.tell(Wake::Due);
        } else if notification.channel() == inner.cancel {
            if let Ok(worker) = notification.payload().parse() {
                self.tell(Wake::Cancel(WorkerId(worker)));
            }
        } else if notification.channel() == inner.ready {
            // Anybody may write anything into a channel.
            self.tell(QueueName::new(notification.payload()).map_or(Wake::Everything, Wake::Ready));
        }
    }

    fn tell(&self, wake: Wake) {
        // Nobody may be there to hear it.
        let _ = self.0.hints.send(wake);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the listener if nobody is left to hear it.
    fn give_up(&self) -> bool {
        let mut state = self.state();
        state.healthy = false;
        state.silent = false;
        // Under the lock: a subscriber is counted before it asks for a listener.
        let alone = self.0.hints.receiver_count() == 0;
        if alone {
            state.listener = None;
        }
        alone
    }
}

/// Listens on the connection that claims, whichever that is at the time; the session paces the attempts.
async fn listen(hub: Hub, claim: Session) {
    let statement =
        format!("LISTEN \"{}\"; LISTEN \"{}\"; LISTEN \"{}\"", hub.0.ready, hub.0.due, hub.0.cancel);
    let mut told = false;
    loop {
        match claim.connection().await {
            // LISTEN belongs to a session, and this connection has none to itself.
            Ok(connection) if connection.is_pooled() => {
                hub.state().silent = true;
                hub.tell(Wake::Silence);
                told = true;
                connection.ended().await;
            }
            Ok(connection) => match connection.batch(&statement).await {
                Ok(()) => {
                    hub.state().healthy = true;
                    hub.tell(Wake::Everything);
                    told = false;
                    connection.ended().await;
                    tracing::info!("the connection that listens for wake-ups ended");
                }
                Err(error) => {
                    tracing::warn!(error = chain(&error), "cannot listen for wake-ups");
                    // A server that refuses LISTEN on a good connection would be asked without a pause.
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                }
            },
            Err(error) => tracing::debug!(%error, "no connection to listen on"),
        }
        if hub.give_up() {
            return;
        }
        if !told {
            hub.tell(Wake::Silence);
            told = true;
        }
    }
}
