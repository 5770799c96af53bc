//! The behaviour list on the in-memory store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use taskq_contract::Harness;
use taskq_core::store::Store;
use taskq_core::store::memory::{MemoryStore, TestClock};

struct Memory {
    store: Arc<MemoryStore>,
    clock: TestClock,
}

#[async_trait]
impl Harness for Memory {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

async fn memory() -> Memory {
    let start = "2026-01-02T03:04:05.678901Z".parse().expect("a valid time");
    let clock = TestClock::new(start);
    Memory { store: Arc::new(MemoryStore::with_seed(clock.clone(), 7)), clock }
}

taskq_contract::behaviours!(memory);
