//! Durations: `"30s"`, `"1h 30m"`.

use std::time::Duration;

use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::{LitStr, Result};

use crate::attributes::at;

/// Parses a duration of at most so many days.
pub(crate) fn parse(meta: &ParseNestedMeta<'_>, days: u64) -> Result<Duration> {
    spanned(meta, days).map(|(duration, _)| duration)
}

/// Parses a duration that is longer than nothing.
pub(crate) fn positive(meta: &ParseNestedMeta<'_>) -> Result<Duration> {
    let (duration, span) = spanned(meta, 36_600)?;
    if duration.is_zero() {
        return Err(at(span, "this must be longer than zero"));
    }
    Ok(duration)
}

fn spanned(meta: &ParseNestedMeta<'_>, days: u64) -> Result<(Duration, Span)> {
    let value = meta.value()?;
    let span = value.span();
    let text = value.parse::<LitStr>().ok().map(|literal| literal.value());
    let Some(duration) = text.as_deref().and_then(read) else {
        let message = "this is no duration: write it as \"500ms\", \"30s\", \"5m\", \"1h 30m\" or \"7d\"";
        return Err(at(span, message));
    };
    if duration > Duration::from_hours(24 * days) {
        return Err(at(span, &format!("this is longer than {days} days")));
    }
    Ok((duration, span))
}

/// Reads whole numbers with their units, each unit once, the larger ones first.
fn read(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut last = u64::MAX;
    let mut total = 0_u64;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, behind) = rest.split_at(digits);
        let letters = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let millis = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        if millis >= last {
            return None;
        }
        last = millis;
        total = number.parse::<u64>().ok()?.checked_mul(millis)?.checked_add(total)?;
        rest = behind.trim_start();
        if rest.is_empty() {
            return Some(Duration::from_millis(total));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_and_the_larger_ones_come_first() {
        let millis = |text| read(text).map(|duration| duration.as_millis());
        assert_eq!(millis("1500ms"), Some(1_500));
        assert_eq!(millis(" 1h 30m5s "), Some(5_405_000));
        assert_eq!(millis("7d"), Some(604_800_000));
        for text in
            ["", "5", "s", "5 s", "-5s", "5s 1m", "1s1s", "1.5s", "5 parsecs", "99999999999999999999s"]
        {
            assert_eq!(millis(text), None, "{text:?}");
        }
    }
}
