//! How values travel: PostgreSQL's binary formats to and from the model, without a type of another crate
//! between them.

use std::error::Error;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use jiff::Timestamp;
use taskq_core::model::Json;
use taskq_core::store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

type Failure = Box<dyn Error + Sync + Send>;

/// Microseconds from 1970 to 2000, PostgreSQL's own epoch.
const EPOCH_MICROS: i64 = 946_684_800_000_000;
const DAY_MICROS: i64 = 86_400_000_000;
/// The version byte in front of binary jsonb.
const JSONB_VERSION: u8 = 1;

/// A `timestamptz`. What lies beyond the ends of [`Timestamp`], as the last day of the year 9999 does, counts
/// as that end: a far deadline must not keep its job from being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Time(pub(crate) Timestamp);

impl<'a> FromSql<'a> for Time {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        if micros == i64::MAX || micros == i64::MIN {
            return Err("an infinite time".into());
        }
        let micros = micros.saturating_add(EPOCH_MICROS);
        let end = if micros > 0 { Timestamp::MAX } else { Timestamp::MIN };
        let nanos = i32::try_from(micros.rem_euclid(1_000_000) * 1_000)?;
        Ok(Self(Timestamp::new(micros.div_euclid(1_000_000), nanos).unwrap_or(end)))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }
}

impl ToSql for Time {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        // What is finer than PostgreSQL keeps is cut, as where it is text, not rounded towards 1970.
        let micros = i64::try_from(self.0.as_nanosecond().div_euclid(1_000))?;
        let micros = micros.checked_sub(EPOCH_MICROS).ok_or("a time out of range")?;
        out.put_i64(micros);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }

    to_sql_checked!();
}

/// An `interval` that is not negative. Months count as PostgreSQL's `extract(epoch …)` counts them: a year
/// has 365.25 days, a month 30.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Interval(pub(crate) Duration);

impl<'a> FromSql<'a> for Interval {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        let (micros, rest) = raw.split_first_chunk().ok_or("a truncated interval")?;
        let (days, rest) = rest.split_first_chunk().ok_or("a truncated interval")?;
        let micros = i64::from_be_bytes(*micros);
        let days = i32::from_be_bytes(*days);
        let months = i32::from_be_bytes(rest.try_into()?);
        if months == i32::MAX || months == i32::MIN {
            return Err("an infinite interval".into());
        }
        let month_micros = i128::from(months / 12) * 1461 * i128::from(DAY_MICROS) / 4
            + i128::from(months % 12) * 30 * i128::from(DAY_MICROS);
        let total = i128::from(micros) + i128::from(days) * i128::from(DAY_MICROS) + month_micros;
        let total = u64::try_from(total).map_err(|_| "a negative interval")?;
        Ok(Self(Duration::from_micros(total)))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::INTERVAL
    }
}

impl ToSql for Interval {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        out.put_i64(micros(self.0));
        out.put_i32(0);
        out.put_i32(0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::INTERVAL
    }

    to_sql_checked!();
}

/// Whole microseconds, which is what PostgreSQL keeps, cut where an interval ends (292,000 years).
fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// A duration as interval text.
pub(crate) fn interval_text(duration: Duration) -> String {
    let micros = micros(duration);
    format!("{}.{:06} seconds", micros / 1_000_000, micros % 1_000_000)
}

/// A `jsonb`, kept as text: PostgreSQL made it, so nobody builds a tree of it.
#[derive(Clone, Debug)]
pub(crate) struct Jsonb(pub(crate) Json);

impl<'a> FromSql<'a> for Jsonb {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        let (&version, text) = raw.split_first().ok_or("an empty jsonb")?;
        if version != JSONB_VERSION {
            return Err(format!("jsonb of version {version}").into());
        }
        Ok(Self(Json::from_store(std::str::from_utf8(text)?.to_owned())?))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::JSONB
    }
}

/// JSON text on its way into a `jsonb` parameter.
#[derive(Debug)]
pub(crate) struct JsonbText(pub(crate) String);

impl ToSql for JsonbText {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        out.reserve(self.0.len() + 1);
        out.put_u8(JSONB_VERSION);
        out.put_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::JSONB
    }

    to_sql_checked!();
}

/// A JSON document on its way into a `jsonb` parameter.
#[derive(Debug)]
pub(crate) struct JsonbRef<'a>(pub(crate) &'a Json);

impl ToSql for JsonbRef<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        let text = self.0.as_str();
        out.reserve(text.len() + 1);
        out.put_u8(JSONB_VERSION);
        out.put_slice(text.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::JSONB
    }

    to_sql_checked!();
}

/// Reads the columns of a row from left to right.
pub(crate) struct Columns<'a> {
    row: &'a Row,
    next: usize,
}

impl<'a> Columns<'a> {
    pub(crate) const fn of(row: &'a Row) -> Self {
        Self { row, next: 0 }
    }

    /// Starts at a column.
    pub(crate) const fn at(row: &'a Row, next: usize) -> Self {
        Self { row, next }
    }

    /// Reads the next column.
    pub(crate) fn read<T: FromSql<'a>>(&mut self) -> Result<T, StoreError> {
        let at = self.next;
        self.next += 1;
        self.row.try_get(at).map_err(|error| {
            let name = self.row.columns().get(at).map_or("(none)", |column| column.name());
            let cause = Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            StoreError::Answer { message: format!("column {name}: {cause}") }
        })
    }

    /// Reads the next column and turns it into what it means.
    pub(crate) fn read_as<T: FromSql<'a>, U, E: std::fmt::Display>(
        &mut self,
        turn: impl FnOnce(T) -> Result<U, E>,
    ) -> Result<U, StoreError> {
        let at = self.next;
        let value = self.read::<T>()?;
        turn(value).map_err(|error| {
            let name = self.row.columns().get(at).map_or("(none)", |column| column.name());
            StoreError::Answer { message: format!("column {name}: {error}") }
        })
    }
}

/// The row of an answer that has exactly one.
pub(crate) fn only(rows: &[Row]) -> Result<&Row, StoreError> {
    match rows {
        [row] => Ok(row),
        _ => Err(StoreError::Answer { message: format!("{} rows instead of one", rows.len()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(micros: i64, days: i32, months: i32) -> Result<Duration, String> {
        let mut raw = micros.to_be_bytes().to_vec();
        raw.extend(days.to_be_bytes());
        raw.extend(months.to_be_bytes());
        Interval::from_sql(&Type::INTERVAL, &raw).map(|value| value.0).map_err(|error| error.to_string())
    }

    #[test]
    fn intervals_count_as_the_server_counts() {
        assert_eq!(interval(1_500_000, 0, 0), Ok(Duration::from_millis(1_500)));
        assert_eq!(interval(-1, 1, 0), Ok(Duration::from_micros(86_399_999_999)));
        assert_eq!(interval(0, 0, 13), Ok(Duration::from_hours(365 * 24 + 6 + 30 * 24)));
        assert_eq!(interval(-1, 0, 0), Err("a negative interval".to_owned()));
        assert_eq!(interval(i64::MAX, i32::MAX, i32::MAX), Err("an infinite interval".to_owned()));
    }

    #[test]
    fn interval_text_has_microseconds() {
        assert_eq!(interval_text(Duration::from_nanos(1_999)), "0.000001 seconds");
        assert_eq!(interval_text(Duration::from_millis(1_500)), "1.500000 seconds");
        assert_eq!(interval_text(Duration::MAX), "9223372036854.775807 seconds");
    }

    #[test]
    fn times_survive_and_infinities_do_not() {
        for text in ["1969-12-31T23:59:59.999999Z", "2000-01-01T00:00:00Z", "9999-12-30T22:00:00.999999Z"] {
            let time = Time(text.parse().unwrap());
            let mut raw = BytesMut::new();
            time.to_sql(&Type::TIMESTAMPTZ, &mut raw).unwrap();
            assert_eq!(Time::from_sql(&Type::TIMESTAMPTZ, &raw).unwrap(), time);
        }
        let read = |micros: i64| Time::from_sql(&Type::TIMESTAMPTZ, &micros.to_be_bytes());
        assert!(read(i64::MAX).is_err() && read(i64::MIN).is_err());
        assert_eq!(read(i64::MAX - 1).unwrap(), Time(Timestamp::MAX));
        assert_eq!(read(i64::MIN + 1).unwrap(), Time(Timestamp::MIN));
    }

    #[test]
    fn jsonb_is_its_text() {
        let read = |raw: &[u8]| Jsonb::from_sql(&Type::JSONB, raw).map(|value| value.0.to_string());
        assert_eq!(read(b"\x01{\"a\": 1}").unwrap(), "{\"a\": 1}");
        assert!(read(b"\x02{}").is_err());
        assert!(read(b"").is_err());
    }
}
