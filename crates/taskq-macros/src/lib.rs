//! `#[derive(Job)]`, re-exported by the `taskq` crate, where it is documented.

mod attributes;
mod job;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a type a job.
///
/// ```ignore
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(actor = "mail.welcome", queue = "mail", output = Receipt, max_attempts = 10)]
/// struct SendWelcome { user_id: i64 }
/// ```
///
/// - `actor = "…"`, required: the actor that runs it.
/// - `queue = "…"`: its queue; `default` when missing.
/// - `output = Type`: what its handler returns; `()` when missing.
/// - `max_attempts = N`: 1 to 32,767; 20 when missing.
/// - `version = N`: the version of the payload's type, from 1; 1 when missing.
///
/// Names and numbers are checked at compile time.
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    job::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
