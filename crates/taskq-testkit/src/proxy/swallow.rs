//! Which reply is to be swallowed, and whether it was.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::watch;

/// A reply that a proxy is to swallow. Dropping it calls the fault off, unless it is under way.
#[must_use = "dropping it calls the fault off"]
pub struct Swallow(Arc<Order>);

impl Swallow {
    /// Waits until the reply has been discarded and its connection cut.
    ///
    /// # Cancel safety
    ///
    /// May be given up and called again; once it has happened every call returns at once.
    pub async fn swallowed(&self) {
        let mut stage = self.0.stage.subscribe();
        stage
            .wait_for(|stage| *stage == Stage::Done)
            .await
            .expect("the order that this value owns has the sender");
    }

    /// Whether it has happened.
    pub fn has_happened(&self) -> bool {
        *self.0.stage.borrow() == Stage::Done
    }
}

/// What is to happen to the next statement that contains a text.
struct Order {
    text: String,
    stage: watch::Sender<Stage>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    /// One connection has sent the statement and waits for the reply.
    UnderWay,
    Done,
}

/// The replies that a proxy is to swallow, and how many there were, shared by its connections.
#[derive(Clone, Default)]
pub(super) struct Orders {
    waiting: Arc<Mutex<Vec<Weak<Order>>>>,
    answered: Arc<AtomicU64>,
}

impl Orders {
    /// Notes that the server has answered a request completely.
    pub(super) fn note_answer(&self) {
        self.answered.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn answered(&self) -> u64 {
        self.answered.load(Ordering::SeqCst)
    }

    pub(super) fn add(&self, text: &str) -> Swallow {
        let order = Arc::new(Order { text: text.to_owned(), stage: watch::Sender::new(Stage::Waiting) });
        let mut orders = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        orders.retain(|order| order.strong_count() > 0);
        orders.push(Arc::downgrade(&order));
        Swallow(order)
    }

    /// The first waiting order that `sql` meets; no other connection gets it as long as the catch is held.
    pub(super) fn catch(&self, sql: &str) -> Option<Catch> {
        let orders = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        orders.iter().filter_map(Weak::upgrade).filter(|order| sql.contains(&order.text)).find_map(|order| {
            let advance = |stage: &mut Stage| {
                let waiting = *stage == Stage::Waiting;
                if waiting {
                    *stage = Stage::UnderWay;
                }
                waiting
            };
            order.stage.send_if_modified(advance).then(|| Catch(order))
        })
    }
}

/// An order under way. Dropped before it is done, it waits for the next statement.
pub(super) struct Catch(Arc<Order>);

impl Catch {
    pub(super) fn done(self) {
        self.0.stage.send_replace(Stage::Done);
    }
}

impl Drop for Catch {
    fn drop(&mut self) {
        self.0.stage.send_if_modified(|stage| {
            let given_up = *stage == Stage::UnderWay;
            if given_up {
                *stage = Stage::Waiting;
            }
            given_up
        });
    }
}
