//! What a worker sets instead of the store's settings, for the sweeps that it runs as the leader.

use std::fmt::Write as _;
use std::time::Duration;

use crate::model::Json;

/// The most events of one batch.
pub(super) const BATCH_LIMIT: u32 = 100_000;
/// The longest time for which events are kept.
pub(super) const PERIOD_LIMIT: Duration = Duration::from_hours(24 * 36_600);

/// What a worker sets instead of the store's settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Overrides {
    pub(super) event_retention_period: Option<Duration>,
    pub(super) event_retention_batch_size: Option<u32>,
}

impl Overrides {
    /// As a document for operators; `None` when nothing is set.
    pub(super) fn to_json(self) -> Option<Json> {
        let mut text = String::new();
        if let Some(period) = self.event_retention_period {
            let _ = write!(
                text,
                r#""event_retention_period":"{}.{:06} seconds""#,
                period.as_secs(),
                period.subsec_micros()
            );
        }
        if let Some(size) = self.event_retention_batch_size {
            let comma = if text.is_empty() { "" } else { "," };
            let _ = write!(text, r#"{comma}"event_retention_batch_size":{size}"#);
        }
        (!text.is_empty()).then(|| Json::from_store(format!("{{{text}}}")).ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_told() {
        assert_eq!(Overrides::default().to_json(), None);
        let both = Overrides {
            event_retention_period: Some(Duration::from_millis(1_500)),
            event_retention_batch_size: Some(7),
        };
        let expected = r#"{"event_retention_period":"1.500000 seconds","event_retention_batch_size":7}"#;
        assert_eq!(both.to_json().unwrap().as_str(), expected);
        let one = Overrides { event_retention_period: None, ..both };
        assert_eq!(one.to_json().unwrap().as_str(), r#"{"event_retention_batch_size":7}"#);
    }
}
