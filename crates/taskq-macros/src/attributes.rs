//! What stands in `#[job(…)]`.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, Ident, LitInt, LitStr, Path, Result, Token, Type};

use crate::duration;
use crate::retry::Retry;

const KNOWN: &str = "`actor`, `queue`, `output`, `max_attempts`, `priority`, `start_to_close`, `retry`, `keep`, `version` and `crate`";
const NAME_LIMIT: usize = 255;

/// The checked attributes of a job type.
pub(crate) struct Attributes {
    pub(crate) actor: LitStr,
    pub(crate) queue: Option<LitStr>,
    pub(crate) output: Option<Type>,
    pub(crate) max_attempts: Option<i64>,
    pub(crate) priority: Option<i64>,
    pub(crate) start_to_close: Option<std::time::Duration>,
    pub(crate) retry: Option<Retry>,
    pub(crate) keep: Option<Keep>,
    pub(crate) version: Option<i64>,
    pub(crate) krate: Option<Path>,
}

/// What is left of a job that has succeeded.
#[derive(Clone, Copy)]
pub(crate) enum Keep {
    All,
    None,
}

#[derive(Default)]
struct Given {
    actor: Option<LitStr>,
    queue: Option<LitStr>,
    output: Option<Type>,
    max_attempts: Option<i64>,
    priority: Option<i64>,
    start_to_close: Option<std::time::Duration>,
    retry: Option<Retry>,
    keep: Option<Keep>,
    version: Option<i64>,
    krate: Option<Path>,
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
        Ok(Self {
            actor,
            queue: given.queue,
            output: given.output,
            max_attempts: given.max_attempts,
            priority: given.priority,
            start_to_close: given.start_to_close,
            retry: given.retry,
            keep: given.keep,
            version: given.version,
            krate: given.krate,
        })
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
            set(&mut self.max_attempts, meta, || number(meta, 1, 32_767))
        } else if path.is_ident("priority") {
            set(&mut self.priority, meta, || number(meta, -32_768, 32_767))
        } else if path.is_ident("start_to_close") {
            set(&mut self.start_to_close, meta, || duration::positive(meta))
        } else if path.is_ident("retry") {
            set(&mut self.retry, meta, || Retry::parse(meta))
        } else if path.is_ident("keep") {
            set(&mut self.keep, meta, || keep(meta))
        } else if path.is_ident("version") {
            set(&mut self.version, meta, || number(meta, 1, 2_147_483_647))
        } else if path.is_ident("crate") {
            set(&mut self.krate, meta, || path_of(meta))
        } else {
            Err(meta.error(format!("unknown attribute: a job has {KNOWN}")))
        }
    }
}

/// Sets what may be given once.
pub(crate) fn set<T>(
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

fn number(meta: &ParseNestedMeta<'_>, least: i64, most: i64) -> Result<i64> {
    let value = meta.value()?;
    let minus: Option<Token![-]> = if least < 0 { value.parse()? } else { None };
    let literal: LitInt = value.parse()?;
    let number: i64 = literal.base10_parse()?;
    let number = if minus.is_some() { -number } else { number };
    if !(least..=most).contains(&number) {
        return Err(at(literal.span(), &format!("this must be {least} to {most}")));
    }
    Ok(number)
}

fn keep(meta: &ParseNestedMeta<'_>) -> Result<Keep> {
    let value = meta.value()?;
    let span = value.span();
    match value.parse::<Ident>().map(|word| word.to_string()).as_deref() {
        Ok("all") => Ok(Keep::All),
        Ok("none") => Ok(Keep::None),
        _ => Err(at(span, "a job keeps `all` or `none`, without quotes: `keep = none`")),
    }
}

fn path_of(meta: &ParseNestedMeta<'_>) -> Result<Path> {
    let value = meta.value()?;
    // The way a path to a crate is given elsewhere, too.
    if value.peek(LitStr) {
        return value.parse::<LitStr>()?.parse_with(Path::parse_mod_style);
    }
    if !value.peek(Ident::peek_any) && !value.peek(Token![::]) {
        return Err(value.error("this must be the path of the crate `taskq`, as `crate = my::taskq`"));
    }
    Path::parse_mod_style(value)
}

/// Makes an error.
pub(crate) fn at(span: Span, message: &str) -> Error {
    Error::new(span, message)
}
