//! Sees to it that attempts end when they must.
//!
//! It runs apart from the handlers: one that never yields cannot keep it from acting.

use std::sync::Arc;

use tokio::time::Instant;

use super::session::Session;
use super::stop::StopReason;
use crate::model::{ErrorRecord, Outcome};

/// Watches the attempts of one session, for ever.
pub(super) async fn run(session: Arc<Session>) {
    loop {
        let overdue = session.attempts.overdue(Instant::now());
        for ((id, epoch), reason) in overdue.abandoned {
            let why = match reason {
                StopReason::CancelRequested => "its job was cancelled",
                StopReason::TimedOut => "it had taken longer than it may",
                StopReason::ShuttingDown => "its worker shut down",
                StopReason::LeaseLost => "its claim was lost",
            };
            tracing::error!(job = %id, %epoch, reason = why, "the attempt does not end; its job is abandoned and its slot stays taken");
            let message = format!("the handler did not end when it was stopped because {why}");
            let outcome = Outcome::Abandoned { error: ErrorRecord::new("abandoned", &message) };
            session.settle((id, epoch), outcome);
        }
        let next = async {
            match overdue.next {
                Some(next) => tokio::time::sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = next => {}
            () = session.attempts.rescheduled() => {}
        }
    }
}
