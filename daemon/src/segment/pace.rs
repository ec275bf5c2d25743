//! How often one tag leases at the most. A plain rule.
//!
//! A client that asks for hundreds of millions of IDs a second uses up a lease of a million within
//! milliseconds. Each lease costs the database a transaction and this host some wake-ups, and those
//! delay every other client, so the next lease waits.

use std::time::Duration;

/// Most IDs that a tag leases per second, on average.
const IDS_PER_SECOND: u64 = 50_000_000;

/// The longest wait. Also after a lease of a billion.
const LONGEST: Duration = Duration::from_millis(20);

/// The resolution of the timers: a shorter wait is none.
const SHORTEST: Duration = Duration::from_millis(1);

/// How long the next lease waits after one of `count` IDs; `None` when it need not.
#[must_use]
pub(super) fn rest_after(count: u64) -> Option<Duration> {
    let rest = Duration::from_nanos(count.saturating_mul(1_000_000_000 / IDS_PER_SECOND));
    (rest >= SHORTEST).then(|| rest.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_leases_are_followed_by_a_rest_and_none_by_a_long_one() {
        for count in [1, 1000, 49_999] {
            assert_eq!(rest_after(count), None, "{count}");
        }
        assert_eq!(rest_after(50_000), Some(SHORTEST));
        assert_eq!(rest_after(1_000_000), Some(LONGEST));
        assert_eq!(rest_after(u64::MAX), Some(LONGEST));
    }
}
