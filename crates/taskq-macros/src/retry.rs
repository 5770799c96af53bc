//! `retry(…)`, and `retry = POLICY`.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::token::Paren;
use syn::{Expr, Lit, Path, Result};

use crate::attributes::{at, set};
use crate::duration;

const DAYS: u64 = 366;

/// When failed attempts are tried again.
pub(crate) enum Retry {
    /// A constant of the caller's.
    Constant(Box<Expr>),
    /// The same delay each time.
    Fixed(Duration),
    /// What differs from the default.
    Exponential { base: Option<Duration>, factor: Option<f64>, cap: Option<Duration>, jitter: Option<f64> },
}

impl Retry {
    pub(crate) fn parse(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        if !meta.input.peek(Paren) {
            return Ok(Self::Constant(Box::new(meta.value()?.parse()?)));
        }
        let (mut fixed, mut base, mut factor, mut cap, mut jitter) = (None, None, None, None, None);
        meta.parse_nested_meta(|meta| {
            if meta.path.is_ident("fixed") {
                set(&mut fixed, &meta, || duration::parse(&meta, DAYS))
            } else if meta.path.is_ident("base") {
                set(&mut base, &meta, || duration::parse(&meta, DAYS))
            } else if meta.path.is_ident("cap") {
                set(&mut cap, &meta, || duration::parse(&meta, DAYS))
            } else if meta.path.is_ident("factor") {
                set(&mut factor, &meta, || number(&meta, 1.0, 100.0))
            } else if meta.path.is_ident("jitter") {
                set(&mut jitter, &meta, || number(&meta, 0.0, 1.0))
            } else {
                Err(meta.error(
                    "unknown attribute: a retry has `base`, `factor`, `cap` and `jitter`, or `fixed` alone",
                ))
            }
        })?;
        match fixed {
            None => Ok(Self::Exponential { base, factor, cap, jitter }),
            Some(fixed) if base.is_none() && factor.is_none() && cap.is_none() && jitter.is_none() => {
                Ok(Self::Fixed(fixed))
            }
            Some(_) => Err(meta.error("a retry with `fixed` has nothing else")),
        }
    }

    /// Writes the policy as a constant expression.
    pub(crate) fn expand(&self, krate: &Path) -> TokenStream {
        match self {
            Self::Constant(policy) => quote!(#krate::RetryPolicy::checked(#policy)),
            Self::Fixed(delay) => {
                let delay = constant(*delay);
                quote!(#krate::RetryPolicy::fixed(#delay))
            }
            Self::Exponential { base, factor, cap, jitter } => {
                let base = base.map(constant).map(|base| quote!(base: #base,));
                let cap = cap.map(constant).map(|cap| quote!(cap: #cap,));
                let factor = factor.map(|factor| quote!(factor: #factor,));
                let jitter = jitter.map(|jitter| quote!(jitter: #jitter,));
                quote!(#krate::RetryPolicy { #base #factor #cap #jitter ..#krate::RetryPolicy::DEFAULT })
            }
        }
    }
}

/// Writes a duration as a constant expression.
pub(crate) fn constant(duration: Duration) -> TokenStream {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    quote!(::core::time::Duration::new(#seconds, #nanos))
}

fn number(meta: &ParseNestedMeta<'_>, least: f64, most: f64) -> Result<f64> {
    let literal: Lit = meta.value()?.parse()?;
    let number: f64 = match &literal {
        Lit::Int(number) => number.base10_parse()?,
        Lit::Float(number) => number.base10_parse()?,
        other => return Err(at(other.span(), "this must be a number")),
    };
    if !(least..=most).contains(&number) {
        return Err(at(literal.span(), &format!("this must be {least} to {most}")));
    }
    Ok(number)
}
