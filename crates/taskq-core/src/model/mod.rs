//! Pure data and rules: no I/O, no async, no clock.

mod error_record;
mod event;
mod id;
mod job;
mod json;
mod name;
mod outcome;
mod retry;
mod status;

pub use error_record::{BACKTRACE_LIMIT, CLASS_LIMIT, ErrorRecord, MESSAGE_LIMIT};
pub use event::{EventCursor, EventLevel, EventRecord, InvalidEventCursor};
pub use id::{Epoch, JobId, WorkerId};
pub use job::{
    AttemptRecord, ClaimedJob, DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE, EnqueueOutcome, Enqueued, JobRecord,
    Keep, NewJob, Notify, OnFinished, Schedule,
};
pub use json::{Json, JsonError, PAYLOAD_LIMIT, RESULT_LIMIT};
pub(crate) use name::check as check_name;
pub use name::{ActorName, FairnessKey, HookName, IdempotencyKey, InvalidName, NAME_LIMIT, QueueName};
pub use outcome::{Outcome, OutcomeKind, SettleReason, Settled, Settlement};
pub use retry::{InvalidRetryPolicy, RetryPolicy};
pub use status::{Status, UnknownStatus};
