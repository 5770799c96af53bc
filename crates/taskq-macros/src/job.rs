//! The implementation that is derived.

use proc_macro2::{Literal, TokenStream};
use quote::quote;
use syn::{DeriveInput, Result, parse_quote};

use crate::attributes::{Attributes, Keep};
use crate::retry::constant;

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let given = Attributes::parse(input)?;
    let krate = given.krate.unwrap_or_else(|| parse_quote!(::taskq));
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    let actor = given.actor;
    let output = given.output.map_or_else(|| quote!(()), |output| quote!(#output));
    let number = Literal::i64_unsuffixed;
    let queue = given.queue.map(|queue| quote!(const QUEUE: &'static str = #queue;));
    let max_attempts =
        given.max_attempts.map(number).map(|attempts| quote!(const MAX_ATTEMPTS: i16 = #attempts;));
    let priority = given.priority.map(number).map(|priority| quote!(const PRIORITY: i16 = #priority;));
    let version = given.version.map(number).map(|version| quote!(const VERSION: i32 = #version;));
    let start_to_close = given.start_to_close.map(constant).map(|bound| {
        quote! {
            const START_TO_CLOSE: ::core::option::Option<::core::time::Duration> =
                ::core::option::Option::Some(#bound);
        }
    });
    let retry = given.retry.map(|retry| {
        let policy = retry.expand(&krate);
        quote! {
            const RETRY: ::core::option::Option<#krate::RetryPolicy> = ::core::option::Option::Some(#policy);
        }
    });
    // A constant of a trait is looked at where it is used; a policy out of bounds shall not wait for that.
    let looked_at = (retry.is_some() && input.generics.params.is_empty()).then(|| {
        quote! {
            const _: ::core::option::Option<#krate::RetryPolicy> = <#name as #krate::Job>::RETRY;
        }
    });
    let keep = given.keep.map(|keep| {
        let keep = match keep {
            Keep::All => quote!(All),
            Keep::None => quote!(None),
        };
        quote!(const KEEP: #krate::Keep = #krate::Keep::#keep;)
    });
    Ok(quote! {
        #[automatically_derived]
        impl #generics #krate::Job for #name #arguments #bounds {
            type Output = #output;
            const ACTOR: &'static str = #actor;
            #queue
            #max_attempts
            #priority
            #start_to_close
            #retry
            #keep
            #version
        }
        #looked_at
    })
}
