//! Whether and when a tag reaches a limit, from leafd's answer. No arithmetic of its own: the figures are
//! leafd's.

use leaf_client::wire::{LimitForecast, TagForecast, TagGrowth};

/// Whether a tag reaches a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// It has.
    Passed,
    /// At this time, in ms since 1970.
    At(u64),
    /// It does not grow, or takes more than a thousand years.
    NotAtThisRate,
    /// leafd knows no rate.
    Unknown,
}

impl Reach {
    pub(super) const fn of(tag: &TagForecast, limit: LimitForecast) -> Self {
        match limit.reached_unix_ms {
            _ if tag.max_id >= limit.limit => Self::Passed,
            Some(at_ms) => Self::At(at_ms),
            None if tag.growth.is_some() => Self::NotAtThisRate,
            None => Self::Unknown,
        }
    }
}

/// When a tag reaches the first of the limits ahead of it.
pub(super) fn first_ahead(tag: &TagForecast) -> Option<u64> {
    let at = |limit: &LimitForecast| match Reach::of(tag, *limit) {
        Reach::At(at_ms) => Some(at_ms),
        _ => None,
    };
    tag.limits.iter().filter_map(at).min()
}

/// The name of a limit, as in the metrics. A limit that this leafctl does not know is its number.
pub(super) fn name(limit: u64) -> String {
    match limit {
        INT32 => "int32".to_owned(),
        DOUBLE => "2^53".to_owned(),
        INT64 => "int64".to_owned(),
        other => other.to_string(),
    }
}

/// The first ID that does not fit into a signed 32-bit integer.
pub(super) const INT32: u64 = 1 << 31;
/// The first ID beyond those of which a double holds every one.
pub(super) const DOUBLE: u64 = 1 << 53;
/// The first ID that does not fit into a signed 64-bit integer.
pub(super) const INT64: u64 = 1 << 63;

/// IDs per second. leafd sends no growth of 0 seconds; another peer might.
pub(super) fn per_second(growth: TagGrowth) -> f64 {
    growth.ids as f64 / growth.seconds.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::tests::growing;
    use super::*;

    #[test]
    fn a_limit_is_passed_ahead_out_of_reach_or_unknown() {
        let limit = |reached_unix_ms| LimitForecast { limit: 1000, reached_unix_ms };
        let tag = |max_id, growth| TagForecast { max_id, growth, ..growing("t", None, None) };
        let growth = Some(TagGrowth { ids: 5, seconds: 600 });
        for (max_id, growth, at, expected) in [
            (1000, growth, None, Reach::Passed),
            (u64::MAX, None, Some(7), Reach::Passed),
            (999, growth, Some(7), Reach::At(7)),
            (999, growth, None, Reach::NotAtThisRate),
            (999, None, None, Reach::Unknown),
        ] {
            assert_eq!(Reach::of(&tag(max_id, growth), limit(at)), expected);
        }
    }

    #[test]
    fn the_first_limit_ahead_is_the_earliest_that_is_not_passed() {
        assert_eq!(first_ahead(&growing("t", Some(8), Some(9))), Some(8));
        let passed = TagForecast { max_id: INT32, ..growing("t", Some(8), Some(9)) };
        assert_eq!(first_ahead(&passed), Some(9));
        assert_eq!(first_ahead(&growing("t", None, None)), None);
    }

    #[test]
    fn limits_have_the_names_of_the_metrics_and_unknown_ones_their_number() {
        assert_eq!([INT32, DOUBLE, INT64, 5].map(name), ["int32", "2^53", "int64", "5"]);
    }

    #[test]
    fn no_growth_divides_by_zero() {
        assert_eq!(per_second(TagGrowth { ids: 3, seconds: 2 }), 1.5);
        assert_eq!(per_second(TagGrowth { ids: 3, seconds: 0 }), 3.0);
    }
}
