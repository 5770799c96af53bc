//! What stands in `#[job(…)]`.

use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, LitInt, LitStr, Result, Type};

const KNOWN: &str = "`actor`, `queue`, `output`, `max_attempts` and `version`";
const NAME_LIMIT: usize = 255;

/// The checked attributes of a job type.
pub(crate) struct Attributes {
    pub(crate) actor: LitStr,
    pub(crate) queue: Option<LitStr>,
    pub(crate) output: Option<Type>,
    pub(crate) max_attempts: Option<LitInt>,
    pub(crate) version: Option<LitInt>,
}

#[derive(Default)]
struct Given {
    actor: Option<LitStr>,
    queue: Option<LitStr>,
    output: Option<Type>,
    max_attempts: Option<LitInt>,
    version: Option<LitInt>,
}

impl Attributes {
    pub(crate) fn parse(input: &DeriveInput) -> Result<Self> {
        let mut given = Given::default();
        let mut place = None;
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("job")) {
            place.get_or_insert(attribute.span());
            attribute.parse_nested_meta(|meta| given.take(&meta))?;
        }
        let Some(actor) = given.actor else {
            let message = "a job needs its actor: add `#[job(actor = \"…\")]`";
            return Err(Error::new(place.unwrap_or_else(|| input.ident.span()), message));
        };
        let Given { queue, output, max_attempts, version, .. } = given;
        Ok(Self { actor, queue, output, max_attempts, version })
    }
}

impl Given {
    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let path = &meta.path;
        if path.is_ident("actor") {
            set(&mut self.actor, meta, || name(meta))
        } else if path.is_ident("queue") {
            set(&mut self.queue, meta, || name(meta))
        } else if path.is_ident("output") {
            set(&mut self.output, meta, || meta.value()?.parse())
        } else if path.is_ident("max_attempts") {
            set(&mut self.max_attempts, meta, || number(meta, 32_767))
        } else if path.is_ident("version") {
            set(&mut self.version, meta, || number(meta, 2_147_483_647))
        } else {
            Err(meta.error(format!("unknown attribute: a job has {KNOWN}")))
        }
    }
}

fn set<T>(
    target: &mut Option<T>,
    meta: &ParseNestedMeta<'_>,
    parse: impl FnOnce() -> Result<T>,
) -> Result<()> {
    if target.is_some() {
        return Err(meta.error("this attribute is given twice"));
    }
    *target = Some(parse()?);
    Ok(())
}

/// Parses a name by the rules that hold for all of them at run time.
fn name(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    let literal: LitStr = meta.value()?.parse()?;
    let text = literal.value();
    if text.is_empty() {
        return Err(at(literal.span(), "a name may not be empty"));
    }
    if text.len() > NAME_LIMIT {
        let message = format!("a name has at most {NAME_LIMIT} bytes, this one has {}", text.len());
        return Err(at(literal.span(), &message));
    }
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err(at(literal.span(), "a name may not contain control characters"));
    }
    Ok(literal)
}

fn number(meta: &ParseNestedMeta<'_>, limit: i64) -> Result<LitInt> {
    let literal: LitInt = meta.value()?.parse()?;
    if !(1..=limit).contains(&literal.base10_parse::<i64>()?) {
        return Err(at(literal.span(), &format!("this must be 1 to {limit}")));
    }
    Ok(literal)
}

fn at(span: Span, message: &str) -> Error {
    Error::new(span, message)
}
