//! When a failed attempt is tried again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When a failed attempt is tried again: `base × factor^(attempt − 1)`, at most `cap`, spread by `jitter`.
///
/// Stored with the job, so that a job whose worker died can be rescheduled by someone who does not know its
/// actor. The delay itself is computed by one SQL function, `retry_delay`, and by [`RetryPolicy::delay`] in
/// the in-memory store.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// The delay after the first failed attempt. Default 5 s; at most [`RetryPolicy::LIMIT`].
    #[serde(with = "seconds")]
    pub base: Duration,
    /// What each further attempt multiplies the delay by. Default 2; 1 (a fixed delay) to 100.
    pub factor: f64,
    /// The longest delay. Default 1 h; at most [`RetryPolicy::LIMIT`].
    #[serde(with = "seconds")]
    pub cap: Duration,
    /// How far a delay may deviate, as a share of it. Default 0.2; 0 to 1.
    pub jitter: f64,
}

/// Why a retry policy is refused.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("retry_policy: {0}")]
pub struct InvalidRetryPolicy(pub &'static str);

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl RetryPolicy {
    /// The policy of a job that names none: 5 s, doubled up to 1 h, spread by a fifth.
    pub const DEFAULT: Self =
        Self { base: Duration::from_secs(5), factor: 2.0, cap: Duration::from_hours(1), jitter: 0.2 };

    /// The longest delay that may be asked for: 366 days.
    pub const LIMIT: Duration = Duration::from_hours(366 * 24);

    /// A policy with the same delay after every attempt and no jitter.
    pub const fn fixed(delay: Duration) -> Self {
        Self { base: delay, factor: 1.0, cap: delay, jitter: 0.0 }
    }

    /// Checks the bounds of every field.
    ///
    /// # Errors
    /// [`InvalidRetryPolicy`] naming the field.
    pub const fn validate(&self) -> Result<(), InvalidRetryPolicy> {
        if self.base.as_nanos() > Self::LIMIT.as_nanos() {
            return Err(InvalidRetryPolicy("base is longer than 366 days"));
        }
        if self.cap.as_nanos() > Self::LIMIT.as_nanos() {
            return Err(InvalidRetryPolicy("cap is longer than 366 days"));
        }
        // Written so that what is no number is refused as well.
        if !(self.factor >= 1.0 && self.factor <= 100.0) {
            return Err(InvalidRetryPolicy("factor is not between 1 and 100"));
        }
        if !(self.jitter >= 0.0 && self.jitter <= 1.0) {
            return Err(InvalidRetryPolicy("jitter is not between 0 and 1"));
        }
        Ok(())
    }

    /// Checks the bounds in a constant, where a policy out of bounds does not compile.
    ///
    /// ```compile_fail
    /// # use taskq_core::model::RetryPolicy;
    /// const SHRINKS: RetryPolicy = RetryPolicy { factor: 0.5, ..RetryPolicy::DEFAULT }.checked();
    /// # let _ = SHRINKS;
    /// ```
    ///
    /// # Panics
    /// Panics when [`validate`](Self::validate) refuses the policy.
    #[must_use]
    pub const fn checked(self) -> Self {
        match self.validate() {
            Ok(()) => self,
            Err(InvalidRetryPolicy(problem)) => panic!("{}", problem),
        }
    }

    /// Computes the delay after the `attempt`-th attempt (counted from 1).
    ///
    /// `random` in 0…1 places the delay within its jitter. Any attempt number is safe: the exponent stops
    /// growing where the cap rules anyway.
    pub fn delay(&self, attempt: i32, random: f64) -> Duration {
        let exponent = attempt.clamp(1, 1_000) - 1;
        let cap = self.cap.as_secs_f64();
        // An infinite product is cut by the cap like any other.
        let raw = (self.base.as_secs_f64() * self.factor.powi(exponent)).min(cap);
        let spread = raw * self.jitter * (2.0 * random.clamp(0.0, 1.0) - 1.0);
        Duration::from_secs_f64((raw + spread).clamp(0.0, cap))
    }
}

/// Durations as PostgreSQL interval text, in seconds.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}.{:06} seconds", value.as_secs(), value.subsec_micros()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let number = text.strip_suffix("seconds").unwrap_or(&text).trim_end();
        let seconds: f64 = number.parse().map_err(|_| D::Error::custom("expected \"N seconds\""))?;
        Duration::try_from_secs_f64(seconds).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_cap_and_never_overflow() {
        let policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
        let seconds = |attempt| policy.delay(attempt, 0.5).as_secs();
        assert_eq!([seconds(1), seconds(2), seconds(3)], [5, 10, 20]);
        assert_eq!(seconds(10_000), 3_600);
        assert_eq!(policy.delay(i32::MAX, 1.0), policy.cap);
        assert_eq!(policy.delay(i32::MIN, 1.0), policy.base);
    }

    #[test]
    fn jitter_spreads_both_ways() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.delay(1, 0.0), Duration::from_secs(4));
        assert_eq!(policy.delay(1, 1.0), Duration::from_secs(6));
    }

    #[test]
    fn the_json_form_is_interval_text() {
        let text = serde_json::to_string(&RetryPolicy::fixed(Duration::from_millis(250))).unwrap();
        assert!(text.contains(r#""base":"0.250000 seconds""#), "{text}");
        assert_eq!(serde_json::from_str::<RetryPolicy>(&text).unwrap().base, Duration::from_millis(250));
    }
}
