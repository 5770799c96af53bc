//! `#[derive(Job)]`, re-exported by the `taskq` crate, where it is documented.

mod attributes;
mod duration;
mod job;
mod retry;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a type a job.
///
/// ```ignore
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(actor = "mail.welcome", queue = "mail", output = Receipt, max_attempts = 10)]
/// #[job(start_to_close = "30s", retry(base = "2s", cap = "10m"))]
/// struct SendWelcome { user_id: i64 }
/// ```
///
/// What every job of the type has, unless its enqueue says otherwise:
///
/// - `actor = "…"`, required: the actor that runs it.
/// - `queue = "…"`: its queue; `default` when missing.
/// - `output = Type`: what its handler returns; `()` when missing.
/// - `max_attempts = N`: 1 to 32,767; 20 when missing.
/// - `priority = N`: −32,768 to 32,767, higher first; 0 when missing.
/// - `start_to_close = "30s"`: how long one attempt may take; for ever when missing.
/// - `retry(base = "5s", factor = 2, cap = "1h", jitter = 0.2)`: when failed attempts are tried again; what is missing is
///   as it stands here. `retry(fixed = "10s")` is the same delay each time, and `retry = POLICY` a constant of the type
///   `RetryPolicy`.
/// - `keep = none`: the job is deleted as it succeeds, and its result with it; `keep = all` when missing.
/// - `version = N`: the version of the payload's type, from 1; 1 when missing.
/// - `crate = path`: where the crate `taskq` is to be found; `::taskq` when missing.
///
/// Durations are whole numbers of `ms`, `s`, `m`, `h` and `d`, the larger units first: `"1h 30m"`. Everything is checked
/// at compile time.
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    job::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
