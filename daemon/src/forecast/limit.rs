//! When a tag reaches a limit of the type that its callers keep its IDs in. Pure arithmetic.

/// Further ahead than this, a forecast says nothing, and programs cannot show the date. In seconds; a
/// thousand years.
const FURTHEST_S: f64 = 1000.0 * 365.25 * 86_400.0;

/// A number that IDs outgrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdLimit {
    /// Signed 32-bit integers: `INT` of SQL, `int` of Java.
    Int32,
    /// Integers that a double holds exactly: numbers of JavaScript and of most JSON parsers.
    Double,
    /// Signed 64-bit integers: `BIGINT`. leafd issues nothing beyond.
    Int64,
}

impl IdLimit {
    pub(crate) const ALL: [Self; 3] = [Self::Int32, Self::Double, Self::Int64];

    /// The value of the label `limit`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Int32 => "int32",
            Self::Double => "2^53",
            Self::Int64 => "int64",
        }
    }

    /// The first ID that does not fit.
    pub(super) const fn value(self) -> u64 {
        match self {
            Self::Int32 => 1 << 31,
            Self::Double => 1 << 53,
            Self::Int64 => 1 << 63,
        }
    }

    /// Whether a tag whose ranges end at `max_id` has used at least 80 % of the limit, and not passed
    /// it.
    pub(crate) const fn is_near(self, max_id: u64) -> bool {
        max_id < self.value() && max_id >= self.value() / 10 * 8
    }

    /// When a tag reaches the limit whose ranges end at `max_id` and grow by `per_second`: seconds since
    /// 1970. `None` if it has passed the limit, does not grow, or takes a thousand years.
    pub(crate) fn reached_at(self, now_s: u64, max_id: u64, per_second: f64) -> Option<f64> {
        let left = self.value().checked_sub(max_id).filter(|left| *left > 0)?;
        let seconds = left as f64 / per_second;
        (per_second > 0.0 && seconds <= FURTHEST_S).then_some(now_s as f64 + seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_tag_reaches_each_limit_at_its_rate() {
        let at = |limit: IdLimit| limit.reached_at(1000, 1 << 30, 1024.0);
        assert_eq!(at(IdLimit::Int32), Some(1000.0 + f64::from(1 << 20)));
        assert_eq!(IdLimit::Int64.reached_at(0, 0, 1e18), Some((1_u64 << 63) as f64 / 1e18));
    }

    #[test]
    fn a_limit_that_is_passed_or_too_far_away_has_no_forecast() {
        assert_eq!(IdLimit::Int32.reached_at(1000, 1 << 31, 10.0), None);
        assert_eq!(IdLimit::Int32.reached_at(1000, u64::MAX, 10.0), None);
        assert_eq!(IdLimit::Int32.reached_at(1000, 5, 0.0), None);
        assert_eq!(IdLimit::Int64.reached_at(1000, 5, 1000.0), None);
    }

    #[test]
    fn a_tag_is_near_a_limit_from_80_percent_until_it_passes() {
        let near = |max_id| IdLimit::Int32.is_near(max_id);
        let from = (1_u64 << 31) * 8 / 10;
        assert!(!near(from - 100) && near(from) && near((1 << 31) - 1) && !near(1 << 31));
        assert!(IdLimit::Double.is_near(1 << 52 | 1 << 51 | 1 << 50));
    }

    proptest! {
        #[test]
        fn a_forecast_is_in_the_future_and_finite(now: u32, max_id: u64, rate: f64) {
            for limit in IdLimit::ALL {
                if let Some(at) = limit.reached_at(now.into(), max_id, rate) {
                    prop_assert!(at.is_finite() && at >= f64::from(now));
                }
            }
        }
    }
}
