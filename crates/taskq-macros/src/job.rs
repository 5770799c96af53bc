//! The implementation that is derived.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Result};

use crate::attributes::Attributes;

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let Attributes { actor, queue, output, max_attempts, version } = Attributes::parse(input)?;
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    let output = output.map_or_else(|| quote!(()), |output| quote!(#output));
    let queue = queue.map(|queue| quote!(const QUEUE: &'static str = #queue;));
    let max_attempts = max_attempts.map(|attempts| quote!(const MAX_ATTEMPTS: i16 = #attempts;));
    let version = version.map(|version| quote!(const VERSION: i32 = #version;));
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::taskq::Job for #name #arguments #bounds {
            type Output = #output;
            const ACTOR: &'static str = #actor;
            #queue
            #max_attempts
            #version
        }
    })
}
